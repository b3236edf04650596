/* The backend's table, and what the compiler asks. Every layout is the plain one. */
#include "core/backend/ref/ref_real.h"

#include <stdio.h>

#include "core/base/alloc.h"

struct bst_be {
    int rank;
};

static enum bst_err (*const run_op[BST_I_N_OPS])(const struct ref_call *) = {
    [BST_I_IMAGE] = REF(image),
    [BST_I_CONV_FWD] = REF(conv_fwd),
    [BST_I_CONV_BWD_DATA] = REF(conv_bwd_data),
    [BST_I_CONV_BWD_WEIGHT] = REF(conv_bwd_weight),
    [BST_I_BN_TRAIN] = REF(bn_train),
    [BST_I_BN_INFER] = REF(bn_infer),
    [BST_I_BN_BWD] = REF(bn_bwd),
    [BST_I_RELU_FWD] = REF(relu_fwd),
    [BST_I_RELU_BWD] = REF(relu_bwd),
    [BST_I_ADD] = REF(add),
    [BST_I_MAX_POOL_FWD] = REF(max_pool_fwd),
    [BST_I_MAX_POOL_BWD] = REF(max_pool_bwd),
    [BST_I_AVG_POOL_FWD] = REF(avg_pool_fwd),
    [BST_I_AVG_POOL_BWD] = REF(avg_pool_bwd),
    [BST_I_LINEAR_FWD] = REF(linear_fwd),
    [BST_I_LINEAR_BWD_DATA] = REF(linear_bwd_data),
    [BST_I_LINEAR_BWD_WEIGHT] = REF(linear_bwd_weight),
    [BST_I_SOFTMAX_CE] = REF(softmax_ce),
    [BST_I_EMBED_FWD] = REF(embed_fwd),
    [BST_I_EMBED_BWD] = REF(embed_bwd),
    [BST_I_POSITION_FWD] = REF(position_fwd),
    [BST_I_POSITION_BWD] = REF(position_bwd),
    [BST_I_SINUSOID] = REF(sinusoid),
    [BST_I_LN_FWD] = REF(ln_fwd),
    [BST_I_LN_BWD] = REF(ln_bwd),
    [BST_I_GELU_FWD] = REF(gelu_fwd),
    [BST_I_GELU_BWD] = REF(gelu_bwd),
    [BST_I_TANH_FWD] = REF(tanh_fwd),
    [BST_I_TANH_BWD] = REF(tanh_bwd),
    [BST_I_FIRST_FWD] = REF(first_fwd),
    [BST_I_FIRST_BWD] = REF(first_bwd),
    [BST_I_DROPOUT] = REF(dropout),
    [BST_I_ATTN_FWD] = REF(attn_fwd),
    [BST_I_ATTN_BWD] = REF(attn_bwd),
    [BST_I_REORDER] = REF(reorder),
};

static size_t count(const struct bst_shape *s)
{
    int64_t n = bst_shape_count(s);
    BST_ASSERT(n >= 0);
    return (size_t)n;
}

static size_t layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    (void)be;
    BST_ASSERT(layout == BST_LAYOUT_PLAIN);
    return count(s) * sizeof(real);
}

/* One accumulator a pixel of the plane that is being made. */
static size_t conv_scratch(const struct bst_program *p, const struct bst_instr *in)
{
    const struct bst_shape *s = &p->values[in->dst[0]].shape;
    return in->op == BST_I_CONV_BWD_WEIGHT ? 0 : (size_t)(s->d[2] * s->d[3]) * sizeof(double);
}

static void describe_bn(const struct bst_program *p, const struct bst_instr *in,
                        struct bst_wants *w)
{
    bool residual = in->flags & BST_IF_RESIDUAL;
    if (in->op == BST_I_BN_BWD) {
        w->inplace[0] = 1;
        if (residual && in->flags & BST_IF_DY2)
            w->inplace[3] = in->n_src - 1;
        return;
    }
    /* In training x stays, for backward; a residual often goes. */
    w->inplace[0] = residual && in->op == BST_I_BN_TRAIN ? 5 : 0;
    w->raw_bytes[1] = 2 * sizeof(double) * (size_t)p->values[in->src[0]].shape.d[1];
}

static void describe_seq(const struct bst_program *p, const struct bst_instr *in,
                         struct bst_wants *w)
{
    const struct bst_shape *s = &p->values[in->src[0]].shape;
    switch (in->op) {
    case BST_I_LN_FWD:
        w->raw_bytes[1] = 2 * sizeof(double) * (size_t)ref_rows(s);
        break;
    case BST_I_LN_BWD:
        w->inplace[0] = 0;
        w->scratch_bytes = 2 * sizeof(double) * (size_t)ref_width(s);
        break;
    case BST_I_ATTN_FWD:
        w->raw_bytes[1] = REF(attn_saved_bytes)(p, in);
        w->scratch_bytes = REF(attn_scratch_bytes)(p, in);
        break;
    case BST_I_ATTN_BWD: /* a head is read whole before its keys' and values' gradients are written
                          */
        for (int k = 0; k < in->n_dst; k++)
            w->inplace[k] = 1 + k;
        w->scratch_bytes = REF(attn_scratch_bytes)(p, in);
        break;
    default:
        break;
    }
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    (void)be;
    (void)accumulate;
    if (!run_op[in->op] || in->flags & (BST_IF_SUM | BST_IF_STATS))
        return bst_fail(BST_E_UNSUPPORTED, "the backend does not have this operation");
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = BST_LAYOUT_PLAIN;
    switch (in->op) {
    case BST_I_CONV_FWD:
    case BST_I_CONV_BWD_DATA:
    case BST_I_CONV_BWD_WEIGHT:
        w->scratch_bytes = conv_scratch(p, in);
        break;
    case BST_I_BN_TRAIN:
    case BST_I_BN_INFER:
    case BST_I_BN_BWD:
        describe_bn(p, in, w);
        break;
    case BST_I_MAX_POOL_FWD:
        w->raw_bytes[1] = count(&p->values[in->dst[0]].shape) * sizeof(int32_t);
        break;
    case BST_I_RELU_FWD:
    case BST_I_RELU_BWD:
    case BST_I_ADD:
    case BST_I_SOFTMAX_CE:
    case BST_I_POSITION_FWD:
    case BST_I_SINUSOID:
    case BST_I_GELU_FWD:
    case BST_I_GELU_BWD:
    case BST_I_TANH_FWD:
    case BST_I_TANH_BWD:
    case BST_I_DROPOUT:
        w->inplace[0] = 0;
        break;
    default:
        describe_seq(p, in, w);
    }
    return BST_OK;
}

static enum bst_err open_ref(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    *out = bst_xalloc(sizeof **out);
    (*out)->rank = cfg->rank;
    return BST_OK;
}

static void close_ref(struct bst_be *be)
{
    bst_free(be);
}

static void info(struct bst_be *be, struct bst_device_info *out)
{
    (void)be;
    *out = (struct bst_device_info){.threads = 1};
    snprintf(out->name, sizeof out->name, "plain C, %d-bit reals", (int)sizeof(real) * 8);
    snprintf(out->isa, sizeof out->isa, "plain");
    snprintf(out->library, sizeof out->library, "none");
}

static enum bst_err alloc_ref(struct bst_be *be, size_t bytes, void **out)
{
    (void)be;
    return bst_alloc(bytes, out);
}

static void free_ref(struct bst_be *be, void *p, size_t bytes)
{
    (void)be;
    bst_alloc_free(p, bytes);
}

static enum bst_err run(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step)
{
    (void)be;
    struct ref_call c = {p, in, src, dst, scratch, step};
    return run_op[in->op](&c);
}

#ifdef REF_DOUBLE
extern const struct bst_backend bst_backend_ref64;
const struct bst_backend bst_backend_ref64 = {
    .name = "ref64",
    .about = "plain C in double precision, single-threaded: for comparisons",
#else
extern const struct bst_backend bst_backend_ref;
const struct bst_backend bst_backend_ref = {
    .name = "ref",
    .about = "plain C, single-threaded: the specification",
#endif
    .elem_bytes = sizeof(real),
    .describe = {.describe = describe, .layout_bytes = layout_bytes, .alignment = 64},
    .open = open_ref,
    .close = close_ref,
    .info = info,
    .alloc = alloc_ref,
    .free = free_ref,
    .run = run,
    .export_plain = REF(export_plain),
    .import_plain = REF(import_plain),
    .sum = REF(sum),
    .scale = REF(scale),
    .copy = REF(copy),
    .sum_squares = REF(sum_squares),
    .sgd = REF(sgd),
    .optimize = REF(optimize),
};
