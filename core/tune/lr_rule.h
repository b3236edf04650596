/* How the learning rate follows the batch. Pure; any thread.
 * linear: Goyal et al. 2017. sqrt: Krizhevsky 2014, the usual choice for adaptive optimizers. */
#ifndef BST_TUNE_LR_RULE_H
#define BST_TUNE_LR_RULE_H

#include <stdbool.h>
#include <stdint.h>

#define BST_LR_RULES(X)                                                                            \
    X(NONE, "none")                                                                                \
    X(LINEAR, "linear")                                                                            \
    X(SQRT, "sqrt")                                                                                \
    X(SQRT_ACCUMULATE, "sqrt-accumulate")

enum bst_lr_rule {
#define X(name, text) BST_LR_RULE_##name,
    BST_LR_RULES(X)
#undef X
        BST_N_LR_RULES
};

enum { BST_LR_BASE_BATCH = 256 };

const char *bst_lr_rule_name(enum bst_lr_rule rule);
bool bst_lr_rule_by_name(const char *name, enum bst_lr_rule *out);

/* SGD and its layer-wise kin: linear; Adam and its kin: sqrt. */
enum bst_lr_rule bst_lr_rule_default(bool adaptive);

/* Factor on the preset's learning_rate at `batch`. `base` is the batch that rate is meant for;
 * under sqrt-accumulate the preset's micro-batch × devices, never the split that memory forced. */
double bst_lr_rule_factor(enum bst_lr_rule rule, uint64_t batch, uint64_t base);

/* Factor on the rate in force when the batch goes from `before` to `after`. */
double bst_lr_rule_change(enum bst_lr_rule rule, uint64_t before, uint64_t after);

#endif
