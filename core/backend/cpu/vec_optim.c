#include "core/backend/cpu/vec_optim.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Written once with vector extensions and inlined into one function an instruction set, as in
 * vec.c. Single-precision arithmetic rounds the same everywhere, a root included. */
#define BODY static inline __attribute__((always_inline)) void

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double v4d __attribute__((vector_size(32), aligned(8), may_alias));

#define LOAD(p) (*(const v8 *)(p))
#define STORE(p, v) (*(v8 *)(p) = (v))

/* Of eight reals in place. */
BODY root(v8 *x)
{
#if defined(__x86_64__)
    __m128 half[2];

    memcpy(half, x, sizeof half);
    half[0] = _mm_sqrt_ps(half[0]);
    half[1] = _mm_sqrt_ps(half[1]);
    memcpy(x, half, sizeof half);
#else
    for (int l = 0; l < 8; l++)
        (*x)[l] = sqrtf((*x)[l]);
#endif
}

BODY move(v8 *m, v8 *v, const float *g, const struct cpu_adam_coef *k)
{
    v8 d = LOAD(g) * k->grad_factor;

    *m += (d - *m) * k->rest1;
    *v += (d * d - *v) * k->rest2;
}

BODY move_one(float *m, float *v, float g, const struct cpu_adam_coef *k)
{
    float d = g * k->grad_factor;

    *m += (d - *m) * k->rest1;
    *v += (d * d - *v) * k->rest2;
}

BODY direction(v8 *u, const v8 *w, const v8 *m, const v8 *v, const struct cpu_adam_coef *k)
{
    v8 s = *v;

    root(&s);
    *u = *m * k->unbias_m / (s * k->unbias_root_v + k->epsilon) + *w * k->decay;
}

BODY direction_one(float *u, float w, float m, float v, const struct cpu_adam_coef *k)
{
    *u = m * k->unbias_m / (sqrtf(v) * k->unbias_root_v + k->epsilon) + w * k->decay;
}

BODY adamw(float *w, float *m, float *v, const float *g, size_t n, const struct cpu_adam_coef *k)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 x = LOAD(w + i), a = LOAD(m + i), b = LOAD(v + i), u;

        move(&a, &b, g + i, k);
        direction(&u, &x, &a, &b, k);
        STORE(m + i, a);
        STORE(v + i, b);
        STORE(w + i, x - u * k->lr);
    }
    for (; i < n; i++) {
        float u;

        move_one(m + i, v + i, g[i], k);
        direction_one(&u, w[i], m[i], v[i], k);
        w[i] -= u * k->lr;
    }
}

/* q[h] += x² of four lanes each. */
BODY add_squares(v4d q[2], const v8 *x)
{
    for (int h = 0; h < 2; h++) {
        v4d d = __builtin_convertvector(((const v4 *)x)[h], v4d);

        q[h] += d * d;
    }
}

BODY lamb_moments(const float *w, float *m, float *v, const float *g, size_t n,
                  const struct cpu_adam_coef *k, double q[2])
{
    v4d ww[2] = {{0}, {0}}, uu[2] = {{0}, {0}};
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 x = LOAD(w + i), a = LOAD(m + i), b = LOAD(v + i), u;

        move(&a, &b, g + i, k);
        direction(&u, &x, &a, &b, k);
        STORE(m + i, a);
        STORE(v + i, b);
        add_squares(ww, &x);
        add_squares(uu, &u);
    }
    ww[0] += ww[1];
    uu[0] += uu[1];
    q[0] += (ww[0][0] + ww[0][1]) + (ww[0][2] + ww[0][3]);
    q[1] += (uu[0][0] + uu[0][1]) + (uu[0][2] + uu[0][3]);
    for (; i < n; i++) {
        float u;

        move_one(m + i, v + i, g[i], k);
        direction_one(&u, w[i], m[i], v[i], k);
        q[0] += (double)w[i] * (double)w[i];
        q[1] += (double)u * (double)u;
    }
}

BODY lamb_apply(float *w, const float *m, const float *v, size_t n, const struct cpu_adam_coef *k)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 x = LOAD(w + i), a = LOAD(m + i), b = LOAD(v + i), u;

        direction(&u, &x, &a, &b, k);
        STORE(w + i, x - u * k->lr);
    }
    for (; i < n; i++) {
        float u;

        direction_one(&u, w[i], m[i], v[i], k);
        w[i] -= u * k->lr;
    }
}

#define OPTIM_TABLE(set, attr)                                                                     \
    attr static void adamw_##set(float *w, float *m, float *v, const float *g, size_t n,           \
                                 const struct cpu_adam_coef *k)                                    \
    {                                                                                              \
        adamw(w, m, v, g, n, k);                                                                   \
    }                                                                                              \
    attr static void lamb_moments_##set(const float *w, float *m, float *v, const float *g,        \
                                        size_t n, const struct cpu_adam_coef *k, double q[2])      \
    {                                                                                              \
        lamb_moments(w, m, v, g, n, k, q);                                                         \
    }                                                                                              \
    attr static void lamb_apply_##set(float *w, const float *m, const float *v, size_t n,          \
                                      const struct cpu_adam_coef *k)                               \
    {                                                                                              \
        lamb_apply(w, m, v, n, k);                                                                 \
    }                                                                                              \
    static const struct cpu_vec_optim optim_##set = {                                              \
        .adamw = adamw_##set,                                                                      \
        .lamb_moments = lamb_moments_##set,                                                        \
        .lamb_apply = lamb_apply_##set,                                                            \
    };

OPTIM_TABLE(plain, )

const struct cpu_vec_optim *cpu_vec_optim_plain(void)
{
    return &optim_plain;
}

#if defined(__x86_64__)
OPTIM_TABLE(avx2, __attribute__((target("avx2,fma"))))

const struct cpu_vec_optim *cpu_vec_optim_best(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &optim_avx2
                                                                           : &optim_plain;
}
#else
const struct cpu_vec_optim *cpu_vec_optim_best(void)
{
    return &optim_plain;
}
#endif
