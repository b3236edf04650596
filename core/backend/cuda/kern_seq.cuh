/* The kernels of sequences for the device; a part of kern.cu, which has their entries. */
#include "core/backend/cuda/kern_seq_body.h"

#define WARP 32

/* Elements of a tensor whose rows are `width` long: by whole groups where those are, else one at a
 * time, so that a group never leaves its row. */
template <class Use>
static __device__ __forceinline__ void by_rows(int64_t count, int64_t width, Use use)
{
    if (width % KERN_GROUP == 0) {
        for (int64_t j = first_item(); j < count / KERN_GROUP; j += all_threads())
            use(j * KERN_GROUP, KERN_GROUP);
    } else {
        for (int64_t i = first_item(); i < count; i += all_threads())
            use(i, 1);
    }
}

template <kern_type T> static __device__ __forceinline__ void embed(const kern_embed &a)
{
    by_rows(a.rows * a.width, a.width, [&](int64_t i, int n) { kern_embed_at(&a, T, i, n); });
}

/* A piece a block. */
template <kern_type T> static __device__ __forceinline__ void embed_bwd(const kern_embed_bwd &a)
{
    const kern_embed_piece p = a.piece[blockIdx.x];

    if (a.width % KERN_GROUP == 0) {
        for (int c = threadIdx.x * KERN_GROUP; c < a.width; c += blockDim.x * KERN_GROUP)
            kern_embed_bwd_at(&a, T, &p, c, KERN_GROUP);
    } else {
        for (int c = threadIdx.x; c < a.width; c += blockDim.x)
            kern_embed_bwd_at(&a, T, &p, c, 1);
    }
}

template <kern_type T> static __device__ __forceinline__ void position(const kern_position &a)
{
    by_rows(a.count, a.per_sample, [&](int64_t i, int n) { kern_position_at(&a, T, i, n); });
}

template <kern_type T>
static __device__ __forceinline__ void position_bwd(const kern_position_bwd &a)
{
    if (a.count % KERN_GROUP == 0)
        by_rows(a.count, a.per_sample,
                [&](int64_t i, int n) { kern_position_bwd_at(&a, T, i, n); });
    else
        by_rows(a.count, 1, [&](int64_t i, int n) { kern_position_bwd_at(&a, T, i, n); });
}

template <kern_type T> static __device__ __forceinline__ void sinusoid(const kern_sinusoid &a)
{
    for (int64_t i = first_item(); i < (int64_t)a.length * a.width; i += all_threads())
        kern_sinusoid_at(&a, T, i);
}

/* Over a warp; all lanes get the same bits, since each step adds the same two numbers in both. */
static __device__ __forceinline__ float warp_sum(float x)
{
    for (int step = WARP / 2; step; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* A row a warp, V features a lane at a time. A row is read again from the cache. */
template <kern_type T, int V> static __device__ __forceinline__ void ln_rows(const kern_ln &a)
{
    const int lane = threadIdx.x % WARP, from = lane * V, step = WARP * V;
    const int64_t warps = all_threads() / WARP;

    for (int64_t r = first_item() / WARP; r < a.rows; r += warps) {
        const size_t row = (size_t)(r * a.width);
        float sum = 0, squares = 0;

        for (int c = from; c < a.width; c += step) {
            const kern_oct x = kern_load_oct(a.x, T, row + c, V);
            sum += kern_oct_sum(&x, V);
        }
        const float mean = warp_sum(sum) / (float)a.width;
        for (int c = from; c < a.width; c += step) {
            const kern_oct x = kern_load_oct(a.x, T, row + c, V);
            squares += kern_oct_squares(&x, V, mean);
        }
        const float inv = kern_ln_inv(&a, warp_sum(squares));
        for (int c = from; c < a.width; c += step)
            kern_ln_at(&a, T, r, c, V, mean, inv);
        if (a.saved && lane == 0) {
            a.saved[2 * r] = mean;
            a.saved[2 * r + 1] = inv;
        }
    }
}

template <kern_type T> static __device__ __forceinline__ void ln(const kern_ln &a)
{
    if (a.width % KERN_GROUP)
        ln_rows<T, 1>(a);
    else
        ln_rows<T, KERN_GROUP>(a);
}

template <kern_type T, int V>
static __device__ __forceinline__ void ln_bwd_rows(const kern_ln_bwd &a)
{
    const int from = threadIdx.x % WARP * V, step = WARP * V;
    const int64_t warps = all_threads() / WARP;

    for (int64_t r = first_item() / WARP; r < a.rows; r += warps) {
        kern_pair sum = {0, 0};

        for (int c = from; c < a.width; c += step)
            kern_ln_bwd_add(&a, T, r, c, V, &sum);
        sum.a = warp_sum(sum.a);
        sum.b = warp_sum(sum.b);
        for (int c = from; c < a.width; c += step)
            kern_ln_bwd_at(&a, T, r, c, V, &sum);
    }
}

template <kern_type T> static __device__ __forceinline__ void ln_bwd(const kern_ln_bwd &a)
{
    if (a.width % KERN_GROUP)
        ln_bwd_rows<T, 1>(a);
    else
        ln_bwd_rows<T, KERN_GROUP>(a);
}

template <kern_type T, int V> struct ln_adder {
    __device__ ln_adder(const kern_ln_sums &, int)
    {
    }
    __device__ void add(const kern_ln_sums &a, int64_t r, size_t i, kern_pair *sum)
    {
        const kern_oct x = kern_load_oct(a.x, T, i, V), dy = kern_load_oct(a.dy, T, i, V);
        const float mean = a.saved[2 * r], inv = a.saved[2 * r + 1];
#pragma unroll
        for (int k = 0; k < V; k++)
            kern_ln_sums_add(&sum[k], x.v[k], dy.v[k], mean, inv);
    }
};

template <kern_type T> static __device__ __forceinline__ void ln_sums(const kern_ln_sums &a)
{
    if (a.c % KERN_GROUP)
        reduce_rows<1, ln_adder<T, 1>>(a, a.partial);
    else
        reduce_rows<KERN_GROUP, ln_adder<T, KERN_GROUP>>(a, a.partial);
}

template <kern_type T, int V> struct col_adder {
    __device__ col_adder(const kern_col_sums &, int)
    {
    }
    __device__ void add(const kern_col_sums &a, int64_t, size_t i, kern_pair *sum)
    {
        const kern_oct x = kern_load_oct(a.x, T, i, V);
#pragma unroll
        for (int k = 0; k < V; k++)
            sum[k].a += x.v[k];
    }
};

template <kern_type T> static __device__ __forceinline__ void col_sums(const kern_col_sums &a)
{
    if (a.c % KERN_GROUP)
        reduce_rows<1, col_adder<T, 1>>(a, a.partial);
    else
        reduce_rows<KERN_GROUP, col_adder<T, KERN_GROUP>>(a, a.partial);
}

static __device__ __forceinline__ void col_finish(const kern_col_finish &a)
{
    for (int64_t c = first_item(); c < a.c; c += all_threads())
        kern_col_finish_at(&a, (int)c);
}

/* A loop for each, so that nothing is asked per element. */
template <kern_type T> static __device__ __forceinline__ void curve(const kern_curve &a)
{
#define LOOP(op)                                                                                   \
    case op:                                                                                       \
        by_groups(a.count, [&](size_t i, int n) { kern_curve_oct(&a, op, T, i, n); });             \
        break;
    switch (a.op) {
        LOOP(KERN_GELU)
        LOOP(KERN_GELU_BWD)
        LOOP(KERN_GELU_TANH)
        LOOP(KERN_GELU_TANH_BWD)
        LOOP(KERN_TANH)
        LOOP(KERN_TANH_BWD)
    }
#undef LOOP
}

static __device__ __forceinline__ void draw(const kern_draw &a)
{
    if (first_item() == 0)
        *a.dst = a.state;
}

/* Eight elements a thread where samples are made of such groups, else a block of words a thread. */
template <kern_type T> static __device__ __forceinline__ void dropout(const kern_dropout &a)
{
    if (a.per_sample % KERN_GROUP == 0) {
        const int64_t each = a.per_sample / KERN_GROUP;

        for (int64_t j = first_item(); j < a.n * each; j += all_threads())
            kern_dropout_at(&a, T, j / each, j % each * 2, KERN_GROUP);
    } else {
        const int64_t each = (a.per_sample + 3) / 4;

        for (int64_t j = first_item(); j < a.n * each; j += all_threads()) {
            const int64_t left = a.per_sample - j % each * 4;

            kern_dropout_at(&a, T, j / each, j % each, left < 4 ? (int)left : 4);
        }
    }
}

template <kern_type T> static __device__ __forceinline__ void first(const kern_first &a)
{
    for (int64_t i = first_item(); i < a.n * a.width; i += all_threads())
        kern_first_at(&a, T, i);
}

template <kern_type T> static __device__ __forceinline__ void first_bwd(const kern_first_bwd &a)
{
    for (int64_t i = first_item(); i < a.n * a.length * a.width; i += all_threads())
        kern_first_bwd_at(&a, T, i);
}
