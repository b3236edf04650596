/* The kernels of an update's end and of flat blocks for the device; a part of kern.cu. */
#include "core/backend/cuda/kern_update_body.h"

static __device__ __forceinline__ void sgd(const kern_sgd &a)
{
    for (int64_t i = first_item(); i < a.count; i += all_threads())
        kern_sgd_at(&a, i);
}

/* One of a tensor's partial sums. */
static __device__ __forceinline__ double squares_of(const float *x, int64_t count)
{
    double sum = 0;

    for (int64_t i = first_item(); i < count; i += all_threads())
        sum = fma((double)x[i], (double)x[i], sum);
    return block_sum(sum);
}

/* A tensor for each of the grid's y. */
static __device__ __forceinline__ void sum_squares(const kern_sum_squares &a)
{
    const double sum = squares_of(a.x[blockIdx.y], a.count[blockIdx.y]);

    if (threadIdx.x == 0)
        a.partial[blockIdx.y * KERN_SQUARES_BLOCKS + blockIdx.x] = sum;
}

static __device__ __forceinline__ void grad_squares(const kern_grad_squares &a)
{
    const kern_param &p = a.param[blockIdx.y];
    const double sum = squares_of(a.grad + p.offset, p.count);

    if (threadIdx.x == 0)
        a.partial[(size_t)blockIdx.y * KERN_SQUARES_BLOCKS + blockIdx.x] = sum;
}

/* A parameter a thread, then all of them. */
static __device__ __forceinline__ void decide(const kern_decide &a)
{
    __shared__ int first[KERN_THREADS], last[KERN_THREADS];
    const double unscale = 1 / a.scaler->scale;
    double total = 0, zeros = 0;
    int mine_first = -1, mine_last = -1;

    for (int i = threadIdx.x; i < a.n; i += KERN_THREADS) {
        double sum = 0;
        for (int k = 0; k < KERN_SQUARES_BLOCKS; k++)
            sum += a.partial[(size_t)i * KERN_SQUARES_BLOCKS + k];
        sum *= unscale * unscale;
        a.sum[i] = sum;
        if (a.param[i].frozen)
            continue;
        total += sum;
        zeros += sum == 0;
        if (!kern_is_finite(sum)) {
            mine_first = mine_first < 0 ? i : mine_first;
            mine_last = i;
        }
    }
    first[threadIdx.x] = mine_first;
    last[threadIdx.x] = mine_last;
    total = block_sum(total);
    zeros = block_sum(zeros);
    if (threadIdx.x == 0) {
        for (int i = 1; i < KERN_THREADS; i++) {
            if (first[i] >= 0 && (mine_first < 0 || first[i] < mine_first))
                mine_first = first[i];
            mine_last = last[i] > mine_last ? last[i] : mine_last;
        }
        kern_decide_all(&a, total, mine_first, mine_last, (int)zeros);
    }
}

static __device__ __forceinline__ void norms(const kern_optim &a, const kern_part &p,
                                             const kern_span &s)
{
    double *out = a.partial + 2 * ((size_t)blockIdx.y * KERN_SQUARES_BLOCKS + blockIdx.x);
    double ww = 0, mm = 0;

#pragma unroll 1 /* or registers run out, here and below */
    for (int64_t i = first_item(); i < p.count; i += all_threads())
        kern_norms_at(&a, &p, &s, i, &ww, &mm);
    ww = block_sum(ww);
    mm = block_sum(mm);
    if (threadIdx.x == 0) {
        out[0] = ww;
        out[1] = mm;
    }
}

/* Every block adds up its span's partial sums itself. */
static __device__ __forceinline__ float ratio_of(const kern_optim &a, const kern_span &s)
{
    const double *part = a.partial + 2 * (size_t)blockIdx.y * KERN_SQUARES_BLOCKS;
    const bool mine = (int)threadIdx.x < KERN_SQUARES_BLOCKS;
    const double ww = block_sum(mine ? part[2 * threadIdx.x] : 0);
    const double mm = block_sum(mine ? part[2 * threadIdx.x + 1] : 0);

    return kern_ratio(a.rules, &s, ww, mm);
}

/* A span for each of the grid's y. */
static __device__ __forceinline__ void optim(const kern_optim &a)
{
    const kern_span &s = a.span[blockIdx.y];

    if (a.decision->skip)
        return;
    if (a.sweep == KERN_SWEEP_NORMS) {
        norms(a, kern_part_of(&a, &s), s);
        return;
    }
    const float ratio = a.sweep == KERN_SWEEP_WEIGHTS ? ratio_of(a, s) : 1;
    const kern_part p = kern_part_of(&a, &s);
#pragma unroll 1
    for (int64_t i = first_item(); i < p.count; i += all_threads())
        kern_optim_at(&a, &p, &s, ratio, i);
}

static __device__ __forceinline__ void keep(const kern_keep &a)
{
    if (a.decision->skip)
        return;
    for (int64_t i = first_item(); i < a.count; i += all_threads())
        a.dst[i] = a.src[i];
}

/* A tensor a block. */
static __device__ __forceinline__ void sum_doubles(const kern_sum_doubles &a)
{
    const double *partial = a.partial + blockIdx.x * KERN_SQUARES_BLOCKS;
    double sum = 0;

    for (int i = threadIdx.x; i < KERN_SQUARES_BLOCKS; i += KERN_THREADS)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        a.sum[blockIdx.x] = sum;
}

static __device__ __forceinline__ void scale(const kern_scale &a)
{
    for (int64_t i = first_item(); i < a.count; i += all_threads())
        a.x[i] *= a.factor;
}

static __device__ __forceinline__ void accumulate(const kern_accumulate &a)
{
    for (int64_t i = first_item(); i < a.count; i += all_threads())
        a.dst[i] += a.src[i];
}
