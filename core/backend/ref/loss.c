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

static void row(const struct ref_call *c, const real *z, int64_t k, int64_t label, real *dz)
{
    double smooth = c->step->label_smoothing, loss = 0;
    int64_t arg_max;
    double log_sum = log_sum_exp(z, k, &arg_max);
    for (int64_t i = 0; i < k; i++) {
        double target = smooth / (double)k + (i == label ? 1 - smooth : 0);
        double log_p = (double)z[i] - log_sum;
        loss -= target * log_p;
        if (dz)
            dz[i] = (real)((exp(log_p) - target) * c->step->grad_scale);
    }
    c->step->result->loss_sum += loss;
    c->step->result->correct += arg_max == label;
    c->step->result->targets++;
}

/* Of sequences every position has a label, but those that are to be ignored. */
enum bst_err REF(softmax_ce)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *z = c->src[0];
    real *dz = c->in->n_dst ? c->dst[0] : NULL;
    int64_t k = ref_width(s), rows = ref_rows(s), per_sample = rows / s->d[0];
    for (int64_t n = 0; n < rows; n++) {
        bool counts = n / per_sample < c->step->n_valid;
        int32_t label = counts ? c->step->labels[n] : BST_LABEL_IGNORED;
        if (label == BST_LABEL_IGNORED) {
            for (int64_t i = 0; dz && i < k; i++)
                dz[n * k + i] = 0;
            continue;
        }
        if (label < 0 || label >= k)
            return bst_fail(BST_E_RANGE, "label %d of sample %d; the net has %d classes",
                            (int)label, (int)(n / per_sample), (int)k);
        row(c, z + n * k, k, label, dz ? dz + n * k : NULL);
    }
    return BST_OK;
}
