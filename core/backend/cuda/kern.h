/* The kernels: their arguments, one struct each, and how they are started. kern.cu has them for the
 * device, from the per-element bodies of kern_body.h; tests run the same bodies on the host.
 * Tensors are NHWC, `c` channels next to each other, `rows` = N·H·W of them; their type is that of
 * the launch, matrices and all that belongs to a channel or a parameter are fp32. Every sum has a
 * fixed order: partial sums first, then a second kernel, never atomics.
 *
 * Any thread; a launch is asynchronous, on its stream. */
#ifndef BST_BACKEND_CUDA_KERN_H
#define BST_BACKEND_CUDA_KERN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "core/backend/cuda/kern16.h"
#include "core/backend/cuda/kern_attn.h"
#include "core/backend/cuda/kern_seq.h"
#include "core/backend/cuda/kern_update.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERN_MAX_IMAGE_C 4
#define KERN_GROUP 8 /* elements a thread takes at a time; a bit mask has a byte for each group */
#define KERN_THREADS 256

/* dst[pixel][c] = src · factor[c] + offset[c]; channels past c_src are 0 */
struct kern_image {
    void *dst;
    const uint8_t *src;
    float factor[KERN_MAX_IMAGE_C], offset[KERN_MAX_IMAGE_C];
    int64_t pixels, valid; /* pixels from `valid` on are not read; they become 0 */
    int c_src, c_dst;
};

/* What batch norm does to a value, by channel: (x - mean) · inv · scale + shift. */
struct kern_bn_coef {
    const float *mean, *inv, *scale, *shift;
    bool inv_is_var; /* `inv` is a variance (evaluation) */
};

/* partial[chunk][0][c] += x - x₀ and [1][c] its square, x₀ being the channel's first value: without
 * it the variance of a channel far from 0 would be a difference of two large numbers. */
struct kern_bn_stats {
    const void *x;
    float *partial;
    int64_t rows;
    int c, chunks;
};

/* saved = mean[c], 1/√(var + eps)[c]; running statistics as in PyTorch. Type: of x. */
struct kern_bn_finish {
    const void *x; /* its first row; NULL where the sums are of x itself */
    const float *partial;
    float *saved, *run_mean, *run_var;
    int64_t rows;
    int c, chunks;
};

/* y = [ReLU](bn(x) [+ residual]); mask gets a bit for every value that passed the ReLU */
struct kern_bn_apply {
    const void *x, *residual; /* residual may be NULL, and y */
    void *y;
    uint8_t *mask; /* or NULL */
    struct kern_bn_coef bn;
    int64_t rows;
    int c;
    bool relu;
};

/* The gradient in front of a batch norm: g = (dy [+ dy2]) behind the ReLU's mask, which is given as
 * bits, or found again from x where there was no residual. */
struct kern_bn_grad {
    const void *x, *dy, *dy2; /* dy2 may be NULL */
    const uint8_t *mask;      /* or NULL */
    struct kern_bn_coef bn;
    bool relu;
};

/* partial[chunk][0][c] = Σ g, [1][c] = Σ g·x̂ */
struct kern_bn_bwd_sums {
    struct kern_bn_grad g;
    float *partial;
    int64_t rows;
    int c, chunks;
};

/* dscale, dshift (set or added to), means = Σ g / rows [c], Σ g·x̂ / rows [c]. Type: none. */
struct kern_bn_bwd_finish {
    const float *partial;
    float *dscale, *dshift, *means;
    int64_t rows;
    int c, chunks;
    bool add_scale, add_shift;
};

/* dx = inv · scale · (g - means₀ - x̂ · means₁); dresidual (may be NULL) = g */
struct kern_bn_bwd_apply {
    struct kern_bn_grad g;
    const float *means;
    void *dx, *dresidual;
    int64_t rows;
    int c;
};

enum kern_pointwise_op { KERN_RELU, KERN_RELU_BWD, KERN_ADD };
struct kern_pointwise {
    enum kern_pointwise_op op;
    const void *a, *b; /* RELU: of a. RELU_BWD: a the gradient, b the ReLU's result. ADD: a + b */
    void *dst;
    int64_t count;
};

struct kern_windows { /* of pooling: x is n images of ih × iw, y of oh × ow */
    int64_t n;
    int c, ih, iw, oh, ow;
    int kernel, stride, pad;
};
struct kern_max_pool { /* forward writes y and, unless NULL, the tap of each maximum */
    const void *x;
    void *y;
    uint8_t *tap; /* ky · kernel + kx of the first of the largest */
    struct kern_windows w;
};
struct kern_max_pool_bwd { /* each dx adds up what of dy came from it, in the windows' order */
    const void *dy;
    const uint8_t *tap;
    void *dx;
    struct kern_windows w;
};

struct kern_avg_pool { /* y[n][c], fp32, = mean over pixels */
    const void *x;
    float *y;
    int64_t n;
    int c, pixels;
};
struct kern_avg_pool_bwd {
    const float *dy;
    void *dx;
    int64_t n;
    int c, pixels;
};

enum kern_row_kind { KERN_ROW_IGNORED, KERN_ROW_COUNTS, KERN_ROW_BAD_LABEL };
struct kern_row { /* of softmax cross-entropy, one a target */
    double loss;
    int32_t correct, kind;
};
/* dz (may be NULL) = (p - target) · grad_scale; 0 in rows past n_valid or with the label `ignored`
 */
struct kern_softmax {
    const struct kern_scaler *scaler; /* dz is multiplied by its scale; NULL: by nothing */
    const void *z;
    const int32_t *labels;
    void *dz;
    struct kern_row *row;
    int64_t n, n_valid;
    int classes, ignored;
    double every, own; /* the target: what every class has of it, and the label's own beside */
    double grad_scale;
};
struct kern_loss_sum {
    const struct kern_row *row;
    struct kern_loss *loss;
    int64_t n, samples, per_sample; /* n = samples · per_sample */
    bool add;                       /* to what is there */
};

/* The same numbers in another order and type. A tensor is [n][c][pixels], its channels first or
 * last in memory, padded to c_src or c_dst of them; padding that is written is 0. */
struct kern_reorder {
    const void *src;
    void *dst;
    enum kern_type src_type, dst_type;
    bool src_last, dst_last; /* channels last */
    int64_t n, pixels;
    int c, c_src, c_dst;
    bool add;
};

/* fp32 to the launch's type, or (`widen`) back. */
struct kern_cast {
    const void *src;
    void *dst;
    int64_t count;
    bool widen, add;
};

/* X(name, typed): a kernel takes a struct kern_<name> and is called bst_<name>, a typed one
 * bst_<name>_f32, _f16, _bf16. */
/* clang-format off */
#define KERN_LIST(X) \
    X(image, 1) X(bn_stats, 1) X(bn_finish, 1) X(bn_apply, 1) \
    X(bn_bwd_sums, 1) X(bn_bwd_finish, 0) X(bn_bwd_apply, 1) \
    X(pointwise, 1) X(max_pool, 1) X(max_pool_bwd, 1) X(avg_pool, 1) X(avg_pool_bwd, 1) \
    X(cast, 1) X(softmax, 1) X(loss_sum, 0) X(reorder, 0) \
    KERN_SEQ_LIST(X) KERN_ATTN_LIST(X) KERN_UPDATE_LIST(X)
/* clang-format on */

enum kern_id {
#define X(name, typed) KERN_ID_##name,
    KERN_LIST(X)
#undef X
        KERN_N
};

/* Row chunks that the sums over a tensor are made of. Depends on the shape alone, so that a result
 * does not depend on the device. */
int kern_chunks(int64_t rows, int c);

/* One function a kernel; `type` is passed over by those that have none. */
#define X(name, typed)                                                                             \
    cudaError_t kern_run_##name(cudaStream_t stream, enum kern_type type,                          \
                                const struct kern_##name *a);
KERN_LIST(X)
#undef X

/* Below the functions above, and the only thing that differs between the device and the fakes:
 * starts a kernel with one argument. kern.cu's; the tests have their own. */
cudaError_t kern_start(enum kern_id id, enum kern_type type, dim3 grid, dim3 block, const void *a,
                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
