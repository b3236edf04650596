/* The loops of batch norm: serial kernels over planes of pixels, one table an instruction set, as
 * in vec.h.
 *
 * A plane holds pixels of 1, 8 or 16 channels. Per-channel coefficients come as CPU_LANES values
 * that repeat along the plane: one channel sixteen times, eight channels twice, or sixteen. The
 * sums are formed in the same order by every table, so that the instruction set moves no bit. */
#ifndef BST_BACKEND_CPU_VEC_BN_H
#define BST_BACKEND_CPU_VEC_BN_H

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

struct cpu_vec_bn {
    /* s += Σ(x - mean), q += Σ(x - mean)², per lane. */
    void (*stats)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                  struct cpu_bn_sums *t);
    void (*apply)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k);
    /* s += Σg, q += Σg·(x - mean), per lane. */
    void (*bwd_reduce)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k,
                       struct cpu_bn_sums *t);
    void (*bwd_apply)(const struct cpu_bn_planes *p, const struct cpu_bn_coef *k);
};

/* Makes this thread's streamed results visible to the others. */
void cpu_vec_fence(void);

const struct cpu_vec_bn *cpu_vec_bn_best(void);
const struct cpu_vec_bn *cpu_vec_bn_plain(void);

#endif
