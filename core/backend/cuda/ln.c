/* Layer norm by own kernels, a row a warp. What training saves is mean and 1/deviation of each row,
 * two floats. Backward takes the parameters' sums first: dx may lie where dy does. */
#include "core/backend/cuda/be.h"

static enum bst_err fwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    (void)accumulate;
    (void)h;
    cuda_seq_layouts(be, p, in, w);
    w->raw_bytes[1] = 2 * (size_t)cuda_rows(cuda_src_shape(p, in, 0)) * sizeof(float);
    return BST_OK;
}

static enum bst_err fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const struct kern_ln a = {
        .x = c->src[0],
        .scale = c->src[1],
        .shift = c->src[2],
        .y = c->dst[0],
        .saved = c->in->n_dst > 1 ? c->dst[1] : NULL,
        .rows = cuda_rows(s),
        .width = (int)cuda_width(s),
        .eps = (float)c->in->attr.eps,
        .part = 1 / (float)cuda_width(s),
    };

    (void)h;
    return cuda_fail(kern_run_ln(be->stream, cuda_seq_type(be, s), &a), "layer norm");
}

static enum bst_err bwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    const struct bst_shape *s = cuda_src_shape(p, in, 0);
    const int64_t width = cuda_width(s);

    (void)accumulate;
    cuda_seq_layouts(be, p, in, w);
    w->inplace[0] = 0;
    h->chunks = kern_chunks(cuda_rows(s), (int)width);
    w->scratch_bytes = cuda_partial_bytes(h->chunks, width) + 2 * (size_t)width * sizeof(float);
    return BST_OK;
}

static enum bst_err bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const enum kern_type type = cuda_seq_type(be, s);
    const int64_t rows = cuda_rows(s);
    const int width = (int)cuda_width(s);
    float *partial = c->scratch,
          *means = (float *)((char *)c->scratch + cuda_partial_bytes(h->chunks, width));
    const struct kern_ln_sums sums = {c->src[0], c->src[1], c->src[3], partial,
                                      rows,      width,     h->chunks};
    const struct kern_bn_bwd_finish finish = {
        partial, c->dst[1], c->dst[2],       means,           rows,
        width,   h->chunks, cuda_adds(c, 1), cuda_adds(c, 2),
    };
    const struct kern_ln_bwd last = {c->src[0], c->src[1], c->src[2], c->src[3],
                                     c->dst[0], rows,      width};

    BST_TRY(cuda_fail(kern_run_ln_sums(be->stream, type, &sums), "gradient's sums"));
    BST_TRY(cuda_fail(kern_run_bn_bwd_finish(be->stream, type, &finish), "gradient's sums"));
    return cuda_fail(kern_run_ln_bwd(be->stream, type, &last), "gradient of a layer norm");
}

const struct cuda_op cuda_op_ln_fwd = {fwd_describe, fwd_run};
const struct cuda_op cuda_op_ln_bwd = {bwd_describe, bwd_run};
