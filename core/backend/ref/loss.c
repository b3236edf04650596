/* Softmax cross-entropy with PyTorch's label smoothing: the target is (1-ε)·onehot + ε/K. */
#include "core/backend/ref/ref_real.h"

#include <math.h>

/* log Σ exp(z) of one row, by its largest value. */
static double log_sum_exp(const real *z, int64_t k, int64_t *arg_max)
{
    double sum = 0;
    *arg_max = 0;
    for (int64_t i = 1; i < k; i++) {
        if (z[i] > z[*arg_max])
            *arg_max = i;
    }
    for (int64_t i = 0; i < k; i++)
        sum += exp((double)z[i] - (double)z[*arg_max]);
    return (double)z[*arg_max] + log(sum);
}

/* Which of the step's losses this is. */
struct loss {
    const int32_t *labels;
    double smooth, scale;
    double *sum;
    int64_t *correct;
};

static struct loss loss_of(const struct ref_call *c)
{
    const struct bst_step *s = c->step;
    if (c->in->attr.pair)
        return (struct loss){s->pair, 0, s->pair_scale, &s->result->pair_loss_sum,
                             &s->result->pair_correct};
    return (struct loss){s->labels, s->label_smoothing, s->grad_scale, &s->result->loss_sum,
                         &s->result->correct};
}

/* Whether the first of the largest is the label. */
static bool row(const struct loss *l, const real *z, int64_t k, int64_t label, real *dz)
{
    double loss = 0;
    int64_t arg_max;
    double log_sum = log_sum_exp(z, k, &arg_max);
    for (int64_t i = 0; i < k; i++) {
        double target = l->smooth / (double)k + (i == label ? 1 - l->smooth : 0);
        double log_p = (double)z[i] - log_sum;
        loss -= target * log_p;
        if (dz)
            dz[i] = (real)((exp(log_p) - target) * l->scale);
    }
    *l->sum += loss;
    return arg_max == label;
}

/* Rows [from, to) are sample i's. Of sequences every position has a label, but those that are to be
 * ignored. */
static enum bst_err sample(const struct ref_call *c, const struct loss *l, int i, int64_t from,
                           int64_t to)
{
    int64_t k = ref_width(ref_src_shape(c, 0)), right = 0, targets = 0;
    real *dz = c->in->n_dst ? c->dst[0] : NULL;
    for (int64_t n = from; n < to; n++) {
        int32_t label = i < c->step->n_valid ? l->labels[n] : BST_LABEL_IGNORED;
        if (label == BST_LABEL_IGNORED) {
            for (int64_t j = 0; dz && j < k; j++)
                dz[n * k + j] = 0;
            continue;
        }
        if (label < 0 || label >= k)
            return bst_fail(BST_E_RANGE, "label %d of sample %d; the net has %d classes",
                            (int)label, i, (int)k);
        right += row(l, (const real *)c->src[0] + n * k, k, label, dz ? dz + n * k : NULL);
        targets++;
    }
    *l->correct += right;
    if (!c->in->attr.pair) {
        c->step->result->targets += targets;
        c->step->result->exact += targets && right == targets;
    }
    return BST_OK;
}

enum bst_err REF(softmax_ce)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const struct loss l = loss_of(c);
    int64_t per_sample = ref_rows(s) / s->d[0];
    if (!l.labels && c->step->n_valid)
        return bst_fail(BST_E_ARG, "the step has no labels for this loss");
    for (int i = 0; i < s->d[0]; i++)
        BST_TRY(sample(c, &l, i, i * per_sample, (i + 1) * per_sample));
    return BST_OK;
}
