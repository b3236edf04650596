/* GELU (Hendrycks and Gimpel 2016): x·Φ(x), exactly or by the tanh that the paper gives for it;
 * tanh itself; and dropout. */
#include <math.h>

#include "core/backend/drop.h"
#include "core/backend/ref/ref_real.h"

#define SQRT_HALF 0.7071067811865475244
#define SQRT_2_OVER_PI 0.7978845608028653559
#define INV_SQRT_2PI 0.3989422804014326779
#define CUBIC 0.044715

double REF(gelu)(double x, bool by_tanh)
{
    if (by_tanh)
        return 0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
    return 0.5 * x * erfc(-x * SQRT_HALF);
}

static double slope(double x, bool by_tanh)
{
    if (!by_tanh)
        return 0.5 * erfc(-x * SQRT_HALF) + x * INV_SQRT_2PI * exp(-0.5 * x * x);
    double t = tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
}

enum bst_err REF(gelu_fwd)(const struct ref_call *c)
{
    const real *x = c->src[0];
    real *y = c->dst[0];
    for (int64_t i = 0, n = bst_shape_count(ref_dst_shape(c, 0)); i < n; i++)
        y[i] = (real)REF(gelu)((double)x[i], c->in->attr.tanh);
    return BST_OK;
}

enum bst_err REF(gelu_bwd)(const struct ref_call *c)
{
    const real *dy = c->src[0], *x = c->src[1];
    real *dx = c->dst[0];
    for (int64_t i = 0, n = bst_shape_count(ref_dst_shape(c, 0)); i < n; i++)
        dx[i] = (real)((double)dy[i] * slope((double)x[i], c->in->attr.tanh));
    return BST_OK;
}

enum bst_err REF(tanh_fwd)(const struct ref_call *c)
{
    const real *x = c->src[0];
    real *y = c->dst[0];
    for (int64_t i = 0, n = bst_shape_count(ref_dst_shape(c, 0)); i < n; i++)
        y[i] = (real)tanh((double)x[i]);
    return BST_OK;
}

enum bst_err REF(tanh_bwd)(const struct ref_call *c)
{
    const real *dy = c->src[0], *y = c->src[1];
    real *dx = c->dst[0];
    for (int64_t i = 0, n = bst_shape_count(ref_dst_shape(c, 0)); i < n; i++)
        dx[i] = (real)((double)dy[i] * (1 - (double)y[i] * (double)y[i]));
    return BST_OK;
}

/* A block of random words at a time; no mask is kept. */
enum bst_err REF(dropout)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *x = c->src[0];
    real *y = c->dst[0];
    uint32_t threshold = bst_drop_threshold(c->in->attr.drop), words[BST_DROP_BLOCK];
    double scale = bst_drop_scale(c->in->attr.drop);
    int64_t per_sample = bst_shape_count(s) / s->d[0];
    for (int64_t n = 0; n < s->d[0]; n++) {
        for (int64_t i = 0; i < per_sample; i++, x++, y++) {
            if (i % BST_DROP_BLOCK == 0)
                bst_drop_words(c->step, &c->in->attr, n, i / BST_DROP_BLOCK, 1, words);
            *y = words[i % BST_DROP_BLOCK] < threshold ? 0 : (real)((double)*x * scale);
        }
    }
    return BST_OK;
}
