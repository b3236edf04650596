#include "core/backend/cpu/vec_seq.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/backend/cpu/vec_types.h"

/* Terms of a single-precision sum, 64 in each of its eight lanes, before it goes into a double. */
#define CHUNK 512

/* a where the mask is all ones, else b */
#define SELECT(m, a, b) ((v8)(((v8i)(a) & (m)) | ((v8i)(b) & ~(m))))

BODY load_rest(v8 *to, const float *from, size_t n)
{
    float rest[8] = {0};

    memcpy(rest, from, n * sizeof *from);
    *to = LOAD(rest);
}

BODY store_rest(float *to, const v8 *from, size_t n)
{
    float rest[8];

    STORE(rest, *from);
    memcpy(to, rest, n * sizeof *to);
}

/* The eight reals at p, of which `left` are there. */
BODY load8(v8 *to, const float *p, size_t left)
{
    if (left >= 8)
        *to = LOAD(p);
    else
        load_rest(to, p, left);
}

BODY store8(float *p, const v8 *from, size_t left)
{
    if (left >= 8)
        STORE(p, *from);
    else
        store_rest(p, from, left);
}

/* Sum of the lanes, in a fixed order. */
static inline __attribute__((always_inline)) double lanes(const v8 *x)
{
    double s = 0;

    for (int l = 0; l < 8; l++)
        s += (double)((const float *)x)[l];
    return s;
}

/* e^x = 2^n · e^r with n = round(x/ln 2), |r| ≤ ln 2/2, and e^r = 1 + r + r²·P(r): P is the minimax
 * polynomial of degree 4, good to 3·10⁻⁹. 0 below -87.3, where floats end; NaN stays. */
BODY exp8(v8 *x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, in the low bits */
    v8 in = *x, most = (v8){0} + 88.7f, top = SELECT((v8i)(in > most), most, in);
    v8 t = top * 1.44269504f + magic, n = t - magic;
    v8 r = (top - n * 0.693359375f) - n * -2.12194440e-4f;
    v8 p = (((0.0013814770f * r + 0.0083687380f) * r + 0.041668385f) * r + 0.16666521f) * r +
           0.49999994f;
    v8 e = (r * r) * p + r + 1.0f;
    /* Unsigned: what is cut off below, and NaN, have an n past what the exponent can take. */
    v8u bits = (v8u)e + (((v8u)t - 0x4b400000u) << 23);

    *x = KEEP((v8)bits, ~(v8i)(in < -87.3f));
}

/* Φ(x), and φ(x): Φ(-|x|) = e^(-x²/2) · q·P(q) with q = 1/(1 + 0.3|x|), P of degree 9, good to
 * 4·10⁻⁹ up to |x| = 14. The upper half is 1 less that. */
BODY normal8(const v8 *x, v8 *below, v8 *density)
{
    static const float c[10] = {0.11968663f,  0.11957284f,   0.11022732f, 0.078425586f,
                                0.096057817f, -0.079247326f, 0.19158168f, -0.22806752f,
                                0.11237578f,  -0.02061283f};
    v8 a = KEEP(*x, (v8i){0} + 0x7fffffff), e = a * a * -0.5f;
    v8 q = 1.0f / (1.0f + 0.3f * a), p = (v8){0} + c[9], tail;

    exp8(&e);
    for (int i = 8; i >= 0; i--)
        p = p * q + c[i];
    tail = e * (p * q);
    *below = SELECT((v8i)(*x > 0.0f), 1.0f - tail, tail);
    *density = e * 0.39894228f;
}

/* ½(1 + tanh u) = 1/(1 + e^(-2u)), which keeps its digits where u is far below 0; and what that is
 * short of 1. */
BODY sigmoid_2u(const v8 *x, v8 *s, v8 *rest)
{
    v8 e = *x * (1.0f + 0.044715f * *x * *x) * (-2.0f * 0.79788456f);

    exp8(&e);
    *s = 1.0f / (1.0f + e);
    *rest = e * *s;
}

BODY gelu8(v8 *x, const bool by_tanh)
{
    v8 s, unused;

    if (by_tanh)
        sigmoid_2u(x, &s, &unused);
    else
        normal8(x, &s, &unused);
    *x *= s;
}

BODY gelu_slope8(v8 *x, const bool by_tanh)
{
    v8 s, d;

    if (by_tanh) {
        sigmoid_2u(x, &s, &d);
        *x = s + *x * s * d * (2.0f * 0.79788456f) * (1.0f + 3.0f * 0.044715f * *x * *x);
    } else {
        normal8(x, &s, &d);
        *x = s + *x * d;
    }
}

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

/* Eight rows of eight become columns: pairs of reals, pairs of pairs, halves. */
#define PAIR(x, y, k)                                                                              \
    __builtin_shufflevector(x, y, k, k + 8, k + 1, k + 9, k + 4, k + 12, k + 5, k + 13)
#define QUAD(x, y, k)                                                                              \
    __builtin_shufflevector(x, y, k, k + 1, k + 8, k + 9, k + 4, k + 5, k + 12, k + 13)
#define HALF(x, y, k)                                                                              \
    __builtin_shufflevector(x, y, k, k + 1, k + 2, k + 3, k + 8, k + 9, k + 10, k + 11)

BODY turn8(float *to, size_t to_row, const float *from, size_t from_row)
{
    v8 r[8], t[8];

    for (int i = 0; i < 8; i++)
        r[i] = LOAD(from + (size_t)i * from_row);
    for (int i = 0; i < 8; i += 2) {
        t[i] = PAIR(r[i], r[i + 1], 0);
        t[i + 1] = PAIR(r[i], r[i + 1], 2);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            r[i + 2 * k] = QUAD(t[i + k], t[i + k + 2], 0);
            r[i + 2 * k + 1] = QUAD(t[i + k], t[i + k + 2], 2);
        }
    for (int i = 0; i < 4; i++) {
        STORE(to + (size_t)i * to_row, HALF(r[i], r[i + 4], 0));
        STORE(to + (size_t)(i + 4) * to_row, HALF(r[i], r[i + 4], 4));
    }
}

BODY turn(float *to, size_t to_row, const float *from, size_t from_row, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i += 8)
        for (size_t j = 0; j < n; j += 8)
            turn8(to + j * to_row + i, to_row, from + i * from_row + j, from_row);
}

/* Six rows by sixteen columns in registers: twelve sums, more than the eight that two units of four
 * steps need, and fewer loads for each. The sums have names since an array of them goes through
 * memory. */
#define TILE_START(r, MADD)                                                                        \
    v8 s##r##0 = add ? LOAD(c + (r)*c_row) : (v8){0};                                              \
    v8 s##r##1 = add ? LOAD(c + (r)*c_row + 8) : (v8){0};
#define TILE_STEP(r, MADD)                                                                         \
    {                                                                                              \
        float x_ = a[(r)*a_row];                                                                   \
        v8 x = {x_, x_, x_, x_, x_, x_, x_, x_};                                                   \
                                                                                                   \
        s##r##0 = MADD(x, b0, s##r##0);                                                            \
        s##r##1 = MADD(x, b1, s##r##1);                                                            \
    }
#define TILE_END(r, MADD)                                                                          \
    STORE(c + (r)*c_row, s##r##0);                                                                 \
    STORE(c + (r)*c_row + 8, s##r##1);
#define TILE_2(X, MADD) X(0, MADD) X(1, MADD)
#define TILE_4(X, MADD) TILE_2(X, MADD) X(2, MADD) X(3, MADD)
#define TILE_6(X, MADD) TILE_4(X, MADD) X(4, MADD) X(5, MADD)

#define TILE_BLOCK(ROWS, MADD)                                                                     \
    do {                                                                                           \
        const float *a = t->a + i * a_row, *b = t->b + j;                                          \
        float *c = t->c + i * c_row + j;                                                           \
        ROWS(TILE_START, MADD)                                                                     \
                                                                                                   \
        for (size_t p = 0; p < k; p++, a += a_col, b += b_row) {                                   \
            v8 b0 = LOAD(b), b1 = LOAD(b + 8);                                                     \
                                                                                                   \
            ROWS(TILE_STEP, MADD)                                                                  \
        }                                                                                          \
        ROWS(TILE_END, MADD)                                                                       \
    } while (0)

/* The sixteen columns of b stay in the first-level cache while the rows pass. */
#define TILE(set, attr, MADD)                                                                      \
    attr static void tile_##set(const struct cpu_tile *t)                                          \
    {                                                                                              \
        const size_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row, c_row = t->c_row;       \
        const size_t m = (size_t)t->m, n = (size_t)t->n, k = (size_t)t->k;                         \
        const bool add = t->add;                                                                   \
                                                                                                   \
        for (size_t j = 0; j < n; j += 16) {                                                       \
            size_t i = 0;                                                                          \
                                                                                                   \
            for (; m - i >= 6; i += 6)                                                             \
                TILE_BLOCK(TILE_6, MADD);                                                          \
            if (m - i == 4)                                                                        \
                TILE_BLOCK(TILE_4, MADD);                                                          \
            else if (m - i == 2)                                                                   \
                TILE_BLOCK(TILE_2, MADD);                                                          \
        }                                                                                          \
    }

#define MADD_PLAIN(x, y, z) ((x) * (y) + (z))
#define MADD_FMA(x, y, z) (v8) _mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(z))

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
