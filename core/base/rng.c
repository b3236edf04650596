#include "core/base/rng.h"

#include <math.h>

#include "core/base/err.h"
#include "core/base/philox.h"

void bst_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    bst_philox_rounds(key, counter, out);
}

void bst_rng_init(struct bst_rng *r, uint64_t seed, enum bst_rng_stream stream, uint64_t hi)
{
    *r = (struct bst_rng){.seed = seed, .stream = stream, .hi = hi};
}

uint32_t bst_rng_u32(struct bst_rng *r)
{
    if (!r->left) {
        bst_philox_block(bst_philox_key(r->seed, r->stream), r->hi, r->lo, r->block);
        r->lo++;
        r->left = 4;
    }
    return r->block[4 - r->left--];
}

uint64_t bst_rng_u64(struct bst_rng *r)
{
    uint64_t low = bst_rng_u32(r);
    return low | (uint64_t)bst_rng_u32(r) << 32;
}

/* Lemire 2019, "Fast random integer generation in an interval". */
uint32_t bst_rng_below(struct bst_rng *r, uint32_t n)
{
    BST_ASSERT(n > 0);
    uint64_t m = (uint64_t)bst_rng_u32(r) * n;
    if ((uint32_t)m < n) {
        uint32_t floor = -n % n;
        while ((uint32_t)m < floor)
            m = (uint64_t)bst_rng_u32(r) * n;
    }
    return (uint32_t)(m >> 32);
}

double bst_rng_uniform(struct bst_rng *r)
{
    return (double)(bst_rng_u64(r) >> 11) * 0x1p-53;
}

/* Box-Muller; the second value is dropped so that a number needs no state but the counter. */
double bst_rng_normal(struct bst_rng *r)
{
    double u = 1.0 - bst_rng_uniform(r);
    double angle = 6.283185307179586 * bst_rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(angle);
}

void bst_rng_blocks(uint64_t seed, enum bst_rng_stream stream, uint64_t hi, uint64_t lo,
                    size_t n_blocks, uint32_t *out)
{
    uint64_t key = bst_philox_key(seed, stream);
    for (size_t i = 0; i < n_blocks; i++)
        bst_philox_block(key, hi, lo + i, out + 4 * i);
}
