/* GELU, tanh and dropout: element by element, like pointwise.c's.
 *
 * GELU is not a part of the product in front of it: cuBLASLt's is the tanh form alone, worked out
 * from what has not been rounded yet, so that a program in which the two are apart, as where
 * memory is short, would have other bits. */
#include "core/backend/cuda/be.h"
#include "core/backend/drop.h"
#include "core/base/philox.h"

/* All ends alike; the result may lie where the first source does. */
static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cuda_handle *h)
{
    (void)accumulate;
    (void)h;
    cuda_seq_layouts(be, p, in, w);
    w->inplace[0] = 0;
    return BST_OK;
}

static enum bst_err run_curve(struct bst_be *be, const struct bst_call *c, enum kern_curve_op op)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    const struct kern_curve a = {op, c->src[0], c->in->n_src > 1 ? c->src[1] : NULL, c->dst[0],
                                 bst_shape_count(s)};

    return cuda_fail(kern_run_curve(be->stream, cuda_seq_type(be, s), &a), "element by element");
}

static enum bst_err gelu_fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    (void)h;
    return run_curve(be, c, c->in->attr.tanh ? KERN_GELU_TANH : KERN_GELU);
}

static enum bst_err gelu_bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    (void)h;
    return run_curve(be, c, c->in->attr.tanh ? KERN_GELU_TANH_BWD : KERN_GELU_BWD);
}

static enum bst_err tanh_fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    (void)h;
    return run_curve(be, c, KERN_TANH);
}

static enum bst_err tanh_bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    (void)h;
    return run_curve(be, c, KERN_TANH_BWD);
}

enum bst_err cuda_draw_ready(struct bst_be *be, const struct bst_step *step)
{
    const struct kern_draw a = {be->draw,
                                {bst_philox_key(step->seed, BST_RNG_DROPOUT), step->position}};

    if (be->is_drawn && be->drawn.key == a.state.key && be->drawn.position == a.state.position)
        return BST_OK;
    BST_TRY(cuda_fail(kern_run_draw(be->stream, KERN_F32, &a), "dropout's numbers"));
    be->drawn = a.state;
    be->is_drawn = true;
    return BST_OK;
}

static enum bst_err dropout_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    const struct kern_dropout a = {
        .x = c->src[0],
        .y = c->dst[0],
        .draw = be->draw,
        .n = s->d[0],
        .per_sample = bst_shape_count(s) / s->d[0],
        .first = (uint64_t)c->in->attr.site << 40, /* drop.h */
        .threshold = bst_drop_threshold(c->in->attr.drop),
        .scale = bst_drop_scale(c->in->attr.drop),
    };

    (void)h;
    BST_TRY(cuda_draw_ready(be, c->step));
    return cuda_fail(kern_run_dropout(be->stream, cuda_seq_type(be, s), &a), "dropout");
}

const struct cuda_op cuda_op_gelu_fwd = {describe, gelu_fwd_run};
const struct cuda_op cuda_op_gelu_bwd = {describe, gelu_bwd_run};
const struct cuda_op cuda_op_tanh_fwd = {describe, tanh_fwd_run};
const struct cuda_op cuda_op_tanh_bwd = {describe, tanh_bwd_run};
const struct cuda_op cuda_op_dropout = {describe, dropout_run};
