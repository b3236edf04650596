/* The graphs are those of Dao et al. 2022 in the form in which cuDNN looks for them: forward with
 * the logarithm of each sum as a second result, backward with the probabilities made again from it.
 * What is between two operations is fp32; probabilities and their gradients are rounded to 16 bits
 * where they enter a product. */
#include "core/backend/cuda/attention_ask.h"

#include <inttypes.h>
#include <stdio.h>

#define ALL ((struct cuda_dnn_limits){-1, -1, -1})

struct builder {
    const struct cuda_attn_ask *a;
    struct cuda_dnn_graph *g;
};

void cuda_attn_key(const struct cuda_attn_ask *a, char out[CUDA_ATTN_KEY])
{
    snprintf(out, CUDA_ATTN_KEY,
             "attn_%s%s %s %" PRId64 "x%" PRId64 " %" PRId64 "x%" PRId64 " d%" PRId64 "%s%s%s%s",
             a->backward ? "bwd" : "fwd", a->backward && !a->steady ? "+any" : "",
             a->type == CUDNN_DATA_HALF ? "fp16" : "bf16", a->n, a->heads, a->tq, a->tk, a->dim,
             a->packed ? " packed" : "", a->causal ? " causal" : "", a->padded ? " padded" : "",
             a->drops ? " drops" : "");
}

int cuda_attn_tensors(const struct cuda_attn_ask *a, int64_t out[CUDA_ATTN_N])
{
    const bool used[CUDA_ATTN_N] = {
        [CUDA_ATTN_Q] = true,
        [CUDA_ATTN_K] = true,
        [CUDA_ATTN_V] = true,
        [CUDA_ATTN_Y] = true,
        [CUDA_ATTN_LSE] = true,
        [CUDA_ATTN_DY] = a->backward,
        [CUDA_ATTN_DQ] = a->backward,
        [CUDA_ATTN_DK] = a->backward,
        [CUDA_ATTN_DV] = a->backward,
        [CUDA_ATTN_QUERIES] = a->padded,
        [CUDA_ATTN_KEYS] = a->padded,
        [CUDA_ATTN_LEFT] = a->drops,
        [CUDA_ATTN_DELTA] = a->backward,
        [CUDA_ATTN_DQ_SUMS] = a->backward && !a->steady,
        [CUDA_ATTN_SCALE] = true,
        [CUDA_ATTN_LEAST] = a->padded || a->causal,
        [CUDA_ATTN_FACTOR] = a->drops,
        [CUDA_ATTN_BACK] = a->backward,
    };
    int n = 0;

    for (int i = 0; i < CUDA_ATTN_N; i++)
        if (used[i])
            out[n++] = i;
    return n;
}

/* [N, H, T, dim] of rows [N, T, row], or turned: [N, H, dim, T]. */
static int heads(struct builder *b, int64_t length, bool packed, bool turned)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t row = (packed ? 3 : 1) * a->heads * a->dim;
    const int64_t dim[4] = {a->n, a->heads, turned ? a->dim : length, turned ? length : a->dim};
    const int64_t stride[4] = {length * row, a->dim, turned ? 1 : row, turned ? row : 1};

    return cuda_dnn_strided(b->g, a->type, dim, stride, CUDA_DNN_REAL);
}

/* [N, H, Tq, last] */
static int dense(struct builder *b, cudnnDataType_t type, int64_t last, enum cuda_dnn_role role)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t dim[4] = {a->n, a->heads, a->tq, last};
    const int64_t stride[4] = {a->heads * a->tq * last, a->tq * last, last, 1};

    return cuda_dnn_strided(b->g, type, dim, stride, role);
}

static int scores(struct builder *b, cudnnDataType_t type)
{
    return dense(b, type, b->a->tk, CUDA_DNN_VIRTUAL);
}

static int row_values(struct builder *b)
{
    return dense(b, CUDNN_DATA_FLOAT, 1, CUDA_DNN_VIRTUAL);
}

/* All tensors in memory, in the order of their numbers; those that no operation has are as if they
 * were not there. */
static void add_tensors(struct builder *b)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t lengths[4] = {a->n, 1, 1, 1}, dense_one[4] = {1, 1, 1, 1};
    const int64_t sums[4] = {a->n, a->heads, a->tq, a->dim};
    const int64_t sums_stride[4] = {a->heads * a->tq * a->dim, a->tq * a->dim, a->dim, 1};

    heads(b, a->tq, a->packed, false);       /* q */
    heads(b, a->tk, a->packed, true);        /* k */
    heads(b, a->tk, a->packed, a->backward); /* v */
    heads(b, a->tq, false, false);           /* y */
    dense(b, CUDNN_DATA_FLOAT, 1, CUDA_DNN_REAL);
    heads(b, a->tq, false, false); /* dy */
    heads(b, a->tq, a->packed, false);
    heads(b, a->tk, a->packed, false);
    heads(b, a->tk, a->packed, false);
    cuda_dnn_strided(b->g, CUDNN_DATA_INT32, lengths, dense_one, CUDA_DNN_REAL);
    cuda_dnn_strided(b->g, CUDNN_DATA_INT32, lengths, dense_one, CUDA_DNN_REAL);
    dense(b, a->type, a->tk, CUDA_DNN_REAL);
    dense(b, CUDNN_DATA_FLOAT, 1, CUDA_DNN_REAL);
    cuda_dnn_strided(b->g, CUDNN_DATA_FLOAT, sums, sums_stride, CUDA_DNN_REAL);
    for (int i = CUDA_ATTN_SCALE; i < CUDA_ATTN_N; i++)
        cuda_dnn_strided(b->g, CUDNN_DATA_FLOAT, dense_one, dense_one, CUDA_DNN_VALUE);
}

static int pointwise(struct builder *b, cudnnPointwiseMode_t mode, int x, int with,
                     cudnnDataType_t type)
{
    const int y = scores(b, type);

    cuda_dnn_pointwise(b->g, mode, x, with, y);
    return y;
}

static int fp32(struct builder *b, cudnnPointwiseMode_t mode, int x, int with)
{
    return pointwise(b, mode, x, with, CUDNN_DATA_FLOAT);
}

static int index_along(struct builder *b, int s, int dimension)
{
    const int y = scores(b, CUDNN_DATA_INT32);

    cuda_dnn_index(b->g, s, dimension, y);
    return y;
}

static int select_or_least(struct builder *b, int s, int which)
{
    const int y = scores(b, CUDNN_DATA_FLOAT);

    cuda_dnn_select(b->g, s, CUDA_ATTN_LEAST, which, y);
    return y;
}

/* The least of all numbers in the place of a score that is not there. */
static int mask_padding(struct builder *b, int s)
{
    if (!b->a->padded)
        return s;
    const int i = index_along(b, s, 2), j = index_along(b, s, 3);
    const int row = pointwise(b, CUDNN_POINTWISE_CMP_LT, i, CUDA_ATTN_QUERIES, CUDNN_DATA_BOOLEAN);
    const int column = pointwise(b, CUDNN_POINTWISE_CMP_LT, j, CUDA_ATTN_KEYS, CUDNN_DATA_BOOLEAN);
    return select_or_least(
        b, s, pointwise(b, CUDNN_POINTWISE_LOGICAL_AND, row, column, CUDNN_DATA_BOOLEAN));
}

static int mask_future(struct builder *b, int s)
{
    if (!b->a->causal)
        return s;
    const int i = index_along(b, s, 2), j = index_along(b, s, 3);
    return select_or_least(b, s, pointwise(b, CUDNN_POINTWISE_CMP_GE, i, j, CUDNN_DATA_BOOLEAN));
}

static struct cuda_dnn_limits limits(const struct builder *b, int m, int n, int k)
{
    return b->a->padded ? (struct cuda_dnn_limits){m, n, k} : ALL;
}

/* scale · q·kᵀ */
static int scaled_scores(struct builder *b)
{
    const int s = scores(b, CUDNN_DATA_FLOAT);

    cuda_dnn_matmul(b->g, CUDA_ATTN_Q, CUDA_ATTN_K, s,
                    limits(b, CUDA_ATTN_QUERIES, CUDA_ATTN_KEYS, -1));
    return fp32(b, CUDNN_POINTWISE_MUL, s, CUDA_ATTN_SCALE);
}

/* Of each query: the maximum, and from it lse. Gives the probabilities. */
static int softmax(struct builder *b, int s)
{
    const int most = row_values(b), sum = row_values(b), log_sum = row_values(b);

    cuda_dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_MAX, s, most);
    const int e = fp32(b, CUDNN_POINTWISE_EXP, fp32(b, CUDNN_POINTWISE_SUB, s, most), -1);
    cuda_dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    cuda_dnn_pointwise(b->g, CUDNN_POINTWISE_LOG, sum, -1, log_sum);
    cuda_dnn_pointwise(b->g, CUDNN_POINTWISE_ADD, most, log_sum, CUDA_ATTN_LSE);
    return pointwise(b, CUDNN_POINTWISE_DIV, e, sum, b->a->drops ? CUDNN_DATA_FLOAT : b->a->type);
}

static void build_fwd(struct builder *b)
{
    int p = softmax(b, mask_future(b, mask_padding(b, scaled_scores(b))));

    if (b->a->drops) {
        p = fp32(b, CUDNN_POINTWISE_MUL, p, CUDA_ATTN_LEFT);
        p = pointwise(b, CUDNN_POINTWISE_MUL, p, CUDA_ATTN_FACTOR, b->a->type);
    }
    cuda_dnn_matmul(b->g, p, CUDA_ATTN_V, CUDA_ATTN_Y,
                    limits(b, CUDA_ATTN_QUERIES, -1, CUDA_ATTN_KEYS));
}

/* [N, H, Tk, Tq] in 16 bits, of scores: the same place in memory seen by columns. */
static int turned(struct builder *b, int s)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t dim[4] = {a->n, a->heads, a->tk, a->tq};
    const int64_t stride[4] = {a->heads * a->tq * a->tk, a->tq * a->tk, 1, a->tk};
    const int y = cuda_dnn_strided(b->g, a->type, dim, stride, CUDA_DNN_VIRTUAL);

    cuda_dnn_reshape(b->g, s, y);
    return y;
}

/* Σ dy·y of each query; before dropout's factor where it has one. */
static void add_delta(struct builder *b)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t dim[4] = {a->n, a->heads, a->tq, a->dim};
    const int64_t row = a->heads * a->dim;
    const int64_t stride[4] = {a->tq * row, a->dim, row, 1};
    const int product = cuda_dnn_strided(b->g, CUDNN_DATA_FLOAT, dim, stride, CUDA_DNN_VIRTUAL);
    const int sum = row_values(b);

    cuda_dnn_pointwise(b->g, CUDNN_POINTWISE_MUL, CUDA_ATTN_DY, CUDA_ATTN_Y, product);
    cuda_dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    cuda_dnn_pointwise(b->g, CUDNN_POINTWISE_MUL, sum, CUDA_ATTN_BACK, CUDA_ATTN_DELTA);
}

/* dq = ds·k, with the keys seen by rows again. Several blocks of keys have a share in each query's:
 * they are added up in memory in whatever order, or, to be steady, one after another. */
static void add_dq(struct builder *b, int ds)
{
    const struct cuda_attn_ask *a = b->a;
    const int64_t row = (a->packed ? 3 : 1) * a->heads * a->dim;
    const int64_t dim[4] = {a->n, a->heads, a->tk, a->dim};
    const int64_t stride[4] = {a->tk * row, a->dim, row, 1};
    const int k = cuda_dnn_strided(b->g, a->type, dim, stride, CUDA_DNN_VIRTUAL);
    const int to = a->steady ? CUDA_ATTN_DQ : CUDA_ATTN_DQ_SUMS;

    cuda_dnn_reshape(b->g, CUDA_ATTN_K, k);
    cuda_dnn_matmul(b->g, ds, k, to, limits(b, CUDA_ATTN_QUERIES, -1, CUDA_ATTN_KEYS));
    if (!a->steady)
        cuda_dnn_pointwise(b->g, CUDNN_POINTWISE_IDENTITY, to, -1, CUDA_ATTN_DQ);
}

/* With p the softmax, m what dropout leaves, f its factor: dv = (p∘m·f)ᵀ·dy,
 * ds = p∘((dy·vᵀ)∘m - Σ dy·y / f)·f·scale, dk = dsᵀ·q. */
static void build_bwd(struct builder *b)
{
    const struct cuda_dnn_limits by_key = limits(b, CUDA_ATTN_KEYS, -1, CUDA_ATTN_QUERIES);
    const bool drops = b->a->drops;

    add_delta(b);
    int s = mask_padding(b, scaled_scores(b));
    s = mask_future(b, fp32(b, CUDNN_POINTWISE_SUB, s, CUDA_ATTN_LSE));
    const int p = fp32(b, CUDNN_POINTWISE_EXP, s, -1);
    int left = p;
    if (drops) {
        left = fp32(b, CUDNN_POINTWISE_MUL, left, CUDA_ATTN_LEFT);
        left = fp32(b, CUDNN_POINTWISE_MUL, left, CUDA_ATTN_FACTOR);
    }
    cuda_dnn_matmul(b->g, turned(b, left), CUDA_ATTN_DY, CUDA_ATTN_DV, by_key);

    int dp = scores(b, CUDNN_DATA_FLOAT);
    cuda_dnn_matmul(b->g, CUDA_ATTN_DY, CUDA_ATTN_V, dp,
                    limits(b, CUDA_ATTN_QUERIES, CUDA_ATTN_KEYS, -1));
    if (drops)
        dp = fp32(b, CUDNN_POINTWISE_MUL, dp, CUDA_ATTN_LEFT);
    dp = fp32(b, CUDNN_POINTWISE_SUB, dp, CUDA_ATTN_DELTA);
    dp = fp32(b, CUDNN_POINTWISE_MUL, dp, p);
    if (drops)
        dp = fp32(b, CUDNN_POINTWISE_MUL, dp, CUDA_ATTN_FACTOR);
    const int ds = pointwise(b, CUDNN_POINTWISE_MUL, dp, CUDA_ATTN_SCALE, b->a->type);
    cuda_dnn_matmul(b->g, turned(b, ds), CUDA_ATTN_Q, CUDA_ATTN_DK, by_key);
    add_dq(b, ds);
}

enum bst_err cuda_attn_plan(const struct cuda_attn_ask *a, cudnnBackendDescriptor_t device,
                            struct cuda_dnn_plan *out)
{
    const struct cuda_dnn_wish wish = {
        .refuse = !a->backward || a->steady ? CUDA_DNN_NOTE(NONDETERMINISTIC) : 0,
        .workspace_most = -1};
    struct builder b = {a, cuda_dnn_graph_new()};
    int n = 0;

    add_tensors(&b);
    if (a->backward)
        build_bwd(&b);
    else
        build_fwd(&b);
    enum bst_err err = cuda_dnn_plans(b.g, device, &wish, out, 1, &n, NULL);
    cuda_dnn_graph_free(b.g);
    return err;
}
