/* A small builder of cuDNN graphs for the fakes' tests, and tensors that lie on both sides. */
#ifndef FAKE_TESTS_DNN_SUPPORT_H
#define FAKE_TESTS_DNN_SUPPORT_H

#include <stdbool.h>

#include <cudnn.h>

#include "tests/fakes/support.h"

enum { MOST = 64, DIMS = 4 };

enum place {
    REAL,
    VIRTUAL,
    VALUE, /* one number on the host */
};

/* A tensor of rank 4. Host values are in the order of the indices, n outermost, whatever the
 * layout. */
struct val {
    int64_t uid;
    int64_t dim[DIMS], stride[DIMS];
    size_t n;     /* elements */
    size_t slots; /* elements in memory from the first to the last */
    cudnnDataType_t type;
    enum place place;
    void *p;  /* device memory */
    float *v; /* host */
    cudnnBackendDescriptor_t desc;
};

struct graph {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t descs[256];
    int n_descs;
    cudnnBackendDescriptor_t ops[MOST];
    int n_ops;
    struct val vals[MOST];
    int n_vals;
};

enum layout { NHWC, NCHW };

void graph_init(struct graph *g);
void graph_fini(struct graph *g); /* descriptors, memory, handle */

/* Filled from its uid; what is written is filled, too, so that leaving it out shows. */
struct val *graph_tensor(struct graph *g, cudnnDataType_t type, const int64_t dim[DIMS],
                         enum layout layout, enum place place);
struct val *graph_strided(struct graph *g, cudnnDataType_t type, const int64_t dim[DIMS],
                          const int64_t stride[DIMS], enum place place);
struct val *graph_channels(struct graph *g, int64_t c, enum place place); /* fp32 [1, c, 1, 1] */
struct val *graph_scalar(struct graph *g, float v);
void graph_put(struct val *t, const float *v); /* other values, rounded to the type */
void graph_get(struct val *t);                 /* device → v */
enum test_type graph_type(cudnnDataType_t t);
size_t at4(const struct val *t, int64_t n, int64_t c, int64_t h, int64_t w);

struct set {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
    const void *v;
};
cudnnBackendDescriptor_t graph_desc(struct graph *g, cudnnBackendDescriptorType_t type, int n,
                                    const struct set *sets);
#define DESC(g, type, ...)                                                                         \
    graph_desc(g, type, (int)(sizeof((struct set[]){__VA_ARGS__}) / sizeof(struct set)),           \
               (struct set[]){__VA_ARGS__})
#define SET_D(name, d)                                                                             \
    {                                                                                              \
        name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(d)                                               \
    }
/* Adds an operation. */
#define OP(g, type, ...) ((g)->ops[(g)->n_ops++] = DESC(g, type, __VA_ARGS__))

struct window {
    int64_t pad[2], stride[2], dilation[2];
};
void graph_conv(struct graph *g, cudnnBackendDescriptorType_t kind, struct val *x, struct val *w,
                struct val *y, const struct window *win, float alpha, float beta);
void graph_pointwise(struct graph *g, cudnnPointwiseMode_t mode, struct val *x, struct val *b,
                     struct val *y);
void graph_pointwise_bwd(struct graph *g, cudnnPointwiseMode_t mode, struct val *dy, struct val *x,
                         struct val *dx);
void graph_genstats(struct graph *g, struct val *x, struct val *sum, struct val *squares);
void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, struct val *x, struct val *y);
void graph_matmul(struct graph *g, struct val *a, struct val *b, struct val *c);
void graph_reshape(struct graph *g, struct val *x, struct val *y);

/* A plan of engine `engine` (an index into the heuristics' list of mode A; refusing ones are an
 * error). */
cudnnBackendDescriptor_t graph_plan(struct graph *g, int engine);
/* On the handle's stream, waited for; every real result is read back. */
void graph_run(struct graph *g, cudnnBackendDescriptor_t plan);
cudnnStatus_t graph_execute(struct graph *g, cudnnBackendDescriptor_t plan, void *workspace);
int64_t graph_workspace(cudnnBackendDescriptor_t plan);

#endif
