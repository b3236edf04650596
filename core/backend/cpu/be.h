/* Inside the CPU backend: the context, an instruction's prepared state, the table of instructions.
 * One context belongs to one thread, its OpenMP team does the work. */
#ifndef BST_BACKEND_CPU_BE_H
#define BST_BACKEND_CPU_BE_H

#include "core/backend/backend.h"
#include "core/backend/cpu/dnnl_shim.h"
#include "core/backend/cpu/vec.h"
#include "core/backend/cpu/vec_bn.h"
#include "core/backend/cpu/vec_seq.h"
#include "core/backend/cpu/vec_optim.h"

struct bst_be {
    struct shim *shim;
    const struct cpu_vec *vec;
    const struct cpu_vec_bn *vec_bn;
    const struct cpu_vec_seq *seq;
    const struct cpu_vec_optim *vec_optim;
    int threads;
    struct cpu_piece *pieces; /* optim.c's; room for n_pieces */
    int n_pieces;
};

/* An activation as planes: for every sample and channel block, `plane` consecutive reals hold `hw`
 * pixels of `block` channels. Sample n, block cb starts at (n·n_cb + cb)·plane. */
struct cpu_act {
    int n, c, h, w;
    int block, n_cb;
    size_t plane;
};

/* What describe() leaves in an instruction. */
struct cpu_handle {
    struct shim_prim *prim;
    size_t prim_scratch;           /* bytes; what is behind them belongs to the instruction */
    struct shim_prim *rest, *pack; /* rows.c: of the last rows, of the weight; there if pack is */
    size_t packed;                 /* bytes of the weight at the start of scratch */
    int64_t block;                 /* rows of prim */
    struct cpu_act act;            /* of the source (pooling: of the larger side) */
    struct cpu_act out;            /* of the destination, where it differs */
    size_t count;                  /* reals of the destination, padding included */
    size_t count2;                 /* of the second (dbias) */
    float *table;                  /* image: a channel's 256 values; sinusoid: [T, D] */
    bool grey;                     /* grey.c instead of a primitive */
    bool gemm;                     /* linear.c: a plain matrix product instead of a primitive */
    bool tiles;                    /* linear.c: rows.c makes the weight's gradient */
};

struct cpu_op {
    enum bst_err (*describe)(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cpu_handle *h);
    enum bst_err (*run)(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c);
};

extern const struct cpu_op cpu_op_image, cpu_op_conv_fwd, cpu_op_conv_bwd_data,
    cpu_op_conv_bwd_weight, cpu_op_bn_train, cpu_op_bn_infer, cpu_op_bn_bwd, cpu_op_relu_fwd,
    cpu_op_relu_bwd, cpu_op_add, cpu_op_max_pool_fwd, cpu_op_max_pool_bwd, cpu_op_avg_pool_fwd,
    cpu_op_avg_pool_bwd, cpu_op_linear_fwd, cpu_op_linear_bwd_data, cpu_op_linear_bwd_weight,
    cpu_op_softmax_ce, cpu_op_embed_fwd, cpu_op_embed_bwd, cpu_op_position_fwd, cpu_op_position_bwd,
    cpu_op_sinusoid, cpu_op_ln_fwd, cpu_op_ln_bwd, cpu_op_gelu_fwd, cpu_op_gelu_bwd,
    cpu_op_tanh_fwd, cpu_op_tanh_bwd, cpu_op_first_fwd, cpu_op_first_bwd, cpu_op_dropout,
    cpu_op_attn_fwd, cpu_op_attn_bwd, cpu_op_reorder;

/* A linear layer over a matrix as oneDNN's inner product (matmul.c). */
extern const struct cpu_op cpu_inner_fwd, cpu_inner_bwd_data, cpu_inner_bwd_weight;

/* Reals; 0 with the error stored when the layout is none of the CPU backend's. */
enum bst_err cpu_act_init(struct cpu_act *a, const struct bst_shape *s, uint32_t layout);
size_t cpu_layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s);

/* dst[i] = or += src[i] for what a parameter gradient was computed into. */
void cpu_add_into(struct bst_be *be, float *dst, const float *src, size_t n);

/* Whether this call adds to destination i, a parameter gradient, instead of overwriting it. */
static inline bool cpu_adds(const struct bst_call *c, int i)
{
    bool adds = c->step->accumulate || c->in->adds >> i & 1;

    return adds && c->p->values[c->in->dst[i]].memory == BST_MEM_GRAD;
}

/* Rows and columns of a value whose last axis an instruction works along. */
static inline size_t cpu_width(const struct bst_shape *s)
{
    return (size_t)s->d[s->rank - 1];
}

static inline size_t cpu_rows(const struct bst_shape *s)
{
    return (size_t)bst_shape_count(s) / cpu_width(s);
}

static inline const struct bst_shape *cpu_src_shape(const struct bst_call *c, int i)
{
    return &c->p->values[c->in->src[i]].shape;
}

static inline const struct bst_shape *cpu_dst_shape(const struct bst_call *c, int i)
{
    return &c->p->values[c->in->dst[i]].shape;
}

/* describe() of what takes plain operands, prepares nothing and works where it lies. */
enum bst_err cpu_describe_plain(struct bst_be *be, const struct bst_program *p,
                                const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                struct cpu_handle *h);

/* dst[j] = or += Σ over rows of x[rows, n]: columns are dealt out, so that the number of threads
 * moves no bit. */
void cpu_column_sums(struct bst_be *be, float *dst, const float *x, size_t rows, size_t n,
                     bool add);

/* dst[j] = sum[j], or that plus dst[j]. */
void cpu_put_sums(float *dst, const double *sum, size_t n, bool add);

/* Linear layers over many rows (rows.c). */
struct cpu_rows {
    int64_t rows, in, out;
    bool in_out; /* the weight lies [in, out], else [out, in] */
    bool bias;
};
bool cpu_rows_fit(int64_t rows, int64_t in, int64_t out);
/* BST_E_UNSUPPORTED leaves h without them. */
enum bst_err cpu_rows_describe(struct bst_be *be, const struct cpu_rows *r, struct cpu_handle *h,
                               struct bst_wants *w);

struct cpu_rows_data {
    float *x, *w, *bias; /* only read; a primitive takes no pointers to const */
    float *y, *u;        /* u: what the GELU is applied to, or NULL */
    void *scratch;
    bool gelu, by_tanh;
};
enum bst_err cpu_rows_run(struct bst_be *be, struct cpu_handle *h, const struct cpu_rows *r,
                          const struct cpu_rows_data *d);

/* dw[m, n] = or += aᵀ·b of a[rows, m] and b[rows, n], and the bias's, the column sums of dy: b
 * where the weight lies [in, out], else a. */
struct cpu_rows_grad {
    const float *a, *b;
    float *dw, *bias; /* bias may be NULL */
    int64_t rows, m, n;
    bool in_out, add, add_bias;
};
bool cpu_rows_grad_fit(const struct cpu_rows_grad *g);
size_t cpu_rows_grad_scratch(const struct bst_be *be, const struct cpu_rows_grad *g);
enum bst_err cpu_rows_grad_run(struct bst_be *be, const struct cpu_rows_grad *g, void *scratch);

/* The weights' gradient of a convolution of one-channel images (grey.c). */
bool cpu_grey_fits(const struct bst_program *p, const struct bst_instr *in,
                   const struct bst_wants *w);
enum bst_err cpu_grey_describe(struct bst_be *be, const struct bst_program *p,
                               const struct bst_instr *in, struct bst_wants *w,
                               struct cpu_handle *h);
enum bst_err cpu_grey_run(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c);

/* Below this many reals a parallel region costs more than it saves. */
#define CPU_SMALL 16384

/* Flat work (flat.c). */
enum bst_err cpu_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                     size_t bytes);
enum bst_err cpu_scale(struct bst_be *be, void *dst, double factor, size_t bytes);
enum bst_err cpu_copy(struct bst_be *be, void *dst, const void *src, size_t bytes);
enum bst_err cpu_sum_squares(struct bst_be *be, const void *x, size_t bytes, double *out);
enum bst_err cpu_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                     size_t bytes);

enum bst_err cpu_optimize(struct bst_be *be, const struct bst_optim *how,
                          const struct bst_span *spans, int n_spans,
                          const struct bst_optim_blocks *blocks); /* optim.c */

/* A parameter to and from plain host doubles (plain.c). */
enum bst_err cpu_export_plain(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                              double *out);
enum bst_err cpu_import_plain(struct bst_be *be, const struct bst_param_slot *slot,
                              const double *in, void *at);

#endif
