/* Which sample stands at a position of the stream, with samples of like length brought together:
 * less padding in a batch, whatever its size. */
#include <pthread.h>
#include <stdlib.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/dataset.h"

enum {
    POOL = 1024, /* positions that are sorted by length; both are part of what a seed means */
    PIECE = 32,  /* of a pool, that stay together */
    KEPT = 4,    /* pools, for the threads that fill and the one that counts */
};

struct member {
    int64_t index;
    int tokens;
};

struct pool {
    uint64_t number, used; /* used: 0: empty; larger is later */
    int64_t index[POOL];
};

struct bst_order {
    struct bst_dataset *ds;
    enum bst_part part;
    bool shuffle;
    uint64_t seed;
    int64_t n;
    bool bucket;

    pthread_mutex_t lock; /* guards what follows */
    uint64_t clock;
    struct pool pool[KEPT];
};

struct bst_order *bst_order_new(struct bst_dataset *ds, enum bst_part part, bool shuffle,
                                uint64_t seed)
{
    struct bst_order *o = bst_xalloc(sizeof *o);
    o->ds = ds;
    o->part = part;
    o->shuffle = shuffle;
    o->seed = seed;
    o->n = bst_dataset_info(ds)->n[part];
    o->bucket = part == BST_TRAIN && shuffle && bst_dataset_buckets(ds);
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

void bst_order_free(struct bst_order *o)
{
    if (!o)
        return;
    pthread_mutex_destroy(&o->lock);
    bst_free(o);
}

static int by_length(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->tokens != y->tokens)
        return x->tokens < y->tokens ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Pools do not reach across epochs: the last one of an epoch is the rest. */
static uint64_t pools_an_epoch(const struct bst_order *o)
{
    return ((uint64_t)o->n + POOL - 1) / POOL;
}

static void fill_pool(const struct bst_order *o, uint64_t number, struct pool *p)
{
    struct member m[POOL];
    struct bst_rng r;
    uint64_t per = pools_an_epoch(o), first = number % per * POOL;
    uint64_t start = number / per * (uint64_t)o->n + first;
    int n = (uint64_t)o->n - first < POOL ? (int)((uint64_t)o->n - first) : POOL;
    int pieces = n / PIECE, place[POOL / PIECE] = {0};
    for (int i = 0; i < n; i++) {
        m[i].index = bst_sampler_index(o->seed, o->n, start + (uint64_t)i, true);
        m[i].tokens = bst_dataset_count(o->ds, o->part, m[i].index).tokens;
    }
    qsort(m, (size_t)n, sizeof *m, by_length);
    bst_rng_init(&r, o->seed, BST_RNG_ORDER, UINT64_C(1) << 63 | number);
    for (int i = 0; i < pieces; i++) {
        int k = (int)bst_rng_below(&r, (uint32_t)i + 1);
        place[i] = place[k];
        place[k] = i;
    }
    /* What is left over of the whole pieces, the longest ones, stays at the end. */
    for (int i = 0; i < n; i++)
        p->index[i] = m[i / PIECE < pieces ? place[i / PIECE] * PIECE + i % PIECE : i].index;
}

int64_t bst_order_index(struct bst_order *o, uint64_t position)
{
    if (o->part == BST_EVAL)
        return (int64_t)position;
    if (!o->bucket)
        return bst_sampler_index(o->seed, o->n, position, o->shuffle);
    uint64_t at = position % (uint64_t)o->n;
    uint64_t number = position / (uint64_t)o->n * pools_an_epoch(o) + at / POOL;
    pthread_mutex_lock(&o->lock);
    struct pool *p = &o->pool[0];
    for (int i = 0; i < KEPT; i++) {
        struct pool *q = &o->pool[i];
        if (q->used && q->number == number) {
            p = q;
            break;
        }
        if (q->used < p->used)
            p = q;
    }
    if (!p->used || p->number != number) {
        fill_pool(o, number, p);
        p->number = number;
    }
    p->used = ++o->clock;
    int64_t index = p->index[at % POOL];
    pthread_mutex_unlock(&o->lock);
    return index;
}

void bst_order_count(struct bst_order *o, uint64_t first, int64_t n, int64_t *tokens,
                     int64_t *targets)
{
    struct bst_token_count c = bst_dataset_info(o->ds)->each;
    *tokens = c.tokens * n;
    *targets = c.targets * n;
    for (int64_t i = 0; i < n && !c.tokens; i++) {
        struct bst_token_count one =
            bst_dataset_count(o->ds, o->part, bst_order_index(o, first + (uint64_t)i));
        *tokens += one.tokens;
        *targets += one.targets;
    }
}
