#include "core/run/request.h"

static enum bst_err split_of(const struct bst_live *l, uint64_t batch, struct bst_split *out)
{
    if (batch == l->batch) {
        *out = l->split;
        return BST_OK;
    }
    /* No micro-batch larger than those in force, so that it fits where they do. */
    struct bst_split_ask ask = {
        .batch = batch, .ranks = l->split.ranks, .cap = l->split.micro, .may_be_empty = true};
    return bst_split_make(&ask, out);
}

struct bst_update_req bst_request_of(const struct bst_live *l, uint64_t samples)
{
    return (struct bst_update_req){
        .first = samples,
        .batch = (int64_t)l->batch,
        .micro_batches = (int)l->split.accumulate,
        .lr = bst_schedule_lr(&l->schedule, samples, l->batch),
        .momentum = l->momentum,
        .weight_decay = l->weight_decay,
        .label_smoothing = l->label_smoothing,
        .max_grad_norm = l->max_grad_norm,
        .momentum_factor = 1,
    };
}

enum bst_err bst_request_make(const struct bst_live *l, uint64_t samples, uint64_t end,
                              uint64_t number, struct bst_split *split, struct bst_update_req *req)
{
    uint64_t left = end - samples;
    BST_TRY(split_of(l, left < l->batch ? left : l->batch, split));
    *req = bst_request_of(l, samples);
    req->batch = (int64_t)split->batch;
    req->micro_batches = (int)split->accumulate;
    req->lr = bst_schedule_lr(&l->schedule, samples, split->batch);
    req->update = number;
    if (number % l->clip_interval)
        req->max_grad_norm = 0;
    return BST_OK;
}
