/* Files of tokens: uint16 or uint32, little-endian, bare as nanoGPT writes them or behind llm.c's
 * header of 1024 bytes. Read in place; errors name file, position and value. Internal to core/data.
 * Any thread once it is open. */
#ifndef BST_DATA_BIN_H
#define BST_DATA_BIN_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { BST_BIN_HEADER = 1024 };

struct bst_bin_shape {
    uint64_t start; /* of the first token, bytes */
    uint64_t n;     /* tokens */
    int width;      /* bytes of a token: 2 or 4 */
};

struct bst_bin {
    char *path;
    int fd;
    struct bst_bin_shape shape;
};

/* `width` is of a bare file's tokens; 0: 2. */
BST_MUST_USE enum bst_err bst_bin_open(const char *path, int width, struct bst_bin *out);
void bst_bin_close(struct bst_bin *b);
/* Tokens at … at+n-1. BST_E_CORRUPT for one that is not below vocab, or where the file ends. */
BST_MUST_USE enum bst_err bst_bin_read(const struct bst_bin *b, uint64_t at, int n, int32_t vocab,
                                       int32_t *out);
/* Reads the first `n` tokens: *largest becomes the largest of them and itself. The same errors. */
BST_MUST_USE enum bst_err bst_bin_scan(const struct bst_bin *b, uint64_t n, int32_t vocab,
                                       int32_t *largest);

#endif
