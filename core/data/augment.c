#include "core/data/augment.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/rng.h"

uint64_t bst_augment_key(uint64_t seed, uint64_t epoch, int64_t index)
{
    struct bst_rng r;
    bst_rng_init(&r, seed, BST_RNG_AUGMENT, epoch);
    r.lo = (uint64_t)index;
    return bst_rng_u64(&r);
}

static void mirror_row(const uint8_t *src, uint8_t *dst, int w, int c)
{
    for (int x = 0; x < w; x++)
        for (int k = 0; k < c; k++)
            dst[x * c + k] = src[(w - 1 - x) * c + k];
}

void bst_augment_shift_flip(const uint8_t *src, uint8_t *dst, int h, int w, int c, int pad,
                            uint64_t key)
{
    struct bst_rng r;
    bst_rng_init(&r, key, BST_RNG_AUGMENT, 0);
    int dy = (int)bst_rng_below(&r, 2 * (uint32_t)pad + 1) - pad;
    int dx = (int)bst_rng_below(&r, 2 * (uint32_t)pad + 1) - pad;
    bool flip = bst_rng_u32(&r) & 1;
    int from = dx > 0 ? dx : 0, to = dx < 0 ? -dx : 0, n = w - (dx < 0 ? -dx : dx);
    memset(dst, 0, (size_t)h * (size_t)w * (size_t)c);
    if (n <= 0)
        return;
    for (int y = 0; y < h; y++) {
        if (y + dy < 0 || y + dy >= h)
            continue;
        const uint8_t *in = src + ((size_t)(y + dy) * (size_t)w + (size_t)from) * (size_t)c;
        uint8_t *row = dst + (size_t)y * (size_t)w * (size_t)c;
        if (flip)
            mirror_row(in, row + (w - n - to) * c, n, c);
        else
            memcpy(row + to * c, in, (size_t)n * (size_t)c);
    }
}
