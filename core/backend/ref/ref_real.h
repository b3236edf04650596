/* Private to core/backend/ref: the number type, and what one instruction's function gets. Every
 * file of this folder is compiled twice, with and without REF_DOUBLE.
 *
 * ref is the specification, so a result is the exact one rounded as seldom as can be: sums run in
 * double and are rounded to a real once, where a value is stored. A fused instruction rounds where
 * the single ones would, so that fused and unfused programs agree to the bit. */
#ifndef BST_BACKEND_REF_REAL_H
#define BST_BACKEND_REF_REAL_H

#include "core/backend/backend.h"

#ifdef REF_DOUBLE
typedef double real;
#define REF(name) ref64_##name
#else
typedef float real;
#define REF(name) ref32_##name
#endif

#define REF_BN_EPS 1e-5
#define REF_BN_MOMENTUM 0.1

struct ref_call {
    const struct bst_program *p;
    const struct bst_instr *in;
    void *const *src, *const *dst;
    void *scratch;
    const struct bst_step *step;
};

static inline const struct bst_shape *ref_src_shape(const struct ref_call *c, int k)
{
    return &c->p->values[c->in->src[k]].shape;
}

static inline const struct bst_shape *ref_dst_shape(const struct ref_call *c, int k)
{
    return &c->p->values[c->in->dst[k]].shape;
}

/* Whether destination k is added to (program.h). */
static inline bool ref_adds(const struct ref_call *c, int k)
{
    bool adds = c->step->accumulate || c->in->adds >> k & 1;
    return adds && c->p->values[c->in->dst[k]].memory == BST_MEM_GRAD;
}

/* Rows and columns of a value whose last axis an instruction works along. */
static inline int64_t ref_width(const struct bst_shape *s)
{
    return s->d[s->rank - 1];
}

static inline int64_t ref_rows(const struct bst_shape *s)
{
    return bst_shape_count(s) / ref_width(s);
}

/* NaN passes, as in PyTorch: a diverged net must not look healthy. */
static inline real ref_relu(real x)
{
    return x <= 0 ? 0 : x;
}

enum bst_err REF(image)(const struct ref_call *c);
enum bst_err REF(relu_fwd)(const struct ref_call *c);
enum bst_err REF(relu_bwd)(const struct ref_call *c);
enum bst_err REF(add)(const struct ref_call *c);
enum bst_err REF(reorder)(const struct ref_call *c);
enum bst_err REF(conv_fwd)(const struct ref_call *c);
enum bst_err REF(conv_bwd_data)(const struct ref_call *c);
enum bst_err REF(conv_bwd_weight)(const struct ref_call *c);
enum bst_err REF(bn_train)(const struct ref_call *c);
enum bst_err REF(bn_infer)(const struct ref_call *c);
enum bst_err REF(bn_bwd)(const struct ref_call *c);
enum bst_err REF(max_pool_fwd)(const struct ref_call *c);
enum bst_err REF(max_pool_bwd)(const struct ref_call *c);
enum bst_err REF(avg_pool_fwd)(const struct ref_call *c);
enum bst_err REF(avg_pool_bwd)(const struct ref_call *c);
enum bst_err REF(linear_fwd)(const struct ref_call *c);
enum bst_err REF(linear_bwd_data)(const struct ref_call *c);
enum bst_err REF(linear_bwd_weight)(const struct ref_call *c);
enum bst_err REF(softmax_ce)(const struct ref_call *c);
enum bst_err REF(embed_fwd)(const struct ref_call *c);
enum bst_err REF(embed_bwd)(const struct ref_call *c);
enum bst_err REF(position_fwd)(const struct ref_call *c);
enum bst_err REF(position_bwd)(const struct ref_call *c);
enum bst_err REF(sinusoid)(const struct ref_call *c);
enum bst_err REF(ln_fwd)(const struct ref_call *c);
enum bst_err REF(ln_bwd)(const struct ref_call *c);
enum bst_err REF(gelu_fwd)(const struct ref_call *c);
enum bst_err REF(gelu_bwd)(const struct ref_call *c);
enum bst_err REF(tanh_fwd)(const struct ref_call *c);
enum bst_err REF(tanh_bwd)(const struct ref_call *c);
enum bst_err REF(first_fwd)(const struct ref_call *c);
enum bst_err REF(first_bwd)(const struct ref_call *c);
enum bst_err REF(dropout)(const struct ref_call *c);
enum bst_err REF(attn_fwd)(const struct ref_call *c);
enum bst_err REF(attn_bwd)(const struct ref_call *c);

/* attention.c */
size_t REF(attn_saved_bytes)(const struct bst_program *p, const struct bst_instr *in);
size_t REF(attn_scratch_bytes)(const struct bst_program *p, const struct bst_instr *in);

double REF(gelu)(double x, bool by_tanh); /* gelu.c */

/* flat.c: the slots of struct bst_backend of the same names */
enum bst_err REF(export_plain)(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                               double *out);
enum bst_err REF(import_plain)(struct bst_be *be, const struct bst_param_slot *slot,
                               const double *in, void *at);
enum bst_err REF(sum)(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                      size_t bytes);
enum bst_err REF(scale)(struct bst_be *be, void *dst, double factor, size_t bytes);
enum bst_err REF(copy)(struct bst_be *be, void *dst, const void *src, size_t bytes);
enum bst_err REF(sum_squares)(struct bst_be *be, const void *x, size_t bytes, double *out);
enum bst_err REF(sgd)(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                      size_t bytes);
/* optim.c */
enum bst_err REF(optimize)(struct bst_be *be, const struct bst_optim *how,
                           const struct bst_span *spans, int n_spans,
                           const struct bst_optim_blocks *blocks);

#endif
