/* Linear layers, rows as in C. cuBLASLt counts by columns, so that our [N, C] is its C×N, and
 * y = x·Wᵀ is its y' = W'ᵀ·x'. The weight is [out, in], or GPT-2's [in, out], or some rows of a
 * larger one. In 16 bits sequences are that already, bias included; weights and matrices are
 * rounded into the scratch, and what is no sequence comes out in fp32. */
#include "core/backend/cuda/be.h"

static size_t half_bytes(int64_t count)
{
    return cuda_round_up((size_t)count * 2);
}

struct layer {
    int64_t rows, in, out, first_row;
    bool in_out;
};

static struct layer layer_of(const struct bst_instr *in, const struct bst_shape *x,
                             const struct bst_shape *y)
{
    return (struct layer){cuda_rows(x), cuda_width(x), cuda_width(y), in->attr.first_row,
                          in->attr.in_out};
}

static struct layer layer_of_fwd(const struct bst_program *p, const struct bst_instr *in)
{
    return layer_of(in, cuda_src_shape(p, in, 0), cuda_dst_shape(p, in, 0));
}

static struct layer layer_of_data(const struct bst_program *p, const struct bst_instr *in)
{
    return layer_of(in, cuda_dst_shape(p, in, 0), cuda_src_shape(p, in, 0));
}

static struct layer layer_of_weight(const struct bst_program *p, const struct bst_instr *in)
{
    return layer_of(in, cuda_src_shape(p, in, 0), cuda_src_shape(p, in, 1));
}

static float *part_of(const struct layer *l, void *weight)
{
    return (float *)weight + l->first_row * l->in;
}

/* Whether an end of an instruction is to be rounded before it is multiplied. */
static bool is_wide(const struct bst_be *be, const struct bst_shape *s)
{
    return cuda_is_mixed(be) && cuda_seq_type(be, s) == KERN_F32;
}

/* Scratch: the library's, then the factors that are rounded, then `more`. */
static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, const struct cuda_product_ask *ask,
                             const bool wide[2], size_t more, struct bst_wants *w,
                             struct cuda_handle *h)
{
    cuda_seq_layouts(be, p, in, w);
    BST_TRY(cuda_product_init(be, ask, &h->product));
    h->workspace = cuda_round_up(h->product.workspace);
    h->factor[0] = wide[0] ? ask->m * ask->k : 0;
    h->factor[1] = wide[1] ? ask->k * ask->n : 0;
    w->scratch_bytes = h->workspace + half_bytes(h->factor[0]) + half_bytes(h->factor[1]) + more;
    return BST_OK;
}

static char *behind_factors(const struct cuda_handle *h, const struct bst_call *c)
{
    return (char *)c->scratch + h->workspace + half_bytes(h->factor[0]) + half_bytes(h->factor[1]);
}

static enum bst_err product(struct bst_be *be, const struct cuda_handle *h,
                            const struct bst_call *c, const void *factor[2], void *result,
                            const void *bias, bool add)
{
    char *at = (char *)c->scratch + h->workspace;

    for (int k = 0; k < 2; k++) {
        if (!h->factor[k])
            continue;
        BST_TRY(cuda_narrow(be, at, factor[k], h->factor[k]));
        factor[k] = at;
        at += half_bytes(h->factor[k]);
    }
    return cuda_product_run(be, &h->product, factor[0], factor[1], result, bias, add, c->scratch);
}

/* y: K×N = (W: C×K)ᵀ · (x: C×N) + bias */
static enum bst_err fwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    const struct layer l = layer_of_fwd(p, in);
    const bool bias = in->n_src > 2;
    const enum kern_type result = cuda_seq_type(be, cuda_dst_shape(p, in, 0));
    const struct cuda_product_ask ask = {
        .transpose_a = !l.in_out,
        .bias = bias,
        .result = result,
        .m = l.out,
        .n = l.rows,
        .k = l.in,
        .skip_a = cuda_is_mixed(be) ? 0 : l.first_row * l.in,
        .skip_d = bias && result == KERN_F32 ? l.first_row : 0, /* a bias is to be aligned as D */
    };
    const bool wide[2] = {cuda_is_mixed(be), is_wide(be, cuda_src_shape(p, in, 0))};

    (void)accumulate;
    if (in->flags)
        return bst_fail(BST_E_UNSUPPORTED, "cuda: a linear layer with an activation in it");
    return describe(be, p, in, &ask, wide, bias && ask.result != KERN_F32 ? half_bytes(l.out) : 0,
                    w, h);
}

static enum bst_err fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct layer l = layer_of_fwd(c->p, c->in);
    const void *factor[2] = {part_of(&l, c->src[1]), c->src[0]};
    const float *bias = c->in->n_src > 2 ? (const float *)c->src[2] + l.first_row : NULL;
    char *rounded = behind_factors(h, c);

    if (!bias || cuda_seq_type(be, cuda_dst_shape(c->p, c->in, 0)) == KERN_F32)
        return product(be, h, c, factor, c->dst[0], bias, false);
    BST_TRY(cuda_narrow(be, rounded, bias, l.out));
    return product(be, h, c, factor, c->dst[0], rounded, false);
}

/* dx: C×N = (W: C×K) · (dy: K×N) */
static enum bst_err data_describe(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cuda_handle *h)
{
    const struct layer l = layer_of_data(p, in);
    const struct cuda_product_ask ask = {
        .transpose_a = l.in_out,
        .result = cuda_seq_type(be, cuda_dst_shape(p, in, 0)),
        .m = l.in,
        .n = l.rows,
        .k = l.out,
        .skip_a = cuda_is_mixed(be) ? 0 : l.first_row * l.in,
    };
    const bool wide[2] = {cuda_is_mixed(be), is_wide(be, cuda_src_shape(p, in, 0))};

    (void)accumulate;
    return describe(be, p, in, &ask, wide, 0, w, h);
}

static enum bst_err data_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct layer l = layer_of_data(c->p, c->in);
    const void *factor[2] = {part_of(&l, c->src[1]), c->src[0]};

    return product(be, h, c, factor, c->dst[0], NULL, false);
}

/* dW: C×K = (x: C×N) · (dy: K×N)ᵀ, or [in, out] the other way round; dbias = dy's sums over N, by
 * kernels of ours, since the library's epilogue for it cannot add. */
static enum bst_err weight_describe(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, bool accumulate,
                                    struct bst_wants *w, struct cuda_handle *h)
{
    const struct layer l = layer_of_weight(p, in);
    const struct cuda_product_ask ask = {
        .transpose_b = true,
        .m = l.in_out ? l.out : l.in,
        .n = l.in_out ? l.in : l.out,
        .k = l.rows,
        .skip_d = l.first_row * l.in,
    };
    const bool x = is_wide(be, cuda_src_shape(p, in, 0)),
               dy = is_wide(be, cuda_src_shape(p, in, 1));
    const bool wide[2] = {l.in_out ? dy : x, l.in_out ? x : dy};

    (void)accumulate;
    h->chunks = in->n_dst > 1 ? kern_chunks(l.rows, (int)l.out) : 0;
    return describe(be, p, in, &ask, wide, cuda_partial_bytes(h->chunks, l.out), w, h);
}

static enum bst_err bias_gradient(struct bst_be *be, const struct cuda_handle *h,
                                  const struct bst_call *c, const struct layer *l)
{
    float *partial = (float *)(void *)behind_factors(h, c);
    const struct kern_col_sums sums = {c->src[1], partial, l->rows, (int)l->out, h->chunks};
    const struct kern_col_finish finish = {partial, (float *)c->dst[1] + l->first_row, (int)l->out,
                                           h->chunks, cuda_adds(c, 1)};

    BST_TRY(cuda_fail(
        kern_run_col_sums(be->stream, cuda_seq_type(be, cuda_src_shape(c->p, c->in, 1)), &sums),
        "bias gradient"));
    return cuda_fail(kern_run_col_finish(be->stream, KERN_F32, &finish), "bias gradient");
}

static enum bst_err weight_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct layer l = layer_of_weight(c->p, c->in);
    const void *factor[2] = {c->src[l.in_out], c->src[!l.in_out]};

    BST_TRY(product(be, h, c, factor, part_of(&l, c->dst[0]), NULL, cuda_adds(c, 0)));
    return c->in->n_dst > 1 ? bias_gradient(be, h, c, &l) : BST_OK;
}

const struct cuda_op cuda_op_linear_fwd = {fwd_describe, fwd_run};
const struct cuda_op cuda_op_linear_bwd_data = {data_describe, data_run};
const struct cuda_op cuda_op_linear_bwd_weight = {weight_describe, weight_run};
