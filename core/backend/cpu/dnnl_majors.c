/* What oneDNN 2 and 3 have different calls for: tensors' descriptors, and the implementations of an
 * operation. */
#include <string.h>

#include "core/backend/cpu/dnnl_inner.h"

static dnnl_format_tag_t tag_of(uint32_t layout, int rank)
{
    static const dnnl_format_tag_t plain[] = {dnnl_a, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};

    if (layout == BST_LAYOUT_ANY)
        return dnnl_format_tag_any;
    return layout == BST_LAYOUT_PLAIN ? plain[rank] : (dnnl_format_tag_t)layout;
}

static void dims_of(const struct bst_shape *s, dnnl_dims_t dims)
{
    memset(dims, 0, sizeof(dnnl_dims_t));
    memcpy(dims, s->d, (size_t)s->rank * sizeof dims[0]);
}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t shim_md_make(struct md *m, const struct bst_shape *s, uint32_t layout)
{
    dnnl_dims_t dims;

    dims_of(s, dims);
    return dnnl_memory_desc_create_with_tag(&m->d, s->rank, dims, dnnl_f32,
                                            tag_of(layout, s->rank));
}

void shim_md_drop(struct md *m)
{
    if (m->d)
        dnnl_memory_desc_destroy(m->d);
    m->d = NULL;
}

md_ref shim_md_of(const struct md *m)
{
    return m->d;
}

dnnl_status_t shim_choice_open(struct shim *s, const struct shim_op *op, const struct md *m,
                               struct choice *c)
{
    md_ref src = shim_md_of(&m[SHIM_SRC]), wei = shim_md_of(&m[SHIM_WEIGHT]),
           dst = shim_md_of(&m[SHIM_DST]);
    md_ref bias = shim_md_of(&m[SHIM_BIAS]);
    dnnl_dims_t stride = {op->window.stride, op->window.stride}, dilate = {0, 0};
    dnnl_dims_t pad = {op->window.pad, op->window.pad};

    switch (op->kind) {
    case SHIM_CONV_FWD:
        return dnnl_convolution_forward_primitive_desc_create(
            &c->pd, s->engine, dnnl_forward_training, dnnl_convolution_direct, src, wei, bias, dst,
            stride, dilate, pad, pad, s->attr);
    case SHIM_CONV_BWD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            &c->pd, s->engine, dnnl_convolution_direct, src, wei, dst, stride, dilate, pad, pad,
            NULL, s->attr);
    case SHIM_CONV_BWD_WEIGHT:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            &c->pd, s->engine, dnnl_convolution_direct, src, wei, NULL, dst, stride, dilate, pad,
            pad, NULL, s->attr);
    case SHIM_LINEAR_FWD:
        return dnnl_inner_product_forward_primitive_desc_create(
            &c->pd, s->engine, dnnl_forward_training, src, wei, bias, dst, s->attr);
    case SHIM_LINEAR_BWD_DATA:
        return dnnl_inner_product_backward_data_primitive_desc_create(&c->pd, s->engine, src, wei,
                                                                      dst, NULL, s->attr);
    case SHIM_LINEAR_BWD_WEIGHT:
        return dnnl_inner_product_backward_weights_primitive_desc_create(
            &c->pd, s->engine, src, wei, bias, dst, NULL, s->attr);
    default:
        return dnnl_reorder_primitive_desc_create(&c->pd, src, s->engine, dst, s->engine, s->attr);
    }
}

bool shim_choice_next(struct shim *s, const struct shim_op *op, struct choice *c)
{
    (void)s;
    return op->kind != SHIM_REORDER && dnnl_primitive_desc_next_impl(c->pd) == dnnl_success;
}

void shim_choice_close(struct choice *c)
{
    if (c->pd)
        dnnl_primitive_desc_destroy(c->pd);
}

#else

dnnl_status_t shim_md_make(struct md *m, const struct bst_shape *s, uint32_t layout)
{
    dnnl_dims_t dims;

    dims_of(s, dims);
    return dnnl_memory_desc_init_by_tag(&m->d, s->rank, dims, dnnl_f32, tag_of(layout, s->rank));
}

void shim_md_drop(struct md *m)
{
    (void)m;
}

md_ref shim_md_of(const struct md *m)
{
    return m->d.ndims ? &m->d : NULL;
}

static dnnl_status_t op_desc_init(const struct shim_op *op, const struct md *m, union op_desc *d)
{
    md_ref src = shim_md_of(&m[SHIM_SRC]), wei = shim_md_of(&m[SHIM_WEIGHT]),
           dst = shim_md_of(&m[SHIM_DST]);
    md_ref bias = shim_md_of(&m[SHIM_BIAS]);
    dnnl_dims_t stride = {op->window.stride, op->window.stride};
    dnnl_dims_t pad = {op->window.pad, op->window.pad};

    switch (op->kind) {
    case SHIM_CONV_FWD:
        return dnnl_convolution_forward_desc_init(&d->conv, dnnl_forward_training,
                                                  dnnl_convolution_direct, src, wei, bias, dst,
                                                  stride, pad, pad);
    case SHIM_CONV_BWD_DATA:
        return dnnl_convolution_backward_data_desc_init(&d->conv, dnnl_convolution_direct, src, wei,
                                                        dst, stride, pad, pad);
    case SHIM_CONV_BWD_WEIGHT:
        return dnnl_convolution_backward_weights_desc_init(&d->conv, dnnl_convolution_direct, src,
                                                           wei, NULL, dst, stride, pad, pad);
    case SHIM_LINEAR_FWD:
        return dnnl_inner_product_forward_desc_init(&d->linear, dnnl_forward_training, src, wei,
                                                    bias, dst);
    case SHIM_LINEAR_BWD_DATA:
        return dnnl_inner_product_backward_data_desc_init(&d->linear, src, wei, dst);
    case SHIM_LINEAR_BWD_WEIGHT:
        return dnnl_inner_product_backward_weights_desc_init(&d->linear, src, wei, bias, dst);
    default:
        return dnnl_invalid_arguments;
    }
}

dnnl_status_t shim_choice_open(struct shim *s, const struct shim_op *op, const struct md *m,
                               struct choice *c)
{
    dnnl_status_t st;

    if (op->kind == SHIM_REORDER)
        return dnnl_reorder_primitive_desc_create(&c->pd, shim_md_of(&m[SHIM_SRC]), s->engine,
                                                  shim_md_of(&m[SHIM_DST]), s->engine, s->attr);
    st = op_desc_init(op, m, &c->d);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_iterator_create(&c->it, &c->d, s->attr, s->engine, NULL);
    if (st != dnnl_success)
        return st;
    c->pd = dnnl_primitive_desc_iterator_fetch(c->it);
    return c->pd ? dnnl_success : dnnl_out_of_memory;
}

bool shim_choice_next(struct shim *s, const struct shim_op *op, struct choice *c)
{
    (void)s;
    if (op->kind == SHIM_REORDER || dnnl_primitive_desc_iterator_next(c->it) != dnnl_success)
        return false;
    dnnl_primitive_desc_destroy(c->pd);
    c->pd = dnnl_primitive_desc_iterator_fetch(c->it);
    return c->pd;
}

void shim_choice_close(struct choice *c)
{
    if (c->pd)
        dnnl_primitive_desc_destroy(c->pd);
    if (c->it)
        dnnl_primitive_desc_iterator_destroy(c->it);
}

#endif
