/* Files: whole writes, whole reads with a cap, durable replacement. Every open for writing is
 * O_NOFOLLOW|O_CLOEXEC. Errors are BST_E_IO with path and errno's words. Any thread. */
#ifndef BST_BASE_IO_H
#define BST_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

BST_MUST_USE enum bst_err bst_io_write_full(int fd, const void *data, size_t n, const char *what);
BST_MUST_USE enum bst_err bst_io_read_full(int fd, void *data, size_t n, const char *what);
/* Whole file, NUL-terminated; BST_E_RANGE when larger than cap. Caller frees with bst_free. */
BST_MUST_USE enum bst_err bst_io_read_file(const char *path, size_t cap, char **data, size_t *n);
/* temp in the same directory, fsync, rename, fsync of the directory. */
BST_MUST_USE enum bst_err bst_io_replace_file(const char *path, const void *data, size_t n);
/* Whether that can be done, as far as can be known before: the temp is made and taken away. For
 * work that takes minutes and ends in a file. */
BST_MUST_USE enum bst_err bst_io_may_replace(const char *path);
BST_MUST_USE enum bst_err bst_io_make_dirs(const char *path, mode_t mode);
BST_MUST_USE enum bst_err bst_io_sync_dir(const char *path);
/* Opens for writing: O_CREAT|O_NOFOLLOW|O_CLOEXEC plus `flags` (O_APPEND, O_EXCL, O_TRUNC). */
BST_MUST_USE enum bst_err bst_io_open_write(const char *path, int flags, mode_t mode, int *fd);
BST_MUST_USE enum bst_err bst_io_remove_tree(const char *path);
bool bst_io_exists(const char *path);
/* What `path` names is the file or folder that was opened: it was not removed, moved or replaced
 * since. An fd that is open keeps its inode's number from being given to another. Where that cannot
 * be asked, by any error but a missing name, it counts as there. */
bool bst_io_is_at(int fd, const char *path);

#endif
