/* metrics.jsonl: one object a line, each with one write. A full disk loses nothing at first: lines
 * wait, up to a bound, and are tried again. Owner: the session, one thread. */
#ifndef BST_RUN_METRICS_H
#define BST_RUN_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sb.h"

struct bst_metrics;

/* A resumed run keeps the first `keep` bytes (a checkpoint's), so that no update is there twice:
 * they go to a new file that replaces the old one, by which a reader sees that it has to begin
 * again. Less than that on the disk is said in `notes`. */
BST_MUST_USE enum bst_err bst_metrics_open(const char *dir, uint64_t keep, struct bst_sb *notes,
                                           struct bst_metrics **out);
void bst_metrics_close(struct bst_metrics *m);

/* `line` without its end. */
void bst_metrics_add(struct bst_metrics *m, const char *line);
/* Tries again what waits, when it is time to. Call now and then. */
void bst_metrics_retry(struct bst_metrics *m);
/* True from the first failure until all that waited is written; `why` then has errno's words. */
bool bst_metrics_failing(const struct bst_metrics *m, const char **why);
/* On the disk, for a checkpoint that is about to say so. */
BST_MUST_USE enum bst_err bst_metrics_sync(struct bst_metrics *m, uint64_t *bytes);
/* Goes back to the first `keep` bytes, as at opening; for a rewind. */
BST_MUST_USE enum bst_err bst_metrics_back(struct bst_metrics *m, uint64_t keep);
/* Its file is still where it was opened. */
bool bst_metrics_is_there(const struct bst_metrics *m);
/* After the file was removed: a new one, from here on. */
BST_MUST_USE enum bst_err bst_metrics_again(struct bst_metrics *m);
uint64_t bst_metrics_bytes(const struct bst_metrics *m);

#endif
