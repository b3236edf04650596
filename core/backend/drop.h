/* Which elements dropout keeps: a function of the step's seed, the sample's place in the stream,
 * the place in the net and the element of the sample, so that every backend, split, second run and
 * resumed run drops the same. One 32-bit word of Philox decides each element. Pure; any thread. */
#ifndef BST_BACKEND_DROP_H
#define BST_BACKEND_DROP_H

#include "core/backend/backend.h"
#include "core/base/rng.h"

#define BST_DROP_BLOCK 4 /* elements of one counter; ranges begin at a multiple */

/* An element is kept where its word is not below this. */
static inline uint32_t bst_drop_threshold(double p)
{
    return (uint32_t)(p * 0x1p32);
}

static inline double bst_drop_scale(double p)
{
    return 1 / (1 - p);
}

/* The words of elements [4·first_block, 4·(first_block + n_blocks)) of sample `row`. */
static inline void bst_drop_words(const struct bst_step *step, const struct bst_attr *attr,
                                  int64_t row, int64_t first_block, int64_t n_blocks, uint32_t *out)
{
    bst_rng_blocks(step->seed, BST_RNG_DROPOUT, step->position + (uint64_t)row,
                   (uint64_t)attr->site << 40 | (uint64_t)first_block, (size_t)n_blocks, out);
}

/* Blocks of one query's probabilities; element (h·Tq + i)·4·blocks + j is that of key j for query i
 * of head h. */
static inline int64_t bst_drop_row_blocks(int64_t tk)
{
    return (tk + BST_DROP_BLOCK - 1) / BST_DROP_BLOCK;
}

/* The first block of that query, of tq queries and tk keys. Where rows were cut to the batch at
 * hand, elements keep the numbers that they have in whole ones. */
static inline int64_t bst_drop_first_block(const struct bst_attr *attr, int64_t h, int64_t i,
                                           int64_t tq, int64_t tk)
{
    int64_t all = attr->whole_length;
    return (h * (all ? all : tq) + i) * bst_drop_row_blocks(all ? all : tk);
}

#endif
