/* The loops of the CPU backend that are not oneDNN's: serial kernels over consecutive reals, one
 * table per instruction set, chosen when a context opens. The teams are led by the callers.
 *
 * A plane holds pixels of 1, 8 or 16 channels. Per-channel coefficients come as CPU_LANES values
 * that repeat along the plane: one channel sixteen times, eight channels twice, or sixteen. The
 * sums are formed in the same order by every table, so that the instruction set moves no bit. */
#ifndef BST_BACKEND_CPU_VEC_H
#define BST_BACKEND_CPU_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_LANES 16

/* Per-channel coefficients of a batch norm: y = (x - mean)·a + b; backward
 * dx = k0·g - k1 - (x - mean)·k2, g the gradient behind the ReLU. */
struct cpu_bn_coef {
    float mean[CPU_LANES], a[CPU_LANES], b[CPU_LANES];
    float k0[CPU_LANES], k1[CPU_LANES], k2[CPU_LANES];
};

struct cpu_bn_sums {
    double s[CPU_LANES], q[CPU_LANES];
};

/* Planes of one channel block, of `count` samples: sample i lies i·step reals on. Forward: src x,
 * residual r (NULL: none), dst y. Backward: g = (dy + dy2) where the ReLU was open. */
struct cpu_bn_planes {
    const float *x, *r;
    const float *dy, *dy2; /* dy2: NULL when there is none */
    uint8_t *open; /* with ReLU and residual: a bit for each real that passed, a thirty-second of
                      what reading y again would cost; a sample lies open_step bytes on */
    float *out;    /* y or dx */
    float *dr;     /* the residual's gradient: g, written by the reduction */
    size_t n;      /* reals of a plane */
    size_t step, open_step;
    int count;
    bool relu;
    bool stream; /* out goes past the caches; it must lie on 16 bytes. cpu_vec_fence() after */
};

struct cpu_sgd_coef {
    float lr, momentum, weight_decay, grad_factor;
    bool nesterov, first;
};

struct cpu_vec {
    const char *isa;
    /* s += Σ(x - mean), q += Σ(x - mean)², per lane. */
    void (*bn_stats)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                     struct cpu_bn_sums *t);
    void (*bn_apply)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k);
    /* s += Σg, q += Σg·(x - mean), per lane. */
    void (*bn_bwd_reduce)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                          struct cpu_bn_sums *t);
    void (*bn_bwd_apply)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k);
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

/* Makes this thread's streamed results visible to the others. */
void cpu_vec_fence(void);

const struct cpu_vec *cpu_vec_best(void);
const struct cpu_vec *cpu_vec_plain(void);

#endif
