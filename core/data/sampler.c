#include "core/data/data.h"

#include "core/base/rng.h"

/* A permutation of 0 … n-1 without a table: a Feistel network on the smallest sufficient number of
 * bits, walked along its cycle until it lands below n (Black and Rogaway 2002). Under 8 bits too
 * few keys would give different orders, so small sets walk longer instead. */
enum { ROUNDS = 8, BITS_LEAST = 8 };

struct feistel {
    uint64_t key[ROUNDS];
    int low_bits, high_bits;
};

static void set_up(struct feistel *f, uint64_t seed, uint64_t epoch, uint64_t n)
{
    struct bst_rng r;
    bst_rng_init(&r, seed, BST_RNG_ORDER, epoch);
    for (int i = 0; i < ROUNDS; i++)
        f->key[i] = bst_rng_u64(&r);
    int bits = BITS_LEAST;
    while (bits < 63 && n > UINT64_C(1) << bits)
        bits++;
    f->low_bits = bits / 2;
    f->high_bits = bits - bits / 2;
}

/* MurmurHash3's finaliser; the upper bits are the better mixed. */
static uint64_t scramble(uint64_t x, uint64_t key, int bits)
{
    x ^= key;
    x = (x ^ (x >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    x = (x ^ (x >> 33)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return (x ^ (x >> 33)) >> (64 - bits);
}

static uint64_t permute(const struct feistel *f, uint64_t x)
{
    uint64_t low = x & ((UINT64_C(1) << f->low_bits) - 1), high = x >> f->low_bits;
    for (int i = 0; i < ROUNDS; i += 2) {
        low ^= scramble(high, f->key[i], f->low_bits);
        high ^= scramble(low, f->key[i + 1], f->high_bits);
    }
    return high << f->low_bits | low;
}

int64_t bst_sampler_index(uint64_t seed, int64_t n, uint64_t position, bool shuffle)
{
    BST_ASSERT(n > 0);
    uint64_t x = position % (uint64_t)n;
    if (!shuffle)
        return (int64_t)x;
    struct feistel f;
    set_up(&f, seed, position / (uint64_t)n, (uint64_t)n);
    do
        x = permute(&f, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
