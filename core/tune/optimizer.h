/* The optimizers by name, and what sets them apart for the rest of the program: their state, which
 * settings they have, how their rate follows the batch. What they compute is core/backend/optim.h.
 * Pure; any thread. */
#ifndef BST_TUNE_OPTIMIZER_H
#define BST_TUNE_OPTIMIZER_H

#include <stdbool.h>

#define BST_OPTIMIZERS(X)                                                                          \
    X(SGD, "sgd")                                                                                  \
    X(ADAMW, "adamw")                                                                              \
    X(LAMB, "lamb")                                                                                \
    X(LARS, "lars")

enum bst_optimizer {
#define X(name, text) BST_OPTIMIZER_##name,
    BST_OPTIMIZERS(X)
#undef X
        BST_N_OPTIMIZERS
};

enum { BST_OPTIMIZER_BLOCKS = 2 };

struct bst_optimizer_info {
    const char *name;
    bool adaptive;   /* has beta1, beta2, epsilon, and counts its steps */
    bool momentum;   /* has momentum and nesterov */
    bool layer_wise; /* scales the rate of each parameter by its norms */
    int n_blocks;    /* of state, each as large as the trained parameters */
    const char *blocks[BST_OPTIMIZER_BLOCKS]; /* PyTorch's names of them; tensors in a checkpoint
                                                 are called "exp_avg.layer1.0.conv1.weight" */
};

const struct bst_optimizer_info *bst_optimizer_info(enum bst_optimizer o);

#endif
