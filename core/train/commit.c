/* The end of an update: norms of the averaged gradient, whether it may be used, clipping, the
 * optimizer, the staged statistics. Every rank works on the same bits and comes to the same result.
 */
#include <math.h>

#include "core/train/rank.h"

enum bst_err bst_rank_norms(struct rank *k, struct commit *c)
{
    const struct bst_trainer *t = k->t;
    double total = 0;
    c->first_nonfinite = -1;
    for (int i = 0; i < k->params->n_trained; i++) {
        double *q = &k->sum_squares[i];
        BST_TRY(t->cfg.backend->sum_squares(k->be, bst_slot_at(k, k->grad, i),
                                            k->params->slots[i].bytes, q));
        if (!(t->factor[i] > 0)) /* frozen: shown, but no part of the update */
            continue;
        total += *q;
        c->n_zero += *q == 0;
        if (!isfinite(*q) && c->first_nonfinite < 0)
            c->first_nonfinite = i;
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

static enum bst_err step(struct rank *k, struct commit *c, const struct sgd_run *run)
{
    const struct bst_update_req *req = c->req;
    struct bst_sgd how = {
        .lr = req->lr * run->factor,
        .momentum = req->momentum,
        .weight_decay = run->weight_decay < 0 ? req->weight_decay : run->weight_decay,
        .grad_factor = c->coefficient,
        .nesterov = req->nesterov,
        /* Momenta start at zero, where μv + g is g: there is no first time to tell apart. */
        .first = false,
    };
    if (run->factor == 1 || c->lr_used == 0)
        c->lr_used = how.lr / run->factor;
    c->momentum_used = how.momentum;
    if (run->weight_decay < 0)
        c->weight_decay_used = how.weight_decay;
    return k->t->cfg.backend->sgd(k->be, &how, (char *)k->weight + run->offset,
                                  how.momentum != 0 ? (char *)k->momentum + run->offset : NULL,
                                  (const char *)k->grad + run->offset, run->bytes);
}

enum bst_err bst_rank_commit(struct rank *k, struct commit *c)
{
    const struct bst_trainer *t = k->t;
    const struct bst_backend *b = t->cfg.backend;
    const struct bst_param_table *p = k->params;
    double f = c->req->momentum_factor;
    if (f != 0 && f != 1)
        BST_TRY(b->scale(k->be, k->momentum, f, p->trained_bytes));
    for (int i = 0; i < t->n_runs; i++)
        BST_TRY(step(k, c, &t->runs[i]));
    if (!p->state_bytes)
        return BST_OK;
    /* Evaluation uses rank 0's statistics: they become everybody's. */
    BST_TRY(k->comm->ops->broadcast(k->comm, k->staged, p->state_bytes, 0));
    return b->copy(k->be, (char *)k->weight + p->trained_bytes, k->staged, p->state_bytes);
}
