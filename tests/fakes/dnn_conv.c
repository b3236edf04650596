/* Convolutions over two dimensions: channel-last copies, so that the inner loops run over channels.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

static const struct conv_names names[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

const struct conv_names *dnn_conv_names(int type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? &names[0]
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? &names[1]
                                                                                  : &names[2];
}

static int64_t dim(const struct desc *t, int i)
{
    return desc_i64(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
}

cudnnStatus_t dnn_check_conv(const struct desc *op)
{
    const struct conv_names *nm = dnn_conv_names(op->type);
    const struct desc *x = desc_child(op, nm->x, 0);
    const struct desc *w = desc_child(op, nm->w, 0);
    const struct desc *y = desc_child(op, nm->y, 0);
    const struct desc *c = desc_child(op, nm->conv, 0);
    if (!c)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a convolution without its description");
    const struct desc *all[] = {x, w, y};
    for (int i = 0; i < 3; i++) {
        if (desc_count(all[i], CUDNN_ATTR_TENSOR_DIMENSIONS) != 4)
            return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "a convolution's tensors have rank 4");
    }
    if (dim(w, 1) != dim(x, 1))
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "grouped convolutions are not faked");
    if (dim(y, 0) != dim(x, 0) || dim(y, 1) != dim(w, 0))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a convolution's batch or channels");
    for (int i = 0; i < 2; i++) {
        int64_t reach = desc_i64(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) * (dim(w, 2 + i) - 1) + 1;
        int64_t padded = dim(x, 2 + i) + desc_i64(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
                         desc_i64(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        int64_t stride = desc_i64(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        if (padded < reach || stride < 1 || (padded - reach) / stride + 1 != dim(y, 2 + i))
            return dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                            "a convolution's result has %lld where %lld fit",
                            (long long)dim(y, 2 + i),
                            (long long)((padded - reach) / (stride < 1 ? 1 : stride) + 1));
    }
    return CUDNN_STATUS_SUCCESS;
}

struct geometry {
    int64_t N, C, H, W, K, P, Q, R, S;
    int64_t pad[2], stride[2], dilation[2];
};

/* A tensor in another order of its dimensions, packed: order[0] outermost. */
static float *reordered(const struct tensor *t, const int order[4])
{
    float *out = malloc((size_t)t->n * sizeof *out);
    float *to = out;
    const int64_t *d = t->dim;
    const int64_t *s = t->step;
    for (int64_t a = 0; a < d[order[0]]; a++)
        for (int64_t b = 0; b < d[order[1]]; b++)
            for (int64_t c = 0; c < d[order[2]]; c++)
                for (int64_t e = 0; e < d[order[3]]; e++)
                    *to++ =
                        t->v[a * s[order[0]] + b * s[order[1]] + c * s[order[2]] + e * s[order[3]]];
    return out;
}

/* t = alpha · from + beta · t, `from` in the order given. */
static void blend(struct tensor *t, const float *from, const int order[4], float alpha, float beta)
{
    const int64_t *d = t->dim;
    const int64_t *s = t->step;
    for (int64_t a = 0; a < d[order[0]]; a++)
        for (int64_t b = 0; b < d[order[1]]; b++)
            for (int64_t c = 0; c < d[order[2]]; c++)
                for (int64_t e = 0; e < d[order[3]]; e++) {
                    float *at = &t->v[a * s[order[0]] + b * s[order[1]] + c * s[order[2]] +
                                      e * s[order[3]]];
                    *at = alpha * *from++ + (beta != 0 ? beta * *at : 0);
                }
}

static const int nhwc[4] = {0, 2, 3, 1}; /* of activations: n, y, x, channel */
static const int rsck[4] = {2, 3, 1, 0}; /* of filters: y, x, channel in, channel out */
static const int rskc[4] = {2, 3, 0, 1};

/* Input rows and columns that an output position reaches through filter position (r, s); NULL
 * outside. */
static const float *input_at(const struct geometry *g, const float *x, int64_t n, int64_t p,
                             int64_t q, int64_t r, int64_t s)
{
    int64_t h = p * g->stride[0] - g->pad[0] + r * g->dilation[0];
    int64_t w = q * g->stride[1] - g->pad[1] + s * g->dilation[1];
    if (h < 0 || h >= g->H || w < 0 || w >= g->W)
        return NULL;
    return x + ((n * g->H + h) * g->W + w) * g->C;
}

/* y[k] += Σ_c x[c] w[c][k] */
static void forward_at(const struct geometry *g, const float *x, const float *w, float *y)
{
    for (int64_t c = 0; c < g->C; c++) {
        float v = x[c];
        const float *row = w + c * g->K;
        for (int64_t k = 0; k < g->K; k++)
            y[k] += v * row[k];
    }
}

/* dx[c] += Σ_k dy[k] w[k][c] */
static void data_at(const struct geometry *g, float *dx, const float *w, const float *dy)
{
    for (int64_t k = 0; k < g->K; k++) {
        float v = dy[k];
        const float *row = w + k * g->C;
        for (int64_t c = 0; c < g->C; c++)
            dx[c] += v * row[c];
    }
}

/* dw[c][k] += x[c] dy[k] */
static void filter_at(const struct geometry *g, const float *x, float *dw, const float *dy)
{
    for (int64_t c = 0; c < g->C; c++) {
        float v = x[c];
        float *row = dw + c * g->K;
        for (int64_t k = 0; k < g->K; k++)
            row[k] += v * dy[k];
    }
}

enum kind { FORWARD, DATA, FILTER };

static void convolve_image(const struct geometry *g, enum kind kind, float *x, float *w, float *y,
                           int64_t n)
{
    for (int64_t p = 0; p < g->P; p++)
        for (int64_t q = 0; q < g->Q; q++) {
            float *at_y = y + ((n * g->P + p) * g->Q + q) * g->K;
            for (int64_t r = 0; r < g->R; r++)
                for (int64_t s = 0; s < g->S; s++) {
                    const float *at_x = input_at(g, x, n, p, q, r, s);
                    float *at_w = w + (r * g->S + s) * g->C * g->K;
                    if (!at_x)
                        continue;
                    if (kind == FORWARD)
                        forward_at(g, at_x, at_w, at_y);
                    else if (kind == DATA)
                        data_at(g, x + (at_x - x), at_w, at_y);
                    else
                        filter_at(g, at_x, at_w, at_y);
                }
        }
}

/* A filter's gradient is a sum over all positions of all images: in parts, as engines have it, for
 * a single sum in fp32 would be off by its length. */
static void convolve(const struct geometry *g, enum kind kind, float *x, float *w, float *y)
{
    const size_t count = kind == FILTER ? (size_t)(g->R * g->S * g->C * g->K) : 0;
    float *part = count ? malloc(count * sizeof *part) : NULL;
    for (int64_t n = 0; n < g->N; n++) {
        if (part)
            memset(part, 0, count * sizeof *part);
        convolve_image(g, kind, x, part ? part : w, y, n);
        for (size_t i = 0; i < count; i++)
            w[i] += part[i];
    }
    free(part);
}

static struct geometry geometry_of(const struct tensor *x, const struct tensor *w,
                                   const struct tensor *y, const struct desc *conv)
{
    struct geometry g = {x->dim[0], x->dim[1], x->dim[2], x->dim[3], y->dim[1], y->dim[2],
                         y->dim[3], w->dim[2], w->dim[3], {0},       {0},       {0}};
    for (int i = 0; i < 2; i++) {
        g.pad[i] = desc_i64(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        g.stride[i] = desc_i64(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        g.dilation[i] = desc_i64(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
    }
    return g;
}

void dnn_run_conv(struct run *r, const struct desc *op)
{
    const struct conv_names *nm = dnn_conv_names(op->type);
    struct tensor *x = run_operand(r, op, nm->x);
    struct tensor *w = run_operand(r, op, nm->w);
    struct tensor *y = run_operand(r, op, nm->y);
    enum kind kind = nm == &names[0] ? FORWARD : nm == &names[1] ? DATA : FILTER;
    struct tensor *out = kind == FORWARD ? y : kind == DATA ? x : w;
    struct geometry g = geometry_of(x, w, y, desc_child(op, nm->conv, 0));
    float alpha = (float)desc_real(op, nm->alpha, 1);
    float beta = (float)desc_real(op, nm->beta, 0);
    if (beta != 0)
        run_load(r, out);
    const int *filter_order = kind == DATA ? rskc : rsck;
    float *px = kind == DATA ? calloc((size_t)x->n, sizeof *px) : reordered(x, nhwc);
    float *pw = kind == FILTER ? calloc((size_t)w->n, sizeof *pw) : reordered(w, filter_order);
    float *py = kind == FORWARD ? calloc((size_t)y->n, sizeof *py) : reordered(y, nhwc);
    convolve(&g, kind, px, pw, py);
    float *from = kind == FORWARD ? py : kind == DATA ? px : pw;
    blend(out, from, kind == FILTER ? filter_order : nhwc, alpha, beta);
    free(px);
    free(pw);
    free(py);
}
