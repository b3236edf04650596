/* Where sequences begin: rows of a table by token, and what tells positions apart; and the first
 * position alone, where one may end. */
#include <math.h>
#include <string.h>

#include "core/backend/ref/ref_real.h"
#include "core/backend/tokens.h"

/* Samples that do not count are 0. */
enum bst_err REF(embed_fwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *w = c->src[0];
    real *y = c->dst[0];
    const int32_t *tokens;
    int64_t rows, d = s->d[2];
    BST_TRY(
        bst_step_tokens(c->step, c->in->attr.stream, s, ref_src_shape(c, 0)->d[0], &tokens, &rows));
    memset(y, 0, (size_t)bst_shape_count(s) * sizeof *y);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < d; i++)
            y[r * d + i] = (real)((double)w[tokens[r] * d + i] * c->in->attr.scale);
    }
    return BST_OK;
}

/* One row of the table at a time, its sum in double: what a token adds is in the order of the
 * batch. */
enum bst_err REF(embed_bwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *dy = c->src[0];
    real *dw = c->dst[0];
    const int32_t *tokens;
    int64_t rows, d = s->d[2], table = ref_dst_shape(c, 0)->d[0];
    BST_TRY(bst_step_tokens(c->step, c->in->attr.stream, s, table, &tokens, &rows));
    for (int64_t t = 0; t < table; t++) {
        for (int64_t i = 0; i < d; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++)
                sum += tokens[r] == t ? (double)dy[r * d + i] : 0;
            real *to = &dw[t * d + i];
            sum *= c->in->attr.scale;
            *to = (real)(ref_adds(c, 0) ? (double)*to + sum : sum);
        }
    }
    return BST_OK;
}

enum bst_err REF(position_fwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *x = c->src[0], *w = c->src[1];
    real *y = c->dst[0];
    int64_t td = s->d[1] * s->d[2];
    for (int64_t i = 0, n = bst_shape_count(s); i < n; i++)
        y[i] = x[i] + w[i % td];
    return BST_OK;
}

/* Positions past the sequences' length have no gradient. */
enum bst_err REF(position_bwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *dy = c->src[0];
    real *dw = c->dst[0];
    int64_t td = s->d[1] * s->d[2];
    for (int64_t i = 0, n = bst_shape_count(ref_dst_shape(c, 0)); i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < s->d[0] && i < td; k++)
            sum += (double)dy[k * td + i];
        dw[i] = (real)(ref_adds(c, 0) ? (double)dw[i] + sum : sum);
    }
    return BST_OK;
}

/* Vaswani et al. 2017, 3.5: PE(t, 2i) = sin(t / 10000^(2i/D)), PE(t, 2i+1) = cos(the same). */
enum bst_err REF(sinusoid)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *x = c->src[0];
    real *y = c->dst[0];
    int64_t d = s->d[2];
    for (int64_t i = 0, n = bst_shape_count(s); i < n; i++) {
        int64_t t = i / d % s->d[1], k = i % d;
        double angle = (double)t / pow(10000, (double)(k - k % 2) / (double)d);
        y[i] = x[i] + (real)(k % 2 ? cos(angle) : sin(angle));
    }
    return BST_OK;
}

enum bst_err REF(first_fwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_src_shape(c, 0);
    const real *x = c->src[0];
    real *y = c->dst[0];
    for (int64_t n = 0; n < s->d[0]; n++)
        memcpy(y + n * s->d[2], x + n * s->d[1] * s->d[2], (size_t)s->d[2] * sizeof *y);
    return BST_OK;
}

enum bst_err REF(first_bwd)(const struct ref_call *c)
{
    const struct bst_shape *s = ref_dst_shape(c, 0);
    const real *dy = c->src[0];
    real *dx = c->dst[0];
    memset(dx, 0, (size_t)bst_shape_count(s) * sizeof *dx);
    for (int64_t n = 0; n < s->d[0]; n++)
        memcpy(dx + n * s->d[1] * s->d[2], dy + n * s->d[2], (size_t)s->d[2] * sizeof *dx);
    return BST_OK;
}
