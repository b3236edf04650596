#include "core/data/block.h"

#include <string.h>

#include "core/base/alloc.h"

enum { LEAST = 64 << 10 };

enum bst_err bst_block_reserve(struct bst_block *b, size_t bytes)
{
    if (bytes <= b->bytes)
        return BST_OK;
    /* By half at least, so that growing step by step stays linear. */
    size_t room = b->bytes + b->bytes / 2;
    room = room < bytes ? bytes : room;
    room = room < LEAST ? LEAST : room;
    void *p = NULL;
    BST_TRY(bst_alloc(room, &p));
    if (b->p)
        memcpy(p, b->p, b->bytes);
    bst_alloc_free(b->p, b->bytes);
    *b = (struct bst_block){p, room};
    return BST_OK;
}

void bst_block_free(struct bst_block *b)
{
    bst_alloc_free(b->p, b->bytes);
    *b = (struct bst_block){0};
}
