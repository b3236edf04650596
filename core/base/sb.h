/* A growing string with a cap set at birth: past it text is cut and `full` is set, never an error
 * in the middle of a line. Caller's storage; one thread. */
#ifndef BST_BASE_SB_H
#define BST_BASE_SB_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>

#include "core/base/err.h"

struct bst_sb {
    char *data; /* NUL-terminated, "" when empty, never NULL after init */
    size_t len, room, cap;
    bool full;
};

void bst_sb_init(struct bst_sb *sb, size_t cap);
void bst_sb_fini(struct bst_sb *sb);
void bst_sb_clear(struct bst_sb *sb);
void bst_sb_add(struct bst_sb *sb, const char *s);
void bst_sb_addn(struct bst_sb *sb, const char *s, size_t n);
void bst_sb_addc(struct bst_sb *sb, char c);
void bst_sb_addf(struct bst_sb *sb, const char *fmt, ...) BST_PRINTF(2, 3);
void bst_sb_addv(struct bst_sb *sb, const char *fmt, va_list ap);
/* Heap string, caller frees with bst_free; sb is empty again. */
char *bst_sb_take(struct bst_sb *sb);

#endif
