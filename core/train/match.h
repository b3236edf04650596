/* Which tensor of a file of weights is which parameter: under the net's own names, or those that
 * other programs' files have (struct bst_net_names). Internal to core/train; any thread. */
#ifndef BST_TRAIN_MATCH_H
#define BST_TRAIN_MATCH_H

#include "core/base/safetensors.h"
#include "core/graph/net.h"
#include "core/graph/program.h"

struct bst_match {
    const struct bst_net_names *names; /* may be NULL */
    const struct bst_param_table *params;
    struct bst_tensors *file;
    const char *path; /* for texts */
};

/* of_slot[i] becomes parameter i's tensor, NULL where the file has none; shapes are not looked at.
 * An error for a tensor that is no parameter's, for two that are the same one's, and for a copy of
 * a parameter that differs from it. */
BST_MUST_USE enum bst_err bst_match_weights(const struct bst_match *m,
                                            const struct bst_tensor **of_slot);
/* Whether the parameter belongs to a head, which another use of the net's body replaces. */
bool bst_match_is_head(const struct bst_net_names *names, const char *parameter);

#endif
