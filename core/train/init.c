/* Starting values, as PyTorch's ResNets have them: Kaiming normal over fan-out for convolutions (He
 * et al. 2015), uniform ±1/√fan-in for the linear layer and its bias, 1 and 0 for batch norm; and
 * as Transformers have them: normal of a deviation that the net names, or uniform over fan-in and
 * fan-out (Glorot and Bengio 2010). A number depends on the seed, the parameter's place in the
 * table and its own place in the parameter, and on nothing else: every rank, layout and thread
 * count gets the same. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/train/rank.h"

#define CHUNK 16384 /* numbers drawn from one counter; part of what a seed means */

struct draw {
    enum bst_init kind;
    double scale; /* deviation, or half the width */
};

/* A bias is drawn by its weight's fan-in. */
static const struct bst_param_slot *weight_of(const struct bst_param_table *p,
                                              const struct bst_param_slot *slot)
{
    const char *dot = strrchr(slot->name, '.');
    if (slot->kind != BST_PARAM_BIAS || !dot)
        return slot;
    char *name = bst_xasprintf("%.*s.weight", (int)(dot - slot->name), slot->name);
    int i = bst_param_table_find(p, name);
    bst_free(name);
    return i < 0 ? slot : &p->slots[i];
}

static struct draw draw_of(const struct bst_param_table *p, const struct bst_param_slot *slot)
{
    const struct bst_shape *s = &slot->shape;
    struct draw d = {.kind = slot->init};
    if (slot->init == BST_INIT_KAIMING_FAN_OUT) {
        double fan_out = (double)s->d[0];
        for (int i = 2; i < s->rank; i++)
            fan_out *= (double)s->d[i];
        d.scale = sqrt(2 / fan_out);
    } else if (slot->init == BST_INIT_UNIFORM_FAN_IN) {
        const struct bst_shape *w = &weight_of(p, slot)->shape;
        double fan_in = 1;
        for (int i = 1; i < w->rank; i++)
            fan_in *= (double)w->d[i];
        d.scale = 1 / sqrt(fan_in);
    } else if (slot->init == BST_INIT_NORMAL) {
        d.scale = slot->init_scale;
    } else if (slot->init == BST_INIT_XAVIER_UNIFORM) {
        d.scale = sqrt(6 / (double)(s->d[0] + s->d[1]));
    }
    return d;
}

static void draw_chunk(uint64_t seed, int param, int64_t chunk, struct draw d, double *out,
                       int64_t n)
{
    struct bst_rng r;
    bst_rng_init(&r, seed, BST_RNG_INIT, (uint64_t)param << 32 | (uint64_t)chunk);
    bool normal = d.kind == BST_INIT_KAIMING_FAN_OUT || d.kind == BST_INIT_NORMAL;
    for (int64_t i = 0; i < n; i++)
        out[i] = normal ? d.scale * bst_rng_normal(&r) : d.scale * (2 * bst_rng_uniform(&r) - 1);
}

static void fill(uint64_t seed, int param, struct draw d, double *out, int64_t n)
{
    if (d.kind == BST_INIT_ZERO || d.kind == BST_INIT_ONE) {
        for (int64_t i = 0; i < n; i++)
            out[i] = d.kind == BST_INIT_ONE;
        return;
    }
    int64_t chunks = (n + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) if (chunks > 1)
    for (int64_t c = 0; c < chunks; c++) {
        int64_t from = c * CHUNK, left = n - from;
        draw_chunk(seed, param, c, d, out + from, left < CHUNK ? left : CHUNK);
    }
}

enum bst_err bst_init_parameter(struct rank *k, int i, void *at)
{
    const struct bst_param_slot *slot = &k->params->slots[i];
    int64_t n = bst_shape_count(&slot->shape);
    void *plain = NULL;
    BST_TRY(bst_alloc((size_t)n * sizeof(double), &plain));
    fill(k->t->cfg.seed, i, draw_of(k->params, slot), plain, n);
    enum bst_err err = k->t->cfg.backend->import_plain(k->be, slot, plain, at);
    bst_alloc_free(plain, (size_t)n * sizeof(double));
    return err;
}

enum bst_err bst_init_all(struct rank *k)
{
    for (int i = 0; i < k->params->n_slots; i++)
        BST_TRY(bst_init_parameter(k, i, bst_slot_at(k, k->weight, i)));
    return BST_OK;
}
