/* Inside cuDNN's fake. Descriptors are generic: a type and a list of attributes. A graph is run as
 * its operations say, one after another in float, each result rounded to its tensor's type: there
 * is no fusion and no matching of patterns. The lock is held in everything here. */
#ifndef FAKE_DNN_H
#define FAKE_DNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cudnn.h>

#include "tests/fakes/core.h"

enum { DNN_DIMS_MAX = 8 };

struct attr {
    int name, type;
    int64_t n;
    void *v; /* n elements of `type`; for descriptors n references */
};

/* A finalized descriptor does not change, so that those that hold it share it by counting. */
struct desc {
    int refs;
    int type;
    bool is_final;
    struct attr *attrs;
    int n;
};

struct desc *desc_new(int type);
struct desc *desc_ref(struct desc *d);
void desc_unref(struct desc *d); /* NULL is fine */
void desc_clear(struct desc *d);
struct attr *desc_find(const struct desc *d, int name);
/* Values as they were given; descriptors are referenced. */
void desc_set(struct desc *d, int name, int type, int64_t n, const void *v);
int64_t desc_count(const struct desc *d, int name); /* 0: not set */
int64_t desc_i64(const struct desc *d, int name, int i);
int desc_int(const struct desc *d, int name, int otherwise);
bool desc_bool(const struct desc *d, int name);
double desc_real(const struct desc *d, int name, double otherwise);
double desc_fraction(const struct desc *d, int name, int i);
struct desc *desc_child(const struct desc *d, int name, int i); /* borrowed, or NULL */
size_t dnn_type_bytes(int attribute_type);                      /* 0: unknown */
size_t dnn_data_bytes(int data_type);                           /* of one element; 0: not faked */

/* Keeps the text for cudnnGetLastErrorString() and returns the status. */
cudnnStatus_t dnn_fail(cudnnStatus_t status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* --- operations: one table says what each reads and writes, and how it runs --- */
enum dnn_role {
    DNN_READ,
    DNN_WRITE,
    DNN_STATS, /* norm forward: written in training, read in inference */
};

struct operand {
    int name;
    enum dnn_role role;
    bool is_optional;
};

struct run;

struct operation {
    int type;
    const char *name;
    const struct operand *operands;
    int n_operands;
    cudnnStatus_t (*check)(const struct desc *op);
    void (*run)(struct run *r, const struct desc *op);
};

const struct operation *dnn_operation(int type); /* NULL: not faked */
bool dnn_writes(const struct desc *op, const struct operand *o);
cudnnStatus_t dnn_check(const struct desc *d); /* at finalization, any type */

/* --- running --- */
struct tensor {
    int64_t uid;
    int nd;
    int64_t dim[DNN_DIMS_MAX];
    int64_t stride[DNN_DIMS_MAX]; /* in elements of `mem` */
    int64_t step[DNN_DIMS_MAX]; /* in `v`: packed, in the order of the strides; 0 where dim is 1 */
    int64_t n;
    int data_type;
    bool is_virtual, is_loaded;
    float *v;
    void *mem; /* NULL when virtual */
};

struct run {
    struct tensor *tensors;
    int n;
    const struct binding *bindings;
    int n_bindings;
    int device;
    char error[160]; /* the first one; "" */
};

struct binding {
    int64_t uid;
    void *p;           /* device memory, or NULL: */
    uint64_t value[2]; /* what a by-value tensor held when it was launched */
};

/* The operand's tensor, or NULL when it is not given. Its values are loaded when it is read, and
 * zero when it is written. */
struct tensor *run_operand(struct run *r, const struct desc *op, int name);
void run_load(struct run *r, struct tensor *t); /* for outputs that are added to */
void run_error(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dnn_run_graph(struct run *r, const struct desc *graph);

/* Walks over the indices of a shape, the last of `order` fastest, with up to four offsets. */
struct walk {
    int nd;
    int64_t dim[DNN_DIMS_MAX], at[DNN_DIMS_MAX];
    int64_t step[4][DNN_DIMS_MAX];
    int64_t off[4];
    int64_t inner;         /* length of the innermost loop, which is the caller's */
    int64_t inner_step[4]; /* 0: the same element all along */
};
/* `shape` leads: its dimensions, the order of its steps. Others broadcast where they have 1. */
void walk_init(struct walk *w, const struct tensor *shape, const struct tensor *const *others,
               int n_others);
bool walk_next(struct walk *w);

void dnn_run_conv(struct run *r, const struct desc *op);
void dnn_run_pointwise(struct run *r, const struct desc *op);
void dnn_run_reduction(struct run *r, const struct desc *op);
void dnn_run_genstats(struct run *r, const struct desc *op);
void dnn_run_bn_finalize(struct run *r, const struct desc *op);
void dnn_run_bn_bwd_weights(struct run *r, const struct desc *op);
void dnn_run_norm_fwd(struct run *r, const struct desc *op);
void dnn_run_norm_bwd(struct run *r, const struct desc *op);
void dnn_run_matmul(struct run *r, const struct desc *op);
void dnn_run_reshape(struct run *r, const struct desc *op);
void dnn_run_rng(struct run *r, const struct desc *op);
void dnn_run_resample(struct run *r, const struct desc *op);

cudnnStatus_t dnn_check_conv(const struct desc *op);
cudnnStatus_t dnn_check_pointwise(const struct desc *op);
cudnnStatus_t dnn_check_resample(const struct desc *op);
/* What kind of convolution an operation is: its operands. */
struct conv_names {
    int x, w, y, conv, alpha, beta;
};
const struct conv_names *dnn_conv_names(int type);

/* --- engines and plans --- */
enum { DNN_ENGINES = 6 };
/* Configurations for a graph, best first by the heuristics' opinion; returns how many. */
int dnn_heuristics(int mode, int engines[DNN_ENGINES]);
cudnnStatus_t dnn_check_plan(struct desc *plan); /* restores one that was given as JSON */
bool dnn_has_engine(const struct desc *graph, const struct desc *device);
int64_t dnn_workspace(const struct desc *graph, int engine);
uint64_t dnn_cost_ns(const struct desc *graph, int engine);
unsigned dnn_numerical_notes(int engine); /* a bit a note */
unsigned dnn_behavior_notes(int engine);
struct desc *dnn_plan_graph(const struct desc *plan);
int dnn_plan_engine(const struct desc *plan);
/* A plan as text; the caller frees. */
char *dnn_to_json(const struct desc *d, const char *kind);
struct desc *dnn_from_json(const char *text, size_t bytes, const char *kind); /* NULL: malformed */

#endif
