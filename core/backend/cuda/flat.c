/* Work over blocks of parameters, gradients and optimizer state: fp32, whatever the activations. */
#include <string.h>

#include "core/backend/cuda/be.h"

static int64_t count_of(size_t bytes)
{
    return (int64_t)(bytes / sizeof(float));
}

/* The other blocks may be other devices', and dst may be one of them: a chunk is added up where
 * nobody else looks, in their order, and copied to its place. */
static enum bst_err sum_chunk(struct bst_be *be, char *dst, const void *const *srcs, int n_srcs,
                              size_t from, size_t bytes)
{
    float *sum = be->sum_chunk, *next = sum + count_of(CUDA_SUM_CHUNK);

    for (int k = 0; k < n_srcs; k++) {
        const struct kern_accumulate add = {sum, next, count_of(bytes)};

        BST_TRY(cuda_fail(cudaMemcpyAsync(k ? next : sum, (const char *)srcs[k] + from, bytes,
                                          cudaMemcpyDefault, be->stream),
                          "copy between devices"));
        if (k)
            BST_TRY(cuda_fail(kern_run_accumulate(be->stream, KERN_F32, &add), "sum"));
    }
    return cuda_fail(cudaMemcpyAsync(dst + from, sum, bytes, cudaMemcpyDeviceToDevice, be->stream),
                     "sum");
}

enum bst_err cuda_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                      size_t bytes)
{
    if (!be->sum_chunk)
        BST_TRY(cuda_fail(cudaMalloc((void **)&be->sum_chunk, 2 * (size_t)CUDA_SUM_CHUNK),
                          "room for sums over devices"));
    for (size_t from = 0; from < bytes; from += CUDA_SUM_CHUNK) {
        const size_t left = bytes - from;

        BST_TRY(sum_chunk(be, dst, srcs, n_srcs, from,
                          left < CUDA_SUM_CHUNK ? left : (size_t)CUDA_SUM_CHUNK));
    }
    return cuda_wait(be);
}

enum bst_err cuda_scale(struct bst_be *be, void *dst, double factor, size_t bytes)
{
    const struct kern_scale a = {dst, count_of(bytes), (float)factor};

    BST_TRY(cuda_fail(kern_run_scale(be->stream, KERN_F32, &a), "scaling"));
    return cuda_wait(be);
}

enum bst_err cuda_narrow(struct bst_be *be, void *dst, const float *src, int64_t count)
{
    const struct kern_cast a = {src, dst, count, false, false};

    return cuda_fail(kern_run_cast(be->stream, be->type, &a), "rounding to 16 bits");
}

enum bst_err cuda_widen(struct bst_be *be, float *dst, const void *src, int64_t count, bool add)
{
    struct kern_cast a = {.src = src, .count = count, .widen = true, .add = add};

    a.dst = dst;
    return cuda_fail(kern_run_cast(be->stream, be->type, &a), "a gradient to fp32");
}

enum bst_err cuda_copy_later(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    return cuda_fail(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, be->stream), "copy");
}

enum bst_err cuda_copy(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    BST_TRY(cuda_copy_later(be, dst, src, bytes));
    return cuda_wait(be);
}

static enum bst_err some_squares(struct bst_be *be, const void *const *x, const size_t *bytes,
                                 int n, double *out)
{
    double *partial = be->sums + KERN_SQUARES_TENSORS;
    const struct kern_sum_doubles all = {partial, be->sums, n};
    struct kern_sum_squares parts = {.partial = partial, .n = n};

    for (int i = 0; i < n; i++) {
        parts.x[i] = x[i];
        parts.count[i] = count_of(bytes[i]);
    }
    BST_TRY(cuda_fail(kern_run_sum_squares(be->stream, KERN_F32, &parts), "norm"));
    BST_TRY(cuda_fail(kern_run_sum_doubles(be->stream, KERN_F32, &all), "norm"));
    BST_TRY(cuda_fail(cudaMemcpyAsync(be->sums_host, be->sums, (size_t)n * sizeof *out,
                                      cudaMemcpyDeviceToHost, be->stream),
                      "norm"));
    BST_TRY(cuda_wait(be));
    memcpy(out, be->sums_host, (size_t)n * sizeof *out);
    return BST_OK;
}

enum bst_err cuda_sum_squares_each(struct bst_be *be, const void *const *x, const size_t *bytes,
                                   int n, double *out)
{
    for (int i = 0; i < n; i += KERN_SQUARES_TENSORS)
        BST_TRY(some_squares(be, x + i, bytes + i,
                             n - i < KERN_SQUARES_TENSORS ? n - i : KERN_SQUARES_TENSORS, out + i));
    return BST_OK;
}

enum bst_err cuda_sum_squares(struct bst_be *be, const void *x, size_t bytes, double *out)
{
    return some_squares(be, &x, &bytes, 1, out);
}

enum bst_err cuda_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                      size_t bytes)
{
    const struct kern_sgd a = {
        .w = w,
        .v = v,
        .g = g,
        .count = count_of(bytes),
        .lr = (float)how->lr,
        .momentum = (float)how->momentum,
        .weight_decay = (float)how->weight_decay,
        .grad_factor = (float)how->grad_factor,
        .v_factor = 1,
        .nesterov = how->nesterov,
        .first = how->first,
    };

    BST_TRY(cuda_fail(kern_run_sgd(be->stream, KERN_F32, &a), "optimizer"));
    return cuda_wait(be);
}
