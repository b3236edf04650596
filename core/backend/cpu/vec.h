/* The loops of the CPU backend that are not oneDNN's: serial kernels over consecutive reals, one
 * table per instruction set, chosen when a context opens. The teams are led by the callers. The
 * sums are formed in the same order by every table, so that the instruction set moves no bit. */
#ifndef BST_BACKEND_CPU_VEC_H
#define BST_BACKEND_CPU_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cpu_sgd_coef {
    float lr, momentum, weight_decay, grad_factor;
    bool nesterov, first;
};

struct cpu_vec {
    const char *isa;
    void (*relu)(float *y, const float *x, size_t n);
    void (*relu_bwd)(float *dx, const float *dy, const float *y, size_t n);
    void (*add)(float *z, const float *x, const float *y, size_t n);
    void (*scale)(float *x, float factor, size_t n);
    double (*sum_squares)(const float *x, size_t n);
    void (*sgd)(float *w, float *v, const float *g, size_t n, const struct cpu_sgd_coef *k);
    /* sum[tap][lane] += Σ dy[lane]·x over one image with a zero border, rows `row` reals apart; dy:
     * oh × ow pixels of 8 channels, `block` reals apart. 3×3 taps. */
    void (*grey_gradient)(double *sum, const float *x, size_t row, const float *dy, int block,
                          int oh, int ow, int stride);
    /* One output row of a pooling over 8 channels of pixels `block` reals apart: x at the window's
     * first row, rows [k0, k1) of the window lie inside the image of h × w. */
    void (*max_pool_row)(float *y, uint8_t *index, const float *x, int w, int ow, int block,
                         int kernel, int stride, int pad, int k0, int k1);
    void (*max_pool_row_bwd)(float *dx, const float *dy, const uint8_t *index, int w, int ow,
                             int block, int kernel, int stride, int pad, int k0, int k1);
};

const struct cpu_vec *cpu_vec_best(void);
const struct cpu_vec *cpu_vec_plain(void);

#endif
