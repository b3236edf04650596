/* Normalisations and pooling of cuDNN's fake against plain C in double. */
#include <math.h>

#include "tests/fakes/dnn_support.h"

enum { N = 3, C = 5, HW = 4, MOST_GROUPS = 64 };
static const double epsilon = 1e-5;

struct norm {
    struct graph g;
    struct val *x, *mean, *inv, *scale, *bias, *y, *dy, *dx, *dscale, *dbias, *eps;
    struct val *factor, *old_mean, *old_var, *new_mean, *new_var;
};

static void norm_init(struct norm *t, const int64_t dim[DIMS], const int64_t group[DIMS],
                      const int64_t scale[DIMS])
{
    struct graph *g = &t->g;
    graph_init(g);
    t->x = graph_tensor(g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    t->mean = graph_tensor(g, CUDNN_DATA_FLOAT, group, NHWC, REAL);
    t->inv = graph_tensor(g, CUDNN_DATA_FLOAT, group, NHWC, REAL);
    t->scale = graph_tensor(g, CUDNN_DATA_FLOAT, scale, NHWC, REAL);
    t->bias = graph_tensor(g, CUDNN_DATA_FLOAT, scale, NHWC, REAL);
    t->y = graph_tensor(g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    t->dy = graph_tensor(g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    t->dx = graph_tensor(g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    t->dscale = graph_tensor(g, CUDNN_DATA_FLOAT, scale, NHWC, REAL);
    t->dbias = graph_tensor(g, CUDNN_DATA_FLOAT, scale, NHWC, REAL);
    t->eps = graph_scalar(g, (float)epsilon);
}

static void running_init(struct norm *t)
{
    t->factor = graph_scalar(&t->g, 0.1f);
    struct val **all[] = {&t->old_mean, &t->old_var, &t->new_mean, &t->new_var};
    for (int i = 0; i < 4; i++)
        *all[i] = graph_channels(&t->g, t->mean->dim[1], REAL);
}

static cudnnBackendDescriptor_t of(const struct val *v)
{
    return v ? v->desc : NULL;
}

static void forward_op(struct norm *t, cudnnBackendNormMode_t mode,
                       cudnnBackendNormFwdPhase_t phase)
{
    bool is_rms = mode == CUDNN_RMS_NORM;
    cudnnBackendDescriptor_t d[] = {of(t->factor),
                                    of(t->old_mean),
                                    of(t->old_var),
                                    of(t->new_mean),
                                    of(t->new_var),
                                    is_rms ? NULL : of(t->mean),
                                    is_rms ? NULL : of(t->bias)};
    OP(&t->g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode},
       {CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase},
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, t->x->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, d[5]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, t->inv->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, t->scale->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, d[6]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, t->eps->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, d[0]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, d[1]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, d[2]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, d[3]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, d[4]),
       SET_D(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, t->y->desc));
}

static void backward_op(struct norm *t, cudnnBackendNormMode_t mode)
{
    bool is_rms = mode == CUDNN_RMS_NORM;
    cudnnBackendDescriptor_t mean = is_rms ? NULL : of(t->mean),
                             dbias = is_rms ? NULL : of(t->dbias);
    OP(&t->g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode},
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, t->x->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, t->inv->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, t->dy->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, t->scale->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, t->dscale->desc),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias),
       SET_D(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, t->dx->desc));
}

/* Which group, and which scale, element i belongs to. */
static size_t member(const struct val *x, const struct val *of_these, size_t i)
{
    size_t at = 0, step = 1;
    for (int k = DIMS - 1; k >= 0; k--) {
        if (of_these->dim[k] != 1)
            at += i % (size_t)x->dim[k] * step;
        step *= (size_t)of_these->dim[k];
        i /= (size_t)x->dim[k];
    }
    return at;
}

struct stats {
    double mean[MOST_GROUPS], var[MOST_GROUPS], count;
};

static struct stats stats_of(const struct norm *t, bool is_rms)
{
    struct stats s = {.count = (double)t->x->n / (double)t->mean->n};
    for (size_t i = 0; i < t->x->n && !is_rms; i++)
        s.mean[member(t->x, t->mean, i)] += (double)t->x->v[i] / s.count;
    for (size_t i = 0; i < t->x->n; i++) {
        size_t g = member(t->x, t->mean, i);
        s.var[g] += pow((double)t->x->v[i] - s.mean[g], 2) / s.count;
    }
    return s;
}

/* A loss L = Σ dy · y, whose slopes by x, scale and bias are taken by differences. */
static double loss(const struct norm *t, const float *x, const float *scale, const float *bias,
                   bool is_rms)
{
    struct norm other = *t;
    struct val xv = *t->x;
    xv.v = (float *)x;
    other.x = &xv;
    struct stats s = stats_of(&other, is_rms);
    double sum = 0;
    for (size_t i = 0; i < t->x->n; i++) {
        size_t g = member(t->x, t->mean, i), c = member(t->x, t->scale, i);
        double hat = ((double)x[i] - s.mean[g]) / sqrt(s.var[g] + epsilon);
        sum += (double)t->dy->v[i] * (hat * (double)scale[c] + (double)bias[c]);
    }
    return sum;
}

static double slope(const struct norm *t, int which, size_t i, bool is_rms)
{
    const struct val *of_these[] = {t->x, t->scale, t->bias};
    double at[2];
    const float h = 0x1p-8f; /* exact beside halves */
    for (int side = 0; side < 2; side++) {
        float *copy[3];
        for (int k = 0; k < 3; k++) {
            copy[k] = malloc(of_these[k]->n * sizeof(float));
            memcpy(copy[k], of_these[k]->v, of_these[k]->n * sizeof(float));
        }
        copy[which][i] += side ? -h : h;
        at[side] = loss(t, copy[0], copy[1], copy[2], is_rms);
        for (int k = 0; k < 3; k++)
            free(copy[k]);
    }
    return (at[0] - at[1]) / (2 * (double)h);
}

static void check_norm(cudnnBackendNormMode_t mode, const int64_t dim[DIMS],
                       const int64_t group[DIMS], const int64_t scale[DIMS])
{
    bool is_rms = mode == CUDNN_RMS_NORM;
    struct norm t = {.factor = NULL};
    norm_init(&t, dim, group, scale);
    forward_op(&t, mode, CUDNN_NORM_FWD_TRAINING);
    backward_op(&t, mode);
    struct stats s = stats_of(&t, is_rms);
    double *want = calloc(t.x->n, sizeof *want);
    for (size_t i = 0; i < t.x->n; i++) {
        size_t g = member(t.x, t.mean, i), c = member(t.x, t.scale, i);
        want[i] =
            ((double)t.x->v[i] - s.mean[g]) / sqrt(s.var[g] + epsilon) * (double)t.scale->v[c] +
            (is_rms ? 0 : (double)t.bias->v[c]);
    }
    graph_run(&t.g, graph_plan(&t.g, 0));
    test_near(t.y->v, want, t.y->n, 1e-3, 1);
    for (size_t i = 0; i < t.mean->n; i++) {
        double inv = 1 / sqrt(s.var[i] + epsilon);
        test_near(&t.inv->v[i], &inv, 1, 1e-6, 0);
        if (!is_rms)
            test_near(&t.mean->v[i], &s.mean[i], 1, 1e-6, 1);
    }
    for (size_t i = 0; i < t.x->n; i++) {
        double d = slope(&t, 0, i, is_rms);
        test_near(&t.dx->v[i], &d, 1, 2e-3, 1);
    }
    for (size_t i = 0; i < t.scale->n; i++) {
        double d = slope(&t, 1, i, is_rms), b = slope(&t, 2, i, is_rms);
        test_near(&t.dscale->v[i], &d, 1, 1e-4, 1);
        if (!is_rms)
            test_near(&t.dbias->v[i], &b, 1, 1e-4, 1);
    }
    free(want);
    graph_fini(&t.g);
}

static void norms_and_their_gradients(void **state)
{
    (void)state;
    static const int64_t image[DIMS] = {N, C, HW, HW}, channel[DIMS] = {1, C, 1, 1};
    static const int64_t each[DIMS] = {N, C, 1, 1}, rows[DIMS] = {6, 24, 1, 1};
    static const int64_t row[DIMS] = {6, 1, 1, 1}, cols[DIMS] = {1, 24, 1, 1};
    test_machine(1, 1);
    check_norm(CUDNN_BATCH_NORM, image, channel, channel);
    check_norm(CUDNN_LAYER_NORM, rows, row, cols);
    check_norm(CUDNN_RMS_NORM, rows, row, cols);
    check_norm(CUDNN_INSTANCE_NORM, image, each, channel);
    test_all_gone();
}

static void running_statistics_and_inference(void **state)
{
    (void)state;
    static const int64_t image[DIMS] = {N, C, HW, HW}, channel[DIMS] = {1, C, 1, 1};
    test_machine(1, 0);
    struct norm t = {.factor = NULL};
    norm_init(&t, image, channel, channel);
    running_init(&t);
    forward_op(&t, CUDNN_BATCH_NORM, CUDNN_NORM_FWD_TRAINING);
    struct stats s = stats_of(&t, false);
    double mean[C], var[C];
    for (int c = 0; c < C; c++) {
        mean[c] = 0.9 * (double)t.old_mean->v[c] + 0.1 * s.mean[c];
        var[c] = 0.9 * (double)t.old_var->v[c] + 0.1 * s.var[c] * s.count / (s.count - 1);
    }
    graph_run(&t.g, graph_plan(&t.g, 0));
    test_near(t.new_mean->v, mean, C, 1e-6, 1);
    test_near(t.new_var->v, var, C, 1e-6, 1);
    /* Inference takes the statistics as they are given, and writes none. */
    t.g.n_ops = 0;
    t.factor = t.old_mean = t.old_var = t.new_mean = t.new_var = NULL;
    float given[C];
    test_fill(given, C, 99, TEST_F32);
    graph_put(t.mean, given);
    for (int c = 0; c < C; c++)
        given[c] = 1 + given[c] / 2;
    graph_put(t.inv, given);
    forward_op(&t, CUDNN_BATCH_NORM, CUDNN_NORM_FWD_INFERENCE);
    graph_run(&t.g, graph_plan(&t.g, 0));
    for (size_t i = 0; i < t.x->n; i++) {
        size_t c = member(t.x, t.mean, i);
        double want =
            ((double)t.x->v[i] - (double)t.mean->v[c]) * (double)given[c] * (double)t.scale->v[c] +
            (double)t.bias->v[c];
        test_near(&t.y->v[i], &want, 1, 1e-3, 1);
    }
    graph_fini(&t.g);
    test_all_gone();
}

/* genstats → finalize gives what batch norm computes, and the backward weights its dx. */
static void batch_norm_in_pieces(void **state)
{
    (void)state;
    static const int64_t image[DIMS] = {N, C, HW, HW}, channel[DIMS] = {1, C, 1, 1};
    test_machine(1, 0);
    struct norm t = {.factor = NULL};
    norm_init(&t, image, channel, channel);
    running_init(&t);
    struct graph *g = &t.g;
    struct val *sum = graph_channels(g, C, REAL), *squares = graph_channels(g, C, REAL);
    struct val *count = graph_scalar(g, N * HW * HW);
    struct val *eq[5];
    for (int i = 0; i < 5; i++)
        eq[i] = graph_channels(g, C, REAL);
    graph_genstats(g, t.x, sum, squares);
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBnFinalizeStatsMode_t training = CUDNN_BN_FINALIZE_STATISTICS_TRAINING;
    OP(g, CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE, CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 1,
        &training},
       {CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32},
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC, sum->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC, squares->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC, t.scale->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC, t.bias->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC, t.old_mean->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC, t.old_var->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC, t.new_mean->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC, t.new_var->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, t.mean->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, t.inv->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, eq[0]->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, eq[1]->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC, count->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC, t.eps->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC, t.factor->desc));
    OP(g, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32},
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, t.mean->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, t.inv->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, t.scale->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, t.x->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, t.dy->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, t.dscale->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, t.dbias->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, eq[2]->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, eq[3]->desc),
       SET_D(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, eq[4]->desc));
    graph_run(g, graph_plan(g, 0));
    struct stats s = stats_of(&t, false);
    for (size_t c = 0; c < C; c++) {
        double inv = 1 / sqrt(s.var[c] + epsilon);
        double want[] = {s.mean[c],
                         inv,
                         (double)t.scale->v[c] * inv,
                         (double)t.bias->v[c] - s.mean[c] * inv * (double)t.scale->v[c],
                         0.9 * (double)t.old_mean->v[c] + 0.1 * s.mean[c],
                         0.9 * (double)t.old_var->v[c] + 0.1 * s.var[c] * s.count / (s.count - 1)};
        float got[] = {t.mean->v[c], t.inv->v[c],      eq[0]->v[c],
                       eq[1]->v[c],  t.new_mean->v[c], t.new_var->v[c]};
        test_near(got, want, 6, 1e-5, 1);
        double ds = slope(&t, 1, c, false), db = slope(&t, 2, c, false);
        test_near(&t.dscale->v[c], &ds, 1, 1e-4, 1);
        test_near(&t.dbias->v[c], &db, 1, 1e-4, 1);
    }
    for (size_t i = 0; i < t.x->n; i++) {
        size_t c = member(t.x, t.mean, i);
        float dx = eq[2]->v[c] * t.dy->v[i] + eq[3]->v[c] * t.x->v[i] + eq[4]->v[c];
        double want = slope(&t, 0, i, false);
        test_near(&dx, &want, 1, 2e-3, 1);
    }
    graph_fini(g);
    test_all_gone();
}

/* --- pooling --- */

static cudnnBackendDescriptor_t pool_desc(struct graph *g, cudnnResampleMode_t mode, int64_t size,
                                          int64_t pad, int64_t stride)
{
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    int64_t two = 2;
    cudnnPaddingMode_t padding =
        mode == CUDNN_RESAMPLE_MAXPOOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    cudnnFraction_t w[2] = {{size, 1}, {size, 1}}, p[2] = {{pad, 1}, {pad, 1}};
    cudnnFraction_t s[2] = {{stride, 1}, {stride, 1}};
    return DESC(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR,
                {CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode},
                {CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32},
                {CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two},
                {CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding},
                {CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, 2, w},
                {CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, 2, p},
                {CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, 2, p},
                {CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, 2, s});
}

static void check_pool(cudnnResampleMode_t mode, int64_t size, int64_t pad, int64_t stride)
{
    enum { IN = 7 };
    const int64_t out = (IN + 2 * pad - size) / stride + 1;
    const bool is_max = mode == CUDNN_RESAMPLE_MAXPOOL;
    struct graph g;
    graph_init(&g);
    struct val *x = graph_tensor(&g, CUDNN_DATA_FLOAT, (int64_t[]){2, 3, IN, IN}, NHWC, REAL);
    struct val *y = graph_tensor(&g, CUDNN_DATA_FLOAT, (int64_t[]){2, 3, out, out}, NHWC, REAL);
    struct val *dy = graph_tensor(&g, CUDNN_DATA_FLOAT, y->dim, NHWC, REAL);
    struct val *dx = graph_tensor(&g, CUDNN_DATA_FLOAT, x->dim, NHWC, REAL);
    struct val *index = graph_tensor(&g, CUDNN_DATA_INT8, y->dim, NHWC, REAL);
    cudnnBackendDescriptor_t d = pool_desc(&g, mode, size, pad, stride);
    cudnnBackendDescriptor_t i = is_max ? index->desc : NULL;
    OP(&g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, d),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y->desc),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, i));
    OP(&g, CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, d),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, dx->desc),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, dy->desc),
       SET_D(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, i));
    graph_run(&g, graph_plan(&g, 0));
    double *want = calloc(x->n, sizeof *want);
    for (int64_t n = 0; n < 2; n++)
        for (int64_t c = 0; c < 3; c++)
            for (int64_t p = 0; p < out; p++)
                for (int64_t q = 0; q < out; q++) {
                    double most = -INFINITY, sum = 0, count = 0;
                    int64_t best = -1;
                    for (int64_t k = 0; k < size * size; k++) {
                        int64_t h = p * stride - pad + k / size, w = q * stride - pad + k % size;
                        if (h < 0 || w < 0 || h >= IN || w >= IN)
                            continue;
                        double v = (double)x->v[at4(x, n, c, h, w)];
                        sum += v;
                        count++;
                        if (v > most) {
                            most = v;
                            best = k;
                        }
                    }
                    if (mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING)
                        count = (double)(size * size);
                    double y_want = is_max ? most : sum / count;
                    size_t at = at4(y, n, c, p, q);
                    test_near(&y->v[at], &y_want, 1, 1e-6, 1e-3);
                    if (is_max)
                        assert_true(index->v[at] == (float)best);
                    for (int64_t k = 0; k < size * size; k++) {
                        int64_t h = p * stride - pad + k / size, w = q * stride - pad + k % size;
                        if (h < 0 || w < 0 || h >= IN || w >= IN)
                            continue;
                        if (!is_max || k == best)
                            want[at4(x, n, c, h, w)] += (double)dy->v[at] / (is_max ? 1 : count);
                    }
                }
    test_near(dx->v, want, dx->n, 1e-5, 1e-2);
    free(want);
    graph_fini(&g);
}

static void pooling(void **state)
{
    (void)state;
    test_machine(1, 0);
    check_pool(CUDNN_RESAMPLE_MAXPOOL, 3, 1, 2);
    check_pool(CUDNN_RESAMPLE_MAXPOOL, 2, 0, 2);
    check_pool(CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, 3, 1, 2);
    check_pool(CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING, 3, 1, 1);
    check_pool(CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, 7, 0, 1);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_and_their_gradients),
        cmocka_unit_test(running_statistics_and_inference),
        cmocka_unit_test(batch_norm_in_pieces),
        cmocka_unit_test(pooling),
    };
    return cmocka_run_group_tests_name("fakes.cudnn.norm", tests, NULL, NULL);
}
