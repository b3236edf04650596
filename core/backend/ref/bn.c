/* Batch norm over N, H, W of [N, C, H, W], with the ReLU and the residual that may be part of it.
 * What training saves for backward is mean and 1/deviation, 2·C doubles. */
#include "core/backend/ref/ref_real.h"

#include <math.h>

struct plane { /* one channel of a batch */
    int64_t n, c, hw;
};

static struct plane plane_of(const struct bst_shape *s)
{
    return (struct plane){s->d[0], s->d[1], s->d[2] * s->d[3]};
}

/* Index of element i of channel c's values, image after image. */
static inline int64_t at(const struct plane *p, int64_t n, int64_t c)
{
    return (n * p->c + c) * p->hw;
}

/* Two passes: the mean first, then the squares about it. */
static void statistics(const struct plane *p, const real *x, int64_t c, double *mean, double *var)
{
    double sum = 0, squares = 0, count = (double)(p->n * p->hw);
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t i = 0; i < p->hw; i++)
            sum += (double)x[at(p, n, c) + i];
    }
    *mean = sum / count;
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t i = 0; i < p->hw; i++) {
            double d = (double)x[at(p, n, c) + i] - *mean;
            squares += d * d;
        }
    }
    *var = squares / count;
}

struct affine { /* y = (x - mean) · inv · scale + shift */
    double mean, inv, scale, shift;
};

static inline real normalised(const struct affine *a, real x)
{
    return (real)(((double)x - a->mean) * a->inv * a->scale + a->shift);
}

static void apply(const struct ref_call *c, const struct plane *p, int64_t ch,
                  const struct affine *a)
{
    const real *x = c->src[0];
    const real *residual = c->in->flags & BST_IF_RESIDUAL ? c->src[5] : NULL;
    real *y = c->dst[0];
    for (int64_t n = 0; n < p->n; n++) {
        int64_t from = at(p, n, ch);
        for (int64_t i = from; i < from + p->hw; i++) {
            real v = normalised(a, x[i]);
            if (residual)
                v += residual[i];
            y[i] = c->in->flags & BST_IF_RELU ? ref_relu(v) : v;
        }
    }
}

/* By what the first run saved. */
static enum bst_err train_again(const struct ref_call *c)
{
    struct plane p = plane_of(ref_src_shape(c, 0));
    const real *scale = c->src[1], *shift = c->src[2];
    const double *saved = c->src[c->in->n_src - 1];
    for (int64_t ch = 0; ch < p.c; ch++) {
        struct affine a = {saved[ch], saved[p.c + ch], (double)scale[ch], (double)shift[ch]};
        apply(c, &p, ch, &a);
    }
    return BST_OK;
}

/* As PyTorch: normalises by the biased variance, keeps the unbiased one. */
enum bst_err REF(bn_train)(const struct ref_call *c)
{
    struct plane p = plane_of(ref_src_shape(c, 0));
    if (c->in->flags & BST_IF_AGAIN)
        return train_again(c);
    const real *scale = c->src[1], *shift = c->src[2];
    real *run_mean = c->src[3], *run_var = c->src[4];
    double *saved = c->dst[1], count = (double)(p.n * p.hw);
    for (int64_t ch = 0; ch < p.c; ch++) {
        double mean, var;
        statistics(&p, c->src[0], ch, &mean, &var);
        struct affine a = {mean, 1 / sqrt(var + REF_BN_EPS), (double)scale[ch], (double)shift[ch]};
        apply(c, &p, ch, &a);
        saved[ch] = a.mean;
        saved[p.c + ch] = a.inv;
        run_mean[ch] =
            (real)((1 - REF_BN_MOMENTUM) * (double)run_mean[ch] + REF_BN_MOMENTUM * mean);
        run_var[ch] = (real)((1 - REF_BN_MOMENTUM) * (double)run_var[ch] +
                             REF_BN_MOMENTUM * (var * count / (count - 1)));
    }
    return BST_OK;
}

enum bst_err REF(bn_infer)(const struct ref_call *c)
{
    struct plane p = plane_of(ref_src_shape(c, 0));
    const real *scale = c->src[1], *shift = c->src[2], *mean = c->src[3], *var = c->src[4];
    for (int64_t ch = 0; ch < p.c; ch++) {
        struct affine a = {(double)mean[ch], 1 / sqrt((double)var[ch] + REF_BN_EPS),
                           (double)scale[ch], (double)shift[ch]};
        apply(c, &p, ch, &a);
    }
    return BST_OK;
}

struct incoming { /* where the gradient of the normalised values comes from */
    const real *x, *dy, *dy2, *y;
    const struct affine *a;
    bool relu;
};

static inline real gradient(const struct incoming *g, int64_t i)
{
    real d = g->dy2 ? g->dy[i] + g->dy2[i] : g->dy[i];
    if (!g->relu)
        return d;
    real behind = g->y ? g->y[i] : normalised(g->a, g->x[i]);
    return behind <= 0 ? 0 : d;
}

/* dx = scale/dev · (g - mean(g) - x̂ · mean(g·x̂)) */
static void bwd_channel(const struct ref_call *c, const struct plane *p, int64_t ch,
                        const struct incoming *g)
{
    real *dx = c->dst[0], *dscale = c->dst[1], *dshift = c->dst[2];
    real *dres = c->in->flags & BST_IF_RESIDUAL ? c->dst[3] : NULL;
    const struct affine *a = g->a;
    double sum = 0, sum_x = 0, count = (double)(p->n * p->hw);
    for (int64_t n = 0; n < p->n; n++) {
        int64_t from = at(p, n, ch);
        for (int64_t i = from; i < from + p->hw; i++) {
            double d = (double)gradient(g, i);
            sum += d;
            sum_x += d * (((double)g->x[i] - a->mean) * a->inv);
        }
    }
    dscale[ch] = (real)(ref_adds(c, 1) ? (double)dscale[ch] + sum_x : sum_x);
    dshift[ch] = (real)(ref_adds(c, 2) ? (double)dshift[ch] + sum : sum);
    for (int64_t n = 0; n < p->n; n++) {
        int64_t from = at(p, n, ch);
        for (int64_t i = from; i < from + p->hw; i++) {
            double xhat = ((double)g->x[i] - a->mean) * a->inv;
            real d = gradient(g, i); /* read before dx or dres take its place */
            dx[i] = (real)(a->scale * a->inv * ((double)d - sum / count - xhat * (sum_x / count)));
            if (dres)
                dres[i] = d;
        }
    }
}

enum bst_err REF(bn_bwd)(const struct ref_call *c)
{
    struct plane p = plane_of(ref_src_shape(c, 0));
    unsigned flags = c->in->flags;
    const real *scale = c->src[2], *shift = c->src[3];
    const double *saved = c->src[4];
    for (int64_t ch = 0; ch < p.c; ch++) {
        struct affine a = {saved[ch], saved[p.c + ch], (double)scale[ch], (double)shift[ch]};
        struct incoming g = {
            .x = c->src[0],
            .dy = c->src[1],
            .dy2 = flags & BST_IF_DY2 ? c->src[c->in->n_src - 1] : NULL,
            .y = flags & BST_IF_RESIDUAL ? c->src[5] : NULL,
            .a = &a,
            .relu = flags & BST_IF_RELU,
        };
        bwd_channel(c, &p, ch, &g);
    }
    return BST_OK;
}
