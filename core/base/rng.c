#include "core/base/rng.h"

#include <math.h>

#include "core/base/err.h"

/* Constants and round function of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3". */
static inline void philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t ma = (uint64_t)0xD2511F53u * a, mc = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(mc >> 32) ^ b ^ k0;
        c = (uint32_t)(ma >> 32) ^ d ^ k1;
        b = (uint32_t)mc;
        d = (uint32_t)ma;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

void bst_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    philox(key, counter, out);
}

/* SplitMix64's finaliser, one to one, so that two streams of a seed never share a key. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void bst_rng_init(struct bst_rng *r, uint64_t seed, enum bst_rng_stream stream, uint64_t hi)
{
    *r = (struct bst_rng){.seed = seed, .stream = stream, .hi = hi};
}

static uint64_t key_of(uint64_t seed, uint32_t stream)
{
    return mix(seed + stream * UINT64_C(0x9E3779B97F4A7C15));
}

uint32_t bst_rng_u32(struct bst_rng *r)
{
    if (!r->left) {
        uint64_t key = key_of(r->seed, r->stream);
        uint32_t counter[4] = {(uint32_t)r->lo, (uint32_t)(r->lo >> 32), (uint32_t)r->hi,
                               (uint32_t)(r->hi >> 32)};
        bst_philox(key, counter, r->block);
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
    uint64_t key = key_of(seed, stream);
    for (size_t i = 0; i < n_blocks; i++) {
        uint32_t counter[4] = {(uint32_t)(lo + i), (uint32_t)((lo + i) >> 32), (uint32_t)hi,
                               (uint32_t)(hi >> 32)};
        philox(key, counter, out + 4 * i);
    }
}
