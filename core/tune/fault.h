/* What a device's failure in a running update means for the run. Pure; any thread. */
#ifndef BST_TUNE_FAULT_H
#define BST_TUNE_FAULT_H

#include "core/base/err.h"
#include "core/tune/diagnostics.h"

enum bst_fault_verdict {
    BST_FAULT_RETRY,   /* memory: nothing was changed; the same again, with less or later */
    BST_FAULT_DROP,    /* the update is dropped, for nothing has moved, and taken again */
    BST_FAULT_RESTART, /* of the process, from the last checkpoint: this one's context is lost */
    BST_FAULT_STOP,    /* a device or a process is lost: the run ends, and needs another one */
};

struct bst_fault_rule {
    enum bst_err err;
    enum bst_fault_verdict verdict;
    enum bst_diag code;
};

/* NULL: no failure of a device or a process. */
const struct bst_fault_rule *bst_fault_rule(enum bst_err err);

/* An update that failed this often in a row is not taken again. */
enum { BST_FAULT_TRIES = 3 };

#endif
