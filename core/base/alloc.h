/* Two allocators. bst_x*: small host objects, dies when memory is out. bst_alloc: anything sized by
 * batch, net or file; returns an error, is counted, page-aligned and zeroed (own mapping, huge
 * pages advised). Thread-safe. */
#ifndef BST_BASE_ALLOC_H
#define BST_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

void *bst_xalloc(size_t bytes);           /* zeroed */
void *bst_xcalloc(size_t n, size_t size); /* zeroed; dies on overflow */
void *bst_xrealloc(void *p, size_t n, size_t size);
char *bst_xstrdup(const char *s);
char *bst_xasprintf(const char *fmt, ...) BST_PRINTF(1, 2);
void bst_free(void *p); /* NULL is fine */

/* A list of n members of `size` bytes, with room for one more: it grows twofold. *room: members it
 * has room for, 0 of NULL. What is new is not zeroed. */
static inline void *bst_xgrow(void *list, int n, int *room, size_t size)
{
    if (n < *room)
        return list;
    *room = *room ? 2 * *room : 16;
    return bst_xrealloc(list, (size_t)*room, size);
}

/* A counted block of exactly `bytes` (0 gives NULL). BST_E_NOMEM names the size. */
BST_MUST_USE enum bst_err bst_alloc(size_t bytes, void **out);
void bst_alloc_free(void *p, size_t bytes);

/* Bytes now held through bst_alloc, by the whole process; and the most ever held. */
size_t bst_alloc_held(void);
size_t bst_alloc_peak(void);
/* What the calling thread has taken less what it gave back: its own part when every block is freed
 * by the thread that took it. */
int64_t bst_alloc_held_here(void);

/* false on overflow; *out is then unspecified. */
bool bst_mul_size(size_t a, size_t b, size_t *out);
bool bst_add_size(size_t a, size_t b, size_t *out);

#endif
