/* MANIFEST of a checkpoint: which files, how long, which CRC-32C; and its own. Private to
 * core/train. */
#ifndef BST_TRAIN_MANIFEST_H
#define BST_TRAIN_MANIFEST_H

#include <stdint.h>

#include "core/base/sb.h"

enum { MANIFEST_FILES = 3 };
extern const char *const bst_manifest_names[MANIFEST_FILES]; /* weights, optimizer, state */

struct bst_manifest {
    uint64_t seq, update, samples;
    struct {
        uint64_t bytes;
        uint32_t crc;
    } file[MANIFEST_FILES];
};

void bst_manifest_write(const struct bst_manifest *m, struct bst_sb *out);
/* BST_E_CORRUPT unless text is byte for byte what write() makes of the result. */
BST_MUST_USE enum bst_err bst_manifest_read(const char *text, size_t n, struct bst_manifest *out);

/* Sizes and checksums of DIR's files into m; or, with `check`, compared with what m says. */
BST_MUST_USE enum bst_err bst_manifest_scan(const char *dir, struct bst_manifest *m, bool check);

#endif
