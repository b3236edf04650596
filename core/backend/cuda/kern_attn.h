/* The kernels of attention: their arguments, as kern.h has the others'. A head is a number in
 * [0, samples · heads), sample by sample. Packed, a chunk of heads is [n][rows][dim], a tile of
 * scores [n][rows][width], padded with zeros to multiples. Every sum has a fixed order. Included by
 * kern.h. */
#ifndef BST_BACKEND_CUDA_KERN_ATTN_H
#define BST_BACKEND_CUDA_KERN_ATTN_H

#include <stdbool.h>

#include "core/backend/cuda/kern_seq.h"

#define KERN_ATTN_GROUP 4 /* scores a thread takes at a time: one block of random words */

/* keys[n]: how many keys a sample has, none where it does not count. For cuDNN, which is to have at
 * least one of each, given_queries and given_keys, or NULL: for each `run` of samples in turn,
 * `step` numbers from one run to the next. */
struct kern_attn_keys {
    const int32_t *lengths; /* or NULL: there is no padding; may be `keys` */
    int32_t *keys, *given_queries, *given_keys;
    int64_t n, n_valid;
    int64_t run, step;
    int tq, tk;
};

struct kern_attn_heads { /* a chunk of them */
    int64_t first, n;
    int64_t all; /* what is past them is 0 */
    int heads;   /* of a sample */
};

/* Where one operand's heads lie: row i of sample s and head h starts at (s·length + i)·row + at +
 * h·dim. */
struct kern_attn_rows {
    int64_t row, at, length;
    int dim;
};

struct kern_attn_pack { /* dst [n][rows][dim] = heads of src */
    const void *src;
    void *dst;
    struct kern_attn_rows from;
    struct kern_attn_heads heads;
    int64_t rows;
    int dim;
};
struct kern_attn_unpack { /* heads of dst = src [n][rows][dim], fp32 */
    const float *src;
    void *dst;
    struct kern_attn_rows to;
    struct kern_attn_heads heads;
    int64_t rows;
    int dim;
};
struct kern_attn_delta { /* delta [n][rows] = Σ dy·y of a query */
    const void *dy, *y;
    float *delta;
    struct kern_attn_rows at; /* of both */
    struct kern_attn_heads heads;
    int64_t rows;
};

/* Which probabilities dropout leaves: core/backend/drop.h's rule. */
struct kern_attn_drop {
    const struct kern_draw_state *draw;
    uint64_t place;          /* in the net, as the counter has it */
    int64_t queries, blocks; /* of a head, and blocks of words of a query */
    uint32_t threshold;      /* 0: nothing is dropped */
    float factor;
};

struct kern_attn_tile {
    struct kern_attn_heads heads;
    struct kern_attn_drop drop;
    const int32_t *keys; /* [sample] */
    int64_t first, rows; /* queries of each head, from the first on */
    int64_t tq;
    int width; /* of a row of scores: keys, up to a multiple of 8 */
    bool causal;
    float scale;
};
/* Scores of the tile become probabilities, dropout and all, in the launch's type; each row stays
 * where its scores begin, so that in 16 bits rows are twice `width` apart. */
struct kern_attn_softmax {
    struct kern_attn_tile tile;
    float *scores;
    float *lse; /* [head][tq], or NULL */
};
/* Scores become probabilities after dropout, dp = dy·vᵀ the scores' gradient, as above. */
struct kern_attn_grad {
    struct kern_attn_tile tile;
    float *scores, *dp;
    const float *lse;   /* [head][tq] */
    const float *delta; /* [n][delta_rows] */
    int64_t delta_rows;
};

struct kern_attn_left { /* left [n][tq][tk] = 1 where a probability stays, else 0 */
    void *left;
    struct kern_attn_drop drop;
    struct kern_attn_heads heads;
    int64_t tq;
    int tk;
};
/* Rows of x [n][rows][width] that nothing was seen from, or that nothing saw, become 0: of the
 * columns before `keyed` those of a sample without keys, of the others those past its keys. */
struct kern_attn_settle {
    void *x;
    const int32_t *keys;
    int64_t n, rows;
    int width, keyed;
};

/* clang-format off */
#define KERN_ATTN_LIST(X) \
    X(attn_keys, 0) X(attn_pack, 1) X(attn_unpack, 1) X(attn_delta, 1) X(attn_softmax, 1) \
    X(attn_grad, 1) X(attn_left, 1) X(attn_settle, 1)
/* clang-format on */

#endif
