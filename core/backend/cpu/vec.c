#include "core/backend/cpu/vec.h"

#include "core/backend/cpu/vec_types.h"

BODY relu(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 v = LOAD(x + i);

        STORE(y + i, KEEP(v, OPEN(v)));
    }
    for (; i < n; i++)
        y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

BODY relu_bwd(float *dx, const float *dy, const float *y, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(dx + i, KEEP(LOAD(dy + i), OPEN(LOAD(y + i))));
    for (; i < n; i++)
        dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

BODY add(float *z, const float *x, const float *y, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(z + i, LOAD(x + i) + LOAD(y + i));
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

BODY scale(float *x, float factor, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(x + i, LOAD(x + i) * factor);
    for (; i < n; i++)
        x[i] *= factor;
}

BODY sum_squares(const float *x, size_t n, double *out)
{
    v4d q[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        for (int h = 0; h < 4; h++) {
            v4d d = __builtin_convertvector(*(const v4 *)(x + i + 4 * h), v4d);

            q[h] += d * d;
        }
    q[0] += q[1] + q[2] + q[3];
    *out = (q[0][0] + q[0][1]) + (q[0][2] + q[0][3]);
    for (; i < n; i++)
        *out += (double)x[i] * (double)x[i];
}

BODY sgd_as(float *w, float *v, const float *g, size_t n, const struct cpu_sgd_coef *k,
            const bool momentum, const bool first)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 p = LOAD(w + i), d = LOAD(g + i) * k->grad_factor + p * k->weight_decay;

        if (momentum) {
            v8 m = d;

            if (!first)
                m += LOAD(v + i) * k->momentum;
            STORE(v + i, m);
            if (k->nesterov)
                d += m * k->momentum;
            else
                d = m;
        }
        STORE(w + i, p - d * k->lr);
    }
    for (; i < n; i++) {
        float d = g[i] * k->grad_factor + w[i] * k->weight_decay;

        if (momentum) {
            v[i] = first ? d : v[i] * k->momentum + d;
            d = k->nesterov ? d + v[i] * k->momentum : v[i];
        }
        w[i] -= d * k->lr;
    }
}

BODY sgd(float *w, float *v, const float *g, size_t n, const struct cpu_sgd_coef *k)
{
    if (!v)
        sgd_as(w, v, g, n, k, false, false);
    else if (k->first)
        sgd_as(w, v, g, n, k, true, true);
    else
        sgd_as(w, v, g, n, k, true, false);
}

/* First of equals wins; NaN wins over all, as in PyTorch. */
BODY max_pool_row_as(float *y, uint8_t *index, const float *x, int w, int ow, int block,
                     const int kernel, int stride, int pad, int k0, int k1)
{
    for (int o = 0; o < ow; o++) {
        int at = o * stride - pad, j0 = at < 0 ? -at : 0, j1 = at + kernel > w ? w - at : kernel;
        v8 best = LOAD(x + ((ptrdiff_t)k0 * w + at + j0) * block);
        v8i where = (v8i)(v8){0} + (k0 * kernel + j0);

        for (int i = k0; i < k1; i++)
            for (int j = j0; j < j1; j++) {
                v8 v = LOAD(x + ((ptrdiff_t)i * w + at + j) * block);
                /* NOLINTNEXTLINE(misc-redundant-expression): true of NaN */
                v8i take = (v8i)(v > best) | (v8i)(v != v);
                v8i here = (v8i)(v8){0} + (i * kernel + j);

                best = (v8)(((v8i)v & take) | ((v8i)best & ~take));
                where = (here & take) | (where & ~take);
            }
        STORE(y + (size_t)o * (size_t)block, best);
        *(v8b *)(index + (size_t)o * (size_t)block) = __builtin_convertvector(where, v8b);
    }
}

BODY max_pool_row(float *y, uint8_t *index, const float *x, int w, int ow, int block, int kernel,
                  int stride, int pad, int k0, int k1)
{
    if (kernel == 3)
        max_pool_row_as(y, index, x, w, ow, block, 3, stride, pad, k0, k1);
    else
        max_pool_row_as(y, index, x, w, ow, block, kernel, stride, pad, k0, k1);
}

BODY max_pool_row_bwd(float *dx, const float *dy, const uint8_t *index, int w, int ow, int block,
                      int kernel, int stride, int pad, int k0, int k1)
{
    for (int o = 0; o < ow; o++) {
        int at = o * stride - pad, j0 = at < 0 ? -at : 0, j1 = at + kernel > w ? w - at : kernel;
        v8i where = __builtin_convertvector(*(const v8b *)(index + (size_t)o * block), v8i);
        v8 g = LOAD(dy + (size_t)o * block);

        for (int i = k0; i < k1; i++)
            for (int j = j0; j < j1; j++) {
                float *to = dx + ((ptrdiff_t)i * w + at + j) * block;

                STORE(to, LOAD(to) + KEEP(g, where == i * kernel + j));
            }
    }
}

BODY grey_gradient_as(double *sum, const float *x, size_t row, const float *dy, int block, int oh,
                      int ow, const int stride)
{
    v8 acc[9] = {{0}};

    for (int i = 0; i < oh; i++) {
        const float *r0 = x + (size_t)(i * stride) * row, *r1 = r0 + row, *r2 = r1 + row;

        for (int j = 0; j < ow; j++) {
            v8 g = LOAD(dy + ((size_t)i * (size_t)ow + (size_t)j) * (size_t)block);
            size_t at = (size_t)(j * stride);

            acc[0] += g * r0[at];
            acc[1] += g * r0[at + 1];
            acc[2] += g * r0[at + 2];
            acc[3] += g * r1[at];
            acc[4] += g * r1[at + 1];
            acc[5] += g * r1[at + 2];
            acc[6] += g * r2[at];
            acc[7] += g * r2[at + 1];
            acc[8] += g * r2[at + 2];
        }
    }
    for (int t = 0; t < 18; t++)
        *(v4d *)(sum + 4 * t) += __builtin_convertvector(((const v4 *)acc)[t], v4d);
}

BODY grey_gradient(double *sum, const float *x, size_t row, const float *dy, int block, int oh,
                   int ow, int stride)
{
    if (stride == 1)
        grey_gradient_as(sum, x, row, dy, block, oh, ow, 1);
    else
        grey_gradient_as(sum, x, row, dy, block, oh, ow, stride);
}

/* One set of functions and its table. */
#define VEC_TABLE(set, text, attr)                                                                 \
    attr static void relu_##set(float *y, const float *x, size_t n)                                \
    {                                                                                              \
        relu(y, x, n);                                                                             \
    }                                                                                              \
    attr static void relu_bwd_##set(float *dx, const float *dy, const float *y, size_t n)          \
    {                                                                                              \
        relu_bwd(dx, dy, y, n);                                                                    \
    }                                                                                              \
    attr static void add_##set(float *z, const float *x, const float *y, size_t n)                 \
    {                                                                                              \
        add(z, x, y, n);                                                                           \
    }                                                                                              \
    attr static void scale_##set(float *x, float factor, size_t n)                                 \
    {                                                                                              \
        scale(x, factor, n);                                                                       \
    }                                                                                              \
    attr static double sum_squares_##set(const float *x, size_t n)                                 \
    {                                                                                              \
        double s;                                                                                  \
        sum_squares(x, n, &s);                                                                     \
        return s;                                                                                  \
    }                                                                                              \
    attr static void sgd_##set(float *w, float *v, const float *g, size_t n,                       \
                               const struct cpu_sgd_coef *k)                                       \
    {                                                                                              \
        sgd(w, v, g, n, k);                                                                        \
    }                                                                                              \
    attr static void grey_gradient_##set(double *sum, const float *x, size_t row, const float *dy, \
                                         int block, int oh, int ow, int stride)                    \
    {                                                                                              \
        grey_gradient(sum, x, row, dy, block, oh, ow, stride);                                     \
    }                                                                                              \
    attr static void max_pool_row_##set(float *y, uint8_t *index, const float *x, int w, int ow,   \
                                        int block, int kernel, int stride, int pad, int k0,        \
                                        int k1)                                                    \
    {                                                                                              \
        max_pool_row(y, index, x, w, ow, block, kernel, stride, pad, k0, k1);                      \
    }                                                                                              \
    attr static void max_pool_row_bwd_##set(float *dx, const float *dy, const uint8_t *index,      \
                                            int w, int ow, int block, int kernel, int stride,      \
                                            int pad, int k0, int k1)                               \
    {                                                                                              \
        max_pool_row_bwd(dx, dy, index, w, ow, block, kernel, stride, pad, k0, k1);                \
    }                                                                                              \
    static const struct cpu_vec vec_##set = {                                                      \
        .isa = text,                                                                               \
        .relu = relu_##set,                                                                        \
        .relu_bwd = relu_bwd_##set,                                                                \
        .add = add_##set,                                                                          \
        .scale = scale_##set,                                                                      \
        .sum_squares = sum_squares_##set,                                                          \
        .sgd = sgd_##set,                                                                          \
        .grey_gradient = grey_gradient_##set,                                                      \
        .max_pool_row = max_pool_row_##set,                                                        \
        .max_pool_row_bwd = max_pool_row_bwd_##set,                                                \
    };

VEC_TABLE(plain, "plain", )

const struct cpu_vec *cpu_vec_plain(void)
{
    return &vec_plain;
}

#if defined(__x86_64__)
VEC_TABLE(avx2, "avx2", __attribute__((target("avx2,fma"))))

const struct cpu_vec *cpu_vec_best(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &vec_avx2 : &vec_plain;
}
#else
const struct cpu_vec *cpu_vec_best(void)
{
    return &vec_plain;
}
#endif
