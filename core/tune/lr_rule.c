#include "core/tune/lr_rule.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
#define X(name, text) text,
    BST_LR_RULES(X)
#undef X
};

const char *bst_lr_rule_name(enum bst_lr_rule rule)
{
    return names[rule];
}

bool bst_lr_rule_by_name(const char *name, enum bst_lr_rule *out)
{
    for (int i = 0; i < BST_N_LR_RULES; i++) {
        if (!strcmp(name, names[i])) {
            *out = (enum bst_lr_rule)i;
            return true;
        }
    }
    return false;
}

enum bst_lr_rule bst_lr_rule_default(bool adaptive)
{
    return adaptive ? BST_LR_RULE_SQRT : BST_LR_RULE_LINEAR;
}

double bst_lr_rule_factor(enum bst_lr_rule rule, uint64_t batch, uint64_t base)
{
    double ratio = base ? (double)batch / (double)base : 1;
    switch (rule) {
    case BST_LR_RULE_LINEAR:
        return ratio;
    case BST_LR_RULE_SQRT:
    case BST_LR_RULE_SQRT_ACCUMULATE:
        return sqrt(ratio);
    case BST_LR_RULE_NONE:
    case BST_N_LR_RULES:
        break;
    }
    return 1;
}

double bst_lr_rule_change(enum bst_lr_rule rule, uint64_t before, uint64_t after)
{
    return bst_lr_rule_factor(rule, after, before);
}
