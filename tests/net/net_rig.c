#include "tests/net/net_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"

void net_must(enum bst_err err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, bst_err_text(), bst_err_name(err));
    exit(1);
}

static enum bst_precision precision;

void net_use_precision(enum bst_precision p)
{
    precision = p;
}

void net_open(struct net_rig *r, const struct bst_backend *b, int threads)
{
    struct bst_be_cfg cfg = {.threads = threads,
                             .precision =
                                 BST_HAS_PRECISION(b, precision) ? precision : BST_PRECISION_FP32};
    *r = (struct net_rig){.b = b, .describe = b->describe};
    net_must(b->open(&cfg, &r->be), b->name);
}

int net_compile(struct net_rig *r, struct bst_graph *g, const struct bst_compile_opts *o)
{
    net_must(bst_graph_check(g), "net");
    if (!r->table)
        r->table = bst_param_table_new(g);
    net_must(bst_compile(g, &r->describe, r->be, r->table, o, &r->programs[r->n_programs]),
             "compile");
    bst_graph_free(g);
    return r->n_programs++;
}

void net_alloc(struct net_rig *r)
{
    r->bytes[BST_MEM_WEIGHT] = r->table->trained_bytes + r->table->state_bytes;
    r->bytes[BST_MEM_GRAD] = r->table->trained_bytes;
    r->bytes[BST_MEM_STAGED] = r->table->state_bytes;
    for (int i = 0; i < r->n_programs; i++) {
        if (r->programs[i]->arena_bytes > r->bytes[BST_MEM_ARENA])
            r->bytes[BST_MEM_ARENA] = r->programs[i]->arena_bytes;
    }
    for (int i = 0; i < BST_MEM_N; i++)
        net_must(r->b->alloc(r->be, r->bytes[i], &r->mem.base[i]), "alloc");
}

static void *place_of(struct net_rig *r, enum bst_memory m, int slot)
{
    const struct bst_param_table *t = r->table;
    size_t less = m == BST_MEM_STAGED ? t->trained_bytes : 0;
    return (char *)r->mem.base[m] + t->slots[slot].offset - less;
}

void net_get(struct net_rig *r, enum bst_memory m, int slot, double *out)
{
    net_must(r->b->export_plain(r->be, &r->table->slots[slot], place_of(r, m, slot), out),
             "export");
}

void net_set(struct net_rig *r, enum bst_memory m, int slot, const double *in)
{
    net_must(r->b->import_plain(r->be, &r->table->slots[slot], in, place_of(r, m, slot)), "import");
}

void net_stage(struct net_rig *r)
{
    const char *from = r->mem.base[BST_MEM_WEIGHT];
    if (r->table->state_bytes)
        net_must(r->b->copy(r->be, r->mem.base[BST_MEM_STAGED], from + r->table->trained_bytes,
                            r->table->state_bytes),
                 "stage");
}

/* Weights small enough that a residual net neither dies nor explodes; scales about 1. */
static double start_value(struct bst_rng *rng, const struct bst_param_slot *s)
{
    double x = bst_rng_normal(rng);
    switch (s->kind) {
    case BST_PARAM_CONV_WEIGHT:
        return x * sqrt(2.0 / (double)(s->shape.d[1] * s->shape.d[2] * s->shape.d[3]));
    case BST_PARAM_LINEAR_WEIGHT:
        return x / sqrt((double)s->shape.d[1]);
    case BST_PARAM_BN_SCALE:
    case BST_PARAM_LN_SCALE:
        return 1 + 0.2 * x;
    case BST_PARAM_BN_VAR:
        return 0.5 + fabs(x);
    default:
        return 0.2 * x;
    }
}

void net_fill(struct net_rig *r, uint64_t seed)
{
    for (int s = 0; s < r->table->n_slots; s++) {
        int64_t n = bst_shape_count(&r->table->slots[s].shape);
        double *x = bst_xcalloc((size_t)n, sizeof *x);
        struct bst_rng rng;
        bst_rng_init(&rng, seed, BST_RNG_TEST, (uint64_t)s);
        for (int64_t i = 0; i < n; i++)
            x[i] = (double)(float)start_value(&rng, &r->table->slots[s]);
        net_set(r, BST_MEM_WEIGHT, s, x);
        bst_free(x);
    }
    net_stage(r);
}

static void poison(struct net_rig *r)
{
    const size_t bytes = r->bytes[BST_MEM_ARENA];
    void *nan = NULL;
    if (!r->b->upload) {
        memset(r->mem.base[BST_MEM_ARENA], 0xff, bytes);
        return;
    }
    net_must(bst_alloc(bytes, &nan), "alloc");
    memset(nan, 0xff, bytes);
    net_must(r->b->upload(r->be, r->mem.base[BST_MEM_ARENA], nan, bytes), "upload");
    bst_alloc_free(nan, bytes);
}

void net_run(struct net_rig *r, const struct net_batch *batch, const struct net_pass *pass)
{
    const struct bst_program *p = r->programs[pass->program];
    size_t sample = (size_t)batch->channels * (size_t)batch->height * (size_t)batch->width;
    struct bst_step step = {
        .images = batch->images + (size_t)pass->first * sample,
        .labels = batch->labels + pass->first,
        .n_valid = p->micro_batch,
        .grad_scale = pass->grad_scale,
        .label_smoothing = pass->smoothing,
        .accumulate = pass->accumulate,
    };
    net_run_step(r, pass->program, &step);
}

void net_run_step(struct net_rig *r, int program, struct bst_step *step)
{
    const struct bst_program *p = r->programs[program];
    r->result = (struct bst_step_result){0};
    step->result = &r->result;
    poison(r);
    net_must(bst_program_run(r->b, p, &r->mem, step, 0, p->n_instrs, NULL), "run");
}

void net_close(struct net_rig *r)
{
    for (int i = 0; i < r->n_programs; i++)
        bst_program_free(r->programs[i]);
    for (int i = 0; i < BST_MEM_N; i++)
        r->b->free(r->be, r->mem.base[i], r->bytes[i]);
    bst_param_table_free(r->table);
    r->b->close(r->be);
}

void net_batch_make(struct net_batch *b, int n, int channels, int size, int classes, uint64_t seed)
{
    size_t bytes = (size_t)n * (size_t)channels * (size_t)size * (size_t)size;
    struct bst_rng rng;
    *b = (struct net_batch){.n = n, .channels = channels, .height = size, .width = size};
    b->images = bst_xalloc(bytes);
    b->labels = bst_xcalloc((size_t)n, sizeof *b->labels);
    bst_rng_init(&rng, seed, BST_RNG_TEST, 1000);
    for (size_t i = 0; i < bytes; i++)
        b->images[i] = (uint8_t)bst_rng_below(&rng, 256);
    for (int i = 0; i < n; i++)
        b->labels[i] = (int32_t)bst_rng_below(&rng, (uint32_t)classes);
}

void net_batch_free(struct net_batch *b)
{
    bst_free(b->images);
    bst_free(b->labels);
}
