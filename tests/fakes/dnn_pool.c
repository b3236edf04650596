/* Pooling forward and backward. The index of a maximum counts within its window, row by row. */
#include <math.h>

#include "tests/fakes/dnn.h"

struct window {
    int64_t size[2], stride[2], pad[2];
    int mode;
};

static int desc_name(int type)
{
    return type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR
               ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC
               : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC;
}

static struct window window_of(const struct desc *op)
{
    const struct desc *d = desc_child(op, desc_name(op->type), 0);
    struct window w = {.mode = desc_int(d, CUDNN_ATTR_RESAMPLE_MODE, -1)};
    for (int i = 0; i < 2; i++) {
        w.size[i] = (int64_t)desc_fraction(d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, i);
        w.stride[i] = (int64_t)desc_fraction(d, CUDNN_ATTR_RESAMPLE_STRIDES, i);
        w.pad[i] = (int64_t)desc_fraction(d, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, i);
    }
    return w;
}

cudnnStatus_t dnn_check_resample(const struct desc *op)
{
    bool fwd = op->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
    if (!desc_child(op, desc_name(op->type), 0))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "resampling without its description");
    struct window w = window_of(op);
    bool is_max = w.mode == CUDNN_RESAMPLE_MAXPOOL;
    if (!is_max && w.mode != CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING &&
        w.mode != CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "of resampling only pooling is faked");
    bool has_index = desc_count(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC);
    if (!fwd && is_max && !has_index && !desc_count(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "max pooling backward has neither index nor input");
    const struct desc *t = desc_child(op,
                                      fwd ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC
                                          : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
                                      0);
    if (desc_count(t, CUDNN_ATTR_TENSOR_DIMENSIONS) != 4 || w.stride[0] < 1 || w.stride[1] < 1)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "pooling is faked for rank 4");
    return CUDNN_STATUS_SUCCESS;
}

/* One window: where it lies in an input of shape x. */
struct place {
    int64_t base; /* offset of the image's channel */
    int64_t h, w; /* of the window's first element, may be outside */
};

static int64_t offset(const struct tensor *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return n * t->step[0] + c * t->step[1] + h * t->step[2] + w * t->step[3];
}

/* The element at window position k, or -1 outside of the image. */
static int64_t element(const struct tensor *x, const struct window *win, const struct place *p,
                       int64_t k)
{
    int64_t h = p->h + k / win->size[1];
    int64_t w = p->w + k % win->size[1];
    if (h < 0 || h >= x->dim[2] || w < 0 || w >= x->dim[3])
        return -1;
    return p->base + h * x->step[2] + w * x->step[3];
}

static int64_t largest(const struct tensor *x, const struct window *win, const struct place *p)
{
    int64_t best = -1;
    float most = -INFINITY;
    for (int64_t k = 0; k < win->size[0] * win->size[1]; k++) {
        int64_t at = element(x, win, p, k);
        if (at >= 0 && (best < 0 || x->v[at] > most)) {
            best = k;
            most = x->v[at];
        }
    }
    return best;
}

static int64_t divisor(const struct tensor *x, const struct window *win, const struct place *p)
{
    int64_t all = win->size[0] * win->size[1];
    if (win->mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING)
        return all;
    int64_t n = 0;
    for (int64_t k = 0; k < all; k++)
        n += element(x, win, p, k) >= 0;
    return n;
}

static void forward_one(const struct window *win, const struct place *p, const struct tensor *x,
                        float *y, float *index)
{
    if (win->mode == CUDNN_RESAMPLE_MAXPOOL) {
        int64_t k = largest(x, win, p);
        *y = k < 0 ? -INFINITY : x->v[element(x, win, p, k)];
        if (index)
            *index = (float)k;
        return;
    }
    double sum = 0;
    for (int64_t k = 0; k < win->size[0] * win->size[1]; k++) {
        int64_t at = element(x, win, p, k);
        sum += at >= 0 ? (double)x->v[at] : 0;
    }
    *y = (float)(sum / (double)divisor(x, win, p));
}

static void backward_one(const struct window *win, const struct place *p, struct tensor *dx,
                         const struct tensor *x, const float *index, float dy)
{
    if (win->mode == CUDNN_RESAMPLE_MAXPOOL) {
        int64_t k = index ? (int64_t)*index : largest(x, win, p);
        int64_t at = k < 0 ? -1 : element(dx, win, p, k);
        if (at >= 0)
            dx->v[at] += dy;
        return;
    }
    float share = dy / (float)divisor(dx, win, p);
    for (int64_t k = 0; k < win->size[0] * win->size[1]; k++) {
        int64_t at = element(dx, win, p, k);
        if (at >= 0)
            dx->v[at] += share;
    }
}

void dnn_run_resample(struct run *r, const struct desc *op)
{
    bool fwd = op->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
    struct window win = window_of(op);
    struct tensor *x = run_operand(r, op,
                                   fwd ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC
                                       : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC);
    struct tensor *y = run_operand(r, op,
                                   fwd ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC
                                       : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC);
    struct tensor *index = run_operand(r, op,
                                       fwd ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC
                                           : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC);
    struct tensor *dx = fwd ? x : run_operand(r, op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC);
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t c = 0; c < y->dim[1]; c++)
            for (int64_t h = 0; h < y->dim[2]; h++)
                for (int64_t w = 0; w < y->dim[3]; w++) {
                    struct place p = {offset(dx, n, c, 0, 0), h * win.stride[0] - win.pad[0],
                                      w * win.stride[1] - win.pad[1]};
                    float *at_y = &y->v[offset(y, n, c, h, w)];
                    float *at_i = index ? &index->v[offset(index, n, c, h, w)] : NULL;
                    if (fwd)
                        forward_one(&win, &p, x, at_y, at_i);
                    else
                        backward_one(&win, &p, dx, x, at_i, *at_y);
                }
}
