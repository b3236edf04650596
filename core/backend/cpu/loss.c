/* Softmax and cross-entropy of […, K] logits, which its gradient takes the place of: there is no
 * second copy of either. A label a sample of few classes is worked out in double, which costs
 * nothing beside the net; labels of positions, and vocabularies, in single precision, their sums in
 * double. */
#include <math.h>
#include <string.h>

#include "core/backend/cpu/be.h"

enum { FEW = 1024 }; /* classes */

static enum bst_err describe_loss(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cpu_handle *h)
{
    const struct bst_shape *s = &p->values[in->src[0]].shape;

    (void)accumulate;
    (void)be;
    w->src[0] = BST_LAYOUT_PLAIN;
    w->dst[0] = BST_LAYOUT_PLAIN;
    w->inplace[0] = in->n_dst ? 0 : -1;
    w->scratch_bytes = cpu_rows(s) * 2 * sizeof(double);
    h->count = cpu_rows(s);
    return BST_OK;
}

/* Which of the step's losses this is. */
struct which {
    const int32_t *labels;
    double smoothing, scale;
};

static struct which which_of(const struct bst_call *c)
{
    if (c->in->attr.pair)
        return (struct which){c->step->pair, 0, c->step->pair_scale};
    return (struct which){c->step->labels, c->step->label_smoothing, c->step->grad_scale};
}

/* Loss of one row; dlogits may be NULL or be the logits. *correct: the first of the largest is the
 * label. */
static double row_loss(const float *x, float *dx, int k, int label, const struct which *which,
                       double *correct)
{
    double ls = which->smoothing, sum = 0, sum_x = 0, log_sum, xl;
    int top = 0;

    for (int j = 0; j < k; j++) {
        if (x[j] > x[top] || (isnan(x[j]) && !isnan(x[top])))
            top = j;
        sum_x += (double)x[j];
    }
    xl = (double)x[label];
    for (int j = 0; j < k; j++)
        sum += exp((double)x[j] - (double)x[top]);
    log_sum = log(sum) + (double)x[top];
    *correct = top == label;
    for (int j = 0; dx && j < k; j++) {
        double q = ls / k + (j == label ? 1 - ls : 0);

        dx[j] = (float)((exp((double)x[j] - log_sum) - q) * which->scale);
    }
    return log_sum - (1 - ls) * xl - ls / k * sum_x;
}

/* The same in single precision. */
static double row_loss_large(const struct cpu_vec_seq *v, float *x, float *dx, size_t k, int label,
                             const struct which *which, double *correct)
{
    double ls = which->smoothing, per = ls / (double)k, sum, log_sum;
    float top = v->max(x, k), xl = x[label];
    double sum_x = ls > 0 ? v->sum(x, k) : 0;

    *correct = xl >= top;
    for (int j = 0; j < label && *correct != 0; j++)
        *correct = x[j] < top;
    sum = v->exp_sum(dx, x, 1.0f, top, k);
    log_sum = log(sum) + (double)top;
    if (dx) {
        v->affine(dx, (float)(which->scale / sum), (float)(-per * which->scale), k);
        dx[label] -= (float)((1 - ls) * which->scale);
    }
    return log_sum - (1 - ls) * (double)xl - per * sum_x;
}

/* Of sequences every position has a label, but those that are to be ignored. */
static bool counts(const struct bst_call *c, const struct which *which, size_t row,
                   size_t per_sample)
{
    return row / per_sample < (size_t)c->step->n_valid && which->labels[row] != BST_LABEL_IGNORED;
}

static enum bst_err check_labels(const struct bst_call *c, const struct which *which, size_t rows,
                                 size_t per_sample, int k)
{
    if (!which->labels && c->step->n_valid)
        return bst_fail(BST_E_ARG, "the step has no labels for this loss");
    for (size_t i = 0; i < rows; i++)
        if (counts(c, which, i, per_sample) && (which->labels[i] < 0 || which->labels[i] >= k))
            return bst_fail(BST_E_RANGE, "%s: label %d of sample %zu; there are %d classes",
                            c->in->name, which->labels[i], i / per_sample, k);
    return BST_OK;
}

/* Row by row, in their order, whatever the team. */
static void add_up(const struct bst_call *c, const struct which *which, const double *loss,
                   const double *correct, size_t rows, size_t per_sample)
{
    struct bst_step_result *r = c->step->result;
    double *sum = c->in->attr.pair ? &r->pair_loss_sum : &r->loss_sum;

    for (size_t first = 0; first < rows; first += per_sample) {
        int64_t right = 0, targets = 0;

        for (size_t i = first; i < first + per_sample; i++) {
            if (!counts(c, which, i, per_sample))
                continue;
            *sum += loss[i];
            right += correct[i] != 0;
            targets++;
        }
        *(c->in->attr.pair ? &r->pair_correct : &r->correct) += right;
        r->targets += c->in->attr.pair ? 0 : targets;
        r->exact += !c->in->attr.pair && targets && right == targets;
    }
}

static enum bst_err run_loss(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cpu_src_shape(c, 0);
    const struct which which = which_of(c);
    size_t rows = h->count, k = cpu_width(s), per_sample = rows / (size_t)s->d[0];
    float *x = c->src[0], *dx = c->in->n_dst ? c->dst[0] : NULL;
    double *loss = c->scratch, *correct = loss + rows;
    int team = rows * k < CPU_SMALL / 16 ? 1 : be->threads;
    bool few = s->rank == 2 && k <= FEW;

    BST_TRY(check_labels(c, &which, rows, per_sample, (int)k));
#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        float *z = x + i * k, *dz = dx ? dx + i * k : NULL;

        if (!counts(c, &which, i, per_sample)) {
            if (dz)
                memset(dz, 0, k * sizeof *dz);
            continue;
        }
        loss[i] = few ? row_loss(z, dz, (int)k, which.labels[i], &which, &correct[i])
                      : row_loss_large(be->seq, z, dz, k, which.labels[i], &which, &correct[i]);
    }
    add_up(c, &which, loss, correct, rows, per_sample);
    return BST_OK;
}

const struct cpu_op cpu_op_softmax_ce = {describe_loss, run_loss};
