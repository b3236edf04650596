/* What was found out about a device once, kept on disk: lines of text by key. A file holds for what
 * its heading says, each line has its own CRC-32C, it is replaced as a whole; what is damaged or of
 * another version is not there. A file that cannot be read or written costs time, and nothing else.
 * One thread at a time; processes may share the file, and keep what others have added. */
#ifndef BST_BACKEND_CUDA_KEEP_H
#define BST_BACKEND_CUDA_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDA_KEEP_KEY = 96 };

struct cuda_keep;

/* FOLDER/NAME-CUDNN-DEVICE.txt, of a device by its properties. `folder`: NULL for
 * $XDG_CACHE_HOME/bstune, or ~/.cache/bstune; "" for none, then nothing is kept. */
struct cuda_keep *cuda_keep_open(const char *name, const char *properties, size_t n,
                                 const char *folder);
void cuda_keep_close(struct cuda_keep *k); /* writes what is new; NULL is fine */
void cuda_keep_write(struct cuda_keep *k);

/* The text under a key, or NULL; until the next addition. */
const char *cuda_keep_find(const struct cuda_keep *k, const char *key);
/* `text` has no line's end in it. add: what is there already stays; set: it does not. */
void cuda_keep_add(struct cuda_keep *k, const char *key, const char *text);
void cuda_keep_set(struct cuda_keep *k, const char *key, const char *text);

/* One after another, from *at = 0 on; false past the last. */
bool cuda_keep_next(const struct cuda_keep *k, size_t *at, const char **key, const char **text);

#endif
