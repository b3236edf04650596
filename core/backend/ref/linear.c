/* y[n, k] = Σ_c x[n, c] · w[k, c] + b[k], and its gradients. */
#include "core/backend/ref/ref_real.h"

enum bst_err REF(linear_fwd)(const struct ref_call *c)
{
    const real *x = c->src[0], *w = c->src[1], *b = c->src[2];
    real *y = c->dst[0];
    int64_t rows = ref_src_shape(c, 0)->d[0], in = ref_src_shape(c, 0)->d[1];
    int64_t out = ref_dst_shape(c, 0)->d[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t k = 0; k < out; k++) {
            double sum = 0;
            for (int64_t i = 0; i < in; i++)
                sum += (double)x[n * in + i] * (double)w[k * in + i];
            y[n * out + k] = (real)(sum + (double)b[k]);
        }
    }
    return BST_OK;
}

enum bst_err REF(linear_bwd_data)(const struct ref_call *c)
{
    const real *dy = c->src[0], *w = c->src[1];
    real *dx = c->dst[0];
    int64_t rows = ref_dst_shape(c, 0)->d[0], in = ref_dst_shape(c, 0)->d[1];
    int64_t out = ref_src_shape(c, 0)->d[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t k = 0; k < out; k++)
                sum += (double)dy[n * out + k] * (double)w[k * in + i];
            dx[n * in + i] = (real)sum;
        }
    }
    return BST_OK;
}

enum bst_err REF(linear_bwd_weight)(const struct ref_call *c)
{
    const real *x = c->src[0], *dy = c->src[1];
    real *dw = c->dst[0], *db = c->dst[1];
    int64_t rows = ref_src_shape(c, 0)->d[0], in = ref_src_shape(c, 0)->d[1];
    int64_t out = ref_src_shape(c, 1)->d[1];
    for (int64_t k = 0; k < out; k++) {
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t n = 0; n < rows; n++)
                sum += (double)dy[n * out + k] * (double)x[n * in + i];
            real *to = &dw[k * in + i];
            *to = (real)(ref_adds(c, 0) ? (double)*to + sum : sum);
        }
        double sum = 0;
        for (int64_t n = 0; n < rows; n++)
            sum += (double)dy[n * out + k];
        db[k] = (real)(ref_adds(c, 1) ? (double)db[k] + sum : sum);
    }
    return BST_OK;
}
