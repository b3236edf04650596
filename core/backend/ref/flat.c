/* Work over blocks of parameters, gradients and optimizer state. */
#include <string.h>

#include "core/backend/ref/ref_real.h"

enum bst_err REF(export_plain)(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                               double *out)
{
    (void)be;
    const real *x = at;
    for (int64_t i = 0, n = bst_shape_count(&slot->shape); i < n; i++)
        out[i] = (double)x[i];
    return BST_OK;
}

enum bst_err REF(import_plain)(struct bst_be *be, const struct bst_param_slot *slot,
                               const double *in, void *at)
{
    (void)be;
    real *x = at;
    for (int64_t i = 0, n = bst_shape_count(&slot->shape); i < n; i++)
        x[i] = (real)in[i];
    return BST_OK;
}

enum bst_err REF(sum)(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                      size_t bytes)
{
    (void)be;
    real *to = dst;
    for (size_t i = 0; i < bytes / sizeof(real); i++) {
        real s = ((const real *)srcs[0])[i];
        for (int k = 1; k < n_srcs; k++)
            s += ((const real *)srcs[k])[i];
        to[i] = s;
    }
    return BST_OK;
}

enum bst_err REF(scale)(struct bst_be *be, void *dst, double factor, size_t bytes)
{
    (void)be;
    real *x = dst;
    for (size_t i = 0; i < bytes / sizeof(real); i++)
        x[i] = (real)((double)x[i] * factor);
    return BST_OK;
}

enum bst_err REF(copy)(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    (void)be;
    memcpy(dst, src, bytes);
    return BST_OK;
}

enum bst_err REF(sum_squares)(struct bst_be *be, const void *x, size_t bytes, double *out)
{
    (void)be;
    const real *from = x;
    double sum = 0;
    for (size_t i = 0; i < bytes / sizeof(real); i++)
        sum += (double)from[i] * (double)from[i];
    *out = sum;
    return BST_OK;
}

enum bst_err REF(sgd)(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                      size_t bytes)
{
    (void)be;
    real *weight = w, *velocity = v;
    const real *grad = g;
    for (size_t i = 0; i < bytes / sizeof(real); i++) {
        double x = (double)weight[i];
        double d = how->grad_factor * (double)grad[i] + how->weight_decay * x;
        if (velocity) {
            double m = how->first ? d : how->momentum * (double)velocity[i] + d;
            velocity[i] = (real)m;
            d = how->nesterov ? d + how->momentum * m : m;
        }
        weight[i] = (real)(x - how->lr * d);
    }
    return BST_OK;
}
