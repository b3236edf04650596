/* Resizes a window of an RGB image: bilinear, widened where it shrinks so that nothing aliases,
 * which is what Pillow's BILINEAR and torchvision's antialias=True do. Within one grey level of
 * Pillow, and the same bits on every machine. Internal to core/data. One thread a resampler. */
#ifndef BST_DATA_RESAMPLE_H
#define BST_DATA_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/block.h"

/* One axis: `length` source pixels from `origin` on become `total` pixels, of which `n` from
 * `first` on are made, last one first if mirrored. The filter sees source pixels low … high-1 only.
 */
struct bst_resample_axis {
    double origin, length;
    int low, high;
    int total, first, n;
    bool mirror;
};

/* The loops over a row, in portable C or for one instruction set. Weights are in 1/16384. Both may
 * read 16 bytes past the pixels they use and write 16 past `out`, but for blend_pixels' last. */
struct bst_resample_loops {
    const char *name;
    /* out[i] = Σ weight[k] · rows[k · stride + i], k < n_taps, i < n */
    void (*blend_rows)(const uint8_t *rows, size_t stride, const int16_t *weight, int n_taps,
                       uint8_t *out, int n);
    /* Pixel i of n is made of 4 · groups pixels from byte start[i] of the row on. Weights lie as
     * the vector loop multiplies them, two pixels side by side: bst_resample_weight_at() says
     * where. `start` has one more entry where n is odd. */
    void (*blend_pixels)(const uint8_t *row, const int32_t *start, const int16_t *weight,
                         int groups, uint8_t *out, int n);
};
extern const struct bst_resample_loops bst_resample_portable;
const struct bst_resample_loops *bst_resample_fastest(void);

/* A block of weights serves four taps of two pixels: taps 0 and 1 of the first pixel thrice, for
 * red, green and blue, and two zeros; the same of the second pixel; taps 2 and 3 of both likewise.
 */
enum { BST_RESAMPLE_BLOCK = 32 };
static inline size_t bst_resample_weight_at(int pixel, int tap, int groups)
{
    size_t block = (size_t)(pixel / 2) * (size_t)groups + (size_t)(tap / 4);
    return block * BST_RESAMPLE_BLOCK + (size_t)(tap % 4 / 2 * 16 + pixel % 2 * 8 + tap % 2);
}

struct bst_resampler {                      /* all zero at first */
    const struct bst_resample_loops *loops; /* NULL: the fastest */
    struct bst_block tables, row;
};

void bst_resampler_fini(struct bst_resampler *r);

/* src: rows `stride` bytes apart, its first pixel is (x.low, y.low); 64 bytes past the last row's
 * end are readable. dst: [y.n, x.n, 3]. */
BST_MUST_USE enum bst_err bst_resample(struct bst_resampler *r, const uint8_t *src, size_t stride,
                                       const struct bst_resample_axis *x,
                                       const struct bst_resample_axis *y, uint8_t *dst);

#endif
