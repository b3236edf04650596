/* The learning-rate range test: one rate an update, whatever the update's micro-batches. */
#include <math.h>
#include <string.h>

#include "core/run/find_inner.h"

enum bst_err bst_lr_cfg_check(const struct bst_lr_cfg *cfg)
{
    const struct bst_lr_range *r = &cfg->range;
    if (!(r->start > 0) || !(r->end <= 1000) || !(r->end >= 10 * r->start))
        return bst_fail(BST_E_RANGE,
                        "rates from %g to %g: the first is above 0, the last at least 10 times "
                        "that and at most 1000",
                        r->start, r->end);
    if (r->updates < BST_LR_RANGE_LEAST || r->updates > BST_LR_RANGE_MOST)
        return bst_fail(BST_E_RANGE, "%d updates; %d to %d are possible", r->updates,
                        BST_LR_RANGE_LEAST, BST_LR_RANGE_MOST);
    if (cfg->repeats < 1 || cfg->repeats > BST_LR_REPEATS_MOST)
        return bst_fail(BST_E_RANGE, "%d repeats; 1 to %d are possible", cfg->repeats,
                        BST_LR_REPEATS_MOST);
    return BST_OK;
}

/* From `first` on; every pass starts at the state that was there. */
static enum bst_err pass(const struct bst_find *f, struct bst_lr_result *out, int repeat,
                         uint64_t first)
{
    struct bst_lr_curve *c = &out->curves[repeat];
    for (bool on = true; on;) {
        struct bst_update_req req = f->req;
        struct bst_update_result res;
        double rate = bst_lr_range_rate(&out->range, c->n);
        BST_TRY(bst_find_stopped(f));
        req.lr = rate;
        req.first = first + (uint64_t)c->n * (uint64_t)req.batch;
        req.momentum_factor = 1;
        req.update = 0;
        BST_TRY(bst_trainer_update(f->trainer, &req, f->stop, &res));
        out->updates++;
        /* A gradient that is not finite moves nothing: past it the loss would stand still. */
        on = bst_lr_curve_add(c, &out->range, bst_update_lost(&res) ? NAN : res.loss);
        bst_find_say(f, "pass %d/%d, update %d/%d, rate %.3g, loss %.4f", repeat + 1, out->repeats,
                     c->n, out->range.updates, rate, res.loss);
    }
    return BST_OK;
}

static enum bst_err all_passes(const struct bst_find *f, struct bst_kept *kept,
                               struct bst_lr_result *out)
{
    uint64_t stride = (uint64_t)out->range.updates * (uint64_t)f->req.batch;
    for (int k = 0; k < out->repeats; k++) {
        if (k)
            BST_TRY(bst_trainer_restore(kept));
        BST_TRY(pass(f, out, k, f->req.first + (uint64_t)k * stride));
    }
    return BST_OK;
}

enum bst_err bst_find_lr(const struct bst_find *f, const struct bst_lr_cfg *cfg,
                         struct bst_lr_result *out)
{
    struct bst_kept *kept;
    memset(out, 0, sizeof *out);
    out->range = cfg->range;
    out->repeats = cfg->repeats;
    out->batch = f->req.batch;
    out->restored = true;
    BST_TRY(bst_lr_cfg_check(cfg));
    if (f->req.batch < 1)
        return bst_fail(BST_E_ARG, "an LR range test needs a batch");
    BST_TRY(bst_find_begin(f, &kept));
    enum bst_err err = all_passes(f, kept, out);
    if (!err)
        bst_lr_range_suggest(&out->range, out->curves, out->repeats, &out->s);
    out->cut = err == BST_E_CANCELLED;
    return bst_find_end(f, kept, err, &out->restored);
}
