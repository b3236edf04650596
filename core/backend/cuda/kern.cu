/* The kernels for the device. A name is bst_<kernel> or bst_<kernel>_<type>, without C++'s
 * mangling: the fakes find the host's version by it. */
#include "core/backend/cuda/kern_body.h"

/* Threads of a one-dimensional grid, each taking every `all`-th item. */
static __device__ __forceinline__ int64_t first_item()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t all_threads()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* A tensor's groups of eight with the channels' coefficients: kept while a thread stays in the same
 * channels, which it does wherever the grid's threads are a multiple of c / 8. `use` gets the index
 * of the first element, how many there are, and whether the channels are other ones than before. */
template <class Load, class Use>
static __device__ __forceinline__ void over_groups(int64_t count, int c, Load load, Use use)
{
    const int64_t groups = (count + KERN_GROUP - 1) / KERN_GROUP;
    int64_t before = -1;

    for (int64_t j = first_item(); j < groups; j += all_threads()) {
        const int64_t i = j * KERN_GROUP, left = count - i;
        const int n = left < KERN_GROUP ? (int)left : KERN_GROUP;

        if (c % KERN_GROUP == 0) {
            const int64_t at = (int64_t)((uint32_t)j % (uint32_t)(c / KERN_GROUP));

            if (at != before) {
                KERN_EACH(k)
                load(k, (int)at * KERN_GROUP + k);
                before = at;
            }
            use((size_t)i, KERN_GROUP);
        } else {
            KERN_EACH(k)
            {
                if (k < n)
                    load(k, (int)((i + k) % c));
            }
            use((size_t)i, n);
        }
    }
}

/* Sums over the rows of a chunk, V channels a thread; then over the block's threads, in a fixed
 * order. What is added is up to `Sums`, made once a thread for its channels. */
template <int V, class Sums, class Args>
static __device__ __forceinline__ void reduce_rows(const Args &a, float *partial)
{
    __shared__ float part[2 * V][KERN_THREADS];
    const int lane = threadIdx.y * blockDim.x + threadIdx.x;
    const int c = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    const int64_t each = (a.rows + a.chunks - 1) / a.chunks, from = each * blockIdx.y;
    const int64_t to = from + each < a.rows ? from + each : a.rows;
    kern_pair sum[V];

#pragma unroll
    for (int k = 0; k < V; k++)
        sum[k].a = sum[k].b = 0;
    if (c < a.c) {
        Sums sums(a, c);
        for (int64_t r = from + threadIdx.y; r < to; r += blockDim.y)
            sums.add(a, r, (size_t)(r * a.c + c), sum);
    }
#pragma unroll
    for (int k = 0; k < V; k++) {
        part[2 * k][lane] = sum[k].a;
        part[2 * k + 1][lane] = sum[k].b;
    }
    __syncthreads();
    for (int half = blockDim.y / 2; half; half /= 2) {
        if ((int)threadIdx.y < half) {
#pragma unroll
            for (int k = 0; k < 2 * V; k++)
                part[k][lane] += part[k][lane + half * blockDim.x];
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && c < a.c) {
#pragma unroll
        for (int k = 0; k < V; k++) {
            partial[(size_t)(2 * blockIdx.y) * a.c + c + k] = part[2 * k][lane];
            partial[(size_t)(2 * blockIdx.y + 1) * a.c + c + k] = part[2 * k + 1][lane];
        }
    }
}

template <kern_type T> static __device__ __forceinline__ void image(const kern_image &a)
{
    for (int64_t i = first_item(); i < a.pixels; i += all_threads())
        kern_image_pixel(&a, T, i);
}

template <kern_type T, int V> struct stats {
    float x0[V];

    __device__ stats(const kern_bn_stats &a, int c)
    {
#pragma unroll
        for (int k = 0; k < V; k++)
            x0[k] = kern_load(a.x, T, c + k);
    }
    __device__ void add(const kern_bn_stats &a, int64_t, size_t i, kern_pair *sum)
    {
        const kern_oct x = kern_load_oct(a.x, T, i, V);
#pragma unroll
        for (int k = 0; k < V; k++)
            kern_bn_stats_add(&sum[k], x.v[k], x0[k]);
    }
};

template <kern_type T> static __device__ __forceinline__ void bn_stats(const kern_bn_stats &a)
{
    if (a.c % KERN_GROUP)
        reduce_rows<1, stats<T, 1>>(a, a.partial);
    else
        reduce_rows<KERN_GROUP, stats<T, KERN_GROUP>>(a, a.partial);
}

template <kern_type T> static __device__ __forceinline__ void bn_finish(const kern_bn_finish &a)
{
    for (int64_t c = first_item(); c < a.c; c += all_threads())
        kern_bn_finish_channel(&a, T, (int)c);
}

template <kern_type T> static __device__ __forceinline__ void bn_apply(const kern_bn_apply &a)
{
    kern_affine f[KERN_GROUP];

    over_groups(
        a.rows * a.c, a.c, [&](int k, int c) { f[k] = kern_affine_of(&a.bn, c); },
        [&](size_t i, int n) { kern_bn_apply_oct(&a, T, i, n, f); });
}

template <kern_type T, int V> struct bwd_sums {
    kern_affine f[V];

    __device__ bwd_sums(const kern_bn_bwd_sums &a, int c)
    {
#pragma unroll
        for (int k = 0; k < V; k++)
            f[k] = kern_affine_of(&a.g.bn, c + k);
    }
    __device__ void add(const kern_bn_bwd_sums &a, int64_t, size_t i, kern_pair *sum)
    {
        kern_oct x, d;

        kern_bn_grad_oct(&a.g, T, i, V, f, &x, &d);
#pragma unroll
        for (int k = 0; k < V; k++)
            kern_bn_bwd_add(&sum[k], &f[k], x.v[k], d.v[k]);
    }
};

template <kern_type T> static __device__ __forceinline__ void bn_bwd_sums(const kern_bn_bwd_sums &a)
{
    if (a.c % KERN_GROUP)
        reduce_rows<1, bwd_sums<T, 1>>(a, a.partial);
    else
        reduce_rows<KERN_GROUP, bwd_sums<T, KERN_GROUP>>(a, a.partial);
}

static __device__ __forceinline__ void bn_bwd_finish(const kern_bn_bwd_finish &a)
{
    for (int64_t c = first_item(); c < a.c; c += all_threads())
        kern_bn_bwd_finish_channel(&a, (int)c);
}

template <kern_type T>
static __device__ __forceinline__ void bn_bwd_apply(const kern_bn_bwd_apply &a)
{
    kern_affine f[KERN_GROUP];
    kern_pair m[KERN_GROUP];

    over_groups(
        a.rows * a.c, a.c,
        [&](int k, int c) {
            f[k] = kern_affine_of(&a.g.bn, c);
            m[k].a = a.means[c];
            m[k].b = a.means[a.c + c];
        },
        [&](size_t i, int n) { kern_bn_bwd_apply_oct(&a, T, i, n, f, m); });
}

/* Whole groups apart from the rest, so that they are known to be whole. */
template <class Use> static __device__ __forceinline__ void by_groups(int64_t count, Use use)
{
    const int64_t groups = (count + KERN_GROUP - 1) / KERN_GROUP;

    for (int64_t j = first_item(); j < groups; j += all_threads()) {
        const int64_t i = j * KERN_GROUP, left = count - i;

        if (left >= KERN_GROUP)
            use((size_t)i, KERN_GROUP);
        else
            use((size_t)i, (int)left);
    }
}

template <kern_type T> static __device__ __forceinline__ void pointwise(const kern_pointwise &a)
{
    by_groups(a.count, [&](size_t i, int n) { kern_pointwise_oct(&a, T, i, n); });
}

template <kern_type T> static __device__ __forceinline__ void cast(const kern_cast &a)
{
    by_groups(a.count, [&](size_t i, int n) { kern_cast_oct(&a, T, i, n); });
}

template <kern_type T> static __device__ __forceinline__ void max_pool(const kern_max_pool &a)
{
    const kern_windows &w = a.w;
    const int64_t all = w.n * w.oh * w.ow * w.c;

    for (int64_t i = first_item(); i < all; i += all_threads()) {
        const int64_t o = i / w.c;

        kern_max_pool_at(&a, T, o / w.ow / w.oh, (int)(o / w.ow % w.oh), (int)(o % w.ow),
                         (int)(i % w.c));
    }
}

template <kern_type T>
static __device__ __forceinline__ void max_pool_bwd(const kern_max_pool_bwd &a)
{
    const kern_windows &w = a.w;
    const int64_t all = w.n * w.ih * w.iw * w.c;

    for (int64_t i = first_item(); i < all; i += all_threads()) {
        const int64_t o = i / w.c;

        kern_max_pool_bwd_at(&a, T, o / w.iw / w.ih, (int)(o / w.iw % w.ih), (int)(o % w.iw),
                             (int)(i % w.c));
    }
}

template <kern_type T> static __device__ __forceinline__ void avg_pool(const kern_avg_pool &a)
{
    for (int64_t i = first_item(); i < a.n * a.c; i += all_threads())
        kern_avg_pool_at(&a, T, i / a.c, (int)(i % a.c));
}

template <kern_type T>
static __device__ __forceinline__ void avg_pool_bwd(const kern_avg_pool_bwd &a)
{
    for (int64_t i = first_item(); i < a.n * a.pixels * a.c; i += all_threads())
        kern_avg_pool_bwd_at(&a, T, i / a.c, (int)(i % a.c));
}

/* Over the block's threads, in a fixed order; every thread gets the sum. */
static __device__ __forceinline__ double block_sum(double x)
{
    __shared__ double part[KERN_THREADS];

    __syncthreads();
    part[threadIdx.x] = x;
    __syncthreads();
    for (int half = KERN_THREADS / 2; half; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

/* Place of a row's first largest logit, elements [at, at + n) of z. */
template <kern_type T>
static __device__ __forceinline__ int block_arg_max(const void *z, size_t at, int n)
{
    __shared__ int best[KERN_THREADS];
    __shared__ float value[KERN_THREADS];
    int mine = -1;
    float most = 0;

    for (int i = threadIdx.x; i < n; i += KERN_THREADS) {
        const float v = kern_load(z, T, at + i);

        if (mine < 0 || v > most) {
            mine = i;
            most = v;
        }
    }
    best[threadIdx.x] = mine;
    value[threadIdx.x] = most;
    __syncthreads();
    for (int half = KERN_THREADS / 2; half; half /= 2) {
        if ((int)threadIdx.x < half) {
            const int a = best[threadIdx.x], b = best[threadIdx.x + half];
            const float va = value[threadIdx.x], vb = value[threadIdx.x + half];

            if (b >= 0 && (a < 0 || vb > va || (vb == va && b < a))) {
                best[threadIdx.x] = b;
                value[threadIdx.x] = vb;
            }
        }
        __syncthreads();
    }
    return best[0];
}

/* A row a block; its kind is settled. */
template <kern_type T>
static __device__ __forceinline__ void softmax_row(const kern_softmax &a, int64_t row)
{
    const size_t at = (size_t)row * a.classes;
    const int arg_max = block_arg_max<T>(a.z, at, a.classes);
    const float most = kern_load(a.z, T, at + arg_max);
    double sum = 0;

    for (int i = threadIdx.x; i < a.classes; i += KERN_THREADS)
        sum += (double)expf(kern_load(a.z, T, at + i) - most);
    const double log_sum = log(block_sum(sum)); /* all have read z: dz may take its place */
    sum = 0;
#pragma unroll 1 /* or registers run out */
    for (int i = threadIdx.x; i < a.classes; i += KERN_THREADS)
        sum += kern_softmax_class(&a, T, row, i, most, log_sum);
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        a.row[row].loss = sum;
        a.row[row].correct = arg_max == a.labels[row];
    }
}

template <kern_type T> static __device__ __forceinline__ void softmax(const kern_softmax &a)
{
    const int64_t row = blockIdx.x;
    const kern_row_kind kind = kern_softmax_kind(&a, row);

    if (kind == KERN_ROW_COUNTS) {
        softmax_row<T>(a, row);
    } else if (threadIdx.x == 0) {
        a.row[row].loss = 0;
        a.row[row].correct = 0;
    }
    if (kind == KERN_ROW_IGNORED)
        for (int i = threadIdx.x; a.dz && i < a.classes; i += KERN_THREADS)
            kern_store(a.dz, T, (size_t)(row * a.classes + i), 0);
    if (threadIdx.x == 0)
        a.row[row].kind = kind;
}

/* Of the samples that a warp takes: how many have targets, and every one of them right; its first
 * lane says so. */
static __device__ __forceinline__ int exact_of_warp(const kern_loss_sum &a)
{
    const int lane = threadIdx.x % 32, warps = KERN_THREADS / 32;
    int exact = 0;

    for (int64_t s = threadIdx.x / 32; s < a.samples; s += warps) {
        bool some = false, wrong = false;

        for (int64_t i = s * a.per_sample + lane; i < (s + 1) * a.per_sample; i += 32) {
            const bool counts = a.row[i].kind == KERN_ROW_COUNTS;

            some |= counts;
            wrong |= counts && !a.row[i].correct;
        }
        const bool has = __any_sync(0xffffffffu, some);
        exact += has && !__any_sync(0xffffffffu, wrong);
    }
    return lane ? 0 : exact;
}

/* First row with a label that is no class, or n. */
static __device__ __forceinline__ int64_t first_bad_row(const kern_loss_sum &a)
{
    __shared__ int64_t first_bad[KERN_THREADS];
    int64_t bad = a.n;

    for (int64_t i = threadIdx.x; i < a.n && bad == a.n; i += KERN_THREADS)
        bad = a.row[i].kind == KERN_ROW_BAD_LABEL ? i : bad;
    first_bad[threadIdx.x] = bad;
    __syncthreads();
    for (int i = 0; i < KERN_THREADS; i++)
        bad = first_bad[i] < bad ? first_bad[i] : bad;
    return bad;
}

static __device__ __forceinline__ void loss_sum(const kern_loss_sum &a)
{
    __shared__ kern_loss all;                 /* thread 0's, or registers run out */
    double sum = 0, correct = 0, targets = 0; /* whole numbers, exact in doubles */

    for (int64_t i = threadIdx.x; i < a.n; i += KERN_THREADS) {
        sum += a.row[i].loss;
        correct += a.row[i].correct;
        targets += a.row[i].kind == KERN_ROW_COUNTS;
    }
    sum = block_sum(sum);
    correct = block_sum(correct);
    targets = block_sum(targets);
    if (threadIdx.x == 0) {
        all.sum = sum;
        all.correct = (int64_t)correct;
        all.targets = (int64_t)targets;
    }
    const double exact = block_sum(exact_of_warp(a));
    const int64_t bad = first_bad_row(a);
    if (threadIdx.x == 0) {
        all.exact = (int64_t)exact;
        all.bad_row = bad < a.n ? bad : -1;
        kern_loss_put(&a, &all);
    }
}

static __device__ __forceinline__ void reorder(const kern_reorder &a)
{
    for (int64_t i = first_item(); i < a.n * a.pixels * a.c_dst; i += all_threads())
        kern_reorder_at(&a, i);
}

#include "core/backend/cuda/kern_seq.cuh"
#include "core/backend/cuda/kern_attn.cuh"
#include "core/backend/cuda/kern_update.cuh"

#define ENTRY(name, suffix, body)                                                                  \
    extern "C" __global__ void __launch_bounds__(KERN_THREADS)                                     \
        bst_##name##suffix(const __grid_constant__ kern_##name a)                                  \
    {                                                                                              \
        body(a);                                                                                   \
    }
#define ENTRIES_1(name)                                                                            \
    ENTRY(name, _f32, name<KERN_F32>)                                                              \
    ENTRY(name, _f16, name<KERN_F16>)                                                              \
    ENTRY(name, _bf16, name<KERN_BF16>)
#define ENTRIES_0(name) ENTRY(name, , name)
#define X(name, typed) ENTRIES_##typed(name)
KERN_LIST(X)
#undef X

#define TABLE_1(name)                                                                              \
    {(const void *)bst_##name##_f32, (const void *)bst_##name##_f16,                               \
     (const void *)bst_##name##_bf16},
#define TABLE_0(name)                                                                              \
    {(const void *)bst_##name, (const void *)bst_##name, (const void *)bst_##name},

cudaError_t kern_start(enum kern_id id, enum kern_type type, dim3 grid, dim3 block, const void *a,
                       cudaStream_t stream)
{
    static const void *const entry[KERN_N][KERN_N_TYPES] = {
#define X(name, typed) TABLE_##typed(name)
        KERN_LIST(X)
#undef X
    };
    void *args[] = {const_cast<void *>(a)};

    return cudaLaunchKernel(entry[id][type], grid, block, args, 0, stream);
}
