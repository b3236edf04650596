/* What a journal comes to: the changes that still count, for a resume and for repeating a run.
 * Pure; any thread. */
#ifndef BST_RUN_JOURNAL_CHANGES_H
#define BST_RUN_JOURNAL_CHANGES_H

#include "core/run/journal.h"
#include "core/run/preset.h"

/* Indices of the applied entries that still count, oldest first; `out` has room for all of the
 * journal's. A rewind takes away what came after the point it went back to, and stays itself. */
int bst_journal_surviving(const struct bst_journal *j, int *out);

/* The same as the preset's own `changes`, which they replace. BST_E_STATE when one cannot be said
 * as a command (a redo of what a rewind took away), BST_E_RANGE when there are too many. */
BST_MUST_USE enum bst_err bst_journal_to_preset(const struct bst_journal *j,
                                                struct bst_preset *preset);

#endif
