/* Operation graphs of cuDNN's backend API and the execution plans made of them, without its
 * deprecated calls. A graph is built straight through: its functions take and give tensors'
 * numbers, -1 once anything failed, and cuda_dnn_plans() reports the first failure. The planner
 * builds the same graphs for a GPU that is not there. A graph belongs to one thread; plans outlive
 * it. */
#ifndef BST_BACKEND_CUDA_DNN_GRAPH_H
#define BST_BACKEND_CUDA_DNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* cuDNN loads NVRTC anew for every engine that it would have to compile, and gives it back, of
 * which some 70 kB stay behind each time: held for the life of the process, it is loaded once, and
 * a plan in 16 bits takes seconds, not half a minute. False: it is not on this machine, and there
 * are no such engines. Whoever makes what plans are for holds it. */
bool cuda_dnn_hold_nvrtc(void);

/* What plans are made for: the device of a handle, or properties as JSON (cuDNN ≥ 9.8), for which
 * no device and no driver is needed. */
BST_MUST_USE enum bst_err cuda_dnn_device_of(cudnnHandle_t handle, cudnnBackendDescriptor_t *out);
BST_MUST_USE enum bst_err cuda_dnn_device_parse(const char *json, size_t bytes,
                                                cudnnBackendDescriptor_t *out);
/* Heap text, ends in '\0'. */
BST_MUST_USE enum bst_err cuda_dnn_device_json(cudnnBackendDescriptor_t device, char **out);
void cuda_dnn_device_free(cudnnBackendDescriptor_t device); /* NULL is fine */

struct cuda_dnn_graph;
struct cuda_dnn_graph *cuda_dnn_graph_new(void);
void cuda_dnn_graph_free(struct cuda_dnn_graph *g);

enum cuda_dnn_role {
    CUDA_DNN_REAL,    /* in memory, 16-byte aligned */
    CUDA_DNN_VIRTUAL, /* between two operations, never in memory */
    CUDA_DNN_VALUE,   /* one number, whose address on the host is given to cuda_dnn_run() */
};

/* A tensor's number is also its unique id: 0, 1, … in the order of the calls. Dimensions are
 * N, C, H, W; channels lie next to each other in memory. */
int cuda_dnn_nhwc(struct cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4],
                  enum cuda_dnn_role role);
int cuda_dnn_channels(struct cuda_dnn_graph *g, cudnnDataType_t type, int64_t c,
                      enum cuda_dnn_role role); /* [1, c, 1, 1] */
/* Four dimensions of whatever meaning; strides in elements. */
int cuda_dnn_strided(struct cuda_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4],
                     const int64_t stride[4], enum cuda_dnn_role role);

struct cuda_dnn_window { /* square; cross-correlation, accumulated in fp32 */
    int stride, pad;
};

/* Filters are [out, in, kernel, kernel], given to cuda_dnn_nhwc() in that order. beta 1 adds to the
 * result, 0 overwrites it. */
void cuda_dnn_conv_fwd(struct cuda_dnn_graph *g, int x, int filter, int y,
                       struct cuda_dnn_window w);
void cuda_dnn_conv_bwd_data(struct cuda_dnn_graph *g, int dy, int filter, int dx,
                            struct cuda_dnn_window w, float beta);
void cuda_dnn_conv_bwd_filter(struct cuda_dnn_graph *g, int x, int dy, int dfilter,
                              struct cuda_dnn_window w, float beta);
/* sum and sum of squares over N, H, W, in fp32, [1, c, 1, 1]. */
void cuda_dnn_genstats(struct cuda_dnn_graph *g, int x, int sum, int squares);
/* y = mode(x[, b]); b -1 where the mode has one operand. */
void cuda_dnn_pointwise(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int y);
/* dx = mode(dy, x), as of CUDNN_POINTWISE_RELU_BWD. */
void cuda_dnn_pointwise_bwd(struct cuda_dnn_graph *g, cudnnPointwiseMode_t mode, int dy, int x,
                            int dx);

/* c = a · b over the last two dimensions, summed in fp32. In each sample the product goes as far as
 * the limits say, tensors [N, 1, 1, 1] of int32; -1: all the way. */
struct cuda_dnn_limits {
    int m, n, k;
};
void cuda_dnn_matmul(struct cuda_dnn_graph *g, int a, int b, int c, struct cuda_dnn_limits l);
void cuda_dnn_reduce(struct cuda_dnn_graph *g, cudnnReduceTensorOp_t op, int x, int y);
/* y = which ? x : b */
void cuda_dnn_select(struct cuda_dnn_graph *g, int x, int b, int which, int y);
/* y, int32 of the shape of x, = the index along a dimension */
void cuda_dnn_index(struct cuda_dnn_graph *g, int x, int dimension, int y);
/* The same numbers with other dimensions and strides. */
void cuda_dnn_reshape(struct cuda_dnn_graph *g, int x, int y);

#define CUDA_DNN_NOTE(note) (1u << CUDNN_NUMERICAL_NOTE_##note)
/* fp32 as fp32: no tensor cores, which would round the factors to TF32 or less. */
#define CUDA_DNN_NOTES_INEXACT (CUDA_DNN_NOTE(TENSOR_CORE) | CUDA_DNN_NOTE(DOWN_CONVERT_INPUTS))

#define CUDA_DNN_BEHAVIOUR(note) (1u << CUDNN_BEHAVIOR_NOTE_##note)

struct cuda_dnn_wish {
    unsigned refuse; /* numerical notes of engines that are not wanted: CUDA_DNN_NOTE() | … */
    unsigned refuse_behaviour; /* the same of behaviour notes */
    int64_t workspace_most;    /* bytes; < 0: any */
};

struct cuda_dnn_plan {
    cudnnBackendDescriptor_t desc;
    int64_t workspace;             /* bytes */
    int64_t engine;                /* its number within cuDNN's for this kind of graph */
    unsigned numerical, behaviour; /* notes, a bit each */
    bool fallback;                 /* heuristic mode A had none */
};

/* Up to `most` plans that `wish` allows, best first by heuristic mode A; where that has none, by
 * mode FALLBACK. n_configs (may be NULL) gets the number of engine configurations proposed.
 * BST_E_UNSUPPORTED when there is no plan. The plans are the caller's. */
BST_MUST_USE enum bst_err cuda_dnn_plans(struct cuda_dnn_graph *g, cudnnBackendDescriptor_t device,
                                         const struct cuda_dnn_wish *wish,
                                         struct cuda_dnn_plan *out, int most, int *n_out,
                                         int *n_configs);
void cuda_dnn_plan_fini(struct cuda_dnn_plan *p); /* a zeroed one is fine */

/* A plan as text and back: for the same device properties and the same cuDNN. Heap, with its
 * length; the text of a plan compiled at run time holds the binary. */
BST_MUST_USE enum bst_err cuda_dnn_plan_json(const struct cuda_dnn_plan *p, char **out,
                                             size_t *bytes);
/* Engine, notes and fallback are not in the text: they are 0. */
BST_MUST_USE enum bst_err cuda_dnn_plan_parse(const char *json, size_t bytes,
                                              cudnnBackendDescriptor_t device,
                                              struct cuda_dnn_plan *out);

/* On the handle's stream; address[i] is of the tensor whose number is id[i]. */
BST_MUST_USE enum bst_err cuda_dnn_run(cudnnHandle_t handle, const struct cuda_dnn_plan *p, int n,
                                       const int64_t *id, void *const *address, void *workspace);

void cuda_dnn_version(char out[32]); /* of the library that is loaded, "9.19.0" */

/* Stores cuDNN's own words and returns what kind of failure a status is. */
enum bst_err cuda_dnn_fail(cudnnStatus_t status, const char *what);

#endif
