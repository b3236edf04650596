#include "tests/bench/rig.h"

#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "nets/nets.h"

static double starting_value(const struct bst_param_slot *s, double x)
{
    double fan = 1;

    for (int d = 1; d < s->shape.rank; d++)
        fan *= (double)s->shape.d[d];
    if (s->init == BST_INIT_NORMAL)
        return x * s->init_scale;
    if (s->kind == BST_PARAM_CONV_WEIGHT || s->kind == BST_PARAM_LINEAR_WEIGHT)
        return x * sqrt(2 / fan);
    if (s->kind == BST_PARAM_BN_SCALE || s->kind == BST_PARAM_BN_VAR ||
        s->kind == BST_PARAM_LN_SCALE)
        return 1 + 0.1 * fabs(x);
    return x * 0.1;
}

/* He et al. 2015 for what is multiplied, where the net names no deviation; a fraction of each image
 * and weight is what tests look at, so nothing is left at zero. */
static enum bst_err fill_parameter(struct rig *r, int i)
{
    const struct bst_param_slot *s = &r->params->slots[i];
    size_t n = (size_t)bst_shape_count(&s->shape);
    double *v = bst_xcalloc(n, sizeof *v);
    struct bst_rng g;
    enum bst_err err;

    bst_rng_init(&g, r->cfg.seed, BST_RNG_INIT, (uint64_t)i);
    for (size_t j = 0; j < n; j++)
        v[j] = (double)(float)starting_value(s, bst_rng_normal(&g));
    err = r->b->import_plain(r->be, s, v, (char *)r->m.base[BST_MEM_WEIGHT] + s->offset);
    bst_free(v);
    return err;
}

/* One stream, a label at each position. */
static void fill_sequences(struct rig *r)
{
    const struct bst_net_cfg *c = &r->cfg.net;
    size_t n = (size_t)r->cfg.batch * (size_t)c->length[0];
    struct bst_rng g;

    bst_rng_init(&g, r->cfg.seed, BST_RNG_TEST, 0);
    r->tokens = bst_xcalloc(n, sizeof *r->tokens);
    r->labels = bst_xcalloc(n, sizeof *r->labels);
    for (size_t i = 0; i < n; i++) {
        r->tokens[i] = (int32_t)bst_rng_below(&g, (uint32_t)c->classes);
        r->labels[i] = (int32_t)bst_rng_below(&g, (uint32_t)c->classes);
    }
    r->step = (struct bst_step){.tokens = {r->tokens},
                                .labels = r->labels,
                                .n_valid = r->cfg.batch,
                                .grad_scale = 1.0 / (double)n,
                                .result = &r->result};
}

static void fill_images(struct rig *r)
{
    const struct bst_net_cfg *c = &r->cfg.net;
    size_t n = (size_t)r->cfg.batch * (size_t)c->height * (size_t)c->width * (size_t)c->in_channels;
    struct bst_rng g;

    bst_rng_init(&g, r->cfg.seed, BST_RNG_AUGMENT, 0);
    r->images = bst_xalloc(n);
    r->labels = bst_xcalloc((size_t)r->cfg.batch, sizeof *r->labels);
    for (size_t i = 0; i < n; i++)
        r->images[i] = (uint8_t)bst_rng_u32(&g);
    for (int i = 0; i < r->cfg.batch; i++)
        r->labels[i] = (int32_t)bst_rng_below(&g, (uint32_t)c->classes);
    r->step = (struct bst_step){.images = r->images,
                                .labels = r->labels,
                                .n_valid = r->cfg.batch,
                                .grad_scale = 1.0 / r->cfg.batch,
                                .result = &r->result};
}

static enum bst_err compile(struct rig *r)
{
    const struct bst_net *net = bst_net_find(&net_table, r->cfg.net.name);
    struct bst_graph *g;
    enum bst_err err;

    if (!net)
        return bst_fail(BST_E_NOTFOUND, "no net %s", r->cfg.net.name);
    g = bst_graph_new(r->cfg.batch);
    err = net->build(&r->cfg.net, g);
    if (!err)
        r->params = bst_param_table_new(g);
    if (!err)
        err = bst_compile(g, &r->b->describe, r->be, r->params, &r->cfg.opts, &r->program);
    bst_graph_free(g);
    return err;
}

/* A span ends where padding or other decay begins. */
static void make_spans(struct rig *r)
{
    const struct bst_param_table *t = r->params;

    r->spans = bst_xcalloc((size_t)t->n_trained + 1, sizeof *r->spans);
    for (int i = 0; i < t->n_trained; i++) {
        const struct bst_param_slot *s = &t->slots[i];
        double decay =
            s->kind == BST_PARAM_LINEAR_WEIGHT || s->kind == BST_PARAM_EMBEDDING ? 0.1 : 0;
        struct bst_span *last = r->n_spans ? &r->spans[r->n_spans - 1] : NULL;

        if (last && last->weight_decay == decay && last->offset + last->bytes == s->offset)
            last->bytes += s->bytes;
        else
            r->spans[r->n_spans++] = (struct bst_span){
                .offset = s->offset, .bytes = s->bytes, .lr = 3e-4, .weight_decay = decay};
    }
}

static enum bst_err allocate(struct rig *r)
{
    const struct bst_param_table *t = r->params;

    r->bytes[BST_MEM_WEIGHT] = t->trained_bytes + t->state_bytes;
    r->bytes[BST_MEM_GRAD] = t->trained_bytes;
    r->bytes[BST_MEM_STAGED] = t->state_bytes;
    r->bytes[BST_MEM_ARENA] = r->program->arena_bytes;
    for (int i = 0; i < BST_MEM_N; i++)
        BST_TRY(r->b->alloc(r->be, r->bytes[i], &r->m.base[i]));
    r->state_bytes = t->trained_bytes * (r->cfg.optimizer == BST_OPTIMIZER_ADAMW ? 2 : 1);
    BST_TRY(r->b->alloc(r->be, r->state_bytes, &r->state));
    for (int i = 0; i < t->n_slots; i++)
        BST_TRY(fill_parameter(r, i));
    memcpy(r->m.base[BST_MEM_STAGED], (char *)r->m.base[BST_MEM_WEIGHT] + t->trained_bytes,
           t->state_bytes);
    return BST_OK;
}

enum bst_err rig_open(struct rig *r, const struct rig_cfg *cfg)
{
    struct bst_be_cfg be_cfg = {.threads = cfg->threads};
    enum bst_err err;

    memset(r, 0, sizeof *r);
    r->cfg = *cfg;
    r->b = bst_backend_find(cfg->backend);
    if (!r->b)
        return bst_fail(BST_E_NOTFOUND, "no backend %s", cfg->backend);
    err = r->b->open(&be_cfg, &r->be);
    if (!err)
        err = compile(r);
    if (!err)
        err = allocate(r);
    if (err) {
        rig_close(r);
        return err;
    }
    if (cfg->net.length[0])
        fill_sequences(r);
    else
        fill_images(r);
    make_spans(r);
    return BST_OK;
}

void rig_close(struct rig *r)
{
    bst_program_free(r->program);
    for (int i = 0; i < BST_MEM_N && r->be; i++)
        r->b->free(r->be, r->m.base[i], r->bytes[i]);
    if (r->be && r->state)
        r->b->free(r->be, r->state, r->state_bytes);
    if (r->be)
        r->b->close(r->be);
    bst_param_table_free(r->params);
    bst_free(r->images);
    bst_free(r->tokens);
    bst_free(r->labels);
    bst_free(r->spans);
    memset(r, 0, sizeof *r);
}

enum bst_err rig_pass(struct rig *r)
{
    r->result = (struct bst_step_result){0};
    return bst_program_run(r->b, r->program, &r->m, &r->step, 0, r->program->n_instrs, NULL);
}

static enum bst_err update_adamw(struct rig *r)
{
    const struct bst_optim how = {.kind = BST_OPTIMIZER_ADAMW,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .epsilon = 1e-8,
                                  .step = ++r->steps,
                                  .grad_factor = 1};
    const struct bst_optim_blocks blocks = {
        .weight = r->m.base[BST_MEM_WEIGHT],
        .grad = r->m.base[BST_MEM_GRAD],
        .state = {r->state, (char *)r->state + r->params->trained_bytes}};

    return r->b->optimize(r->be, &how, r->spans, r->n_spans, &blocks);
}

enum bst_err rig_update(struct rig *r)
{
    const struct bst_sgd how = {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .grad_factor = 1};

    if (r->cfg.optimizer == BST_OPTIMIZER_ADAMW)
        return update_adamw(r);
    return r->b->sgd(r->be, &how, r->m.base[BST_MEM_WEIGHT], r->state, r->m.base[BST_MEM_GRAD],
                     r->params->trained_bytes);
}

static double *exported(struct rig *r, int slot, enum bst_memory mem)
{
    const struct bst_param_slot *s = &r->params->slots[slot];
    double *v = bst_xcalloc((size_t)bst_shape_count(&s->shape), sizeof *v);

    if (r->b->export_plain(r->be, s, (char *)r->m.base[mem] + s->offset, v)) {
        bst_free(v);
        return NULL;
    }
    return v;
}

double *rig_gradient(struct rig *r, int slot)
{
    return exported(r, slot, BST_MEM_GRAD);
}

double *rig_weight(struct rig *r, int slot)
{
    return exported(r, slot, BST_MEM_WEIGHT);
}
