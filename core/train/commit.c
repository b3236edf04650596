/* The end of an update: norms of the averaged gradient, whether it may be used, clipping, the
 * optimizer, the staged statistics. Every rank works on the same bits and comes to the same result.
 */
#include <math.h>

#include "core/base/alloc.h"
#include "core/train/rank.h"

/* Where asking costs a wait for a device, all parameters are asked about at once. */
enum bst_err bst_rank_squares(struct rank *k, void *block, double *out)
{
    const struct bst_backend *b = k->t->cfg.backend;
    const struct bst_param_table *p = k->params;
    if (!b->sum_squares_each) {
        for (int i = 0; i < p->n_trained; i++)
            BST_TRY(b->sum_squares(k->be, bst_slot_at(k, block, i), p->slots[i].bytes, &out[i]));
        return BST_OK;
    }
    const void **x = bst_xcalloc((size_t)p->n_trained + 1, sizeof *x);
    size_t *bytes = bst_xcalloc((size_t)p->n_trained + 1, sizeof *bytes);
    for (int i = 0; i < p->n_trained; i++) {
        x[i] = bst_slot_at(k, block, i);
        bytes[i] = p->slots[i].bytes;
    }
    enum bst_err err = b->sum_squares_each(k->be, x, bytes, p->n_trained, out);
    bst_free(x);
    bst_free(bytes);
    return err;
}

enum bst_err bst_rank_norms(struct rank *k, struct commit *c)
{
    const struct bst_trainer *t = k->t;
    double total = 0;
    c->first_nonfinite = c->last_nonfinite = -1;
    BST_TRY(bst_rank_squares(k, k->grad, k->sum_squares));
    for (int i = 0; i < k->params->n_trained; i++) {
        const double *q = &k->sum_squares[i];
        if (!(t->factor[i] > 0)) /* frozen: shown, but no part of the update */
            continue;
        total += *q;
        c->n_zero += *q == 0;
        if (!isfinite(*q)) {
            c->first_nonfinite = c->first_nonfinite < 0 ? i : c->first_nonfinite;
            c->last_nonfinite = i;
        }
    }
    c->grad_norm = sqrt(total);
    c->skipped = !isfinite(total);
    c->coefficient = 1;
    /* torch.nn.utils.clip_grad_norm_ */
    if (c->req->max_grad_norm > 0 && !c->skipped) {
        double coef = c->req->max_grad_norm / (c->grad_norm + 1e-6);
        c->clipped = coef < 1;
        c->coefficient = coef < 1 ? coef : 1;
    }
    return BST_OK;
}

static double decay_of(const struct commit *c, const struct param_run *run)
{
    return run->weight_decay < 0 ? c->req->weight_decay : run->weight_decay;
}

/* What a run was called with, for whoever reads a change back. */
static void note_used(struct commit *c, const struct param_run *run, double lr, double decay)
{
    if (run->factor == 1 || c->lr_used == 0)
        c->lr_used = lr / run->factor;
    if (run->weight_decay < 0)
        c->weight_decay_used = decay;
}

static enum bst_err step_sgd(struct rank *k, struct commit *c, const struct param_run *run)
{
    const struct bst_update_req *req = c->req;
    struct bst_sgd how = {
        .lr = req->lr * run->factor,
        .momentum = req->momentum,
        .weight_decay = decay_of(c, run),
        .grad_factor = c->coefficient,
        .nesterov = req->nesterov,
        /* Momenta start at zero, where μv + g is g: there is no first time to tell apart. */
        .first = false,
    };
    note_used(c, run, how.lr, how.weight_decay);
    c->momentum_used = how.momentum;
    return k->t->cfg.backend->sgd(k->be, &how, (char *)k->weight + run->offset,
                                  how.momentum != 0 ? (char *)k->optim + run->offset : NULL,
                                  (const char *)k->grad + run->offset, run->bytes);
}

/* A parameter that does not decay is not scaled by its norms either: under lamb whatever the reason
 * (You et al.'s own code), under lars biases and norms left out by choice. */
static bool trusted(const struct rank *k, const struct param_run *run, double decay)
{
    return run->decays && (k->t->cfg.optim.kind == BST_OPTIMIZER_LARS || decay > 0);
}

static struct bst_optim optim_of(const struct rank *k, const struct commit *c)
{
    const struct bst_trainer *t = k->t;
    const struct bst_optim_cfg *cfg = &t->cfg.optim;
    bool momentum = bst_optimizer_info(cfg->kind)->momentum;
    return (struct bst_optim){.kind = cfg->kind,
                              .beta1 = cfg->beta1,
                              .beta2 = cfg->beta2,
                              .epsilon = cfg->epsilon,
                              .step = t->commits.steps + 1,
                              .momentum = momentum ? c->req->momentum : 0,
                              .trust = cfg->trust,
                              .nesterov = momentum && c->req->nesterov,
                              .grad_factor = c->coefficient};
}

static struct bst_optim_blocks blocks_of(const struct rank *k)
{
    struct bst_optim_blocks b = {.weight = k->weight, .grad = k->grad};
    for (int i = 0; i < bst_optimizer_info(k->t->cfg.optim.kind)->n_blocks; i++)
        b.state[i] = (char *)k->optim + (size_t)i * k->params->trained_bytes;
    return b;
}

static void fill_spans(struct rank *k, struct commit *c)
{
    const struct bst_trainer *t = k->t;
    const struct bst_update_req *req = c->req;
    for (int i = 0; i < t->n_runs; i++) {
        const struct param_run *run = &t->runs[i];
        double decay = decay_of(c, run);
        k->spans[i] = (struct bst_span){.offset = run->offset,
                                        .bytes = run->bytes,
                                        .lr = req->lr * run->factor,
                                        .weight_decay = decay,
                                        .trusted = trusted(k, run, decay)};
        note_used(c, run, k->spans[i].lr, decay);
    }
}

static enum bst_err optimize(struct rank *k, struct commit *c)
{
    const struct bst_optim how = optim_of(k, c);
    const struct bst_optim_blocks b = blocks_of(k);
    fill_spans(k, c);
    c->momentum_used = how.momentum;
    return k->t->cfg.backend->optimize(k->be, &how, k->spans, k->t->n_runs, &b);
}

static enum bst_err step_all(struct rank *k, struct commit *c)
{
    if (k->t->cfg.optim.kind != BST_OPTIMIZER_SGD)
        return optimize(k, c);
    for (int i = 0; i < k->t->n_runs; i++)
        BST_TRY(step_sgd(k, c, &k->t->runs[i]));
    return BST_OK;
}

/* What the velocity is multiplied by first; 1 where there is none to correct. */
static double momentum_factor(const struct rank *k, const struct commit *c)
{
    double f = c->req->momentum_factor;
    return f != 0 && bst_optimizer_info(k->t->cfg.optim.kind)->momentum ? f : 1;
}

enum bst_err bst_rank_commit(struct rank *k, struct commit *c)
{
    const struct bst_trainer *t = k->t;
    const struct bst_backend *b = t->cfg.backend;
    const struct bst_param_table *p = k->params;
    double f = momentum_factor(k, c);
    if (f != 1)
        BST_TRY(b->scale(k->be, k->optim, f, t->optim_bytes));
    BST_TRY(step_all(k, c));
    if (!p->state_bytes)
        return BST_OK;
    return b->copy(k->be, (char *)k->weight + p->trained_bytes, k->staged, p->state_bytes);
}

void bst_rank_commit_result(struct commit *c, const struct bst_commit_result *r)
{
    c->grad_norm = r->grad_norm;
    c->first_nonfinite = r->first_nonfinite;
    c->last_nonfinite = r->last_nonfinite;
    c->n_zero = r->n_zero;
    c->skipped = r->skipped;
    c->clipped = r->clipped;
    c->loss_scale = r->loss_scale;
    c->after = r->after;
    if (c->skipped)
        c->lr_used = c->momentum_used = c->weight_decay_used = 0;
}

void bst_rank_commit_how(struct rank *k, struct commit *c, struct bst_commit *how)
{
    const struct bst_trainer *t = k->t;
    const struct bst_param_table *p = k->params;
    fill_spans(k, c);
    *how = (struct bst_commit){
        .params = p->slots,
        .factor = t->factor,
        .n_params = p->n_trained,
        .spans = k->spans,
        .n_spans = t->n_runs,
        .optim = optim_of(k, c),
        .blocks = blocks_of(k),
        .momentum_factor = momentum_factor(k, c),
        .max_grad_norm = c->req->max_grad_norm,
        .staged = k->staged,
        .statistics = (char *)k->weight + p->trained_bytes,
        .state_bytes = p->state_bytes,
        .weighs = c->req->layers && bst_rank_is_first(k),
    };
    if (how->optim.kind == BST_OPTIMIZER_SGD && how->optim.momentum == 0)
        how->blocks.state[0] = NULL;
    c->momentum_used = how->optim.momentum;
}
