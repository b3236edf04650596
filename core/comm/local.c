#include <pthread.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/comm/comm.h"

#define CHUNK_ALIGN 64 /* bytes: a cache line, and a whole number of reals */

struct end {
    struct bst_comm comm;
    struct bst_comm_local *group;
};

struct bst_comm_local {
    int n_ranks;
    struct end *ends;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int waiting;
    unsigned generation;           /* of the barrier */
    struct bst_comm_shared shared; /* written under the lock */
    /* What ranks show each other; written by the owner before a barrier, read by all after it. */
    void **block;
    double *small; /* [rank][BST_COMM_SMALL] */
};

static bool given_up(const struct bst_comm_local *g)
{
    return atomic_load(&g->shared.given_up);
}

static enum bst_err local_barrier(struct bst_comm *c)
{
    struct bst_comm_local *g = ((struct end *)c)->group;
    pthread_mutex_lock(&g->lock);
    unsigned mine = g->generation;
    if (!given_up(g) && ++g->waiting == g->n_ranks) {
        g->waiting = 0;
        g->generation++;
        pthread_cond_broadcast(&g->turn);
    }
    while (!given_up(g) && g->generation == mine)
        pthread_cond_wait(&g->turn, &g->lock);
    /* A barrier that everyone has reached holds, even if someone has failed since. */
    bool passed = g->generation != mine;
    pthread_mutex_unlock(&g->lock);
    return passed ? BST_OK : bst_fail(BST_E_STATE, "rank %d: another rank failed", c->rank);
}

static void local_abort(struct bst_comm *c)
{
    struct bst_comm_local *g = ((struct end *)c)->group;
    pthread_mutex_lock(&g->lock);
    atomic_store(&g->shared.given_up, true);
    pthread_cond_broadcast(&g->turn);
    pthread_mutex_unlock(&g->lock);
}

/* Rank r's share of a block: [*from, *from + returned length). */
static size_t chunk(size_t bytes, int n_ranks, int r, size_t *from)
{
    size_t each = (bytes + (size_t)n_ranks - 1) / (size_t)n_ranks;
    each += (CHUNK_ALIGN - each % CHUNK_ALIGN) % CHUNK_ALIGN;
    *from = each * (size_t)r < bytes ? each * (size_t)r : bytes;
    return bytes - *from < each ? bytes - *from : each;
}

/* Rank r adds up chunk r of all blocks into its own, then everybody copies the others' chunks: each
 * byte is summed once, and each rank reads and writes 1/R of the sum's traffic. */
static enum bst_err reduce(struct bst_comm *c, void *block, size_t bytes)
{
    struct bst_comm_local *g = ((struct end *)c)->group;
    size_t from = 0;
    size_t n = chunk(bytes, c->n_ranks, c->rank, &from);
    const void **src = bst_xcalloc((size_t)c->n_ranks, sizeof *src);
    for (int r = 0; r < c->n_ranks; r++)
        src[r] = (char *)g->block[r] + from;
    enum bst_err err =
        n ? c->backend->sum(c->be, (char *)block + from, src, c->n_ranks, n) : BST_OK;
    bst_free(src);
    if (!err)
        err = local_barrier(c);
    for (int r = 0; !err && r < c->n_ranks; r++) {
        n = chunk(bytes, c->n_ranks, r, &from);
        if (r != c->rank && n)
            err = c->backend->copy(c->be, (char *)block + from, (char *)g->block[r] + from, n);
    }
    return err;
}

static enum bst_err copy_from(struct bst_comm *c, void *block, size_t bytes, int root)
{
    struct bst_comm_local *g = ((struct end *)c)->group;
    return c->rank == root ? BST_OK : c->backend->copy(c->be, block, g->block[root], bytes);
}

/* Nobody leaves a collective before all have read what it shows. */
static enum bst_err leave(struct bst_comm *c, enum bst_err err)
{
    if (err)
        local_abort(c);
    return err ? err : local_barrier(c);
}

static enum bst_err enter(struct bst_comm *c, void *block)
{
    ((struct end *)c)->group->block[c->rank] = block;
    return local_barrier(c);
}

static enum bst_err local_all_reduce(struct bst_comm *c, void *block, size_t bytes)
{
    if (c->n_ranks == 1)
        return BST_OK;
    BST_TRY(enter(c, block));
    return leave(c, reduce(c, block, bytes));
}

static enum bst_err local_broadcast(struct bst_comm *c, void *block, size_t bytes, int root)
{
    if (c->n_ranks == 1 || !bytes)
        return BST_OK;
    BST_TRY(enter(c, block));
    return leave(c, copy_from(c, block, bytes, root));
}

static enum bst_err local_settle(struct bst_comm *c)
{
    (void)c; /* a block collective is over when it returns */
    return BST_OK;
}

static enum bst_err local_gather(struct bst_comm *c, const double *mine, int n, double *all)
{
    struct bst_comm_local *g = ((struct end *)c)->group;
    BST_ASSERT(n >= 0 && n <= BST_COMM_SMALL);
    memcpy(g->small + c->rank * BST_COMM_SMALL, mine, (size_t)n * sizeof *mine);
    BST_TRY(local_barrier(c));
    for (int r = 0; r < c->n_ranks; r++)
        memcpy(all + r * n, g->small + r * BST_COMM_SMALL, (size_t)n * sizeof *all);
    return local_barrier(c);
}

static const struct bst_comm_ops local_ops = {
    .name = "local",
    .barrier = local_barrier,
    .all_reduce = local_all_reduce,
    .broadcast = local_broadcast,
    .gather = local_gather,
    .settle = local_settle,
    .abort = local_abort,
};

struct bst_comm_local *bst_comm_local_new(int n_ranks)
{
    BST_ASSERT(n_ranks >= 1);
    struct bst_comm_local *g = bst_xalloc(sizeof *g);
    g->n_ranks = n_ranks;
    g->ends = bst_xcalloc((size_t)n_ranks, sizeof *g->ends);
    g->block = bst_xcalloc((size_t)n_ranks, sizeof *g->block);
    g->small = bst_xcalloc((size_t)n_ranks * BST_COMM_SMALL, sizeof *g->small);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->turn, NULL);
    for (int r = 0; r < n_ranks; r++)
        g->ends[r] = (struct end){
            .comm = {.ops = &local_ops, .rank = r, .n_ranks = n_ranks, .shared = &g->shared},
            .group = g};
    return g;
}

void bst_comm_local_free(struct bst_comm_local *g)
{
    if (!g)
        return;
    pthread_cond_destroy(&g->turn);
    pthread_mutex_destroy(&g->lock);
    bst_free(g->ends);
    bst_free(g->block);
    bst_free(g->small);
    bst_free(g);
}

struct bst_comm *bst_comm_local_at(struct bst_comm_local *g, int rank)
{
    return rank >= 0 && rank < g->n_ranks ? &g->ends[rank].comm : NULL;
}

void bst_comm_local_reset(struct bst_comm_local *g)
{
    pthread_mutex_lock(&g->lock);
    g->waiting = 0;
    atomic_store(&g->shared.given_up, false);
    atomic_fetch_add(&g->shared.resets, 1);
    pthread_mutex_unlock(&g->lock);
}
