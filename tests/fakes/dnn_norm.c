/* Normalisations. Which elements share a statistic is read off the shape of the mean's (or inverse
 * deviation's) tensor, and which share a scale off the scale's: batch, layer, instance and RMS norm
 * are one computation. */
#include <math.h>
#include <stdlib.h>

#include "tests/fakes/dnn.h"

#define FWD(name) run_operand(r, op, CUDNN_ATTR_OPERATION_NORM_FWD_##name)
#define BWD(name) run_operand(r, op, CUDNN_ATTR_OPERATION_NORM_BWD_##name)

/* Mean over each group of x, and mean of the squared distance from `center` (NULL: from 0). */
static double *group_means(const struct tensor *x, const struct tensor *group, const double *center)
{
    double *out = calloc((size_t)group->n, sizeof *out);
    const struct tensor *others[] = {group};
    struct walk w;
    walk_init(&w, x, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++) {
            int64_t g = w.off[1] + i * w.inner_step[1];
            double v = (double)x->v[w.off[0] + i * w.inner_step[0]];
            if (center)
                v = (v - center[g]) * (v - center[g]);
            out[g] += v;
        }
    } while (walk_next(&w));
    for (int64_t g = 0; g < group->n; g++)
        out[g] *= (double)group->n / (double)x->n;
    return out;
}

static void update_running(struct run *r, const struct desc *op, const double *mean,
                           const double *var, int64_t n, double count)
{
    const struct tensor *factor = FWD(EXP_AVG_FACTOR_DESC);
    const struct tensor *old_mean = FWD(INPUT_RUNNING_MEAN_DESC);
    const struct tensor *old_var = FWD(INPUT_RUNNING_VAR_DESC);
    struct tensor *new_mean = FWD(OUTPUT_RUNNING_MEAN_DESC);
    struct tensor *new_var = FWD(OUTPUT_RUNNING_VAR_DESC);
    if (!factor || !old_mean || !old_var || !new_mean || !new_var)
        return;
    double f = (double)factor->v[0];
    for (int64_t i = 0; i < n; i++) {
        double unbiased = count > 1 ? var[i] * count / (count - 1) : var[i];
        new_mean->v[i] = (float)((1 - f) * (double)old_mean->v[i] + f * mean[i]);
        new_var->v[i] = (float)((1 - f) * (double)old_var->v[i] + f * unbiased);
    }
}

/* Fills mean and inverse deviation from x. RMS norm's mean is taken as 0. */
static void statistics(struct run *r, const struct desc *op, const struct tensor *x,
                       struct tensor *mean, struct tensor *inv, bool is_rms)
{
    const struct tensor *epsilon = FWD(EPSILON_DESC);
    double *m = is_rms ? calloc((size_t)inv->n, sizeof *m) : group_means(x, inv, NULL);
    double *var = group_means(x, inv, m);
    for (int64_t i = 0; i < inv->n; i++) {
        inv->v[i] = (float)(1 / sqrt(var[i] + (epsilon ? (double)epsilon->v[0] : 0)));
        if (mean)
            mean->v[i] = (float)m[i];
    }
    update_running(r, op, m, var, inv->n, (double)x->n / (double)inv->n);
    free(m);
    free(var);
}

static float at(const struct tensor *t, int64_t i, float otherwise)
{
    return t ? t->v[i] : otherwise;
}

void dnn_run_norm_fwd(struct run *r, const struct desc *op)
{
    bool is_rms = desc_int(op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, 0) == CUDNN_RMS_NORM;
    bool trains = desc_int(op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, 0) == CUDNN_NORM_FWD_TRAINING;
    const struct tensor *x = FWD(XDESC);
    struct tensor *mean = FWD(MEAN_DESC);
    struct tensor *inv = FWD(INV_VARIANCE_DESC);
    const struct tensor *scale = FWD(SCALE_DESC);
    const struct tensor *bias = FWD(BIAS_DESC);
    struct tensor *y = FWD(YDESC);
    if (!inv || (!is_rms && !mean)) {
        run_error(r, "norm forward without its statistics' tensors");
        return;
    }
    if (trains)
        statistics(r, op, x, mean, inv, is_rms);
    const struct tensor *per_scale = scale ? scale : bias;
    const struct tensor *others[] = {x, inv, per_scale};
    struct walk w;
    walk_init(&w, y, others, per_scale ? 3 : 2);
    do {
        for (int64_t i = 0; i < w.inner; i++) {
            int64_t g = w.off[2] + i * w.inner_step[2];
            int64_t c = w.off[3] + i * w.inner_step[3];
            float hat =
                (x->v[w.off[1] + i * w.inner_step[1]] - (is_rms ? 0 : at(mean, g, 0))) * inv->v[g];
            y->v[w.off[0] + i * w.inner_step[0]] = hat * at(scale, c, 1) + at(bias, c, 0);
        }
    } while (walk_next(&w));
}

/* Group means of dy·scale and of dy·scale·x̂, and the scale's sums of dy·x̂ and dy. */
struct sums {
    double *g, *gx; /* a group */
    double *dscale, *dbias;
};

static double hat_at(const struct tensor *x, const struct tensor *mean, const struct tensor *inv,
                     int64_t i, int64_t g)
{
    return ((double)x->v[i] - (mean ? (double)mean->v[g] : 0)) * (double)inv->v[g];
}

/* Offsets 0 x, 1 dy, 2 statistic, 3 scale. */
static void add_up(struct walk *w, const struct tensor *x, const struct tensor *mean,
                   const struct tensor *inv, const struct tensor *dy, const struct tensor *scale,
                   struct sums *s)
{
    do {
        for (int64_t i = 0; i < w->inner; i++) {
            int64_t g = w->off[2] + i * w->inner_step[2];
            int64_t c = w->off[3] + i * w->inner_step[3];
            double d = (double)dy->v[w->off[1] + i * w->inner_step[1]];
            double hat = hat_at(x, mean, inv, w->off[0] + i * w->inner_step[0], g);
            s->g[g] += d * (double)scale->v[c];
            s->gx[g] += d * (double)scale->v[c] * hat;
            s->dscale[c] += d * hat;
            s->dbias[c] += d;
        }
    } while (walk_next(w));
}

static void put_dx(struct walk *w, const struct tensor *x, const struct tensor *mean,
                   const struct tensor *inv, const struct tensor *dy, const struct tensor *scale,
                   const struct sums *s, struct tensor *dx)
{
    double share = (double)inv->n / (double)x->n;
    do {
        for (int64_t i = 0; i < w->inner; i++) {
            int64_t g = w->off[2] + i * w->inner_step[2];
            int64_t c = w->off[3] + i * w->inner_step[3];
            int64_t at_x = w->off[0] + i * w->inner_step[0];
            double d = (double)dy->v[w->off[1] + i * w->inner_step[1]] * (double)scale->v[c];
            double hat = hat_at(x, mean, inv, at_x, g);
            double centered = d - (mean ? s->g[g] * share : 0) - hat * s->gx[g] * share;
            dx->v[at_x] = (float)((double)inv->v[g] * centered);
        }
    } while (walk_next(w));
}

void dnn_run_norm_bwd(struct run *r, const struct desc *op)
{
    bool is_rms = desc_int(op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, 0) == CUDNN_RMS_NORM;
    const struct tensor *x = BWD(XDESC);
    const struct tensor *mean = is_rms ? NULL : BWD(MEAN_DESC);
    const struct tensor *inv = BWD(INV_VARIANCE_DESC);
    const struct tensor *dy = BWD(DYDESC);
    const struct tensor *scale = BWD(SCALE_DESC);
    struct tensor *dscale = BWD(DSCALE_DESC);
    struct tensor *dbias = BWD(DBIAS_DESC);
    struct tensor *dx = BWD(DXDESC);
    if (!is_rms && !mean) {
        run_error(r, "norm backward without a mean");
        return;
    }
    struct sums s = {calloc((size_t)inv->n, sizeof(double)), calloc((size_t)inv->n, sizeof(double)),
                     calloc((size_t)scale->n, sizeof(double)),
                     calloc((size_t)scale->n, sizeof(double))};
    const struct tensor *others[] = {dy, inv, scale};
    struct walk w;
    walk_init(&w, x, others, 3);
    add_up(&w, x, mean, inv, dy, scale, &s);
    /* dx is filled in x's own order; where its layout is another, through a copy in that order. */
    struct tensor like_x = *x;
    like_x.v = malloc((size_t)x->n * sizeof *like_x.v);
    walk_init(&w, x, others, 3);
    put_dx(&w, x, mean, inv, dy, scale, &s, &like_x);
    const struct tensor *from[] = {&like_x};
    walk_init(&w, dx, from, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++)
            dx->v[w.off[0] + i * w.inner_step[0]] = like_x.v[w.off[1] + i * w.inner_step[1]];
    } while (walk_next(&w));
    for (int64_t c = 0; c < scale->n; c++) {
        if (dscale)
            dscale->v[c] = (float)s.dscale[c];
        if (dbias)
            dbias->v[c] = (float)s.dbias[c];
    }
    free(like_x.v);
    free(s.g);
    free(s.gx);
    free(s.dscale);
    free(s.dbias);
}
