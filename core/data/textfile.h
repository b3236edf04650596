/* A whole UTF-8 text file in memory, without the byte order mark that some editors begin it with.
 * Errors name file, line and offset. One thread at a time. Internal to core/data. */
#ifndef BST_DATA_TEXTFILE_H
#define BST_DATA_TEXTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bst_textfile {
    uint8_t *bytes; /* bst_alloc, of `room` */
    size_t n, room;
};

/* BST_E_NOTFOUND, BST_E_NOMEM; BST_E_CORRUPT when it is empty or not UTF-8. */
BST_MUST_USE enum bst_err bst_textfile_read(const char *path, struct bst_textfile *out);
void bst_textfile_free(struct bst_textfile *t);

#endif
