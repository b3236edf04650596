/* Instructions that treat every element alone. */
#include "core/backend/ref/ref_real.h"

#include <string.h>

/* Rows past n_valid are not read from the step; they are 0, and count for nothing. */
enum bst_err REF(image)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    int64_t channels = s->d[1], hw = s->d[2] * s->d[3], rows = c->step->n_valid;
    real *to = c->dst[0];
    if (rows > s->d[0])
        return bst_fail(BST_E_RANGE, "%d images for a micro-batch of %d", c->step->n_valid,
                        (int)s->d[0]);
    memset(to, 0, (size_t)bst_shape_count(s) * sizeof *to);
    for (int64_t n = 0; n < rows; n++) {
        const uint8_t *from = c->step->images + n * hw * channels;
        for (int64_t ch = 0; ch < channels; ch++) {
            double mean = (double)c->p->mean[ch], std = (double)c->p->std[ch];
            for (int64_t i = 0; i < hw; i++)
                *to++ = (real)(((double)from[i * channels + ch] / 255 - mean) / std);
        }
    }
    return BST_OK;
}

static int64_t count(const struct ref_call *c)
{
    return bst_shape_count(ref_dst_shape(c, 0));
}

enum bst_err REF(relu_fwd)(const struct ref_call *c)
{
    const real *x = c->src[0];
    real *y = c->dst[0];
    for (int64_t i = 0, n = count(c); i < n; i++)
        y[i] = ref_relu(x[i]);
    return BST_OK;
}

enum bst_err REF(relu_bwd)(const struct ref_call *c)
{
    const real *dy = c->src[0], *y = c->src[1];
    real *dx = c->dst[0];
    for (int64_t i = 0, n = count(c); i < n; i++)
        dx[i] = y[i] <= 0 ? 0 : dy[i];
    return BST_OK;
}

enum bst_err REF(add)(const struct ref_call *c)
{
    const real *x = c->src[0], *y = c->src[1];
    real *z = c->dst[0];
    for (int64_t i = 0, n = count(c); i < n; i++)
        z[i] = x[i] + y[i];
    return BST_OK;
}

enum bst_err REF(reorder)(const struct ref_call *c)
{
    const real *x = c->src[0];
    real *y = c->dst[0];
    bool add = ref_adds(c, 0);
    for (int64_t i = 0, n = count(c); i < n; i++)
        y[i] = add ? y[i] + x[i] : x[i];
    return BST_OK;
}
