#include "core/backend/cpu/vec_bn.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/backend/cpu/vec_types.h"

#if defined(__x86_64__)
/* What every x86-64 has: halves of a vector, one call convention. */
#define LOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define HIGH(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define STREAM(p, v) (_mm_stream_ps(p, (__m128)LOW(v)), _mm_stream_ps((p) + 4, (__m128)HIGH(v)))
#define BITS(m) (uint8_t)(_mm_movemask_ps((__m128)LOW(m)) | _mm_movemask_ps((__m128)HIGH(m)) << 4)
#else
#define STREAM(p, v) STORE(p, v)
#define BITS(m)                                                                                    \
    (uint8_t)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8) | (m[4] & 16) | (m[5] & 32) |      \
              (m[6] & 64) | (m[7] & 128))
#endif
/* All ones where the bit is set. */
#define FROM_BITS(b) ((v8i)(((v8i){1, 2, 4, 8, 16, 32, 64, 128} & (int32_t)(b)) != 0))

/* Single-precision sums run over this many reals, 16 terms a lane, before they go into doubles. The
 * terms of a batch norm's gradient cancel almost: what longer sums round is seen in the result. */
#define CHUNK 256

/* Running sums of 16 lanes. */
struct sums {
    v8 s[2], q[2];
    size_t n; /* reals in them */
};

BODY sums_flush(struct sums *r, struct cpu_bn_sums *t)
{
    for (int h = 0; h < 4; h++) {
        *(v4d *)(t->s + 4 * h) += __builtin_convertvector(((const v4 *)r->s)[h], v4d);
        *(v4d *)(t->q + 4 * h) += __builtin_convertvector(((const v4 *)r->q)[h], v4d);
    }
    memset(r, 0, sizeof *r);
}

/* The start of the sample behind: a plane is shorter than what the processor needs to see a stream.
 */
BODY fetch(const float *x, size_t step)
{
    for (size_t i = 0; i < 128; i += 16)
        __builtin_prefetch(x + step + i);
}

/* What the ReLU let through is known from x, or from the bits kept when a residual was added. */
enum mask { MASK_NONE, MASK_X, MASK_BITS };

/* Σ g and Σ g·(x - mean). Backward g is the gradient behind the ReLU, forward x - mean itself. */
BODY reduce(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k, struct cpu_bn_sums *t,
            const bool backward, const enum mask mask, const bool two, const bool keep)
{
    const v8 m[2] = {LOAD(k->mean), LOAD(k->mean + 8)};
    const v8 a[2] = {LOAD(k->a), LOAD(k->a + 8)}, b[2] = {LOAD(k->b), LOAD(k->b + 8)};
    size_t n = p->n;
    struct sums r = {0};

    for (int c = 0; c < p->count; c++) {
        size_t o = (size_t)c * p->step, i = 0;
        const float *x = p->x + o, *dy = backward ? p->dy + o : NULL,
                    *dy2 = two ? p->dy2 + o : NULL;
        const uint8_t *open = mask == MASK_BITS ? p->open + (size_t)c * p->open_step : NULL;
        float *dr = keep ? p->dr + o : NULL;

#define STEP(h)                                                                                    \
    do {                                                                                           \
        v8 d = LOAD(x + i + 8 * (h)) - m[h], g = backward ? LOAD(dy + i + 8 * (h)) : d;            \
                                                                                                   \
        if (two)                                                                                   \
            g += LOAD(dy2 + i + 8 * (h));                                                          \
        if (mask == MASK_X)                                                                        \
            g = KEEP(g, OPEN(d * a[h] + b[h]));                                                    \
        if (mask == MASK_BITS)                                                                     \
            g = KEEP(g, FROM_BITS(open[i / 8 + (h)]));                                             \
        if (keep)                                                                                  \
            STORE(dr + i + 8 * (h), g);                                                            \
        r.s[h] += g;                                                                               \
        r.q[h] += g * d;                                                                           \
    } while (0)
        if (c + 1 < p->count) {
            fetch(x, p->step);
            if (backward)
                fetch(dy, p->step);
            if (two)
                fetch(dy2, p->step);
        }
        while (n - i >= CPU_LANES) {
            size_t end = n - i > CHUNK ? i + CHUNK : i + (n - i) / CPU_LANES * CPU_LANES;

            r.n += end - i;
            for (; i < end; i += CPU_LANES) {
                STEP(0);
                STEP(1);
            }
            if (r.n >= CHUNK)
                sums_flush(&r, t);
        }
        if (n - i >= 8) {
            STEP(0);
            i += 8;
        }
#undef STEP
        for (size_t j = i % CPU_LANES; i < n; i++, j++) {
            float d = x[i] - k->mean[j], g = backward ? dy[i] + (two ? dy2[i] : 0.0f) : d;

            if (mask == MASK_X && d * k->a[j] + k->b[j] <= 0.0f)
                g = 0.0f;
            if (mask == MASK_BITS && !(open[i / 8] >> i % 8 & 1))
                g = 0.0f;
            if (keep)
                dr[i] = g;
            t->s[j] += (double)g;
            t->q[j] += (double)g * (double)d;
        }
    }
    sums_flush(&r, t);
}

BODY bn_stats(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k, struct cpu_bn_sums *t)
{
    reduce(p, k, t, false, MASK_NONE, false, false);
}

BODY bn_bwd_reduce(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                   struct cpu_bn_sums *t)
{
    const bool two = p->dy2, keep = p->dr;
    const enum mask mask = !p->relu ? MASK_NONE : p->open ? MASK_BITS : MASK_X;

#define CASE(M, T, K)                                                                              \
    if (mask == (M) && two == (T) && keep == (K))                                                  \
    reduce(p, k, t, true, M, T, K)
    CASE(MASK_NONE, false, false);
    CASE(MASK_NONE, true, false);
    CASE(MASK_NONE, false, true);
    CASE(MASK_NONE, true, true);
    CASE(MASK_X, false, false);
    CASE(MASK_X, true, false);
    CASE(MASK_BITS, false, true);
    CASE(MASK_BITS, true, true);
#undef CASE
}

/* The second pass goes backwards: where a block is larger than the cache, the samples that are
 * still there are the last ones. */
BODY bn_apply_as(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k, const bool relu,
                 const bool residual, const bool stream)
{
    const v8 m[2] = {LOAD(k->mean), LOAD(k->mean + 8)};
    const v8 a[2] = {LOAD(k->a), LOAD(k->a + 8)}, b[2] = {LOAD(k->b), LOAD(k->b + 8)};
    size_t n = p->n;

    for (int c = p->count - 1; c >= 0; c--) {
        const float *x = p->x + (size_t)c * p->step,
                    *r = residual ? p->r + (size_t)c * p->step : NULL;
        float *out = p->out + (size_t)c * p->step;
        uint8_t *open = relu && residual && p->open ? p->open + (size_t)c * p->open_step : NULL;
        size_t i = 0;

#define STEP(h)                                                                                    \
    do {                                                                                           \
        v8 y = (LOAD(x + i + 8 * (h)) - m[h]) * a[h] + b[h];                                       \
                                                                                                   \
        if (residual)                                                                              \
            y += LOAD(r + i + 8 * (h));                                                            \
        if (relu) {                                                                                \
            v8i pass = OPEN(y);                                                                    \
                                                                                                   \
            y = KEEP(y, pass);                                                                     \
            if (residual && open)                                                                  \
                open[i / 8 + (h)] = BITS(pass);                                                    \
        }                                                                                          \
        if (stream)                                                                                \
            STREAM(out + i + 8 * (h), y);                                                          \
        else                                                                                       \
            STORE(out + i + 8 * (h), y);                                                           \
    } while (0)
        if (residual && c)
            fetch(r, (size_t)0 - p->step);
        for (; n - i >= CPU_LANES; i += CPU_LANES) {
            STEP(0);
            STEP(1);
        }
        if (n - i >= 8) {
            STEP(0);
            i += 8;
        }
#undef STEP
        if (open && i < n)
            open[i / 8] = 0;
        for (size_t j = i % CPU_LANES; i < n; i++, j++) {
            float y = (x[i] - k->mean[j]) * k->a[j] + k->b[j];

            if (residual)
                y += r[i];
            if (open && !(y <= 0.0f))
                open[i / 8] |= (uint8_t)(1 << i % 8);
            out[i] = relu && y <= 0.0f ? 0.0f : y;
        }
    }
}

BODY bn_apply(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k)
{
#define CASE(RELU, RESIDUAL, FAR)                                                                  \
    if (p->relu == (RELU) && !p->r == !(RESIDUAL) && p->stream == (FAR))                           \
    bn_apply_as(p, k, RELU, RESIDUAL, FAR)
    CASE(true, true, true);
    CASE(true, true, false);
    CASE(true, false, true);
    CASE(true, false, false);
    CASE(false, true, true);
    CASE(false, true, false);
    CASE(false, false, true);
    CASE(false, false, false);
#undef CASE
}

BODY bn_bwd_apply_as(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                     const enum mask mask, const bool two)
{
    const v8 m[2] = {LOAD(k->mean), LOAD(k->mean + 8)};
    const v8 a[2] = {LOAD(k->a), LOAD(k->a + 8)}, b[2] = {LOAD(k->b), LOAD(k->b + 8)};
    const v8 k0[2] = {LOAD(k->k0), LOAD(k->k0 + 8)}, k1[2] = {LOAD(k->k1), LOAD(k->k1 + 8)};
    const v8 k2[2] = {LOAD(k->k2), LOAD(k->k2 + 8)};
    size_t n = p->n;

    for (int c = p->count - 1; c >= 0; c--) {
        size_t o = (size_t)c * p->step, i = 0;
        const float *x = p->x + o, *dy = p->dy + o, *dy2 = two ? p->dy2 + o : NULL;
        float *out = p->out + o;

#define STEP(h)                                                                                    \
    do {                                                                                           \
        v8 d = LOAD(x + i + 8 * (h)) - m[h], g = LOAD(dy + i + 8 * (h));                           \
                                                                                                   \
        if (two)                                                                                   \
            g += LOAD(dy2 + i + 8 * (h));                                                          \
        if (mask == MASK_X)                                                                        \
            g = KEEP(g, OPEN(d * a[h] + b[h]));                                                    \
        STORE(out + i + 8 * (h), k0[h] * g - k1[h] - d * k2[h]);                                   \
    } while (0)
        for (; n - i >= CPU_LANES; i += CPU_LANES) {
            STEP(0);
            STEP(1);
        }
        if (n - i >= 8) {
            STEP(0);
            i += 8;
        }
#undef STEP
        for (size_t j = i % CPU_LANES; i < n; i++, j++) {
            float d = x[i] - k->mean[j], g = dy[i] + (two ? dy2[i] : 0.0f);

            if (mask == MASK_X && d * k->a[j] + k->b[j] <= 0.0f)
                g = 0.0f;
            out[i] = k->k0[j] * g - k->k1[j] - d * k->k2[j];
        }
    }
}

/* With a residual, the reduction has left g in dr and the caller passes that as dy. */
BODY bn_bwd_apply(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k)
{
    if (p->relu && p->dy2)
        bn_bwd_apply_as(p, k, MASK_X, true);
    else if (p->relu)
        bn_bwd_apply_as(p, k, MASK_X, false);
    else if (p->dy2)
        bn_bwd_apply_as(p, k, MASK_NONE, true);
    else
        bn_bwd_apply_as(p, k, MASK_NONE, false);
}

/* One set of functions and its table. */
#define BN_TABLE(set, attr)                                                                        \
    attr static void bn_stats_##set(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,    \
                                    struct cpu_bn_sums *t)                                         \
    {                                                                                              \
        bn_stats(p, k, t);                                                                         \
    }                                                                                              \
    attr static void bn_apply_##set(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k)    \
    {                                                                                              \
        bn_apply(p, k);                                                                            \
    }                                                                                              \
    attr static void bn_bwd_reduce_##set(const struct cpu_bn_planes *p,                            \
                                         const struct cpu_bn_coef *k, struct cpu_bn_sums *t)       \
    {                                                                                              \
        bn_bwd_reduce(p, k, t);                                                                    \
    }                                                                                              \
    attr static void bn_bwd_apply_##set(const struct cpu_bn_planes *p,                             \
                                        const struct cpu_bn_coef *k)                               \
    {                                                                                              \
        bn_bwd_apply(p, k);                                                                        \
    }                                                                                              \
    static const struct cpu_vec_bn bn_##set = {                                                    \
        .stats = bn_stats_##set,                                                                   \
        .apply = bn_apply_##set,                                                                   \
        .bwd_reduce = bn_bwd_reduce_##set,                                                         \
        .bwd_apply = bn_bwd_apply_##set,                                                           \
    };

BN_TABLE(plain, )

void cpu_vec_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

const struct cpu_vec_bn *cpu_vec_bn_plain(void)
{
    return &bn_plain;
}

#if defined(__x86_64__)
BN_TABLE(avx2, __attribute__((target("avx2,fma"))))

const struct cpu_vec_bn *cpu_vec_bn_best(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &bn_avx2 : &bn_plain;
}
#else
const struct cpu_vec_bn *cpu_vec_bn_best(void)
{
    return &bn_plain;
}
#endif
