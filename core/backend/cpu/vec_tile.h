/* Matrices for vec_seq.h's tables: a turned block, as a body, and the product's tile, as a macro,
 * whose multiply-add is the instruction set's. */
#ifndef BST_BACKEND_CPU_VEC_TILE_H
#define BST_BACKEND_CPU_VEC_TILE_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/backend/cpu/vec_seq.h"
#include "core/backend/cpu/vec_types.h"

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

#endif
