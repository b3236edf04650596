/* Reductions, and batch norm's statistics in the pieces that convolution graphs use. */
#include <math.h>
#include <stdlib.h>

#include "tests/fakes/dnn.h"

/* Sums in double: what is faked is the result, not an order of additions. */
static double *sums_over(const struct tensor *x, const struct tensor *y, double (*f)(double))
{
    double *sum = calloc((size_t)y->n, sizeof *sum);
    const struct tensor *others[] = {y};
    struct walk w;
    walk_init(&w, x, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++)
            sum[w.off[1] + i * w.inner_step[1]] += f((double)x->v[w.off[0] + i * w.inner_step[0]]);
    } while (walk_next(&w));
    return sum;
}

static double itself(double v)
{
    return v;
}

static double squared(double v)
{
    return v * v;
}

static void run_extreme(const struct tensor *x, struct tensor *y, int op)
{
    double start = op == CUDNN_REDUCE_TENSOR_MIN    ? INFINITY
                   : op == CUDNN_REDUCE_TENSOR_MAX  ? -INFINITY
                   : op == CUDNN_REDUCE_TENSOR_AMAX ? 0
                                                    : 1;
    for (int64_t i = 0; i < y->n; i++)
        y->v[i] = (float)start;
    const struct tensor *others[] = {y};
    struct walk w;
    walk_init(&w, x, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++) {
            float v = x->v[w.off[0] + i * w.inner_step[0]];
            float *at = &y->v[w.off[1] + i * w.inner_step[1]];
            if (op == CUDNN_REDUCE_TENSOR_MIN)
                *at = v < *at ? v : *at;
            else if (op == CUDNN_REDUCE_TENSOR_MAX)
                *at = v > *at ? v : *at;
            else if (op == CUDNN_REDUCE_TENSOR_AMAX)
                *at = fabsf(v) > *at ? fabsf(v) : *at;
            else if (op == CUDNN_REDUCE_TENSOR_MUL || v != 0)
                *at *= v;
        }
    } while (walk_next(&w));
}

void dnn_run_reduction(struct run *r, const struct desc *op)
{
    const struct tensor *x = run_operand(r, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    struct tensor *y = run_operand(r, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const struct desc *d = desc_child(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    int kind = desc_int(d, CUDNN_ATTR_REDUCTION_OPERATOR, -1);
    for (int i = 0; i < x->nd; i++) {
        if (y->nd != x->nd || (y->dim[i] != 1 && y->dim[i] != x->dim[i])) {
            run_error(r, "a reduction's result has another shape");
            return;
        }
    }
    bool adds = kind == CUDNN_REDUCE_TENSOR_ADD || kind == CUDNN_REDUCE_TENSOR_AVG ||
                kind == CUDNN_REDUCE_TENSOR_NORM1 || kind == CUDNN_REDUCE_TENSOR_NORM2;
    if (!adds) {
        run_extreme(x, y, kind);
        return;
    }
    double *sum = sums_over(x, y,
                            kind == CUDNN_REDUCE_TENSOR_NORM1   ? fabs
                            : kind == CUDNN_REDUCE_TENSOR_NORM2 ? squared
                                                                : itself);
    for (int64_t i = 0; i < y->n; i++) {
        if (kind == CUDNN_REDUCE_TENSOR_AVG)
            sum[i] *= (double)y->n / (double)x->n;
        y->v[i] = (float)(kind == CUDNN_REDUCE_TENSOR_NORM2 ? sqrt(sum[i]) : sum[i]);
    }
    free(sum);
}

void dnn_run_genstats(struct run *r, const struct desc *op)
{
    const struct tensor *x = run_operand(r, op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
    struct tensor *out[2] = {run_operand(r, op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
                             run_operand(r, op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)};
    for (int k = 0; k < 2; k++) {
        double *sum = sums_over(x, out[k], k ? squared : itself);
        for (int64_t i = 0; i < out[k]->n; i++)
            out[k]->v[i] = (float)sum[i];
        free(sum);
    }
}

#define FINALIZE(name) run_operand(r, op, CUDNN_ATTR_OPERATION_BN_FINALIZE_##name)

void dnn_run_bn_finalize(struct run *r, const struct desc *op)
{
    const struct tensor *sum = FINALIZE(Y_SUM_DESC);
    const struct tensor *sq_sum = FINALIZE(Y_SQ_SUM_DESC);
    const struct tensor *scale = FINALIZE(SCALE_DESC);
    const struct tensor *bias = FINALIZE(BIAS_DESC);
    const struct tensor *old_mean = FINALIZE(PREV_RUNNING_MEAN_DESC);
    const struct tensor *old_var = FINALIZE(PREV_RUNNING_VAR_DESC);
    const struct tensor *factor = FINALIZE(EXP_AVERATE_FACTOR_DESC);
    struct tensor *new_mean = FINALIZE(UPDATED_RUNNING_MEAN_DESC);
    struct tensor *new_var = FINALIZE(UPDATED_RUNNING_VAR_DESC);
    double count = (double)FINALIZE(ACCUM_COUNT_DESC)->v[0];
    double epsilon = (double)FINALIZE(EPSILON_DESC)->v[0];
    for (int64_t i = 0; i < sum->n; i++) {
        double mean = (double)sum->v[i] / count;
        double var = (double)sq_sum->v[i] / count - mean * mean;
        var = var > 0 ? var : 0;
        double inv = 1 / sqrt(var + epsilon);
        FINALIZE(SAVED_MEAN_DESC)->v[i] = (float)mean;
        FINALIZE(SAVED_INV_STD_DESC)->v[i] = (float)inv;
        FINALIZE(EQ_SCALE_DESC)->v[i] = (float)((double)scale->v[i] * inv);
        FINALIZE(EQ_BIAS_DESC)->v[i] =
            (float)((double)bias->v[i] - mean * inv * (double)scale->v[i]);
        if (new_mean && new_var && old_mean && old_var && factor) {
            double f = (double)factor->v[0];
            double unbiased = count > 1 ? var * count / (count - 1) : var;
            new_mean->v[i] = (float)((1 - f) * (double)old_mean->v[i] + f * mean);
            new_var->v[i] = (float)((1 - f) * (double)old_var->v[i] + f * unbiased);
        }
    }
}

#define WEIGHTS(name) run_operand(r, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_##name)

/* Gradients of scale and bias, and the three per-channel coefficients that make
 * dx = eq_dy · dy + eq_x · x + eq_bias. */
void dnn_run_bn_bwd_weights(struct run *r, const struct desc *op)
{
    const struct tensor *mean = WEIGHTS(MEAN_DESC);
    const struct tensor *inv = WEIGHTS(INVSTD_DESC);
    const struct tensor *scale = WEIGHTS(BN_SCALE_DESC);
    const struct tensor *x = WEIGHTS(X_DESC);
    const struct tensor *dy = WEIGHTS(DY_DESC);
    double *sum_dy = sums_over(dy, mean, itself);
    double *sum_xdy = calloc((size_t)mean->n, sizeof *sum_xdy);
    const struct tensor *others[] = {dy, mean};
    struct walk w;
    walk_init(&w, x, others, 2);
    do {
        for (int64_t i = 0; i < w.inner; i++) {
            int64_t c = w.off[2] + i * w.inner_step[2];
            double hat = ((double)x->v[w.off[0] + i * w.inner_step[0]] - (double)mean->v[c]) *
                         (double)inv->v[c];
            sum_xdy[c] += hat * (double)dy->v[w.off[1] + i * w.inner_step[1]];
        }
    } while (walk_next(&w));
    double count = (double)x->n / (double)mean->n;
    for (int64_t c = 0; c < mean->n; c++) {
        double k = (double)scale->v[c] * (double)inv->v[c];
        double slope = k * (double)inv->v[c] * sum_xdy[c] / count;
        WEIGHTS(DBN_SCALE_DESC)->v[c] = (float)sum_xdy[c];
        WEIGHTS(DBN_BIAS_DESC)->v[c] = (float)sum_dy[c];
        WEIGHTS(EQ_DY_SCALE_DESC)->v[c] = (float)k;
        WEIGHTS(EQ_X_SCALE_DESC)->v[c] = (float)-slope;
        WEIGHTS(EQ_BIAS)->v[c] = (float)(slope * (double)mean->v[c] - k * sum_dy[c] / count);
    }
    free(sum_dy);
    free(sum_xdy);
}
