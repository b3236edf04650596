/* Layer norm over the last axis. Rows are dealt out for the values, columns for the parameters'
 * gradients, so that the number of threads moves no bit. */
#include <string.h>

#include "core/backend/cpu/be.h"

static enum bst_err describe_fwd(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    w->raw_bytes[1] = cpu_rows(&p->values[in->src[0]].shape) * sizeof(struct cpu_ln_row);
    w->inplace[0] = in->n_dst > 1 ? -1 : 0;
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

static enum bst_err run_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *x = c->src[0], *scale = c->src[1], *shift = c->src[2];
    struct cpu_ln_row *saved = c->in->n_dst > 1 ? c->dst[1] : NULL;
    size_t rows = cpu_rows(cpu_src_shape(c, 0)), d = cpu_width(cpu_src_shape(c, 0));
    float *y = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t r = 0; r < rows; r++) {
        struct cpu_ln_row row;

        be->seq->ln_row(y + r * d, x + r * d, scale, shift, d, c->in->attr.eps, &row);
        if (saved)
            saved[r] = row;
    }
    return BST_OK;
}

const struct cpu_op cpu_op_ln_fwd = {describe_fwd, run_fwd};

static enum bst_err describe_bwd(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    w->inplace[0] = 0;
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

void cpu_put_sums(float *dst, const double *sum, size_t n, bool add)
{
    for (size_t j = 0; j < n; j++)
        dst[j] = (float)(sum[j] + (add ? (double)dst[j] : 0));
}

/* Groups of columns, dealt out whole. */
static size_t groups(size_t n)
{
    return (n + CPU_COLUMNS - 1) / CPU_COLUMNS;
}

static size_t width(size_t n, size_t group)
{
    size_t from = group * CPU_COLUMNS;

    return n - from < CPU_COLUMNS ? n - from : CPU_COLUMNS;
}

void cpu_column_sums(struct bst_be *be, float *dst, const float *x, size_t rows, size_t n, bool add)
{
    int team = rows * n < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t g = 0; g < groups(n); g++) {
        double sum[CPU_COLUMNS] = {0};

        be->seq->columns_sum(sum, x + g * CPU_COLUMNS, n, rows, width(n, g));
        cpu_put_sums(dst + g * CPU_COLUMNS, sum, width(n, g), add);
    }
}

/* The parameters first: dx may take the place of dy. */
static enum bst_err run_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *dy = c->src[0], *x = c->src[1], *scale = c->src[2];
    const struct cpu_ln_row *saved = c->src[3];
    size_t rows = cpu_rows(cpu_src_shape(c, 0)), d = cpu_width(cpu_src_shape(c, 0));
    float *dx = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel num_threads(team)
    {
#pragma omp for schedule(static)
        for (size_t g = 0; g < groups(d); g++) {
            double a[CPU_COLUMNS] = {0}, b[CPU_COLUMNS] = {0};
            size_t at = g * CPU_COLUMNS, n = width(d, g);

            be->seq->columns_ln(a, b, x + at, dy + at, d, rows, saved, n);
            cpu_put_sums((float *)c->dst[1] + at, a, n, cpu_adds(c, 1));
            cpu_put_sums((float *)c->dst[2] + at, b, n, cpu_adds(c, 2));
        }
#pragma omp for schedule(static)
        for (size_t r = 0; r < rows; r++)
            be->seq->ln_row_bwd(dx + r * d, dy + r * d, x + r * d, scale, d, &saved[r]);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_ln_bwd = {describe_bwd, run_bwd};
