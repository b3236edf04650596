/* Layer-wise rates: patterns over parameter names, resolved once into runs of parameters that the
 * optimizer treats alike. */
#include <fnmatch.h>
#include <math.h>

#include "core/base/alloc.h"
#include "core/train/rank.h"

/* The first group that matches, or -1. */
static int group_of(const struct bst_train_cfg *cfg, const char *name)
{
    for (int i = 0; i < cfg->n_groups; i++)
        if (!fnmatch(cfg->groups[i].match, name, 0))
            return i;
    return -1;
}

static enum bst_err check_groups(const struct bst_trainer *t, const int *matched)
{
    for (int i = 0; i < t->cfg.n_groups; i++) {
        const struct bst_lr_group *g = &t->cfg.groups[i];
        if (!isfinite(g->factor) || g->factor < 0)
            return bst_fail(BST_E_RANGE, "lr_groups: \"%s\": factor %g", g->match, g->factor);
        if (matched[i])
            continue;
        bool hidden = false;
        const struct bst_param_table *p = t->ranks[0].params;
        for (int k = 0; k < p->n_trained && !hidden; k++)
            hidden = !fnmatch(g->match, p->slots[k].name, 0);
        return bst_fail(BST_E_NOTFOUND,
                        hidden ? "lr_groups: \"%s\": every parameter it matches belongs to an "
                                 "earlier group"
                               : "lr_groups: \"%s\" matches no parameter of the net",
                        g->match);
    }
    return BST_OK;
}

static bool decays(const struct bst_train_cfg *cfg, enum bst_param_kind kind)
{
    return cfg->decay_bn_and_bias || kind == BST_PARAM_CONV_WEIGHT ||
           kind == BST_PARAM_LINEAR_WEIGHT || kind == BST_PARAM_EMBEDDING;
}

/* Padding between neighbours is zero and stays so under any rate: a run may sweep it along. */
static void add_run(struct bst_trainer *t, int i, double group_decay)
{
    const struct bst_param_slot *slot = &t->ranks[0].params->slots[i];
    bool decays_too = decays(&t->cfg, slot->kind);
    const struct param_run own = {.offset = slot->offset,
                                  .bytes = slot->bytes,
                                  .factor = t->factor[i],
                                  .weight_decay = decays_too ? group_decay : 0,
                                  .decays = decays_too};
    struct param_run *last = t->runs + t->n_runs - (t->n_runs > 0);
    bool next_to_it = t->n_runs && t->factor[i - 1] > 0;
    if (next_to_it && !bst_optimizer_info(t->cfg.optim.kind)->layer_wise &&
        last->factor == own.factor && last->weight_decay == own.weight_decay)
        last->bytes = slot->offset + slot->bytes - last->offset;
    else
        t->runs[t->n_runs++] = own;
}

enum bst_err bst_groups_resolve(struct bst_trainer *t)
{
    const struct bst_param_table *p = t->ranks[0].params;
    int *matched = bst_xcalloc((size_t)t->cfg.n_groups + 1, sizeof *matched);
    t->factor = bst_xcalloc((size_t)p->n_trained + 1, sizeof *t->factor);
    t->runs = bst_xcalloc((size_t)p->n_trained + 1, sizeof *t->runs);
    for (int i = 0; i < p->n_trained; i++) {
        const struct bst_param_slot *slot = &p->slots[i];
        int g = group_of(&t->cfg, slot->name);
        double wd = g >= 0 ? t->cfg.groups[g].weight_decay : -1;
        t->factor[i] = g >= 0 ? t->cfg.groups[g].factor : 1;
        if (g >= 0)
            matched[g]++;
        if (t->factor[i] > 0)
            add_run(t, i, wd);
    }
    enum bst_err err = check_groups(t, matched);
    bst_free(matched);
    return err;
}
