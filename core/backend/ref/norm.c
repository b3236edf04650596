/* Layer norm over the last axis: y = (x - mean)/√(var + eps) · scale + shift. What training saves
 * for backward is mean and 1/deviation of each row, two doubles. */
#include <math.h>

#include "core/backend/ref/ref_real.h"

enum bst_err REF(ln_fwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *x = c->src[0], *scale = c->src[1], *shift = c->src[2];
    real *y = c->dst[0];
    double *saved = c->in->n_dst > 1 ? c->dst[1] : NULL;
    int64_t d = ref_width(s);
    for (int64_t r = 0, rows = ref_rows(s); r < rows; r++, x += d, y += d) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < d; i++)
            mean += (double)x[i];
        mean /= (double)d;
        for (int64_t i = 0; i < d; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean);
        double inv = 1 / sqrt(var / (double)d + c->in->attr.eps);
        for (int64_t i = 0; i < d; i++)
            y[i] = (real)(((double)x[i] - mean) * inv * (double)scale[i] + (double)shift[i]);
        if (saved) {
            saved[2 * r] = mean;
            saved[2 * r + 1] = inv;
        }
    }
    return BST_OK;
}

/* dx = inv · (g - mean(g) - x̂ · mean(g·x̂)) with g = dy · scale. Scratch: the parameters' sums. */
static void row_bwd(const real *x, const real *dy, const real *scale, const double *saved,
                    int64_t d, real *dx, double *sums)
{
    double mean = saved[0], inv = saved[1], g_mean = 0, gx_mean = 0;
    for (int64_t i = 0; i < d; i++) {
        double hat = ((double)x[i] - mean) * inv, g = (double)dy[i] * (double)scale[i];
        g_mean += g;
        gx_mean += g * hat;
        sums[i] += (double)dy[i] * hat;
        sums[d + i] += (double)dy[i];
    }
    g_mean /= (double)d;
    gx_mean /= (double)d;
    for (int64_t i = 0; i < d; i++) {
        double hat = ((double)x[i] - mean) * inv, g = (double)dy[i] * (double)scale[i];
        dx[i] = (real)(inv * (g - g_mean - hat * gx_mean));
    }
}

enum bst_err REF(ln_bwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *dy = c->src[0], *x = c->src[1], *scale = c->src[2];
    const double *saved = c->src[3];
    double *sums = c->scratch;
    int64_t d = ref_width(s);
    for (int64_t i = 0; i < 2 * d; i++)
        sums[i] = 0;
    for (int64_t r = 0, rows = ref_rows(s); r < rows; r++)
        row_bwd(x + r * d, dy + r * d, scale, saved + 2 * r, d, (real *)c->dst[0] + r * d, sums);
    for (int k = 0; k < 2; k++) {
        real *to = c->dst[1 + k];
        for (int64_t i = 0; i < d; i++)
            to[i] = (real)(ref_adds(c, 1 + k) ? (double)to[i] + sums[k * d + i] : sums[k * d + i]);
    }
    return BST_OK;
}
