/* A counted block of memory that grows and is kept for reuse. Its owner's thread. Internal
 * to core/data. */
#ifndef BST_DATA_BLOCK_H
#define BST_DATA_BLOCK_H

#include <stddef.h>

#include "core/base/err.h"

struct bst_block {
    void *p;
    size_t bytes;
};

/* At least `bytes`; what was there is kept. BST_E_NOMEM leaves the block as it was. */
BST_MUST_USE enum bst_err bst_block_reserve(struct bst_block *b, size_t bytes);
void bst_block_free(struct bst_block *b);

#endif
