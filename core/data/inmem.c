#include "core/data/inmem.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/data/augment.h"

enum { PAD = 4 };

static size_t sample_bytes(const struct bst_inmem *set)
{
    return (size_t)set->height * (size_t)set->width * (size_t)set->channels;
}

enum bst_err bst_inmem_reserve(struct bst_inmem *set, enum bst_part part, int64_t n)
{
    struct bst_inmem_part *p = &set->part[part];
    void *images = NULL, *labels = NULL;
    size_t bytes = 0;
    if (n < 0 || !bst_mul_size((size_t)n, sample_bytes(set), &bytes))
        return bst_fail(BST_E_NOMEM, "a data set of more bytes than can be");
    BST_TRY(bst_alloc(bytes, &images));
    enum bst_err err = bst_alloc((size_t)n, &labels);
    if (err) {
        bst_alloc_free(images, bytes);
        return err;
    }
    *p = (struct bst_inmem_part){.images = images, .labels = labels, .image_bytes = bytes, .n = n};
    return BST_OK;
}

void bst_inmem_free(struct bst_inmem *set)
{
    for (int i = 0; i < 2; i++) {
        struct bst_inmem_part *p = &set->part[i];
        bst_alloc_free(p->images, p->image_bytes);
        bst_alloc_free(p->labels, (size_t)p->n);
        *p = (struct bst_inmem_part){0};
    }
}

void bst_inmem_get(const struct bst_inmem *set, enum bst_part part, int64_t index, uint64_t key,
                   uint8_t *out, int32_t *label)
{
    const struct bst_inmem_part *p = &set->part[part];
    const uint8_t *image = p->images + (size_t)index * sample_bytes(set);
    *label = p->labels[index];
    if (set->augment && part == BST_TRAIN)
        bst_augment_shift_flip(image, out, set->height, set->width, set->channels, PAD, key);
    else
        memcpy(out, image, sample_bytes(set));
}
