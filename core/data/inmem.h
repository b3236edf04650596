/* A data set held in memory: both parts as [n, H, W, C] bytes with one label byte a sample. Filled
 * by the reader of a format, then read-only. Internal to core/data. */
#ifndef BST_DATA_INMEM_H
#define BST_DATA_INMEM_H

#include "core/data/data.h"

struct bst_inmem_part {
    uint8_t *images, *labels; /* bst_alloc */
    size_t image_bytes;       /* of all images */
    int64_t n;
};

struct bst_inmem {
    struct bst_inmem_part part[2]; /* by enum bst_part */
    int height, width, channels;
    bool augment; /* training part: shift by up to 4, mirror */
};

/* Memory for n samples of the set's size; BST_E_NOMEM when there is not enough. */
BST_MUST_USE enum bst_err bst_inmem_reserve(struct bst_inmem *set, enum bst_part part, int64_t n);
void bst_inmem_free(struct bst_inmem *set);
void bst_inmem_get(const struct bst_inmem *set, enum bst_part part, int64_t index, uint64_t key,
                   uint8_t *out, int32_t *label);

#endif
