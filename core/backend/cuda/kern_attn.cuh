/* The kernels of attention for the device; a part of kern.cu, behind those of sequences. A row of
 * scores is a warp's. */
#include "core/backend/cuda/kern_attn_body.h"

static __device__ __forceinline__ void attn_keys(const kern_attn_keys &a)
{
    for (int64_t i = first_item(); i < a.n; i += all_threads())
        kern_attn_keys_at(&a, i);
}

template <kern_type T> static __device__ __forceinline__ void attn_pack(const kern_attn_pack &a)
{
    const int64_t all = a.heads.n * a.rows * (a.dim / KERN_GROUP);

    for (int64_t j = first_item(); j < all; j += all_threads())
        kern_attn_pack_oct(&a, T, j);
}

template <kern_type T> static __device__ __forceinline__ void attn_unpack(const kern_attn_unpack &a)
{
    const int64_t all = a.heads.n * a.rows * (a.dim / KERN_GROUP);

    for (int64_t j = first_item(); j < all; j += all_threads())
        kern_attn_unpack_oct(&a, T, j);
}

template <kern_type T> static __device__ __forceinline__ void attn_delta(const kern_attn_delta &a)
{
    for (int64_t r = first_item(); r < a.heads.n * a.rows; r += all_threads())
        kern_attn_delta_at(&a, T, r);
}

/* All lanes get it. */
static __device__ __forceinline__ float warp_max(float x)
{
    for (int step = WARP / 2; step; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, step);

        x = other > x ? other : x;
    }
    return x;
}

/* The warp's row, and the lane's first group in it. */
static __device__ __forceinline__ int64_t warp_row()
{
    return (int64_t)blockIdx.x * (KERN_THREADS / WARP) + threadIdx.x / WARP;
}

static __device__ __forceinline__ int lane_key()
{
    return (int)(threadIdx.x % WARP) * KERN_ATTN_GROUP;
}

#define WARP_KEYS (WARP * KERN_ATTN_GROUP)

/* What is written lies before what other lanes have yet to read: in 16 bits a row takes half the
 * room of its scores, and each step begins once all have read theirs. */
template <kern_type T>
static __device__ __forceinline__ void attn_softmax(const kern_attn_softmax &a)
{
    const kern_attn_tile &t = a.tile;
    const int64_t r = warp_row();

    if (r >= t.heads.n * t.rows)
        return;
    const kern_attn_row row = kern_attn_row_of(&t, r);
    float *s = a.scores + r * t.width, most = -INFINITY, sum = 0;

    for (int j = lane_key(); j < row.sees; j += WARP_KEYS)
        most = kern_attn_max4(s, j, row.sees, most);
    most = warp_max(most);
    for (int j = lane_key(); j < row.sees; j += WARP_KEYS)
        sum += kern_attn_sum4(s, j, row.sees, t.scale, most);
    sum = warp_sum(sum);
    for (int first = 0; first < t.width; first += WARP_KEYS) {
        const int j = first + lane_key();
        kern_quad q = {{0}};

        if (j < t.width)
            q = kern_attn_load4(s, j);
        __syncwarp();
        if (j < t.width) {
            kern_attn_softmax4(&a, &row, j, most, 1 / sum, &q);
            kern_attn_store4(s, T, j, &q);
        }
    }
    if (a.lse && threadIdx.x % WARP == 0 && kern_attn_is_there(&t, &row))
        a.lse[row.head * t.tq + row.i] = row.sees ? fmaf(most, t.scale, logf(sum)) : 0;
}

template <kern_type T> static __device__ __forceinline__ void attn_grad(const kern_attn_grad &a)
{
    const kern_attn_tile &t = a.tile;
    const int64_t r = warp_row();

    if (r >= t.heads.n * t.rows)
        return;
    const kern_attn_row row = kern_attn_row_of(&t, r);
    float *s = a.scores + r * t.width, *dp = a.dp + r * t.width, lse = 0, delta = 0;

    if (row.sees) {
        lse = a.lse[row.head * t.tq + row.i];
        delta = a.delta[r / t.rows * a.delta_rows + row.i];
    }
    for (int first = 0; first < t.width; first += WARP_KEYS) {
        const int j = first + lane_key();
        kern_quad p = {{0}}, d = {{0}};

        if (j < t.width) {
            p = kern_attn_load4(s, j);
            d = kern_attn_load4(dp, j);
        }
        __syncwarp();
        if (j < t.width) {
            kern_attn_grad4(&a, &row, j, lse, delta, &p, &d);
            kern_attn_store4(s, T, j, &p);
            kern_attn_store4(dp, T, j, &d);
        }
    }
}

template <kern_type T> static __device__ __forceinline__ void attn_left(const kern_attn_left &a)
{
    const int64_t blocks = (a.tk + KERN_ATTN_GROUP - 1) / KERN_ATTN_GROUP;
    const int64_t all = a.heads.n * a.tq * blocks;

    for (int64_t i = first_item(); i < all; i += all_threads())
        kern_attn_left4(&a, T, i / blocks, (int)(i % blocks));
}

template <kern_type T> static __device__ __forceinline__ void attn_settle(const kern_attn_settle &a)
{
    const int64_t all = a.n * a.rows * (a.width / KERN_GROUP);

    for (int64_t j = first_item(); j < all; j += all_threads())
        kern_attn_settle_oct(&a, T, j);
}
