/* What the adaptive and the layer-wise optimizers do to the parameters, in one sweep over all of
 * them (two where the rate depends on norms that the first one finds). Plain SGD is struct bst_sgd
 * in backend.h.
 *
 * With g = grad_factor·gradient, λ and lr the span's, c1 = 1 - β1ᵗ, c2 = 1 - β2ᵗ:
 *     adamw, lamb   m += (1-β1)(g - m);  v += (1-β2)(g² - v);  u = (m/c1) / (√(v/c2) + ε) + λw
 *     adamw         w -= lr·u                               Loshchilov and Hutter 2019, as PyTorch
 *     lamb          w -= lr·r·u,  r = ‖w‖/‖u‖               You et al. 2020, algorithm 2
 *     lars          d = r(g + λw),  r = η‖w‖/(‖g‖ + λ‖w‖)   You et al. 2017
 *                   v = μv + d;  w -= lr·(nesterov ? d + μv : v)
 * Norms are over one span. r is 1 for a span that is not trusted, and where a norm is 0. */
#ifndef BST_BACKEND_OPTIM_H
#define BST_BACKEND_OPTIM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tune/optimizer.h"

struct bst_optim {
    enum bst_optimizer kind;
    double beta1, beta2, epsilon; /* adamw, lamb */
    uint64_t step;                /* t: updates that moved the weights, this one counted */
    double momentum, trust;       /* lars: μ, η */
    bool nesterov;
    double grad_factor;
};

/* Consecutive parameters that are treated alike; under lamb and lars a single one. */
struct bst_span {
    size_t offset, bytes; /* the same in every block */
    double lr, weight_decay;
    bool trusted;
};

struct bst_optim_blocks {
    void *weight;
    const void *grad;
    void *state[BST_OPTIMIZER_BLOCKS]; /* m and v; lars: v alone */
};

/* r, from the squared norms of the weights and of what moves them (lamb: u; lars: g). */
static inline double bst_optim_ratio(const struct bst_optim *how, const struct bst_span *s,
                                     double weight_sq, double move_sq)
{
    double w = sqrt(weight_sq), u = sqrt(move_sq);
    if (!s->trusted || !(w > 0) || !(u > 0))
        return 1;
    return how->kind == BST_OPTIMIZER_LARS ? how->trust * w / (u + s->weight_decay * w) : w / u;
}

/* 1/c1 and 1/√c2. */
static inline double bst_optim_unbias_m(const struct bst_optim *how)
{
    return 1 / (1 - pow(how->beta1, (double)how->step));
}

static inline double bst_optim_unbias_root_v(const struct bst_optim *how)
{
    return 1 / sqrt(1 - pow(how->beta2, (double)how->step));
}

#endif
