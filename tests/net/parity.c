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

struct bst_data_cfg parity_data(const struct parity_case *c)
{
    const struct parity_seq *q = &c->seq;
    if (!q->length)
        return (struct bst_data_cfg){.format = "idx"};
    return (struct bst_data_cfg){.format = q->format,
                                 .length = q->length,
                                 .classes = q->vocabulary,
                                 .train_count = 4096,
                                 .eval_count = 64,
                                 .seed = 1,
                                 .input = bst_net_find(&net_table, c->net)->input};
}

static struct bst_net_cfg net_of(const struct parity_case *c)
{
    const struct parity_seq *q = &c->seq;
    if (!q->length)
        return (struct bst_net_cfg){.name = c->net,
                                    .base_width = c->width,
                                    .stem = c->stem,
                                    .mean = {0.2860f},
                                    .std = {0.3530f}};
    return (struct bst_net_cfg){.name = c->net,
                                .base_width = c->width,
                                .classes = q->vocabulary,
                                .layers = q->layers,
                                .heads = q->heads,
                                .hidden = q->hidden,
                                .positions = q->positions,
                                .norm_first = q->norm_first};
}

static struct bst_trainer *open_one(const struct parity_case *c, const char *backend, int ranks,
                                    enum bst_optimizer optimizer)
{
    struct bst_trainer *t = NULL;
    struct bst_train_cfg cfg = {
        .net = bst_net_find(&net_table, c->net),
        .net_cfg = net_of(c),
        .backend = bst_backend_find(backend),
        .ranks = ranks,
        .threads = TEAM_OF(ranks > 1 ? 1 : 2),
        .memory_per_rank = (uint64_t)8 << 30,
        .data = parity_data(c),
        .seed = 1,
        .eval_batch = 16,
        .groups = c->groups,
        .n_groups = c->n_groups,
        .optim = {optimizer, 0.9, 0.999, c->seq.epsilon, 0},
    };
    parity_must(bst_trainer_open(&cfg, &t), "open");
    parity_must(bst_trainer_set_split(t, c->batch, c->micro_batches, NULL), "split");
    return t;
}

void parity_open(struct parity *p, const struct parity_case *c, const char *backend, int ranks)
{
    p->c = *c;
    p->t = open_one(&p->c, backend, ranks, c->seq.optimizer);
    p->plain = c->seq.optimizer == BST_OPTIMIZER_SGD
                   ? p->t
                   : open_one(&p->c, backend, ranks, BST_OPTIMIZER_SGD);
}

void parity_close(struct parity *p)
{
    if (p->plain != p->t)
        bst_trainer_close(p->plain);
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
        .max_grad_norm =
            c->seq.clip_interval && (u + 1) % c->seq.clip_interval ? 0 : c->max_grad_norm,
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
struct bst_update_result parity_gradient(struct parity *p, int u)
{
    struct bst_update_req req = request(&p->c, u);
    struct bst_update_result r;
    req.lr = req.weight_decay = req.max_grad_norm = 0;
    req.nesterov = false;
    req.momentum = 0x1p-200; /* 0 would mean that there are no momenta */
    req.momentum_factor = 0x1p-200;
    parity_must(bst_trainer_update(p->plain, &req, NULL, &r), "gradient");
    return r;
}

static void load(struct bst_trainer *t, enum bst_state what, const char *path)
{
    char note[200];
    if (path)
        parity_must(bst_trainer_load(t, what, path, false, note, sizeof note), path);
}

void parity_load(struct parity *p, const char *weights, const char *momenta)
{
    load(p->t, BST_STATE_WEIGHTS, weights);
    load(p->t, BST_STATE_OPTIMIZER, momenta);
    if (p->plain != p->t)
        load(p->plain, BST_STATE_WEIGHTS, weights);
}

void parity_save(struct parity *p, const char *weights, const char *momenta)
{
    if (weights)
        parity_must(bst_trainer_save(p->t, BST_STATE_WEIGHTS, weights), weights);
    if (momenta)
        parity_must(bst_trainer_save(p->t, BST_STATE_OPTIMIZER, momenta), momenta);
}

void parity_save_gradient(struct parity *p, const char *path)
{
    parity_must(bst_trainer_save(p->plain, BST_STATE_OPTIMIZER, path), path);
}
