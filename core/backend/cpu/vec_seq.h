/* The loops that nets over sequences need beside those of vec.h, by the same rules: serial kernels,
 * a table for each instruction set, the same bits from every table. The one exception is `tile`, a
 * matrix product, whose sums are fused multiply-adds where the processor has them. */
#ifndef BST_BACKEND_CPU_VEC_SEQ_H
#define BST_BACKEND_CPU_VEC_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c[m, n] = or += a[m, k]·b[k, n]. Element (i, p) of a lies at i·a_row + p·a_col; rows of b and c
 * are dense. m is even and n a multiple of 16. */
struct cpu_tile {
    const float *a, *b;
    float *c;
    size_t a_row, a_col, b_row, c_row;
    int m, n, k;
    bool add;
};

enum { CPU_COLUMNS = 64 }; /* most that one call of a columns_* function takes */

struct cpu_ln_row { /* of a layer norm: what forward saves for backward */
    float mean, inv;
};

struct cpu_vec_seq {
    const char *isa;
    void (*tile)(const struct cpu_tile *t);
    /* to[n, m] = the rows of from[m, n] as columns; both are multiples of 8. */
    void (*turn)(float *to, size_t to_row, const float *from, size_t from_row, size_t m, size_t n);
    /* x[rows, n], n reals a row, `step` apart: x += b; with a GELU y = gelu(x) as well. */
    void (*bias)(float *x, const float *b, size_t n);
    void (*bias_gelu)(float *y, float *u, const float *b, size_t n, bool by_tanh); /* b or NULL */
    void (*gelu)(float *y, const float *x, size_t n, bool by_tanh);
    void (*gelu_bwd)(float *dx, const float *dy, const float *x, size_t n, bool by_tanh);
    /* 0 where the word is below the threshold, else x·scale. */
    void (*drop)(float *y, const float *x, const uint32_t *words, uint32_t threshold, float scale,
                 size_t n);
    void (*add_scaled)(float *y, const float *x, float factor, size_t n); /* y += x·factor */
    void (*copy_scaled)(float *y, const float *x, float factor, size_t n);
    float (*dot)(const float *x, const float *y, size_t n);

    void (*ln_row)(float *y, const float *x, const float *scale, const float *shift, size_t n,
                   double eps, struct cpu_ln_row *row);
    void (*ln_row_bwd)(float *dx, const float *dy, const float *x, const float *scale, size_t n,
                       const struct cpu_ln_row *row);
    /* Sums over rows of up to CPU_COLUMNS columns: sum += Σx; dscale += Σ dy·x̂, dshift += Σ dy. */
    void (*columns_sum)(double *sum, const float *x, size_t step, size_t rows, size_t n);
    void (*columns_ln)(double *dscale, double *dshift, const float *x, const float *dy, size_t step,
                       size_t rows, const struct cpu_ln_row *row, size_t n);

    float (*max)(const float *x, size_t n); /* NaN is passed over */
    double (*sum)(const float *x, size_t n);
    /* e = exp(x·scale - less); its sum. e may be x, or NULL: the sum alone. */
    double (*exp_sum)(float *e, const float *x, float scale, float less, size_t n);
    void (*affine)(float *x, float a, float b, size_t n); /* x·a + b */
    /* ds = p·(dp - less)·scale, into p. */
    void (*softmax_bwd)(float *p, const float *dp, float less, float scale, size_t n);
};

const struct cpu_vec_seq *cpu_vec_seq_best(void);
const struct cpu_vec_seq *cpu_vec_seq_plain(void);

#endif
