/* How a global batch is cut: ranks, then micro-batches a rank. Parts differ by at most one and add
 * up exactly. Plain values; any thread. */
#ifndef BST_TUNE_SPLIT_H
#define BST_TUNE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* Bounds every product of this layer, and fits the int of every library below. */
#define BST_BATCH_MAX ((uint64_t)INT32_MAX)
/* Past this many presses of one key 1.2ⁿ is beyond 800. */
enum { BST_PRESSES_MAX = 37 };

/* What a batch is counted in. */
#define BST_BATCH_UNITS(X) X(SAMPLES, "samples") X(TOKENS, "tokens")

enum bst_batch_unit {
#define X(name, text) BST_BATCH_##name,
    BST_BATCH_UNITS(X)
#undef X
};

struct bst_split_ask {
    uint64_t batch; /* samples of one update, over all ranks */
    uint64_t ranks;
    uint64_t cap;        /* most samples of a micro-batch; 0: no cap */
    uint64_t accumulate; /* micro-batches a rank, asked for; 0: as few as the cap allows */
    bool may_be_empty;   /* the run's last update: some ranks may get nothing */
};

struct bst_split {
    uint64_t batch;
    uint64_t ranks;
    uint64_t accumulate; /* most micro-batches of any rank */
    uint64_t micro;      /* largest micro-batch of all */
};

/* k = ceil(batch / (ranks × cap)), or `accumulate` if that is given. Where both are, `accumulate`
 * must keep to the cap. A k above what a rank gets is lowered: no micro-batch is empty.
 * BST_E_RANGE: batch of 0 or too large, fewer samples than ranks, accumulate against cap. */
BST_MUST_USE enum bst_err bst_split_make(const struct bst_split_ask *ask, struct bst_split *out);

/* Samples of a rank, and the place of its first one in the batch. */
uint64_t bst_split_rank(const struct bst_split *sp, uint64_t rank);
uint64_t bst_split_rank_start(const struct bst_split *sp, uint64_t rank);

/* Micro-batches of a rank (0 when it has no samples), the size of its i-th, and the place of that
 * one's first sample within the rank's part. */
uint64_t bst_split_n_micro(const struct bst_split *sp, uint64_t rank);
uint64_t bst_split_micro(const struct bst_split *sp, uint64_t rank, uint64_t i);
uint64_t bst_split_micro_start(const struct bst_split *sp, uint64_t rank, uint64_t i);

/* Samples that carry `tokens`, where n samples have `all`: rounded half up, at least 1. Exact. */
uint64_t bst_split_samples_of_tokens(uint64_t tokens, uint64_t all, uint64_t n);

/* batch · (1 ± percent/100)ⁿ, rounded half up, at least 1; n > 0 grows by `percent`, n < 0 shrinks
 * by it. Exact for whole percents, in integers. n = 0 gives the batch itself. */
BST_MUST_USE enum bst_err bst_split_press(uint64_t batch, double percent, int n, uint64_t *out);

#endif
