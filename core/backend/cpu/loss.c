/* Softmax and cross-entropy of [N, K] logits, in double: K is small beside the net. */
#include <math.h>
#include <string.h>

#include "core/backend/cpu/be.h"

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
    w->scratch_bytes = (size_t)s->d[0] * 2 * sizeof(double);
    h->act.n = (int)s->d[0];
    h->act.c = (int)s->d[1];
    return BST_OK;
}

/* Loss of one row; dlogits may be NULL or be the logits. *correct: the first of the largest is the
 * label. */
static double row_loss(const float *x, float *dx, int k, int label, const struct bst_step *step,
                       double *correct)
{
    double ls = step->label_smoothing, sum = 0, sum_x = 0, log_sum, xl;
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

        dx[j] = (float)((exp((double)x[j] - log_sum) - q) * step->grad_scale);
    }
    return log_sum - (1 - ls) * xl - ls / k * sum_x;
}

static enum bst_err run_loss(struct bst_be *be, struct cpu_handle *h, const struct cpu_call *c)
{
    int n = h->act.n, k = h->act.c, valid = c->step->n_valid;
    const float *x = c->src[0];
    float *dx = c->in->n_dst ? c->dst[0] : NULL;
    double *loss = c->scratch, *correct = loss + n;
    int team = n * k < CPU_SMALL / 16 ? 1 : be->threads;

    for (int i = 0; i < valid && i < n; i++)
        if (c->step->labels[i] < 0 || c->step->labels[i] >= k)
            return bst_fail(BST_E_RANGE, "%s: label %d of sample %d; there are %d classes",
                            c->in->name, c->step->labels[i], i, k);
#pragma omp parallel for num_threads(team) schedule(static)
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * (size_t)k;

        if (i < valid)
            loss[i] =
                row_loss(x + at, dx ? dx + at : NULL, k, c->step->labels[i], c->step, &correct[i]);
        else if (dx)
            memset(dx + at, 0, (size_t)k * sizeof *dx);
    }
    for (int i = 0; i < valid && i < n; i++) {
        c->step->result->loss_sum += loss[i];
        c->step->result->correct += correct[i] != 0;
    }
    return BST_OK;
}

const struct cpu_op cpu_op_softmax_ce = {describe_loss, run_loss};
