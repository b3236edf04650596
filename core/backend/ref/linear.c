/* y[r, k] = Σ_c x[r, c] · w[k, c] + b[k] for every row r of the axes before the last, with the GELU
 * that may be part of it, and the gradients. The weight is [out, in], or [in, out]. */
#include "core/backend/ref/ref_real.h"

struct layer {
    int64_t rows, in, out, first_row; /* of the weight and the bias: a part of them may be meant */
    int64_t step_in, step_out;        /* between neighbours of the weight along either axis */
};

static struct layer layer_of(const struct ref_call *c, const struct bst_shape *x,
                             const struct bst_shape *y)
{
    struct layer l = {ref_rows(x), ref_width(x), ref_width(y), c->in->attr.first_row,
                      1,           ref_width(x)};
    if (c->in->attr.in_out) {
        l.step_in = l.out;
        l.step_out = 1;
    }
    return l;
}

enum bst_err REF(linear_fwd)(const struct ref_call *c)
{
    const real *x = c->src[0], *w = c->src[1], *b = c->in->n_src > 2 ? c->src[2] : NULL;
    real *y = c->dst[0], *u = c->in->n_dst > 1 ? c->dst[1] : NULL;
    struct layer l = layer_of(c, ref_src_shape(c, 0), ref_dst_shape(c, 0));
    bool gelu = c->in->flags & BST_IF_GELU;
    w += l.first_row * l.in;
    b += b ? l.first_row : 0;
    for (int64_t n = 0; n < l.rows; n++) {
        for (int64_t k = 0; k < l.out; k++) {
            double sum = 0;
            for (int64_t i = 0; i < l.in; i++)
                sum += (double)x[n * l.in + i] * (double)w[k * l.step_out + i * l.step_in];
            real v = (real)(sum + (b ? (double)b[k] : 0));
            if (u)
                u[n * l.out + k] = v;
            y[n * l.out + k] = gelu ? (real)REF(gelu)((double)v, c->in->attr.tanh) : v;
        }
    }
    return BST_OK;
}

enum bst_err REF(linear_bwd_data)(const struct ref_call *c)
{
    const real *dy = c->src[0], *w = c->src[1];
    real *dx = c->dst[0];
    struct layer l = layer_of(c, ref_dst_shape(c, 0), ref_src_shape(c, 0));
    w += l.first_row * l.in;
    for (int64_t n = 0; n < l.rows; n++) {
        for (int64_t i = 0; i < l.in; i++) {
            double sum = 0;
            for (int64_t k = 0; k < l.out; k++)
                sum += (double)dy[n * l.out + k] * (double)w[k * l.step_out + i * l.step_in];
            dx[n * l.in + i] = (real)sum;
        }
    }
    return BST_OK;
}

static void bias_gradient(const struct ref_call *c, const struct layer *l, const real *dy)
{
    real *db = (real *)c->dst[1] + l->first_row;
    for (int64_t k = 0; k < l->out; k++) {
        double sum = 0;
        for (int64_t n = 0; n < l->rows; n++)
            sum += (double)dy[n * l->out + k];
        db[k] = (real)(ref_adds(c, 1) ? (double)db[k] + sum : sum);
    }
}

enum bst_err REF(linear_bwd_weight)(const struct ref_call *c)
{
    const real *x = c->src[0], *dy = c->src[1];
    real *dw = c->dst[0];
    struct layer l = layer_of(c, ref_src_shape(c, 0), ref_src_shape(c, 1));
    dw += l.first_row * l.in;
    for (int64_t k = 0; k < l.out; k++) {
        for (int64_t i = 0; i < l.in; i++) {
            double sum = 0;
            for (int64_t n = 0; n < l.rows; n++)
                sum += (double)dy[n * l.out + k] * (double)x[n * l.in + i];
            real *to = &dw[k * l.step_out + i * l.step_in];
            *to = (real)(ref_adds(c, 0) ? (double)*to + sum : sum);
        }
    }
    if (c->in->n_dst > 1)
        bias_gradient(c, &l, dy);
    return BST_OK;
}
