/* Linear layers: matrices are fp32, rows as in C. cuBLASLt counts by columns, so that our [N, C] is
 * its C×N, and y = x·Wᵀ is its y' = W'ᵀ·x'. In 16 bits the factors are rounded into the scratch,
 * and the result is fp32 again. */
#include "core/backend/cuda/be.h"

static size_t half_bytes(int64_t count)
{
    return cuda_round_up((size_t)count * 2);
}

static enum bst_err describe(struct bst_be *be, const struct bst_instr *in, struct bst_wants *w,
                             struct cuda_handle *h, const struct cuda_product_ask *ask,
                             const struct bst_shape *weight, int64_t out)
{
    if (in->flags || in->attr.in_out || in->attr.first_row || weight->d[0] != out)
        return bst_fail(BST_E_UNSUPPORTED,
                        "cuda: a linear layer with an activation in it, a weight the other way "
                        "round or a part of one");
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = BST_LAYOUT_PLAIN;
    BST_TRY(cuda_product_init(be, ask, &h->product));
    h->workspace = cuda_round_up(h->product.workspace);
    h->factor[0] = ask->m * ask->k;
    h->factor[1] = ask->k * ask->n;
    w->scratch_bytes = h->product.workspace;
    if (cuda_is_mixed(be))
        w->scratch_bytes = h->workspace + half_bytes(h->factor[0]) + half_bytes(h->factor[1]);
    return BST_OK;
}

static enum bst_err product(struct bst_be *be, const struct cuda_handle *h,
                            const struct bst_call *c, const void *a, const void *b,
                            const void *bias, bool add)
{
    char *at = (char *)c->scratch + h->workspace;

    if (cuda_is_mixed(be)) {
        BST_TRY(cuda_narrow(be, at, a, h->factor[0]));
        a = at;
        at += half_bytes(h->factor[0]);
        BST_TRY(cuda_narrow(be, at, b, h->factor[1]));
        b = at;
    }
    return cuda_product_run(be, &h->product, a, b, c->dst[0], bias, add, c->scratch);
}

/* y: K×N = (W: C×K)ᵀ · (x: C×N) + bias */
static enum bst_err fwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    const struct bst_shape *x = cuda_src_shape(p, in, 0), *y = cuda_dst_shape(p, in, 0);
    const struct cuda_product_ask ask = {
        .transpose_a = true,
        .bias = in->n_src > 2,
        .m = cuda_width(y),
        .n = cuda_rows(x),
        .k = cuda_width(x),
    };

    (void)accumulate;
    return describe(be, in, w, h, &ask, cuda_src_shape(p, in, 1), cuda_width(y));
}

static enum bst_err fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    return product(be, h, c, c->src[1], c->src[0], c->in->n_src > 2 ? c->src[2] : NULL, false);
}

/* dx: C×N = (W: C×K) · (dy: K×N) */
static enum bst_err data_describe(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cuda_handle *h)
{
    const struct bst_shape *dy = cuda_src_shape(p, in, 0), *dx = cuda_dst_shape(p, in, 0);
    const struct cuda_product_ask ask = {
        .m = cuda_width(dx), .n = cuda_rows(dx), .k = cuda_width(dy)};

    (void)accumulate;
    return describe(be, in, w, h, &ask, cuda_src_shape(p, in, 1), cuda_width(dy));
}

static enum bst_err data_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    return product(be, h, c, c->src[1], c->src[0], NULL, false);
}

/* dW: C×K = (x: C×N) · (dy: K×N)ᵀ; dbias = dy's sums over N, by a kernel of ours, since the
 * library's epilogue for it cannot add. */
static enum bst_err weight_describe(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, bool accumulate,
                                    struct bst_wants *w, struct cuda_handle *h)
{
    const struct bst_shape *x = cuda_src_shape(p, in, 0), *dy = cuda_src_shape(p, in, 1);
    const struct cuda_product_ask ask = {
        .transpose_b = true, .m = cuda_width(x), .n = cuda_width(dy), .k = cuda_rows(x)};

    (void)accumulate;
    return describe(be, in, w, h, &ask, cuda_dst_shape(p, in, 0), cuda_width(dy));
}

static enum bst_err weight_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *dy = cuda_src_shape(c->p, c->in, 1);

    BST_TRY(product(be, h, c, c->src[0], c->src[1], NULL, cuda_adds(c, 0)));
    if (c->in->n_dst < 2)
        return BST_OK;
    const struct kern_bias_grad a = {c->src[1], c->dst[1], cuda_rows(dy), (int)cuda_width(dy),
                                     cuda_adds(c, 1)};
    return cuda_fail(kern_run_bias_grad(be->stream, KERN_F32, &a), "bias gradient");
}

const struct cuda_op cuda_op_linear_fwd = {fwd_describe, fwd_run};
const struct cuda_op cuda_op_linear_bwd_data = {data_describe, data_run};
const struct cuda_op cuda_op_linear_bwd_weight = {weight_describe, weight_run};
