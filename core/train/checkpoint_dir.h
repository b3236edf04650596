/* The folder that a run's checkpoints lie in: names, order, leftovers. Private to core/train. */
#ifndef BST_TRAIN_CHECKPOINT_DIR_H
#define BST_TRAIN_CHECKPOINT_DIR_H

#include "core/train/checkpoint.h"

enum bst_entry_kind {
    BST_ENTRY_COMMITTED, /* SEQ-update-N */
    BST_ENTRY_BAD,       /* SEQ-update-N.bad… */
    BST_ENTRY_TEMP,      /* SEQ-update-N.tmp-PID: being written, being deleted, or left behind */
};

struct bst_entry {
    enum bst_entry_kind kind;
    uint64_t seq, update;
    char name[256];
};

/* Everything of those names in DIR, by SEQ, largest first. *out freed with bst_free. No DIR is
 * BST_OK with *n 0. */
BST_MUST_USE enum bst_err bst_checkpoint_scan(const char *dir, struct bst_entry **out, int *n);

#endif
