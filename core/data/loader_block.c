/* The loader's memory: one block, of which each slot has its parts. */
#include "core/base/alloc.h"
#include "core/data/dataset.h"
#include "core/data/loader_inner.h"

enum { LINE = 64 }; /* of the cache */

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A slot's parts, each on cache lines of its own. */
struct carve {
    size_t images, index, labels, tokens[BST_DATA_STREAMS], length; /* bytes; the last: each of the
                                                                       lengths and pairs */
    size_t slot, block;                                             /* block: of all slots */
};

/* At the end of a slot that takes `*all` bytes so far: most · each reals of `size`. */
static bool add_part(size_t most, int each, size_t size, size_t *part, size_t *all)
{
    size_t n;
    if (!bst_mul_size(most, (size_t)each, &n) || !bst_mul_size(n, size, part) ||
        !bst_add_size(*part, LINE, &n))
        return false;
    *part = round_up(*part);
    return bst_add_size(*all, *part, all);
}

static bool plan_carve(const struct bst_loader_cfg *cfg, struct carve *c)
{
    const struct bst_data_info *info = bst_dataset_info(cfg->ds);
    size_t most = (size_t)cfg->max_batch, lengths = 0;
    size_t sample = (size_t)info->height * (size_t)info->width * (size_t)info->channels;
    *c = (struct carve){0};
    if (!add_part(most, 1, sample, &c->images, &c->slot) ||
        !add_part(most, 1, sizeof(int64_t), &c->index, &c->slot) ||
        !add_part(most, info->n_labels, sizeof(int32_t), &c->labels, &c->slot))
        return false;
    if (info->streams) {
        for (int k = 0; k < BST_DATA_STREAMS; k++)
            if (!add_part(most, info->length[k], sizeof(int32_t), &c->tokens[k], &c->slot))
                return false;
        c->length = round_up(most * sizeof(int32_t));
        lengths = (BST_DATA_STREAMS + 1) * c->length;
    }
    return bst_add_size(c->slot, lengths, &c->slot) &&
           bst_mul_size(c->slot, (size_t)cfg->slots, &c->block);
}

size_t bst_loader_bytes_for(const struct bst_loader_cfg *cfg)
{
    struct carve c;
    return plan_carve(cfg, &c) ? c.block : SIZE_MAX;
}

static int32_t *next_part(uint8_t **at, size_t bytes)
{
    uint8_t *part = *at;
    *at += bytes;
    return (int32_t *)(void *)part;
}

static void carve_slot(struct slot *s, const struct carve *c, bool sequences, uint8_t *at)
{
    s->images = at;
    at += c->images;
    s->index = (int64_t *)(void *)at;
    at += c->index;
    s->labels = next_part(&at, c->labels);
    for (int k = 0; k < BST_DATA_STREAMS && sequences; k++) {
        s->tokens[k] = next_part(&at, c->tokens[k]);
        s->lengths[k] = next_part(&at, c->length);
    }
    if (sequences)
        s->pair = next_part(&at, c->length);
}

static enum bst_err alloc_block(const struct bst_loader_cfg *cfg, size_t bytes, void **out)
{
    return cfg->backend && cfg->backend->alloc_host ? cfg->backend->alloc_host(cfg->be, bytes, out)
                                                    : bst_alloc(bytes, out);
}

void bst_loader_free_block(struct bst_loader *l)
{
    if (l->block && l->cfg.backend && l->cfg.backend->free_host)
        l->cfg.backend->free_host(l->cfg.be, l->block, l->block_bytes);
    else
        bst_alloc_free(l->block, l->block_bytes);
}

enum bst_err bst_loader_carve(struct bst_loader *l)
{
    struct carve c;
    if (!plan_carve(&l->cfg, &c))
        return bst_fail(BST_E_NOMEM, "loader: a batch of more bytes than can be");
    BST_TRY(alloc_block(&l->cfg, c.block, &l->block));
    l->block_bytes = c.block;
    l->slot_bytes = c.slot;
    for (int i = 0; i < l->cfg.slots; i++)
        carve_slot(&l->slots[i], &c, l->info->streams, (uint8_t *)l->block + (size_t)i * c.slot);
    return BST_OK;
}
