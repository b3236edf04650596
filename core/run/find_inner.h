/* What the searches share: beginning and ending one. Private to find*.c; the thread that searches.
 */
#ifndef BST_RUN_FIND_INNER_H
#define BST_RUN_FIND_INNER_H

#include "core/run/find.h"

BST_MUST_USE enum bst_err bst_find_begin(const struct bst_find *f, struct bst_kept **kept);
/* Puts state and split back; `err` is what the search came to, and is handed on with its text
 * unless putting back failed. *restored says whether all is as it was. Frees `kept`. */
BST_MUST_USE enum bst_err bst_find_end(const struct bst_find *f, struct bst_kept *kept,
                                       enum bst_err err, bool *restored);
void bst_find_say(const struct bst_find *f, const char *fmt, ...) BST_PRINTF(2, 3);
/* BST_E_CANCELLED once `stop` is set. */
BST_MUST_USE enum bst_err bst_find_stopped(const struct bst_find *f);

#endif
