#include "core/backend/cpu/vec_seq.h"

#include <math.h>

#include "core/backend/cpu/vec_math.h"
#include "core/backend/cpu/vec_tile.h"

/* Terms of a single-precision sum, 64 in each of its eight lanes, before it goes into a double. */
#define CHUNK 512

BODY gelu_as(float *y, const float *x, size_t n, const bool by_tanh)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 v;

        load8(&v, x + i, n - i);
        gelu8(&v, by_tanh);
        store8(y + i, &v, n - i);
    }
}

BODY gelu(float *y, const float *x, size_t n, bool by_tanh)
{
    if (by_tanh)
        gelu_as(y, x, n, true);
    else
        gelu_as(y, x, n, false);
}

BODY gelu_bwd_as(float *dx, const float *dy, const float *x, size_t n, const bool by_tanh)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 v, d;

        load8(&v, x + i, n - i);
        load8(&d, dy + i, n - i);
        gelu_slope8(&v, by_tanh);
        v *= d;
        store8(dx + i, &v, n - i);
    }
}

BODY gelu_bwd(float *dx, const float *dy, const float *x, size_t n, bool by_tanh)
{
    if (by_tanh)
        gelu_bwd_as(dx, dy, x, n, true);
    else
        gelu_bwd_as(dx, dy, x, n, false);
}

BODY bias(float *x, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 v, w;

        load8(&v, x + i, n - i);
        load8(&w, b + i, n - i);
        v += w;
        store8(x + i, &v, n - i);
    }
}

BODY bias_gelu_as(float *y, float *u, const float *b, size_t n, const bool by_tanh)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 v, w = {0};

        load8(&v, u + i, n - i);
        if (b)
            load8(&w, b + i, n - i);
        v += w;
        store8(u + i, &v, n - i);
        gelu8(&v, by_tanh);
        store8(y + i, &v, n - i);
    }
}

BODY bias_gelu(float *y, float *u, const float *b, size_t n, bool by_tanh)
{
    if (by_tanh)
        bias_gelu_as(y, u, b, n, true);
    else
        bias_gelu_as(y, u, b, n, false);
}

BODY drop(float *y, const float *x, const uint32_t *words, uint32_t threshold, float scale,
          size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8i kept = (v8i)(*(const v8u *)(words + i) >= threshold);

        STORE(y + i, KEEP(LOAD(x + i) * scale, kept));
    }
    for (; i < n; i++)
        y[i] = words[i] < threshold ? 0.0f : x[i] * scale;
}

BODY add_scaled(float *y, const float *x, float factor, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(y + i, LOAD(y + i) + LOAD(x + i) * factor);
    for (; i < n; i++)
        y[i] += x[i] * factor;
}

BODY copy_scaled(float *y, const float *x, float factor, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(y + i, LOAD(x + i) * factor);
    for (; i < n; i++)
        y[i] = x[i] * factor;
}

BODY dot(const float *x, const float *y, size_t n, float *out)
{
    v8 s = {0};

    for (size_t i = 0; i < n; i += 8) {
        v8 v, w;

        load8(&v, x + i, n - i);
        load8(&w, y + i, n - i);
        s += v * w;
    }
    *out = (float)lanes(&s);
}

/* Σ (x - less) and Σ (x - less)². */
BODY moments(const float *x, size_t n, float less, double *sum, double *squares)
{
    *sum = *squares = 0;
    for (size_t i = 0; i < n;) {
        size_t end = n - i > CHUNK ? i + CHUNK : n;
        v8 s = {0}, q = {0};

        for (; end - i >= 8; i += 8) {
            v8 d = LOAD(x + i) - less;

            s += d;
            q += d * d;
        }
        for (; i < end; i++) {
            float d = x[i] - less;

            *sum += (double)d;
            *squares += (double)d * (double)d;
        }
        *sum += lanes(&s);
        *squares += lanes(&q);
    }
}

BODY sum(const float *x, size_t n, double *out)
{
    double unused;

    moments(x, n, 0.0f, out, &unused);
}

/* The mean first, then the squares about it; what rounding the mean has moved is taken out again.
 */
BODY ln_row(float *y, const float *x, const float *scale, const float *shift, size_t n, double eps,
            struct cpu_ln_row *row)
{
    double s, q, count = (double)n;
    float mean, inv;

    moments(x, n, x[0], &s, &q);
    mean = (float)((double)x[0] + s / count);
    moments(x, n, mean, &s, &q);
    s /= count;
    inv = (float)(1 / sqrt(q / count - s * s + eps));
    *row = (struct cpu_ln_row){mean, inv};
    for (size_t i = 0; i < n; i += 8) {
        v8 v, a, b;

        load8(&v, x + i, n - i);
        load8(&a, scale + i, n - i);
        load8(&b, shift + i, n - i);
        v = (v - mean) * inv * a + b;
        store8(y + i, &v, n - i);
    }
}

BODY ln_row_bwd(float *dx, const float *dy, const float *x, const float *scale, size_t n,
                const struct cpu_ln_row *row)
{
    double g = 0, gx = 0;
    float g_mean, gx_mean;

    for (size_t i = 0; i < n;) {
        size_t end = n - i > CHUNK ? i + CHUNK : n;
        v8 s = {0}, q = {0};

        for (; i < end; i += 8) {
            v8 v, d, a;

            load8(&v, x + i, end - i);
            load8(&d, dy + i, end - i);
            load8(&a, scale + i, end - i);
            d *= a; /* 0 past the end */
            s += d;
            q += d * ((v - row->mean) * row->inv);
        }
        g += lanes(&s);
        gx += lanes(&q);
    }
    g_mean = (float)(g / (double)n);
    gx_mean = (float)(gx / (double)n);
    for (size_t i = 0; i < n; i += 8) {
        v8 v, d, a;

        load8(&v, x + i, n - i);
        load8(&d, dy + i, n - i);
        load8(&a, scale + i, n - i);
        v = (v - row->mean) * row->inv;
        v = row->inv * (d * a - g_mean - v * gx_mean);
        store8(dx + i, &v, n - i);
    }
}

/* Sixteen rows at a time in single precision, so that the order of the sums is that of the rows. */
BODY columns_sum(double *sum, const float *x, size_t step, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r += 16) {
        float part[CPU_COLUMNS] = {0};

        for (size_t k = r; k < rows && k < r + 16; k++)
            for (size_t j = 0; j < n; j++)
                part[j] += x[k * step + j];
        for (size_t j = 0; j < n; j++)
            sum[j] += (double)part[j];
    }
}

BODY columns_ln(double *dscale, double *dshift, const float *x, const float *dy, size_t step,
                size_t rows, const struct cpu_ln_row *row, size_t n)
{
    for (size_t r = 0; r < rows; r += 16) {
        float a[CPU_COLUMNS] = {0}, b[CPU_COLUMNS] = {0};

        for (size_t k = r; k < rows && k < r + 16; k++)
            for (size_t j = 0; j < n; j++) {
                float d = dy[k * step + j];

                a[j] += d * ((x[k * step + j] - row[k].mean) * row[k].inv);
                b[j] += d;
            }
        for (size_t j = 0; j < n; j++) {
            dscale[j] += (double)a[j];
            dshift[j] += (double)b[j];
        }
    }
}

BODY max(const float *x, size_t n, float *out)
{
    v8 m = (v8){0} - INFINITY;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        v8 v = LOAD(x + i);

        m = SELECT((v8i)(v > m), v, m);
    }
    *out = -INFINITY;
    for (int l = 0; l < 8; l++)
        *out = ((const float *)&m)[l] > *out ? ((const float *)&m)[l] : *out;
    for (; i < n; i++)
        *out = x[i] > *out ? x[i] : *out;
}

BODY exp_sum(float *e, const float *x, float scale, float less, size_t n, double *out)
{
    *out = 0;
    for (size_t i = 0; i < n;) {
        size_t end = n - i > CHUNK ? i + CHUNK : n;
        v8 s = {0};

        for (; end - i >= 8; i += 8) {
            v8 v = LOAD(x + i) * scale - less;

            exp8(&v);
            if (e)
                STORE(e + i, v);
            s += v;
        }
        if (i < end) {
            v8 v;
            float rest[8];

            load_rest(&v, x + i, end - i);
            v = v * scale - less;
            exp8(&v);
            if (e)
                store_rest(e + i, &v, end - i);
            STORE(rest, v);
            for (size_t l = 0; l < end - i; l++)
                *out += (double)rest[l];
            i = end;
        }
        *out += lanes(&s);
    }
}

BODY affine(float *x, float a, float b, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(x + i, LOAD(x + i) * a + b);
    for (; i < n; i++)
        x[i] = x[i] * a + b;
}

BODY softmax_bwd(float *p, const float *dp, float less, float scale, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        STORE(p + i, LOAD(p + i) * (LOAD(dp + i) - less) * scale);
    for (; i < n; i++)
        p[i] = p[i] * (dp[i] - less) * scale;
}

/* One set of functions and its table. */
#define VEC_SEQ_TABLE(set, text, attr, madd)                                                       \
    TILE(set, attr, madd)                                                                          \
    attr static void turn_##set(float *to, size_t to_row, const float *from, size_t from_row,      \
                                size_t m, size_t n)                                                \
    {                                                                                              \
        turn(to, to_row, from, from_row, m, n);                                                    \
    }                                                                                              \
    attr static void bias_##set(float *x, const float *b, size_t n)                                \
    {                                                                                              \
        bias(x, b, n);                                                                             \
    }                                                                                              \
    attr static void bias_gelu_##set(float *y, float *u, const float *b, size_t n, bool by_tanh)   \
    {                                                                                              \
        bias_gelu(y, u, b, n, by_tanh);                                                            \
    }                                                                                              \
    attr static void gelu_##set(float *y, const float *x, size_t n, bool by_tanh)                  \
    {                                                                                              \
        gelu(y, x, n, by_tanh);                                                                    \
    }                                                                                              \
    attr static void gelu_bwd_##set(float *dx, const float *dy, const float *x, size_t n,          \
                                    bool by_tanh)                                                  \
    {                                                                                              \
        gelu_bwd(dx, dy, x, n, by_tanh);                                                           \
    }                                                                                              \
    attr static void drop_##set(float *y, const float *x, const uint32_t *words,                   \
                                uint32_t threshold, float scale, size_t n)                         \
    {                                                                                              \
        drop(y, x, words, threshold, scale, n);                                                    \
    }                                                                                              \
    attr static void add_scaled_##set(float *y, const float *x, float factor, size_t n)            \
    {                                                                                              \
        add_scaled(y, x, factor, n);                                                               \
    }                                                                                              \
    attr static void copy_scaled_##set(float *y, const float *x, float factor, size_t n)           \
    {                                                                                              \
        copy_scaled(y, x, factor, n);                                                              \
    }                                                                                              \
    attr static float dot_##set(const float *x, const float *y, size_t n)                          \
    {                                                                                              \
        float s;                                                                                   \
        dot(x, y, n, &s);                                                                          \
        return s;                                                                                  \
    }                                                                                              \
    attr static void ln_row_##set(float *y, const float *x, const float *scale,                    \
                                  const float *shift, size_t n, double eps,                        \
                                  struct cpu_ln_row *row)                                          \
    {                                                                                              \
        ln_row(y, x, scale, shift, n, eps, row);                                                   \
    }                                                                                              \
    attr static void ln_row_bwd_##set(float *dx, const float *dy, const float *x,                  \
                                      const float *scale, size_t n, const struct cpu_ln_row *row)  \
    {                                                                                              \
        ln_row_bwd(dx, dy, x, scale, n, row);                                                      \
    }                                                                                              \
    attr static void columns_sum_##set(double *s, const float *x, size_t step, size_t rows,        \
                                       size_t n)                                                   \
    {                                                                                              \
        columns_sum(s, x, step, rows, n);                                                          \
    }                                                                                              \
    attr static void columns_ln_##set(double *dscale, double *dshift, const float *x,              \
                                      const float *dy, size_t step, size_t rows,                   \
                                      const struct cpu_ln_row *row, size_t n)                      \
    {                                                                                              \
        columns_ln(dscale, dshift, x, dy, step, rows, row, n);                                     \
    }                                                                                              \
    attr static float max_##set(const float *x, size_t n)                                          \
    {                                                                                              \
        float m;                                                                                   \
        max(x, n, &m);                                                                             \
        return m;                                                                                  \
    }                                                                                              \
    attr static double sum_##set(const float *x, size_t n)                                         \
    {                                                                                              \
        double s;                                                                                  \
        sum(x, n, &s);                                                                             \
        return s;                                                                                  \
    }                                                                                              \
    attr static double exp_sum_##set(float *e, const float *x, float scale, float less, size_t n)  \
    {                                                                                              \
        double s;                                                                                  \
        exp_sum(e, x, scale, less, n, &s);                                                         \
        return s;                                                                                  \
    }                                                                                              \
    attr static void affine_##set(float *x, float a, float b, size_t n)                            \
    {                                                                                              \
        affine(x, a, b, n);                                                                        \
    }                                                                                              \
    attr static void softmax_bwd_##set(float *p, const float *dp, float less, float scale,         \
                                       size_t n)                                                   \
    {                                                                                              \
        softmax_bwd(p, dp, less, scale, n);                                                        \
    }                                                                                              \
    static const struct cpu_vec_seq vec_seq_##set = {                                              \
        .isa = text,                                                                               \
        .tile = tile_##set,                                                                        \
        .turn = turn_##set,                                                                        \
        .bias = bias_##set,                                                                        \
        .bias_gelu = bias_gelu_##set,                                                              \
        .gelu = gelu_##set,                                                                        \
        .gelu_bwd = gelu_bwd_##set,                                                                \
        .drop = drop_##set,                                                                        \
        .add_scaled = add_scaled_##set,                                                            \
        .copy_scaled = copy_scaled_##set,                                                          \
        .dot = dot_##set,                                                                          \
        .ln_row = ln_row_##set,                                                                    \
        .ln_row_bwd = ln_row_bwd_##set,                                                            \
        .columns_sum = columns_sum_##set,                                                          \
        .columns_ln = columns_ln_##set,                                                            \
        .max = max_##set,                                                                          \
        .sum = sum_##set,                                                                          \
        .exp_sum = exp_sum_##set,                                                                  \
        .affine = affine_##set,                                                                    \
        .softmax_bwd = softmax_bwd_##set,                                                          \
    };

VEC_SEQ_TABLE(plain, "plain", , MADD_PLAIN)

const struct cpu_vec_seq *cpu_vec_seq_plain(void)
{
    return &vec_seq_plain;
}

#if defined(__x86_64__)
VEC_SEQ_TABLE(avx2, "avx2", __attribute__((target("avx2,fma"))), MADD_FMA)

const struct cpu_vec_seq *cpu_vec_seq_best(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &vec_seq_avx2
                                                                           : &vec_seq_plain;
}
#else
const struct cpu_vec_seq *cpu_vec_seq_best(void)
{
    return &vec_seq_plain;
}
#endif
