/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011). A number is a pure function of
 * key and counter, so nothing needs saving and any thread may ask for any number. */
#ifndef BST_BASE_RNG_H
#define BST_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Streams keep uses apart: the key is (seed, stream), the counter whatever the use counts. */
enum bst_rng_stream {
    BST_RNG_INIT = 1,
    BST_RNG_ORDER,
    BST_RNG_AUGMENT,
    BST_RNG_SHAPES,
    BST_RNG_DROPOUT,
    BST_RNG_TEST,
    BST_RNG_BOOTSTRAP,
    BST_RNG_MASK,
    BST_RNG_TASK,
};

struct bst_rng {
    uint64_t seed;
    uint32_t stream;
    uint64_t hi, lo; /* counter; lo moves on by one a block of four */
    uint32_t block[4];
    int left;
};

void bst_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* A sequence that starts at counter (hi, 0). */
void bst_rng_init(struct bst_rng *r, uint64_t seed, enum bst_rng_stream stream, uint64_t hi);
uint32_t bst_rng_u32(struct bst_rng *r);
uint64_t bst_rng_u64(struct bst_rng *r);
uint32_t bst_rng_below(struct bst_rng *r, uint32_t n); /* 0 … n-1, unbiased; n > 0 */
double bst_rng_uniform(struct bst_rng *r);             /* [0, 1) with 53 bits */
double bst_rng_normal(struct bst_rng *r);              /* mean 0, deviation 1 */

/* The words of blocks lo … lo+n_blocks-1, four each, of the counter's upper half `hi`: what
 * bst_rng_u32() gives there, in any order and by any thread. */
void bst_rng_blocks(uint64_t seed, enum bst_rng_stream stream, uint64_t hi, uint64_t lo,
                    size_t n_blocks, uint32_t *out);

#endif
