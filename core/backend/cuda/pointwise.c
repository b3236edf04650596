/* Instructions that treat every element alone, and those that only move numbers. */
#include "core/backend/cuda/be.h"

/* Whatever layout the first source has, all take; sequences have theirs. */
static enum bst_err same_describe(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cuda_handle *h)
{
    const struct bst_shape *s = cuda_src_shape(p, in, 0);
    uint32_t layout = w->src[0];

    (void)accumulate;
    if (s->rank != 4)
        layout = cuda_seq_layout(be, s);
    else if (layout == BST_LAYOUT_ANY)
        layout = cuda_layout(be->type, CUDA_PAD_NONE);
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = layout;
    w->dst[0] = layout;
    w->inplace[0] = 0;
    return cuda_form_of(layout, s, &h->form);
}

static enum bst_err run_op(struct bst_be *be, const struct cuda_handle *h, const struct bst_call *c,
                           enum kern_pointwise_op op)
{
    const struct kern_pointwise a = {
        .op = op,
        .a = c->src[0],
        .b = c->in->n_src > 1 ? c->src[1] : NULL,
        .dst = c->dst[0],
        .count = h->form.n * h->form.pixels * h->form.c_stored,
    };

    return cuda_fail(kern_run_pointwise(be->stream, h->form.type, &a), "element by element");
}

static enum bst_err relu_fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    return run_op(be, h, c, KERN_RELU);
}

static enum bst_err relu_bwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    return run_op(be, h, c, KERN_RELU_BWD);
}

static enum bst_err add_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    return run_op(be, h, c, KERN_ADD);
}

static enum bst_err reorder_describe(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cuda_handle *h)
{
    (void)be;
    (void)accumulate;
    BST_TRY(cuda_form_of(w->src[0], cuda_src_shape(p, in, 0), &h->other));
    return cuda_form_of(w->dst[0], cuda_dst_shape(p, in, 0), &h->form);
}

static enum bst_err reorder_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct kern_reorder a = {
        .src = c->src[0],
        .dst = c->dst[0],
        .src_type = h->other.type,
        .dst_type = h->form.type,
        .src_last = h->other.last,
        .dst_last = h->form.last,
        .n = h->form.n,
        .pixels = h->form.pixels,
        .c = h->form.c,
        .c_src = h->other.c_stored,
        .c_dst = h->form.c_stored,
        .add = cuda_adds(c, 0),
    };

    return cuda_fail(kern_run_reorder(be->stream, KERN_F32, &a), "reorder");
}

/* The images come as bytes and become numbers on the device. Where there are too few channels for
 * the convolution behind, zeros fill up: four in fp32 and fp16, eight in bf16 (cuDNN would
 * otherwise pad inside, in a workspace of its own). */
static enum bst_err image_describe(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cuda_handle *h)
{
    const struct bst_shape *s = cuda_dst_shape(p, in, 0);
    const enum cuda_pad pad = be->type == KERN_BF16 ? CUDA_PAD_8 : CUDA_PAD_4;

    (void)accumulate;
    if (s->d[1] > KERN_MAX_IMAGE_C)
        return bst_fail(BST_E_UNSUPPORTED, "cuda: images of %d channels; up to %d are possible",
                        (int)s->d[1], KERN_MAX_IMAGE_C);
    w->dst[0] = cuda_layout(be->type, pad);
    BST_TRY(cuda_form_of(w->dst[0], s, &h->form));
    w->scratch_bytes = (size_t)h->form.n * (size_t)h->form.pixels * (size_t)h->form.c;
    return BST_OK;
}

static enum bst_err image_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct cuda_form *f = &h->form;
    struct kern_image a = {
        .dst = c->dst[0],
        .src = cuda_input(be, c->step, c->step->images),
        .pixels = f->n * f->pixels,
        .valid = c->step->n_valid * f->pixels,
        .c_src = f->c,
        .c_dst = f->c_stored,
    };

    if (c->step->n_valid > f->n)
        return bst_fail(BST_E_RANGE, "%d images for a micro-batch of %d", c->step->n_valid,
                        (int)f->n);
    for (int i = 0; i < f->c; i++) { /* (x / 255 - mean) / std */
        const double std = (double)c->p->std[i];

        a.factor[i] = (float)(1 / (255 * std));
        a.offset[i] = (float)(-(double)c->p->mean[i] / std);
    }
    if (!a.src) {
        a.src = c->scratch;
        BST_TRY(
            cuda_fail(cudaMemcpyAsync(c->scratch, c->step->images, (size_t)a.valid * (size_t)f->c,
                                      cudaMemcpyHostToDevice, be->stream),
                      "images to the device"));
    }
    return cuda_fail(kern_run_image(be->stream, be->type, &a), "images");
}

const struct cuda_op cuda_op_relu_fwd = {same_describe, relu_fwd_run};
const struct cuda_op cuda_op_relu_bwd = {same_describe, relu_bwd_run};
const struct cuda_op cuda_op_add = {same_describe, add_run};
const struct cuda_op cuda_op_reorder = {reorder_describe, reorder_run};
const struct cuda_op cuda_op_image = {image_describe, image_run};
