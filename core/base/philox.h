/* Philox4x32-10, for the host and for nvcc: the numbers behind rng.h, which is what code on the
 * host takes. Pure; any thread. */
#ifndef BST_BASE_PHILOX_H
#define BST_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define BST_PHILOX_INLINE static __host__ __device__ __forceinline__
#else
#define BST_PHILOX_INLINE static inline
#endif

/* Constants and round function of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3". */
BST_PHILOX_INLINE void bst_philox_rounds(uint64_t key, const uint32_t counter[4], uint32_t out[4])
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

/* SplitMix64's finaliser, one to one, so that two streams of a seed never share a key. */
BST_PHILOX_INLINE uint64_t bst_philox_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Of a stream (enum bst_rng_stream) of a seed. */
BST_PHILOX_INLINE uint64_t bst_philox_key(uint64_t seed, uint32_t stream)
{
    return bst_philox_mix(seed + stream * UINT64_C(0x9E3779B97F4A7C15));
}

/* The words of block `lo` of the counter's upper half `hi`. */
BST_PHILOX_INLINE void bst_philox_block(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi,
                                 (uint32_t)(hi >> 32)};
    bst_philox_rounds(key, counter, out);
}

#endif
