/* Convolutions as direct loops over NCHW planes. The innermost loop runs along a row, so that the
 * compiler turns it into vector code; sums are kept in double. */
#include "core/backend/ref/ref_real.h"

#include <string.h>

struct geometry {
    int64_t n, ic, oc, ih, iw, oh, ow; /* image side i, result side o */
    int k, stride, pad;
};

static struct geometry geometry(const struct bst_shape *x, const struct bst_shape *y,
                                struct bst_window w)
{
    return (struct geometry){x->d[0], x->d[1], y->d[1],  x->d[2],  x->d[3],
                             y->d[2], y->d[3], w.kernel, w.stride, w.pad};
}

/* Positions o in [*from, *to) of a result row for which o·stride + tap - pad lies in [0, size). */
static void valid_range(const struct geometry *g, int tap, int64_t size, int64_t n_out,
                        int64_t *from, int64_t *to)
{
    int64_t low = g->pad - tap, high = size - 1 + g->pad - tap;
    *from = low > 0 ? (low + g->stride - 1) / g->stride : 0;
    *to = high < 0 ? 0 : high / g->stride + 1;
    if (*to > n_out)
        *to = n_out;
}

/* acc[i] += w · x[i·stride] */
static void row_gather(double *restrict acc, const real *restrict x, double w, int64_t n,
                       int stride)
{
    if (stride == 1) {
        for (int64_t i = 0; i < n; i++)
            acc[i] += w * (double)x[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        acc[i] += w * (double)x[i * stride];
}

/* acc[i·stride] += w · y[i] */
static void row_scatter(double *restrict acc, const real *restrict y, double w, int64_t n,
                        int stride)
{
    if (stride == 1) {
        for (int64_t i = 0; i < n; i++)
            acc[i] += w * (double)y[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        acc[i * stride] += w * (double)y[i];
}

/* Σ x[i·stride] · y[i], in four interleaved parts: one chain of additions would wait for each. */
static double row_dot(const real *restrict x, const real *restrict y, int64_t n, int stride)
{
    double part[4] = {0, 0, 0, 0};
    int64_t i = 0;
    if (stride == 1) {
        for (; i + 4 <= n; i += 4) {
            for (int l = 0; l < 4; l++)
                part[l] += (double)x[i + l] * (double)y[i + l];
        }
    }
    for (; i < n; i++)
        part[i & 3] += (double)x[i * stride] * (double)y[i];
    return (part[0] + part[1]) + (part[2] + part[3]);
}

static void fwd_plane(const struct geometry *g, const real *x, const real *w, double *acc)
{
    memset(acc, 0, (size_t)(g->oh * g->ow) * sizeof *acc);
    for (int64_t c = 0; c < g->ic; c++) {
        const real *plane = x + c * g->ih * g->iw;
        for (int ky = 0; ky < g->k; ky++) {
            int64_t oy0, oy1;
            valid_range(g, ky, g->ih, g->oh, &oy0, &oy1);
            for (int kx = 0; kx < g->k; kx++) {
                int64_t ox0, ox1;
                double tap = (double)w[(c * g->k + ky) * g->k + kx];
                valid_range(g, kx, g->iw, g->ow, &ox0, &ox1);
                for (int64_t oy = oy0; oy < oy1; oy++) {
                    int64_t iy = oy * g->stride + ky - g->pad, ix = ox0 * g->stride + kx - g->pad;
                    row_gather(acc + oy * g->ow + ox0, plane + iy * g->iw + ix, tap, ox1 - ox0,
                               g->stride);
                }
            }
        }
    }
}

enum bst_err REF(conv_fwd)(const struct ref_call *c)
{
    struct geometry g = geometry(ref_src_shape(c, 0), ref_dst_shape(c, 0), c->in->window);
    const real *x = c->src[0], *w = c->src[1];
    real *y = c->dst[0];
    double *acc = c->scratch;
    for (int64_t n = 0; n < g.n; n++) {
        for (int64_t o = 0; o < g.oc; o++) {
            fwd_plane(&g, x + n * g.ic * g.ih * g.iw, w + o * g.ic * g.k * g.k, acc);
            real *to = y + (n * g.oc + o) * g.oh * g.ow;
            for (int64_t i = 0; i < g.oh * g.ow; i++)
                to[i] = (real)acc[i];
        }
    }
    return BST_OK;
}

static void bwd_data_plane(const struct geometry *g, const real *dy, const real *w, double *acc)
{
    memset(acc, 0, (size_t)(g->ih * g->iw) * sizeof *acc);
    for (int64_t o = 0; o < g->oc; o++) {
        const real *plane = dy + o * g->oh * g->ow;
        for (int ky = 0; ky < g->k; ky++) {
            int64_t oy0, oy1;
            valid_range(g, ky, g->ih, g->oh, &oy0, &oy1);
            for (int kx = 0; kx < g->k; kx++) {
                int64_t ox0, ox1;
                double tap = (double)w[(o * g->ic * g->k + ky) * g->k + kx];
                valid_range(g, kx, g->iw, g->ow, &ox0, &ox1);
                for (int64_t oy = oy0; oy < oy1; oy++) {
                    int64_t iy = oy * g->stride + ky - g->pad, ix = ox0 * g->stride + kx - g->pad;
                    row_scatter(acc + iy * g->iw + ix, plane + oy * g->ow + ox0, tap, ox1 - ox0,
                                g->stride);
                }
            }
        }
    }
}

enum bst_err REF(conv_bwd_data)(const struct ref_call *c)
{
    struct geometry g = geometry(ref_dst_shape(c, 0), ref_src_shape(c, 0), c->in->window);
    const real *dy = c->src[0], *w = c->src[1];
    real *dx = c->dst[0];
    double *acc = c->scratch;
    for (int64_t n = 0; n < g.n; n++) {
        for (int64_t i = 0; i < g.ic; i++) {
            bwd_data_plane(&g, dy + n * g.oc * g.oh * g.ow, w + i * g.k * g.k, acc);
            real *to = dx + (n * g.ic + i) * g.ih * g.iw;
            for (int64_t k = 0; k < g.ih * g.iw; k++)
                to[k] = (real)acc[k];
        }
    }
    return BST_OK;
}

/* Gradient of the tap (ky, kx) between image channel i and result channel o, over the batch. */
static double tap_gradient(const struct geometry *g, const real *x, const real *dy, int ky, int kx)
{
    int64_t oy0, oy1, ox0, ox1;
    double sum = 0;
    valid_range(g, ky, g->ih, g->oh, &oy0, &oy1);
    valid_range(g, kx, g->iw, g->ow, &ox0, &ox1);
    for (int64_t n = 0; n < g->n; n++) {
        const real *xs = x + n * g->ic * g->ih * g->iw, *ys = dy + n * g->oc * g->oh * g->ow;
        for (int64_t oy = oy0; oy < oy1; oy++) {
            int64_t iy = oy * g->stride + ky - g->pad, ix = ox0 * g->stride + kx - g->pad;
            sum += row_dot(xs + iy * g->iw + ix, ys + oy * g->ow + ox0, ox1 - ox0, g->stride);
        }
    }
    return sum;
}

enum bst_err REF(conv_bwd_weight)(const struct ref_call *c)
{
    struct geometry g = geometry(ref_src_shape(c, 0), ref_src_shape(c, 1), c->in->window);
    const real *x = c->src[0], *dy = c->src[1];
    real *dw = c->dst[0];
    bool add = ref_adds(c, 0);
    for (int64_t o = 0; o < g.oc; o++) {
        for (int64_t i = 0; i < g.ic; i++) {
            for (int t = 0; t < g.k * g.k; t++, dw++) {
                double d =
                    tap_gradient(&g, x + i * g.ih * g.iw, dy + o * g.oh * g.ow, t / g.k, t % g.k);
                *dw = (real)(add ? (double)*dw + d : d);
            }
        }
    }
    return BST_OK;
}
