/* What the kernels of kern_update.h do to one element or one span; see kern_body.h. */
#ifndef BST_BACKEND_CUDA_KERN_UPDATE_BODY_H
#define BST_BACKEND_CUDA_KERN_UPDATE_BODY_H

#include "core/backend/cuda/kern_body.h"
#include "core/tune/loss_scale.h"
#include "core/tune/optimizer.h"

KERN_INLINE void kern_sgd_at(const struct kern_sgd *a, int64_t i)
{
    const float w = a->w[i];
    float d = fmaf(a->weight_decay, w, a->grad_factor * a->g[i]);

    if (a->v) {
        const float m = a->first ? d : fmaf(a->momentum, a->v_factor * a->v[i], d);

        a->v[i] = m;
        d = a->nesterov ? fmaf(a->momentum, m, d) : m;
    }
    a->w[i] = fmaf(-a->lr, d, w);
}

KERN_INLINE bool kern_is_finite(double x)
{
    return x - x == 0;
}

/* GradScaler's rules. What overflows fp32, which a checkpoint holds it in, is not grown to. */
KERN_INLINE void kern_move_scale(struct kern_scaler *s, bool finite)
{
    if (!finite) {
        s->scale *= BST_LOSS_SCALE_DOWN;
        s->good = 0;
    } else if (++s->good >= BST_LOSS_SCALE_EVERY) {
        if (kern_is_finite((double)(float)(s->scale * BST_LOSS_SCALE_UP)))
            s->scale *= BST_LOSS_SCALE_UP;
        s->good = 0;
    }
}

/* `total`: Σ sum[param] of what is not frozen. Clipping as torch.nn.utils.clip_grad_norm_ has it.
 */
KERN_INLINE void kern_decide_all(const struct kern_decide *a, double total, int first_bad,
                                 int last_bad, int n_zero)
{
    const struct kern_rules *r = a->rules;
    struct kern_decision *d = a->out;
    const bool finite = kern_is_finite(total), drop = a->stats && !kern_is_finite(*a->stats);
    double coefficient = 1;

    d->number = *a->end = r->number;
    for (int i = 0; i < KERN_LOSSES; i++)
        d->loss[i] = a->loss[i];
    d->after = *a->scaler;
    d->closed = a->gate && *(const volatile int32_t *)a->gate;
    d->skip = d->closed || !finite || drop;
    if (d->closed)
        return;
    d->norm = sqrt(total);
    d->scale = a->scaler->scale;
    d->first_bad = first_bad;
    d->last_bad = last_bad;
    d->n_zero = n_zero;
    d->clipped = 0;
    if (r->max_norm > 0 && !d->skip) {
        const double c = r->max_norm / (d->norm + 1e-6);

        d->clipped = c < 1;
        coefficient = c < 1 ? c : 1;
    }
    d->grad_factor = (float)(coefficient / d->scale);
    a->scaler->steps += !d->skip;
    if (r->scales && !drop)
        kern_move_scale(a->scaler, finite);
    d->unbias_m = d->unbias_root_v = 1;
    if (r->kind == BST_OPTIMIZER_ADAMW || r->kind == BST_OPTIMIZER_LAMB) {
        d->unbias_m = (float)(1 / (1 - pow(r->beta1, (double)a->scaler->steps)));
        d->unbias_root_v = (float)(1 / sqrt(1 - pow(r->beta2, (double)a->scaler->steps)));
    }
    d->after = *a->scaler;
}

/* Element i of a span with its blocks' addresses moved to its start. */
struct kern_part {
    float *w, *s0, *s1;
    const float *g;
    int64_t count;
};

KERN_INLINE struct kern_part kern_part_of(const struct kern_optim *a, const struct kern_span *s)
{
    const struct kern_part p = {a->w + s->offset, a->s0 ? a->s0 + s->offset : NULL,
                                a->s1 ? a->s1 + s->offset : NULL, a->g + s->offset, s->count};
    return p;
}

KERN_INLINE void kern_adam_moments(const struct kern_optim *a, const struct kern_part *p, int64_t i)
{
    const float g = a->decision->grad_factor * p->g[i], m = p->s0[i], v = p->s1[i];

    p->s0[i] = fmaf(a->rules->keep_m, g - m, m);
    p->s1[i] = fmaf(a->rules->keep_v, fmaf(g, g, -v), v);
}

KERN_INLINE float kern_adam_direction(const struct kern_optim *a, const struct kern_part *p,
                                      float weight_decay, int64_t i)
{
    const float root = fmaf(sqrtf(p->s1[i]), a->decision->unbias_root_v, a->rules->epsilon);

    return fmaf(weight_decay, p->w[i], p->s0[i] * a->decision->unbias_m / root);
}

KERN_INLINE void kern_lars_at(const struct kern_optim *a, const struct kern_part *p,
                              const struct kern_span *s, float ratio, int64_t i)
{
    const struct kern_rules *r = a->rules;
    const float w = p->w[i];
    const float d = ratio * fmaf(s->weight_decay, w, a->decision->grad_factor * p->g[i]);
    const float v = fmaf(r->momentum, r->v_factor * p->s0[i], d);

    p->s0[i] = v;
    p->w[i] = fmaf(-s->lr, r->nesterov ? fmaf(r->momentum, v, d) : v, w);
}

/* What element i adds to ‖w‖² and to the norm of what moves it; under lamb it moves the moments. */
KERN_INLINE void kern_norms_at(const struct kern_optim *a, const struct kern_part *p,
                               const struct kern_span *s, int64_t i, double *ww, double *mm)
{
    const double w = (double)p->w[i];
    double m;

    if (a->rules->kind == BST_OPTIMIZER_LAMB) {
        kern_adam_moments(a, p, i);
        m = (double)kern_adam_direction(a, p, s->weight_decay, i);
    } else {
        m = (double)(a->decision->grad_factor * p->g[i]);
    }
    *ww = fma(w, w, *ww);
    *mm = fma(m, m, *mm);
}

/* bst_optim_ratio(), of a span with these squared norms. */
KERN_INLINE float kern_ratio(const struct kern_rules *r, const struct kern_span *s, double ww,
                             double mm)
{
    const double w = sqrt(ww), m = sqrt(mm);

    if (!s->trusted || !(w > 0) || !(m > 0))
        return 1;
    return (float)(r->kind == BST_OPTIMIZER_LARS ? r->trust * w / (m + (double)s->weight_decay * w)
                                                 : w / m);
}

/* The last sweep, or the only one; `ratio` plays a part where there were norms. */
KERN_INLINE void kern_optim_at(const struct kern_optim *a, const struct kern_part *p,
                               const struct kern_span *s, float ratio, int64_t i)
{
    const struct kern_rules *r = a->rules;

    if (r->kind == BST_OPTIMIZER_LARS) {
        kern_lars_at(a, p, s, ratio, i);
    } else if (r->kind == BST_OPTIMIZER_SGD) {
        const struct kern_sgd sgd = {p->w,
                                     p->s0,
                                     p->g,
                                     p->count,
                                     s->lr,
                                     r->momentum,
                                     s->weight_decay,
                                     a->decision->grad_factor,
                                     r->v_factor,
                                     r->nesterov != 0,
                                     false};
        kern_sgd_at(&sgd, i);
    } else {
        if (r->kind == BST_OPTIMIZER_ADAMW)
            kern_adam_moments(a, p, i);
        p->w[i] = fmaf(-s->lr * ratio, kern_adam_direction(a, p, s->weight_decay, i), p->w[i]);
    }
}

#endif
