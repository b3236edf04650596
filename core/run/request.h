/* From settings in force to what one update is asked to do. Pure; any thread. */
#ifndef BST_RUN_REQUEST_H
#define BST_RUN_REQUEST_H

#include "core/train/train.h"
#include "core/tune/plan.h"

/* Of a whole batch in force that begins at `samples`; clipping as if this update were one that
 * clips. Left to the caller: update, nesterov, noise and momentum_factor, which is 1. */
struct bst_update_req bst_request_of(const struct bst_live *l, uint64_t samples);
/* The update numbered `number` (from 1) that begins at `samples`; the last one before `end` takes
 * what is left, in micro-batches no larger than those in force. Left to the caller: nesterov, noise
 * and momentum_factor, which is 1. `split` is the one it runs under. */
BST_MUST_USE enum bst_err bst_request_make(const struct bst_live *l, uint64_t samples, uint64_t end,
                                           uint64_t number, struct bst_split *split,
                                           struct bst_update_req *req);

#endif
