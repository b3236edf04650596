/* Which part of a photograph becomes the net's input, by torchvision's rules, and how much of it
 * need be decoded. Pure. Internal to core/data. */
#ifndef BST_DATA_CROP_H
#define BST_DATA_CROP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/data/jpeg.h"
#include "core/data/resample.h"

/* The image is resized by (total / length) on each axis, and a square of `size` pixels from `first`
 * taken. */
struct bst_crop_span {
    int origin, length; /* source pixels, at full size */
    int total, first;   /* target pixels */
};

struct bst_crop {
    struct bst_crop_span x, y;
    int size;
    bool mirror;
    struct bst_jpeg_rect part; /* of the source that the square depends on */
    double least_scale; /* target pixels must be at least so many times larger than decoded ones */
};

/* RandomResizedCrop (scale 0.08 to 1, ratio 3:4 to 4:3), mirrored half the time. */
void bst_crop_random(struct bst_crop *c, int width, int height, int size, uint64_t key);
/* Resize of the shorter side to size · 256 / 224, then CenterCrop. */
void bst_crop_centre(struct bst_crop *c, int width, int height, int size);

/* 1, 2, 4 or 8: the coarsest decoding that still leaves as many pixels as are wanted. */
int bst_crop_denominator(const struct bst_crop *c);
void bst_crop_axes(const struct bst_crop *c, const struct bst_jpeg_view *view,
                   struct bst_resample_axis *x, struct bst_resample_axis *y);

#endif
