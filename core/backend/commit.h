/* The end of an update as one call, for a backend that has a queue: norms of the reduced gradients
 * and whether they may be used, clipping, the optimizer, running statistics and the loss scale, in
 * that order and with no decision by the host. Every rank works on the same bits and comes to the
 * same result. It may be asked for before the collectives in front of it are through: once a rank
 * has left one of them, commits behind it move nothing.
 *
 * Loss scaling is PyTorch's GradScaler: the loss's gradient is multiplied by the scale, everything
 * behind the reduction is unscaled. It is on where activations are fp16. */
#ifndef BST_BACKEND_COMMIT_H
#define BST_BACKEND_COMMIT_H

#include "core/backend/optim.h"
#include "core/graph/program.h"

enum { BST_COMMITS = 3 }; /* that may be on their way at once */

struct bst_step_result {
    double loss_sum;      /* over targets, not averaged */
    int64_t correct;      /* top-1 */
    double pair_loss_sum; /* of the second loss, over samples; 0 where the net has none */
    int64_t pair_correct;
    int64_t targets; /* labels that counted: samples, or positions that are not ignored */
    int64_t exact;   /* samples that have targets, and whose every one is right */
};

/* What one commit leaves to the next. Checkpoints hold it. */
struct bst_commit_state {
    double loss_scale; /* a power of two; 1 where the loss is not scaled */
    uint32_t good;     /* updates that were used since it last changed */
    uint64_t steps;    /* updates that moved the weights */
};

struct bst_commit {
    const struct bst_param_slot *params; /* the trained ones */
    const double *factor;                /* of the rate, by parameter; 0: frozen, no part of it */
    int n_params;
    const struct bst_span *spans; /* of what is not frozen */
    int n_spans;
    /* Also sgd: state[0] is v, and NULL without momentum. Its step is the state's, its grad_factor
     * what clipping and the loss scale ask for. */
    struct bst_optim optim;
    struct bst_optim_blocks blocks;
    double momentum_factor; /* v is multiplied by it first */
    double max_grad_norm;   /* 0: no clipping */
    /* Statistics that become the net's own. Where they are not finite the update is skipped
     * whatever its gradients, and the loss scale stays. */
    const void *staged;
    void *statistics;
    size_t state_bytes;
    bool weighs; /* the weights' norms behind it come back, too */
};

struct bst_commit_result {
    double grad_norm;                    /* of what is not frozen, unscaled, before clipping */
    int first_nonfinite, last_nonfinite; /* parameters that are not frozen; -1: none */
    int n_zero;                          /* of them, whose gradient was exactly 0 */
    bool skipped, clipped;
    double loss_scale;             /* that this update had */
    double *sum_squares;           /* the caller's, n_params: unscaled */
    double *weight_squares;        /* the caller's, n_params: filled in where they were asked for */
    struct bst_commit_state after; /* a skipped update leaves `steps` as it was */
    struct bst_step_result step;   /* of this rank's steps without a result since the first that did
                                      not accumulate */
    double part_squares;           /* measure()'s, still scaled; 0: it was not called */
    double busy_seconds;           /* from the first of those steps to the end of the last */
};

#endif
