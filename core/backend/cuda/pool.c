/* Pooling. The index of a maximum is its tap in the window, a byte; backward gathers, so that sums
 * have an order. */
#include "core/backend/cuda/be.h"

enum { KERNEL_MOST = 15 }; /* of whose taps a byte holds the number */

/* h->form is the larger side, h->other the smaller. */
static enum bst_err forms(struct bst_be *be, const struct bst_shape *large,
                          const struct bst_shape *small, struct cuda_handle *h)
{
    const uint32_t own = cuda_layout(be->type, CUDA_PAD_NONE);

    BST_TRY(cuda_form_of(own, large, &h->form));
    return cuda_form_of(small->rank == 4 ? own : BST_LAYOUT_PLAIN, small, &h->other);
}

/* x the larger side, whichever way they are gone through. */
static struct kern_windows windows(const struct cuda_handle *h, const struct bst_instr *in,
                                   const struct bst_shape *x, const struct bst_shape *y)
{
    return (struct kern_windows){
        .n = h->form.n,
        .c = h->form.c,
        .ih = (int)x->d[2],
        .iw = (int)x->d[3],
        .oh = (int)y->d[2],
        .ow = (int)y->d[3],
        .kernel = in->window.kernel,
        .stride = in->window.stride,
        .pad = in->window.pad,
    };
}

static enum bst_err max_fwd_describe(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cuda_handle *h)
{
    (void)accumulate;
    if (in->window.kernel > KERNEL_MOST)
        return bst_fail(BST_E_UNSUPPORTED, "cuda: pooling over %d×%d; up to %d×%d is possible",
                        in->window.kernel, in->window.kernel, KERNEL_MOST, KERNEL_MOST);
    BST_TRY(forms(be, cuda_src_shape(p, in, 0), cuda_dst_shape(p, in, 0), h));
    w->src[0] = w->dst[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    w->raw_bytes[1] = (size_t)h->other.n * (size_t)h->other.pixels * (size_t)h->other.c;
    return BST_OK;
}

static enum bst_err max_fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct kern_max_pool a = {
        .x = c->src[0],
        .y = c->dst[0],
        .tap = c->in->n_dst > 1 ? c->dst[1] : NULL,
        .w = windows(h, c->in, cuda_src_shape(c->p, c->in, 0), cuda_dst_shape(c->p, c->in, 0)),
    };

    return cuda_fail(kern_run_max_pool(be->stream, be->type, &a), "pooling");
}

static enum bst_err max_bwd_describe(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cuda_handle *h)
{
    (void)accumulate;
    w->src[0] = w->dst[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    return forms(be, cuda_dst_shape(p, in, 0), cuda_src_shape(p, in, 0), h);
}

static enum bst_err max_bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct kern_max_pool_bwd a = {
        .dy = c->src[0],
        .tap = c->src[1],
        .dx = c->dst[0],
        .w = windows(h, c->in, cuda_dst_shape(c->p, c->in, 0), cuda_src_shape(c->p, c->in, 0)),
    };

    return cuda_fail(kern_run_max_pool_bwd(be->stream, be->type, &a), "pooling's gradient");
}

static enum bst_err avg_fwd_describe(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cuda_handle *h)
{
    (void)accumulate;
    w->src[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    w->dst[0] = BST_LAYOUT_PLAIN;
    return forms(be, cuda_src_shape(p, in, 0), cuda_dst_shape(p, in, 0), h);
}

static enum bst_err avg_fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct kern_avg_pool a = {c->src[0], c->dst[0], h->form.n, h->form.c,
                                    (int)h->form.pixels};

    return cuda_fail(kern_run_avg_pool(be->stream, be->type, &a), "pooling");
}

static enum bst_err avg_bwd_describe(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cuda_handle *h)
{
    (void)accumulate;
    w->src[0] = BST_LAYOUT_PLAIN;
    w->dst[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    return forms(be, cuda_dst_shape(p, in, 0), cuda_src_shape(p, in, 0), h);
}

static enum bst_err avg_bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct kern_avg_pool_bwd a = {c->src[0], c->dst[0], h->form.n, h->form.c,
                                        (int)h->form.pixels};

    return cuda_fail(kern_run_avg_pool_bwd(be->stream, be->type, &a), "pooling's gradient");
}

const struct cuda_op cuda_op_max_pool_fwd = {max_fwd_describe, max_fwd_run};
const struct cuda_op cuda_op_max_pool_bwd = {max_bwd_describe, max_bwd_run};
const struct cuda_op cuda_op_avg_pool_fwd = {avg_fwd_describe, avg_fwd_run};
const struct cuda_op cuda_op_avg_pool_bwd = {avg_bwd_describe, avg_bwd_run};
