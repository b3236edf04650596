/* The kernels of nets over sequences: their arguments, as kern.h has the others'. A sequence is
 * dense, rows of `width` features; its type is that of the launch, tables and all that belongs to a
 * parameter are fp32. Every sum has a fixed order. Included by kern.h. */
#ifndef BST_BACKEND_CUDA_KERN_SEQ_H
#define BST_BACKEND_CUDA_KERN_SEQ_H

#include <stdbool.h>

#include "core/backend/cuda/kern16.h"

/* y[r] = table[token[r]] · scale; rows from `valid` on are 0. The tokens are known to be rows. */
struct kern_embed {
    const float *table;
    const int32_t *token;
    void *y;
    int64_t rows, valid;
    int width;
    double scale;
};

/* Some of a token's places in the batch: order[from], …, order[to - 1] are rows of dy, in the order
 * of the batch. Their sum goes into row `token` of the table's gradient or, where a token has more
 * places than a piece takes, to row `partial` of the partial sums; `partial` is -1 else. */
struct kern_embed_piece {
    int32_t token, from, to, partial;
};
#define KERN_EMBED_PIECE 64 /* places that one takes at most */

/* dtable[token] (+)= Σ dy[order[…]] · scale, a piece a block. The partial sums are added up by a
 * second launch, in fp32, with themselves as dy and no `order`. */
struct kern_embed_bwd {
    const void *dy;
    const int32_t *order; /* NULL: 0, 1, 2, … */
    const struct kern_embed_piece *piece;
    float *dtable, *partial;
    int n, width;
    double scale;
    bool add;
};

/* y = x + the table's first rows, `per_sample` elements of it, to every sample */
struct kern_position {
    const void *x;
    const float *table;
    void *y;
    int64_t count, per_sample;
};
struct kern_position_bwd { /* of the table's `count` elements; 0 where no sample reaches */
    const void *dy;
    float *dtable;
    int64_t n, per_sample, count;
    bool add;
};

struct kern_sinusoid { /* y = x + sin or cos of t / 10000^(2·⌊k/2⌋ / width) */
    const void *x;
    void *y;
    int64_t n;
    int length, width;
};

/* y = (x - mean) · inv · scale + shift, over a row's features; saved[r] = {mean, inv} */
struct kern_ln {
    const void *x;
    const float *scale, *shift;
    void *y;
    float *saved; /* or NULL */
    int64_t rows;
    int width;
    float eps, part; /* part: 1 / width */
};
struct kern_ln_bwd { /* dx = inv · (g - mean(g) - x̂ · mean(g·x̂)), g = dy · scale; dx may be dy */
    const void *dy, *x;
    const float *scale, *saved;
    void *dx;
    int64_t rows;
    int width;
};
/* partial[chunk][0][c] = Σ dy, [1][c] = Σ dy·x̂: what bn_bwd_finish takes */
struct kern_ln_sums {
    const void *dy, *x;
    const float *saved;
    float *partial;
    int64_t rows;
    int c, chunks;
};

struct kern_col_sums { /* partial[chunk][0][c] = Σ x; [1][c] is 0 */
    const void *x;
    float *partial;
    int64_t rows;
    int c, chunks;
};
struct kern_col_finish { /* sum[c] (+)= Σ partial[…][0][c] */
    const float *partial;
    float *sum;
    int c, chunks;
    bool add;
};

enum kern_curve_op {
    KERN_GELU,
    KERN_GELU_BWD,
    KERN_GELU_TANH, /* by the tanh approximation */
    KERN_GELU_TANH_BWD,
    KERN_TANH,
    KERN_TANH_BWD,
};
struct kern_curve { /* forward of a; backward a is dy and b what forward read, of tanh its result */
    enum kern_curve_op op;
    const void *a, *b;
    void *dst;
    int64_t count;
};

/* What dropout's words depend on beside place and element, in device memory, so that a captured
 * stretch takes what is there when it runs. */
struct kern_draw_state {
    uint64_t key, position; /* position: of sample 0 in the stream of samples */
};
struct kern_draw { /* *dst = state */
    struct kern_draw_state *dst;
    struct kern_draw_state state;
};
/* y = x · scale where the element's word is not below `threshold`, else 0 */
struct kern_dropout {
    const void *x;
    void *y;
    const struct kern_draw_state *draw;
    int64_t n, per_sample;
    uint64_t first; /* the place in the net, as the counter has it */
    uint32_t threshold;
    double scale;
};

struct kern_first { /* y[n] = x[n][0], fp32 */
    const void *x;
    float *y;
    int64_t n;
    int length, width;
};
struct kern_first_bwd { /* dx[n][0] = dy[n], the rest 0 */
    const float *dy;
    void *dx;
    int64_t n;
    int length, width;
};

/* clang-format off */
#define KERN_SEQ_LIST(X) \
    X(embed, 1) X(embed_bwd, 1) X(position, 1) X(position_bwd, 1) X(sinusoid, 1) \
    X(ln, 1) X(ln_bwd, 1) X(ln_sums, 1) X(col_sums, 1) X(col_finish, 0) \
    X(curve, 1) X(draw, 0) X(dropout, 1) X(first, 1) X(first_bwd, 1)
/* clang-format on */

#endif
