/* Reads a data file, plain or gzipped, from front to back. Errors name file, offset, what was found
 * and what was expected. One thread a reader. Internal to core/data. */
#ifndef BST_DATA_READER_H
#define BST_DATA_READER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bst_reader;

/* Opens dir/name or dir/name.gz. BST_E_NOTFOUND when neither is there. */
BST_MUST_USE enum bst_err bst_reader_open(const char *dir, const char *name,
                                          struct bst_reader **out);
void bst_reader_close(struct bst_reader *r);
const char *bst_reader_path(const struct bst_reader *r);
/* Exactly n bytes, else BST_E_CORRUPT. */
BST_MUST_USE enum bst_err bst_reader_read(struct bst_reader *r, void *out, size_t n);
/* Before memory is taken: can `bytes` more be all that follows? `who` says so: "its header asks
 * for". A packed file's size is only known at its end, so there this refuses what deflate could
 * never reach; bst_reader_end checks the rest. */
BST_MUST_USE enum bst_err bst_reader_expect(struct bst_reader *r, uint64_t bytes, const char *who);
/* The file ends here (and, if packed, its checksum is right). */
BST_MUST_USE enum bst_err bst_reader_end(struct bst_reader *r);

#endif
