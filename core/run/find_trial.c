/* A change and its absence, tried from one state over the same samples. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/find_inner.h"
#include "core/run/request.h"

struct arm {
    const struct bst_live *live;
    const char *name;
    double momentum_factor;
    struct bst_trial_update *updates;
    int n, room;
    double seconds;
};

static void add(struct arm *a, uint64_t samples, const struct bst_update_result *res)
{
    a->updates = bst_xgrow(a->updates, a->n, &a->room, sizeof *a->updates);
    a->updates[a->n++] = (struct bst_trial_update){samples, bst_update_lost(res) ? NAN : res->loss};
    a->seconds += res->seconds;
}

/* One whose loss is not finite has shown enough. */
static enum bst_err train(const struct bst_find *f, const struct bst_trial_cfg *cfg, uint64_t end,
                          struct arm *a)
{
    uint64_t at = cfg->samples;
    while (at < end) {
        struct bst_update_req req;
        struct bst_update_result res;
        struct bst_split split;
        BST_TRY(bst_find_stopped(f));
        BST_TRY(bst_request_make(a->live, at, end, cfg->update + (uint64_t)a->n + 1, &split, &req));
        req.nesterov = cfg->nesterov;
        req.momentum_factor = a->n ? 1 : a->momentum_factor;
        BST_TRY(bst_trainer_update(f->trainer, &req, f->stop, &res));
        at += split.batch;
        add(a, at - cfg->samples, &res);
        /* How far it is comes first: the rest is what a narrow screen cuts. */
        bst_find_say(f, "%s the change, %.0f %%: update %d, loss %.4f", a->name,
                     100.0 * (double)(at - cfg->samples) / (double)(end - cfg->samples), a->n,
                     res.loss);
        if (bst_update_lost(&res))
            return BST_OK;
    }
    return BST_OK;
}

static enum bst_err both(const struct bst_find *f, const struct bst_trial_cfg *cfg,
                         struct bst_kept *kept, struct bst_trial_result *out)
{
    struct arm arms[2] = {
        {.live = cfg->without, .name = "without", .momentum_factor = 1},
        {.live = cfg->with, .name = "with", .momentum_factor = cfg->momentum_factor},
    };
    uint64_t end = cfg->samples + out->samples;
    enum bst_err err = BST_OK;
    for (int i = 0; i < 2 && !err; i++) {
        if (i)
            err = bst_trainer_restore(kept);
        if (!err)
            err = train(f, cfg, end, &arms[i]);
        out->updates[i] = arms[i].n;
        out->seconds[i] = arms[i].seconds;
    }
    if (!err)
        bst_trial_compare(arms[0].updates, arms[0].n, arms[1].updates, arms[1].n, out->samples,
                          &out->answer);
    bst_free(arms[0].updates);
    bst_free(arms[1].updates);
    return err;
}

enum bst_err bst_find_trial(const struct bst_find *f, const struct bst_trial_cfg *cfg,
                            struct bst_trial_result *out)
{
    struct bst_kept *kept;
    memset(out, 0, sizeof *out);
    out->restored = true;
    if (cfg->updates < BST_TRIAL_LEAST || cfg->updates > BST_TRIAL_MOST)
        return bst_fail(BST_E_RANGE, "%d updates; %d to %d are possible", cfg->updates,
                        BST_TRIAL_LEAST, BST_TRIAL_MOST);
    out->samples = (uint64_t)cfg->updates * cfg->without->batch;
    if (cfg->total - cfg->samples < out->samples)
        return bst_fail(BST_E_RANGE, "%d updates are %llu samples, and the run has %llu left",
                        cfg->updates, (unsigned long long)out->samples,
                        (unsigned long long)(cfg->total - cfg->samples));
    /* Each part has to hold at least one update of either arm. */
    if (cfg->with->batch * BST_TRIAL_PARTS > out->samples)
        return bst_fail(
            BST_E_RANGE, "a batch of %llu needs at least %llu updates",
            (unsigned long long)cfg->with->batch,
            (unsigned long long)(cfg->with->batch * BST_TRIAL_PARTS / cfg->without->batch + 1));
    BST_TRY(bst_find_begin(f, &kept));
    enum bst_err err = both(f, cfg, kept, out);
    return bst_find_end(f, kept, err, &out->restored);
}
