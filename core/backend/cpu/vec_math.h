/* Curves on eight reals, and the ends of rows that are no multiple of eight; bodies, as
 * vec_types.h has it. The same bits from every instruction set. */
#ifndef BST_BACKEND_CPU_VEC_MATH_H
#define BST_BACKEND_CPU_VEC_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/backend/cpu/vec_types.h"

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

#endif
