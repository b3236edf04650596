/* The loops of the optimizers over consecutive reals: serial kernels, one table an instruction set,
 * as in vec.h. Every table gives the same bits. */
#ifndef BST_BACKEND_CPU_VEC_OPTIM_H
#define BST_BACKEND_CPU_VEC_OPTIM_H

#include <stddef.h>

/* m += rest1·(g - m), v += rest2·(g² - v), u = m·unbias_m / (√v·unbias_root_v + epsilon) + decay·w,
 * w -= lr·u, with g the gradient times grad_factor. */
struct cpu_adam_coef {
    float grad_factor, rest1, rest2, unbias_m, unbias_root_v, epsilon, decay, lr;
};

struct cpu_vec_optim {
    void (*adamw)(float *w, float *m, float *v, const float *g, size_t n,
                  const struct cpu_adam_coef *k);
    /* Moves m and v alone; q[0] += Σw², q[1] += Σu². */
    void (*lamb_moments)(const float *w, float *m, float *v, const float *g, size_t n,
                         const struct cpu_adam_coef *k, double q[2]);
    /* Moves w by the moments as they are. */
    void (*lamb_apply)(float *w, const float *m, const float *v, size_t n,
                       const struct cpu_adam_coef *k);
};

const struct cpu_vec_optim *cpu_vec_optim_best(void);
const struct cpu_vec_optim *cpu_vec_optim_plain(void);

#endif
