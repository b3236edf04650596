/* The stronger augmentation: colours and erasing, on top of crop and mirror. Pure functions of
 * their key. Internal to core/data. Any thread. */
#ifndef BST_DATA_DISTORT_H
#define BST_DATA_DISTORT_H

#include <stdint.h>

struct bst_distort_colour { /* factors; 1 is no change */
    double brightness, contrast, saturation;
};

/* torchvision's ColorJitter in the order of its arguments, without rounding in between: scales
 * towards black, towards the image's mean grey, towards each pixel's own grey. image: [n_pixels, c]
 * in place; saturation is for three channels. */
void bst_distort_colour(uint8_t *image, int n_pixels, int c, const struct bst_distort_colour *how);

struct bst_distort_rect {
    int x, y, w, h; /* w 0: nothing */
};

/* Where one image in four is erased: 2 to 33 % of its area, sides 0.3 to 3.3 (Zhong et al. 2017).
 */
struct bst_distort_rect bst_distort_erase_where(int h, int w, uint64_t key);

/* Both, as `key` says: each colour factor within 0.6 to 1.4, erased pixels random. image: [h, w,
 * c]. */
void bst_distort(uint8_t *image, int h, int w, int c, uint64_t key);

#endif
