/* Pooling over [N, C, H, W]. */
#include "core/backend/ref/ref_real.h"

#include <string.h>

struct pool {
    int64_t planes, ih, iw, oh, ow;
    struct bst_window w;
};

static struct pool pool_of(const struct bst_shape *x, const struct bst_shape *y,
                           struct bst_window w)
{
    return (struct pool){x->d[0] * x->d[1], x->d[2], x->d[3], y->d[2], y->d[3], w};
}

/* Position in the plane of the largest value of a window; outside the plane is -inf. As PyTorch:
 * the first of equals, and a NaN wins. */
static int64_t largest(const struct pool *p, const real *x, int64_t oy, int64_t ox)
{
    int64_t best = -1;
    for (int ky = 0; ky < p->w.kernel; ky++) {
        int64_t iy = oy * p->w.stride + ky - p->w.pad;
        if (iy < 0 || iy >= p->ih)
            continue;
        for (int kx = 0; kx < p->w.kernel; kx++) {
            int64_t ix = ox * p->w.stride + kx - p->w.pad, i = iy * p->iw + ix;
            if (ix < 0 || ix >= p->iw)
                continue;
            if (best < 0 || x[i] > x[best] || x[i] != x[i])
                best = i;
        }
    }
    return best;
}

enum bst_err REF(max_pool_fwd)(const struct ref_call *c)
{
    struct pool p = pool_of(ref_src_shape(c, 0), ref_dst_shape(c, 0), c->in->window);
    const real *x = c->src[0];
    real *y = c->dst[0];
    int32_t *index = c->in->n_dst > 1 ? c->dst[1] : NULL;
    for (int64_t n = 0; n < p.planes; n++, x += p.ih * p.iw) {
        for (int64_t o = 0; o < p.oh * p.ow; o++) {
            int64_t i = largest(&p, x, o / p.ow, o % p.ow);
            *y++ = x[i];
            if (index)
                *index++ = (int32_t)i;
        }
    }
    return BST_OK;
}

enum bst_err REF(max_pool_bwd)(const struct ref_call *c)
{
    struct pool p = pool_of(ref_dst_shape(c, 0), ref_src_shape(c, 0), c->in->window);
    const real *dy = c->src[0];
    const int32_t *index = c->src[1];
    real *dx = c->dst[0];
    memset(dx, 0, (size_t)(p.planes * p.ih * p.iw) * sizeof *dx);
    for (int64_t n = 0; n < p.planes; n++, dx += p.ih * p.iw) {
        for (int64_t o = 0; o < p.oh * p.ow; o++)
            dx[*index++] += *dy++;
    }
    return BST_OK;
}

enum bst_err REF(avg_pool_fwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *x = c->src[0];
    real *y = c->dst[0];
    int64_t hw = s->d[2] * s->d[3];
    for (int64_t n = 0; n < s->d[0] * s->d[1]; n++) {
        double sum = 0;
        for (int64_t i = 0; i < hw; i++)
            sum += (double)*x++;
        y[n] = (real)(sum / (double)hw);
    }
    return BST_OK;
}

enum bst_err REF(avg_pool_bwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *dy = c->src[0];
    real *dx = c->dst[0];
    int64_t hw = s->d[2] * s->d[3];
    for (int64_t n = 0; n < s->d[0] * s->d[1]; n++) {
        for (int64_t i = 0; i < hw; i++)
            *dx++ = (real)((double)dy[n] / (double)hw);
    }
    return BST_OK;
}
