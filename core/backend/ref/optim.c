/* adamw, lamb and lars, a span at a time. */
#include <math.h>

#include "core/backend/ref/ref_real.h"

/* A span's part of each block, and what its elements have in common. */
struct part {
    real *w, *s0, *s1; /* s0: m, or the velocity; s1: v */
    const real *g;
    size_t n;
    double weight_decay, epsilon, unbias_m, unbias_root_v;
};

static struct part part_of(const struct bst_optim *how, const struct bst_span *s,
                           const struct bst_optim_blocks *b)
{
    bool adaptive = b->state[1];
    size_t at = s->offset / sizeof(real);
    return (struct part){.w = (real *)b->weight + at,
                         .s0 = (real *)b->state[0] + at,
                         .s1 = b->state[1] ? (real *)b->state[1] + at : NULL,
                         .g = (const real *)b->grad + at,
                         .n = s->bytes / sizeof(real),
                         .weight_decay = s->weight_decay,
                         .epsilon = how->epsilon,
                         .unbias_m = adaptive ? bst_optim_unbias_m(how) : 1,
                         .unbias_root_v = adaptive ? bst_optim_unbias_root_v(how) : 1};
}

static void move_moments(const struct bst_optim *how, const struct part *p)
{
    for (size_t i = 0; i < p->n; i++) {
        double g = how->grad_factor * (double)p->g[i];
        double m = (double)p->s0[i], v = (double)p->s1[i];
        p->s0[i] = (real)(m + (1 - how->beta1) * (g - m));
        p->s1[i] = (real)(v + (1 - how->beta2) * (g * g - v));
    }
}

/* u of element i */
static double direction(const struct part *p, size_t i)
{
    double root = sqrt((double)p->s1[i]) * p->unbias_root_v;
    return (double)p->s0[i] * p->unbias_m / (root + p->epsilon) + p->weight_decay * (double)p->w[i];
}

static void adam(const struct bst_optim *how, const struct bst_span *s, const struct part *p)
{
    double ww = 0, uu = 0, rate = s->lr;
    move_moments(how, p);
    if (how->kind == BST_OPTIMIZER_LAMB) {
        for (size_t i = 0; i < p->n; i++) {
            double u = direction(p, i);
            ww += (double)p->w[i] * (double)p->w[i];
            uu += u * u;
        }
        rate *= bst_optim_ratio(how, s, ww, uu);
    }
    for (size_t i = 0; i < p->n; i++)
        p->w[i] = (real)((double)p->w[i] - rate * direction(p, i));
}

static void lars(const struct bst_optim *how, const struct bst_span *s, const struct part *p)
{
    double ww = 0, gg = 0;
    for (size_t i = 0; i < p->n; i++) {
        double g = how->grad_factor * (double)p->g[i];
        ww += (double)p->w[i] * (double)p->w[i];
        gg += g * g;
    }
    double r = bst_optim_ratio(how, s, ww, gg);
    for (size_t i = 0; i < p->n; i++) {
        double w = (double)p->w[i];
        double d = r * (how->grad_factor * (double)p->g[i] + s->weight_decay * w);
        double v = how->momentum * (double)p->s0[i] + d;
        p->s0[i] = (real)v;
        p->w[i] = (real)(w - s->lr * (how->nesterov ? d + how->momentum * v : v));
    }
}

enum bst_err REF(optimize)(struct bst_be *be, const struct bst_optim *how,
                           const struct bst_span *spans, int n_spans,
                           const struct bst_optim_blocks *blocks)
{
    (void)be;
    for (int i = 0; i < n_spans; i++) {
        struct part p = part_of(how, &spans[i], blocks);
        if (how->kind == BST_OPTIMIZER_LARS)
            lars(how, &spans[i], &p);
        else
            adam(how, &spans[i], &p);
    }
    return BST_OK;
}
