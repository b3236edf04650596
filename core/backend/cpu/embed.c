/* Where sequences begin: rows of a table by token, and what tells positions apart; and the first
 * position alone, where one may end. A table's
 * gradient is dealt out by columns and gathered in the order of the batch, so that it does not
 * depend on the number of threads and no two of them meet. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"
#include "core/backend/tokens.h"

static enum bst_err run_embed_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cpu_dst_shape(c, 0);
    size_t d = cpu_width(s), all = cpu_rows(s);
    float *y = c->dst[0], scale = (float)c->in->attr.scale;
    int team = h->count < CPU_SMALL ? 1 : be->threads;
    const float *table = c->src[0];
    const int32_t *tokens;
    int64_t rows;

    BST_TRY(
        bst_step_tokens(c->step, c->in->attr.stream, s, cpu_src_shape(c, 0)->d[0], &tokens, &rows));
#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t r = 0; r < all; r++) {
        if (r < (size_t)rows)
            be->seq->copy_scaled(y + r * d, table + (size_t)tokens[r] * d, scale, d);
        else
            memset(y + r * d, 0, d * sizeof *y);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_embed_fwd = {cpu_describe_plain, run_embed_fwd};

/* Columns [from, to) of this thread, whole cache lines. */
static void columns(size_t d, int t, int team, size_t *from, size_t *to)
{
    size_t lines = (d + 15) / 16;

    *from = lines * (size_t)t / (size_t)team * 16;
    *to = lines * (size_t)(t + 1) / (size_t)team * 16;
    *from = *from < d ? *from : d;
    *to = *to < d ? *to : d;
}

static enum bst_err run_embed_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cpu_src_shape(c, 0);
    size_t d = cpu_width(s), table = (size_t)cpu_dst_shape(c, 0)->d[0];
    const float *dy = c->src[0];
    float *dw = c->dst[0], scale = (float)c->in->attr.scale;
    int team = h->count < CPU_SMALL ? 1 : be->threads;
    bool add = cpu_adds(c, 0);
    const int32_t *tokens;
    int64_t rows;

    BST_TRY(bst_step_tokens(c->step, c->in->attr.stream, s, (int64_t)table, &tokens, &rows));
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t from, to;

        columns(d, t, team, &from, &to);
        for (size_t r = 0; r < table && !add; r++)
            memset(dw + r * d + from, 0, (to - from) * sizeof *dw);
        for (size_t r = 0; r < (size_t)rows; r++)
            be->seq->add_scaled(dw + (size_t)tokens[r] * d + from, dy + r * d + from, scale,
                                to - from);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_embed_bwd = {cpu_describe_plain, run_embed_bwd};

static enum bst_err describe_sum(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    w->inplace[0] = 0;
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

/* y = x + the same [T, D] for every sample. */
static enum bst_err add_table(struct bst_be *be, const struct bst_call *c, const float *table)
{
    const struct bst_shape *s = cpu_dst_shape(c, 0);
    size_t d = cpu_width(s), t = (size_t)s->d[1], rows = cpu_rows(s);
    const float *x = c->src[0];
    float *y = c->dst[0];
    int team = rows * d < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t r = 0; r < rows; r++)
        be->vec->add(y + r * d, x + r * d, table + r % t * d, d);
    return BST_OK;
}

static enum bst_err run_position_fwd(struct bst_be *be, struct cpu_handle *h,
                                     const struct bst_call *c)
{
    (void)h;
    return add_table(be, c, c->src[1]);
}

const struct cpu_op cpu_op_position_fwd = {describe_sum, run_position_fwd};

/* A position's row is a column sum over the samples. */
static enum bst_err run_position_bwd(struct bst_be *be, struct cpu_handle *h,
                                     const struct bst_call *c)
{
    const struct bst_shape *s = cpu_src_shape(c, 0);
    size_t td = (size_t)(s->d[1] * s->d[2]), all = h->count;
    bool add = cpu_adds(c, 0);
    float *dw = c->dst[0];

    cpu_column_sums(be, dw, c->src[0], (size_t)s->d[0], td, add);
    if (!add)
        memset(dw + td, 0, (all - td) * sizeof *dw);
    return BST_OK;
}

const struct cpu_op cpu_op_position_bwd = {cpu_describe_plain, run_position_bwd};

/* Vaswani et al. 2017, 3.5. */
static enum bst_err describe_sinusoid(struct bst_be *be, const struct bst_program *p,
                                      const struct bst_instr *in, bool accumulate,
                                      struct bst_wants *w, struct cpu_handle *h)
{
    const struct bst_shape *s = &p->values[in->dst[0]].shape;
    size_t t = (size_t)s->d[1], d = (size_t)s->d[2];

    h->table = bst_xcalloc(t * d, sizeof *h->table);
    for (size_t i = 0; i < t; i++)
        for (size_t k = 0; k < d; k++) {
            double angle = (double)i / pow(10000, (double)(k - k % 2) / (double)d);

            h->table[i * d + k] = (float)(k % 2 ? cos(angle) : sin(angle));
        }
    return describe_sum(be, p, in, accumulate, w, h);
}

static enum bst_err run_sinusoid(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    return add_table(be, c, h->table);
}

const struct cpu_op cpu_op_sinusoid = {describe_sinusoid, run_sinusoid};

static enum bst_err run_first_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cpu_src_shape(c, 0);
    size_t d = (size_t)s->d[2], td = (size_t)s->d[1] * d;

    (void)be;
    (void)h;
    for (size_t n = 0; n < (size_t)s->d[0]; n++)
        memcpy((float *)c->dst[0] + n * d, (const float *)c->src[0] + n * td, d * sizeof(float));
    return BST_OK;
}

static enum bst_err run_first_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cpu_dst_shape(c, 0);
    size_t d = (size_t)s->d[2], td = (size_t)s->d[1] * d;

    (void)be;
    memset(c->dst[0], 0, h->count * sizeof(float));
    for (size_t n = 0; n < (size_t)s->d[0]; n++)
        memcpy((float *)c->dst[0] + n * td, (const float *)c->src[0] + n * d, d * sizeof(float));
    return BST_OK;
}

const struct cpu_op cpu_op_first_fwd = {cpu_describe_plain, run_first_fwd};
const struct cpu_op cpu_op_first_bwd = {cpu_describe_plain, run_first_bwd};
