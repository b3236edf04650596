/* Augmentation of small images held whole: He et al. 2016 for CIFAR (pad by 4, random crop,
 * mirror). Pure function of its key. Internal to core/data. Any thread. */
#ifndef BST_DATA_AUGMENT_H
#define BST_DATA_AUGMENT_H

#include <stdint.h>

/* The key of a sample's augmentation: of the sample and the epoch, not of its place in a batch. */
uint64_t bst_augment_key(uint64_t seed, uint64_t epoch, int64_t index);

/* src, dst: [h, w, c], apart. What the crop takes from outside the image is 0, as in torchvision.
 */
void bst_augment_shift_flip(const uint8_t *src, uint8_t *dst, int h, int w, int c, int pad,
                            uint64_t key);

#endif
