#include "tests/net/parity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/nets.h"
#include "tests/team.h"

void parity_must(enum bst_err err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, bst_err_text(), bst_err_name(err));
    exit(1);
}

void parity_open(struct parity *p, const struct parity_case *c, const char *backend, int ranks)
{
    p->c = *c;
    struct bst_train_cfg cfg = {
        .net = bst_net_find(&net_table, c->net),
        .net_cfg = {.name = c->net,
                    .base_width = c->width,
                    .stem = c->stem,
                    .mean = {0.2860f},
                    .std = {0.3530f}},
        .backend = bst_backend_find(backend),
        .ranks = ranks,
        .threads = TEAM_OF(2),
        .memory_per_rank = (uint64_t)8 << 30,
        .data = {.format = "idx"},
        .seed = 1,
        .eval_batch = 16,
        .groups = p->c.groups,
        .n_groups = c->n_groups,
    };
    parity_must(bst_trainer_open(&cfg, &p->t), "open");
    parity_must(bst_trainer_set_split(p->t, c->batch, c->micro_batches, NULL), "split");
}

void parity_close(struct parity *p)
{
    bst_trainer_close(p->t);
}

static struct bst_update_req request(const struct parity_case *c, int u)
{
    return (struct bst_update_req){
        .first = (uint64_t)u * (uint64_t)c->batch,
        .batch = c->batch,
        .micro_batches = c->micro_batches,
        .lr = c->lr,
        .momentum = c->momentum,
        .weight_decay = c->weight_decay,
        .nesterov = c->nesterov,
        .label_smoothing = c->smoothing,
        .max_grad_norm = c->max_grad_norm,
        .update = (uint64_t)u + 1,
    };
}

struct bst_update_result parity_update(struct parity *p, int u)
{
    struct bst_update_req req = request(&p->c, u);
    struct bst_update_result r;
    parity_must(bst_trainer_update(p->t, &req, NULL, &r), "update");
    return r;
}

/* v ← μ·(0·v) + g, w ← w - 0·v. */
void parity_gradient(struct parity *p, int u)
{
    struct bst_update_req req = request(&p->c, u);
    struct bst_update_result r;
    req.lr = req.weight_decay = req.max_grad_norm = 0;
    req.nesterov = false;
    req.momentum = 0x1p-200; /* 0 would mean that there are no momenta */
    req.momentum_factor = 0x1p-200;
    parity_must(bst_trainer_update(p->t, &req, NULL, &r), "gradient");
}

void parity_load(struct parity *p, const char *weights, const char *momenta)
{
    char note[200];
    if (weights)
        parity_must(bst_trainer_load(p->t, BST_STATE_WEIGHTS, weights, false, note, sizeof note),
                    weights);
    if (momenta)
        parity_must(bst_trainer_load(p->t, BST_STATE_OPTIMIZER, momenta, false, note, sizeof note),
                    momenta);
}

void parity_save(struct parity *p, const char *weights, const char *momenta)
{
    if (weights)
        parity_must(bst_trainer_save(p->t, BST_STATE_WEIGHTS, weights), weights);
    if (momenta)
        parity_must(bst_trainer_save(p->t, BST_STATE_OPTIMIZER, momenta), momenta);
}
