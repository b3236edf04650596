/* What the kernels of sequences do to one element, one group or one row: kern_body.h's other part,
 * under the same rules. Elements [i, i + n) are meant throughout; n is KERN_GROUP only where the
 * group lies within one row and is aligned. */
#ifndef BST_BACKEND_CUDA_KERN_SEQ_BODY_H
#define BST_BACKEND_CUDA_KERN_SEQ_BODY_H

#include "core/backend/cuda/kern_body.h"
#include "core/base/philox.h"

#define KERN_SQRT_HALF 0.70710678F
#define KERN_SQRT_2_OVER_PI 0.79788456F
#define KERN_INV_SQRT_2PI 0.39894228F
#define KERN_GELU_CUBIC 0.044715F
#define KERN_LOG_10000 9.210340371976184
#define KERN_PI 3.14159265358979323846

/* --- embeddings and positions --- */

KERN_INLINE void kern_embed_at(const struct kern_embed *a, enum kern_type type, int64_t i, int n)
{
    const int64_t row = i / a->width;
    struct kern_oct o = {{0}};

    if (row < a->valid) {
        o = kern_load_oct(a->table, KERN_F32,
                          (size_t)(a->token[row] * (int64_t)a->width + i % a->width), n);
        KERN_EACH(k)
        o.v[k] = (float)((double)o.v[k] * a->scale);
    }
    kern_store_oct(a->y, type, (size_t)i, n, &o);
}

/* Features [c, c + n) of a piece. */
KERN_INLINE void kern_embed_bwd_at(const struct kern_embed_bwd *a, enum kern_type type,
                                   const struct kern_embed_piece *p, int c, int n)
{
    struct kern_oct sum = {{0}};

    for (int at = p->from; at < p->to; at++) {
        const int64_t row = a->order ? a->order[at] : at;
        const struct kern_oct x = kern_load_oct(a->dy, type, (size_t)(row * a->width + c), n);

        KERN_EACH(k)
        sum.v[k] += x.v[k];
    }
    if (p->partial >= 0) {
        kern_store_oct(a->partial, KERN_F32, (size_t)(p->partial * (int64_t)a->width + c), n, &sum);
        return;
    }
    const size_t to = (size_t)(p->token * (int64_t)a->width + c);
    struct kern_oct there = {{0}};

    if (a->add)
        there = kern_load_oct(a->dtable, KERN_F32, to, n);
    KERN_EACH(k)
    sum.v[k] = (float)((double)sum.v[k] * a->scale + (double)there.v[k]);
    kern_store_oct(a->dtable, KERN_F32, to, n, &sum);
}

KERN_INLINE void kern_position_at(const struct kern_position *a, enum kern_type type, int64_t i,
                                  int n)
{
    struct kern_oct x = kern_load_oct(a->x, type, (size_t)i, n);
    const struct kern_oct w = kern_load_oct(a->table, KERN_F32, (size_t)(i % a->per_sample), n);

    KERN_EACH(k)
    x.v[k] += w.v[k];
    kern_store_oct(a->y, type, (size_t)i, n, &x);
}

/* A group is either reached by the samples or not, as a whole. */
KERN_INLINE void kern_position_bwd_at(const struct kern_position_bwd *a, enum kern_type type,
                                      int64_t i, int n)
{
    struct kern_oct sum = {{0}};

    if (a->add)
        sum = kern_load_oct(a->dtable, KERN_F32, (size_t)i, n);
    for (int64_t s = 0; s < a->n && i < a->per_sample; s++) {
        const struct kern_oct d = kern_load_oct(a->dy, type, (size_t)(s * a->per_sample + i), n);

        KERN_EACH(k)
        sum.v[k] += d.v[k];
    }
    kern_store_oct(a->dtable, KERN_F32, (size_t)i, n, &sum);
}

/* Element i of a sample, for all of them. The angle is taken in half turns: what reduces a larger
 * one to its circle would keep its digits in local memory. */
KERN_INLINE void kern_sinusoid_at(const struct kern_sinusoid *a, enum kern_type type, int64_t i)
{
    const int64_t per_sample = (int64_t)a->length * a->width;
    const int64_t t = i / a->width;
    const int k = (int)(i % a->width);
    const double half_turns =
        (double)t * exp(-KERN_LOG_10000 * (double)(k - k % 2) / (double)a->width) / KERN_PI;
#ifdef __CUDACC__
    const float wave = (float)(k % 2 ? cospi(half_turns) : sinpi(half_turns));
#else
    const float wave = (float)(k % 2 ? cos(half_turns * KERN_PI) : sin(half_turns * KERN_PI));
#endif

    for (int64_t s = 0; s < a->n; s++) {
        const size_t at = (size_t)(s * per_sample + i);

        kern_store(a->y, type, at, kern_load(a->x, type, at) + wave);
    }
}

/* --- layer norm --- */

KERN_INLINE float kern_oct_sum(const struct kern_oct *o, int n)
{
    float sum = 0;

    KERN_EACH(k)
    sum += k < n ? o->v[k] : 0;
    return sum;
}

KERN_INLINE float kern_oct_squares(const struct kern_oct *o, int n, float mean)
{
    float sum = 0;

    KERN_EACH(k)
    {
        if (k < n)
            sum = fmaf(o->v[k] - mean, o->v[k] - mean, sum);
    }
    return sum;
}

/* On the device in a unit or two of the last place: the exact ones are subroutines there. */
KERN_INLINE float kern_ln_inv(const struct kern_ln *a, float squares)
{
    const float var = fmaf(squares, a->part, a->eps);
#ifdef __CUDACC__
    return rsqrtf(var);
#else
    return 1 / sqrtf(var);
#endif
}

/* Features [c, c + n) of row r. */
KERN_INLINE void kern_ln_at(const struct kern_ln *a, enum kern_type type, int64_t r, int c, int n,
                            float mean, float inv)
{
    const size_t i = (size_t)(r * a->width + c);
    struct kern_oct x = kern_load_oct(a->x, type, i, n);
    const struct kern_oct scale = kern_load_oct(a->scale, KERN_F32, (size_t)c, n);
    const struct kern_oct shift = kern_load_oct(a->shift, KERN_F32, (size_t)c, n);

    KERN_EACH(k)
    x.v[k] = fmaf((x.v[k] - mean) * inv, scale.v[k], shift.v[k]);
    kern_store_oct(a->y, type, i, n, &x);
}

/* Adds up Σ g and Σ g·x̂. */
KERN_INLINE void kern_ln_bwd_add(const struct kern_ln_bwd *a, enum kern_type type, int64_t r, int c,
                                 int n, struct kern_pair *sum)
{
    const size_t i = (size_t)(r * a->width + c);
    const struct kern_oct x = kern_load_oct(a->x, type, i, n);
    const struct kern_oct dy = kern_load_oct(a->dy, type, i, n);
    const struct kern_oct scale = kern_load_oct(a->scale, KERN_F32, (size_t)c, n);
    const float mean = a->saved[2 * r], inv = a->saved[2 * r + 1];

    KERN_EACH(k)
    {
        if (k < n) {
            const float g = dy.v[k] * scale.v[k];

            sum->a += g;
            sum->b = fmaf(g, (x.v[k] - mean) * inv, sum->b);
        }
    }
}

KERN_INLINE void kern_ln_bwd_at(const struct kern_ln_bwd *a, enum kern_type type, int64_t r, int c,
                                int n, const struct kern_pair *sum)
{
    const size_t i = (size_t)(r * a->width + c);
    struct kern_oct x = kern_load_oct(a->x, type, i, n);
    const struct kern_oct dy = kern_load_oct(a->dy, type, i, n);
    const struct kern_oct scale = kern_load_oct(a->scale, KERN_F32, (size_t)c, n);
    const float mean = a->saved[2 * r], inv = a->saved[2 * r + 1];
    const float g_mean = sum->a / (float)a->width, gx_mean = sum->b / (float)a->width;

    KERN_EACH(k)
    x.v[k] = inv * fmaf(-((x.v[k] - mean) * inv), gx_mean, fmaf(dy.v[k], scale.v[k], -g_mean));
    kern_store_oct(a->dx, type, i, n, &x);
}

KERN_INLINE void kern_ln_sums_add(struct kern_pair *s, float x, float dy, float mean, float inv)
{
    s->a += dy;
    s->b = fmaf(dy, (x - mean) * inv, s->b);
}

KERN_INLINE void kern_col_finish_at(const struct kern_col_finish *a, int c)
{
    double sum, none;

    kern_chunk_sums(a->partial, a->chunks, a->c, c, &sum, &none);
    a->sum[c] = (float)(a->add ? (double)a->sum[c] + sum : sum);
}

/* --- element by element --- */

KERN_INLINE float kern_gelu(float x)
{
    return 0.5F * x * erfcf(-x * KERN_SQRT_HALF);
}

KERN_INLINE float kern_gelu_slope(float x)
{
    return fmaf(x * KERN_INV_SQRT_2PI, expf(-0.5F * x * x), 0.5F * erfcf(-x * KERN_SQRT_HALF));
}

KERN_INLINE float kern_gelu_inner(float x)
{
    return tanhf(KERN_SQRT_2_OVER_PI * fmaf(KERN_GELU_CUBIC * x * x, x, x));
}

KERN_INLINE float kern_gelu_tanh_slope(float x)
{
    const float t = kern_gelu_inner(x), u = fmaf(3 * KERN_GELU_CUBIC * x, x, 1);

    return fmaf(0.5F * x * fmaf(-t, t, 1), KERN_SQRT_2_OVER_PI * u, 0.5F * (1 + t));
}

/* Of an element a of the first source and, where there are two, b of the second. */
KERN_INLINE float kern_curve_of(enum kern_curve_op op, float a, float b)
{
    switch (op) {
    case KERN_GELU:
        return kern_gelu(a);
    case KERN_GELU_BWD:
        return a * kern_gelu_slope(b);
    case KERN_GELU_TANH:
        return 0.5F * a * (1 + kern_gelu_inner(a));
    case KERN_GELU_TANH_BWD:
        return a * kern_gelu_tanh_slope(b);
    case KERN_TANH:
        return tanhf(a);
    default: /* KERN_TANH_BWD */
        return a * fmaf(-b, b, 1);
    }
}

KERN_INLINE void kern_curve_oct(const struct kern_curve *p, enum kern_curve_op op,
                                enum kern_type type, size_t i, int n)
{
    const bool two = op == KERN_GELU_BWD || op == KERN_GELU_TANH_BWD || op == KERN_TANH_BWD;
    struct kern_oct a = kern_load_oct(p->a, type, i, n), b = {{0}};

    if (two)
        b = kern_load_oct(p->b, type, i, n);
    KERN_EACH(k)
    a.v[k] = kern_curve_of(op, a.v[k], b.v[k]);
    kern_store_oct(p->dst, type, i, n, &a);
}

/* Blocks j and, of a group, j + 1 of a sample's random words; n elements of four or eight. What is
 * dropped is 0 even where it was no number. The product in double, as ref has it. */
KERN_INLINE void kern_dropout_at(const struct kern_dropout *a, enum kern_type type, int64_t sample,
                                 int64_t j, int n)
{
    const size_t i = (size_t)(sample * a->per_sample + 4 * j);
    const uint64_t hi = a->draw->position + (uint64_t)sample;
    struct kern_oct x = kern_load_oct(a->x, type, i, n);
    uint32_t words[KERN_GROUP] = {0};

    bst_philox_block(a->draw->key, hi, a->first | (uint64_t)j, words);
    if (n > 4)
        bst_philox_block(a->draw->key, hi, a->first | (uint64_t)(j + 1), words + 4);
    KERN_EACH(k)
    x.v[k] = words[k] < a->threshold ? 0 : (float)((double)x.v[k] * a->scale);
    kern_store_oct(a->y, type, i, n, &x);
}

KERN_INLINE void kern_first_at(const struct kern_first *a, enum kern_type type, int64_t i)
{
    const int64_t n = i / a->width, c = i % a->width;

    a->y[i] = kern_load(a->x, type, (size_t)(n * a->length * a->width + c));
}

KERN_INLINE void kern_first_bwd_at(const struct kern_first_bwd *a, enum kern_type type, int64_t i)
{
    const int64_t row = i / a->width, c = i % a->width, n = row / a->length;

    kern_store(a->dx, type, (size_t)i, row % a->length ? 0 : a->dy[n * a->width + c]);
}

#endif
