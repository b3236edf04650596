/* Attention on the device, by one of two ways: cuDNN's fused graph, in 16 bits, or products and
 * kernels of ours over tiles of scores. Both save the same of forward, the logarithm of each row's
 * sum of exponentials in fp32, [N, H, Tq], so that backward may take either. An instruction's state
 * belongs to its handle. */
#ifndef BST_BACKEND_CUDA_ATTENTION_H
#define BST_BACKEND_CUDA_ATTENTION_H

#include "core/backend/attention.h"
#include "core/backend/cuda/attention_ask.h"
#include "core/backend/cuda/be.h"

/* Bytes of scores in fp32 that are in memory at a time, of one kind; a few times that for what
 * cuDNN is given or asks for by pairs of queries and keys. Tests make it small before they compile.
 */
extern size_t cuda_attn_tile_most;

/* Parts of the scratch, each aligned. */
struct cuda_attn_room {
    size_t bytes;
};
static inline size_t cuda_attn_take(struct cuda_attn_room *room, size_t bytes)
{
    const size_t at = room->bytes;

    room->bytes += cuda_round_up(bytes);
    return at;
}

/* By tiles: a chunk of heads at a time, all their keys, some of their queries. */
struct cuda_attn_tiles {
    int64_t heads;  /* of a chunk */
    int64_t rows;   /* queries of a head in a tile: all of them, up to a multiple of 16, or some */
    int64_t n_rows; /* of a head, packed: whole tiles */
    int64_t width;  /* keys of a head, packed: a multiple of 8 */
    int64_t dim;    /* of a head, packed: a multiple of 8 */
    struct cuda_product scores; /* rows × width: of queries with keys, or of dy with values */
    struct cuda_product by_row; /* rows × dim: of probabilities with values, of ds with keys */
    struct cuda_product by_key; /* width × dim: of those turned with dy or with queries */
    size_t q, k, v, dy, delta, s, dp; /* where they are in the scratch */
    size_t y, dq, dk, dv;             /* fp32, packed */
    size_t workspace;
};

/* By cuDNN: a plan over some of the samples, run until all are done. */
struct cuda_attn_fused {
    struct cuda_attn_ask ask;         /* its n: the samples of one run */
    int64_t step;                     /* lengths from one run to the next */
    const struct cuda_dnn_plan *plan; /* the context's */
    size_t given_queries, given_keys, lse, left, delta, dq_sums; /* where they are */
    size_t workspace;
};

struct cuda_attn {
    struct bst_attn a;
    enum kern_type type; /* of the values */
    bool is_fused;
    size_t keys; /* in the scratch: int32 [N] */
    union {
        struct cuda_attn_tiles tiles;
        struct cuda_attn_fused fused;
    } by;
};

void cuda_attn_free(struct bst_be *be, struct cuda_attn *at); /* NULL is fine */

/* What a call works on. */
struct cuda_attn_call {
    struct bst_be *be;
    struct cuda_attn *at;
    const struct bst_call *c;
    const void *q, *k, *v, *dy, *y_read; /* first reals of the values; packed: q's all three */
    const float *lse_read;
    void *y, *dq, *dk, *dv;
    float *lse; /* NULL: it is not kept */
    const int32_t *keys;
    struct kern_attn_drop drop;
};

static inline void *cuda_attn_at(const struct cuda_attn_call *c, size_t place)
{
    return (char *)c->c->scratch + place;
}

static inline struct kern_attn_rows cuda_attn_rows(const struct bst_attn *a,
                                                   const struct bst_attn_operand *o)
{
    return (struct kern_attn_rows){o->row, o->at, o->length, (int)a->dim};
}

/* Each adds its parts to the scratch. BST_E_UNSUPPORTED of the first: cuDNN does not take it. */
BST_MUST_USE enum bst_err cuda_attn_fused_describe(struct bst_be *be, const struct bst_instr *in,
                                                   struct cuda_attn *at,
                                                   struct cuda_attn_room *room);
BST_MUST_USE enum bst_err cuda_attn_tiles_describe(struct bst_be *be, bool backward,
                                                   struct cuda_attn *at,
                                                   struct cuda_attn_room *room);
BST_MUST_USE enum bst_err cuda_attn_fused_run(const struct cuda_attn_call *c);
BST_MUST_USE enum bst_err cuda_attn_tiles_run(const struct cuda_attn_call *c, bool backward);

#endif
