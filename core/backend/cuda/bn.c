/* Batch norm with what is around it, by own kernels: statistics, then one pass that normalises,
 * adds and cuts; backward two sums, then one pass. What training saves is mean and 1/deviation, 2·c
 * floats; with a residual and a ReLU then a bit for every value that passed, so that backward does
 * not read y. */
#include "core/backend/cuda/be.h"

static bool keeps_mask(const struct bst_instr *in)
{
    return (in->flags & BST_IF_RELU) && (in->flags & BST_IF_RESIDUAL);
}

static size_t saved_bytes(const struct cuda_form *f)
{
    return cuda_round_up(2 * (size_t)f->c * sizeof(float));
}

static int64_t rows_of(const struct cuda_form *f)
{
    return f->n * f->pixels;
}

static size_t partial_bytes(const struct cuda_handle *h)
{
    return cuda_partial_bytes(h->chunks, h->form.c);
}

/* All activations lie alike, without padding. */
static enum bst_err describe_all(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    const uint32_t own = cuda_layout(be->type, CUDA_PAD_NONE);

    for (int k = 0; k < in->n_src; k++)
        w->src[k] = cuda_src_shape(p, in, k)->rank == 4 ? own : BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = cuda_dst_shape(p, in, k)->rank == 4 ? own : BST_LAYOUT_PLAIN;
    BST_TRY(cuda_form_of(own, cuda_src_shape(p, in, 0), &h->form));
    h->chunks = kern_chunks(rows_of(&h->form), h->form.c);
    return BST_OK;
}

static enum bst_err train_describe(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cuda_handle *h)
{
    (void)accumulate;
    BST_TRY(describe_all(be, p, in, w, h));
    w->inplace[0] = in->flags & BST_IF_RESIDUAL ? 5 : 0;
    w->scratch_bytes = in->flags & BST_IF_STATS ? 0 : partial_bytes(h);
    w->raw_bytes[1] = saved_bytes(&h->form);
    if (keeps_mask(in))
        w->raw_bytes[1] += (size_t)(rows_of(&h->form) * h->form.c + KERN_GROUP - 1) / KERN_GROUP;
    return BST_OK;
}

static struct kern_bn_apply apply_of(const struct cuda_handle *h, const struct bst_call *c)
{
    return (struct kern_bn_apply){
        .x = c->src[0],
        .residual = c->in->flags & BST_IF_RESIDUAL ? c->src[5] : NULL,
        .y = c->dst[0],
        .bn = {.scale = c->src[1], .shift = c->src[2]},
        .rows = rows_of(&h->form),
        .c = h->form.c,
        .relu = c->in->flags & BST_IF_RELU,
    };
}

static enum bst_err apply(struct bst_be *be, const struct kern_bn_apply *a)
{
    return cuda_fail(kern_run_bn_apply(be->stream, be->type, a), "normalising");
}

static enum bst_err train_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const bool again = c->in->flags & BST_IF_AGAIN;
    float *saved = again ? c->src[c->in->n_src - 1] : c->dst[1];
    struct kern_bn_apply a = apply_of(h, c);

    a.bn.mean = saved;
    a.bn.inv = saved + h->form.c;
    if (again)
        return apply(be, &a);
    const struct kern_bn_stats sums = {c->src[0], c->scratch, a.rows, a.c, h->chunks};
    struct kern_bn_finish finish = {c->src[0], c->scratch, saved, c->src[3],
                                    c->src[4], a.rows,     a.c,   h->chunks};
    if (c->in->flags & BST_IF_STATS) { /* of the values themselves, in one piece */
        finish.x = NULL;
        finish.partial = c->src[c->in->n_src - 1];
        finish.chunks = 1;
    } else {
        BST_TRY(cuda_fail(kern_run_bn_stats(be->stream, be->type, &sums), "statistics"));
    }
    BST_TRY(cuda_fail(kern_run_bn_finish(be->stream, be->type, &finish), "statistics"));
    if (keeps_mask(c->in))
        a.mask = (uint8_t *)saved + saved_bytes(&h->form);
    return apply(be, &a);
}

static enum bst_err infer_describe(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cuda_handle *h)
{
    (void)accumulate;
    w->inplace[0] = 0;
    return describe_all(be, p, in, w, h);
}

static enum bst_err infer_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    struct kern_bn_apply a = apply_of(h, c);

    a.bn.mean = c->src[3];
    a.bn.inv = c->src[4];
    a.bn.inv_is_var = true;
    return apply(be, &a);
}

static enum bst_err bwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    (void)accumulate;
    BST_TRY(describe_all(be, p, in, w, h));
    w->inplace[0] = 1;
    if (in->flags & BST_IF_RESIDUAL && in->flags & BST_IF_DY2)
        w->inplace[3] = in->n_src - 1;
    w->scratch_bytes = partial_bytes(h) + 2 * (size_t)h->form.c * sizeof(float);
    return BST_OK;
}

static enum bst_err bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const unsigned flags = c->in->flags;
    const float *saved = c->src[4];
    const int channels = h->form.c;
    const int64_t rows = rows_of(&h->form);
    float *partial = c->scratch, *means = (float *)((char *)c->scratch + partial_bytes(h));
    const struct kern_bn_grad g = {
        .x = c->src[0],
        .dy = c->src[1],
        .dy2 = flags & BST_IF_DY2 ? c->src[c->in->n_src - 1] : NULL,
        .mask = keeps_mask(c->in) ? (const uint8_t *)saved + saved_bytes(&h->form) : NULL,
        .bn = {saved, saved + channels, c->src[2], c->src[3], false},
        .relu = flags & BST_IF_RELU,
    };
    const struct kern_bn_bwd_sums sums = {g, partial, rows, channels, h->chunks};
    const struct kern_bn_bwd_finish finish = {
        partial,  c->dst[1], c->dst[2],       means,           rows,
        channels, h->chunks, cuda_adds(c, 1), cuda_adds(c, 2),
    };
    const struct kern_bn_bwd_apply last = {
        g, means, c->dst[0], flags & BST_IF_RESIDUAL ? c->dst[3] : NULL, rows, channels};
    BST_TRY(cuda_fail(kern_run_bn_bwd_sums(be->stream, be->type, &sums), "gradient's sums"));
    BST_TRY(cuda_fail(kern_run_bn_bwd_finish(be->stream, be->type, &finish), "gradient's sums"));
    return cuda_fail(kern_run_bn_bwd_apply(be->stream, be->type, &last), "gradient");
}

const struct cuda_op cuda_op_bn_train = {train_describe, train_run};
const struct cuda_op cuda_op_bn_infer = {infer_describe, infer_run};
const struct cuda_op cuda_op_bn_bwd = {bwd_describe, bwd_run};
