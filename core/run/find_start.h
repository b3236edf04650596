/* A fresh trainer for a search from the command line: what a run of this preset starts with,
 * without a run. The calling thread owns all of it. */
#ifndef BST_RUN_FIND_START_H
#define BST_RUN_FIND_START_H

#include "core/run/find.h"
#include "core/run/start.h"

struct bst_signals;

struct bst_find_rig {
    struct bst_start start;
    struct bst_train_cfg cfg;
    struct bst_trainer *trainer;
    struct bst_live live;
    struct bst_signals *signals;
    int wake_fd;
    atomic_int interrupt; /* by SIGINT and SIGTERM */
    struct bst_find find; /* ready to use; progress is the caller's to set */
};

/* `preset` and `nets` are borrowed. Call before the process has other threads. with_split: the
 * preset's batch is put in force, in the largest micro-batches that fit. Close also after an error.
 */
BST_MUST_USE enum bst_err bst_find_rig_open(const struct bst_preset *preset,
                                            const struct bst_net_table *nets, bool with_split,
                                            struct bst_find_rig *rig);
void bst_find_rig_close(struct bst_find_rig *rig);

#endif
