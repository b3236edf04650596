/* Tensors in a file: safetensors (8-byte header length, JSON header, data), the format PyTorch
 * users load and save. The reader trusts nothing: header of at most 100 MB, extents that tile the
 * data exactly, every product checked. Data are read with pread, so that a file that shrinks is an
 * error, not a SIGBUS. A reader or writer belongs to one thread at a time. */
#ifndef BST_BASE_SAFETENSORS_H
#define BST_BASE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

#define BST_TENSOR_MAX_RANK 8

/* F32 … BF16 can be read as numbers; the others are only known by name and size. */
enum bst_dtype {
    BST_DT_F32,
    BST_DT_F64,
    BST_DT_F16,
    BST_DT_BF16,
    BST_DT_I64,
    BST_DT_I32,
    BST_DT_I16,
    BST_DT_I8,
    BST_DT_U64,
    BST_DT_U32,
    BST_DT_U16,
    BST_DT_U8,
    BST_DT_BOOL,
    BST_DT_N
};
const char *bst_dtype_name(enum bst_dtype t);
size_t bst_dtype_bytes(enum bst_dtype t);

struct bst_tensor {
    const char *name; /* owned by the reader; as the file spells it: clean before showing */
    enum bst_dtype dtype;
    int rank;
    int64_t d[BST_TENSOR_MAX_RANK];
    int64_t count;          /* elements */
    uint64_t offset, bytes; /* within the data part */
};

struct bst_tensors; /* a file open for reading */

/* BST_E_NOTFOUND when there is no such file, BST_E_CORRUPT when it is not what it should be; the
 * text names the file and, where there is one, the tensor. */
BST_MUST_USE enum bst_err bst_tensors_open(const char *path, struct bst_tensors **out);
/* The same on a descriptor, which stays the caller's; `name` is for the texts. */
BST_MUST_USE enum bst_err bst_tensors_open_fd(int fd, const char *name, struct bst_tensors **out);
void bst_tensors_close(struct bst_tensors *r);

int bst_tensors_count(const struct bst_tensors *r);
const struct bst_tensor *bst_tensors_at(const struct bst_tensors *r, int i); /* in file order */
const struct bst_tensor *bst_tensors_find(const struct bst_tensors *r,
                                          const char *name); /* or NULL */
/* All t->count numbers, exactly, as doubles. BST_E_UNSUPPORTED for a dtype that is not a float. */
BST_MUST_USE enum bst_err bst_tensors_read(struct bst_tensors *r, const struct bst_tensor *t,
                                           double *out);
/* Whether two tensors of the file are the same: dtype, shape and every bit. */
BST_MUST_USE enum bst_err bst_tensors_same(struct bst_tensors *r, const struct bst_tensor *a,
                                           const struct bst_tensor *b, bool *out);

/* Writing: declare every tensor, then give the data in the order of declaration. */
struct bst_tensors_writer;
struct bst_tensors_writer *bst_tensors_writer_new(enum bst_dtype dtype); /* F32 or F64, for all */
void bst_tensors_writer_add(struct bst_tensors_writer *w, const char *name, int rank,
                            const int64_t *d);
/* Creates the file (which must not be a link) and writes the header. */
BST_MUST_USE enum bst_err bst_tensors_writer_start(struct bst_tensors_writer *w, const char *path);
/* The next declared tensor: `count` numbers, which must be its own count. */
BST_MUST_USE enum bst_err bst_tensors_writer_put(struct bst_tensors_writer *w, const double *values,
                                                 int64_t count);
/* Everything was put: fsync and close. */
BST_MUST_USE enum bst_err bst_tensors_writer_finish(struct bst_tensors_writer *w);
/* Without a finish before, the file that was begun is removed. NULL is fine. */
void bst_tensors_writer_free(struct bst_tensors_writer *w);

#endif
