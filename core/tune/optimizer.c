#include "core/tune/optimizer.h"

static const struct bst_optimizer_info table[BST_N_OPTIMIZERS] = {
    [BST_OPTIMIZER_SGD] = {.name = "sgd", .momentum = true, .n_blocks = 1, .blocks = {"momentum"}},
    [BST_OPTIMIZER_ADAMW] = {.name = "adamw",
                             .adaptive = true,
                             .n_blocks = 2,
                             .blocks = {"exp_avg", "exp_avg_sq"}},
    [BST_OPTIMIZER_LAMB] = {.name = "lamb",
                            .adaptive = true,
                            .layer_wise = true,
                            .n_blocks = 2,
                            .blocks = {"exp_avg", "exp_avg_sq"}},
    [BST_OPTIMIZER_LARS] = {.name = "lars",
                            .momentum = true,
                            .layer_wise = true,
                            .n_blocks = 1,
                            .blocks = {"momentum"}},
};

const struct bst_optimizer_info *bst_optimizer_info(enum bst_optimizer o)
{
    return &table[o];
}
