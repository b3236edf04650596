#include "core/comm/wide.h"

#include <pthread.h>
#include <string.h>

#include "core/base/alloc.h"

/* Of a block, summed and passed on at a time; whole cache lines and reals. */
#define PIECE ((size_t)256 << 10)

/* Where a process stands; the same on all, or somebody has failed. */
enum { AT_BARRIER = 1, AT_GATHER, AT_REDUCE, AT_BROADCAST, AT_END };

struct record {
    uint32_t at, rank;
    union {
        struct bst_ending ending;
        double small[1]; /* [rank of the process][BST_COMM_SMALL] */
    } u;
};

struct end {
    struct bst_comm comm;
    struct bst_comm *local;
    struct bst_comm_wide *wide;
    int i; /* of the process's ranks */
};

struct bst_comm_wide {
    struct bst_comm_wide *next; /* of those left behind */
    struct bst_cluster *cluster;
    const struct bst_cluster_info *info;
    int n_local;
    struct end *ends;
    size_t record_bytes;
    struct record *mine, *all; /* all: [process], record_bytes each */
    /* What ranks show each other; written by the owner before a barrier, read by all after it. */
    void **block;
    double *small;
    void *piece[2]; /* as they come from the process before */
};

static const struct record *record_of(const struct bst_comm_wide *w, int process)
{
    return (const struct record *)(const void *)((const char *)w->all +
                                                 (size_t)process * w->record_bytes);
}

static enum bst_err meet(struct bst_comm_wide *w, uint32_t at, int root)
{
    w->mine->at = at;
    w->mine->rank = (uint32_t)root;
    return bst_cluster_gather(w->cluster, w->mine, w->all, w->record_bytes);
}

/* For the process's first rank, the others having come. */
static enum bst_err meet_in(struct end *e, uint32_t at, int root)
{
    struct bst_comm_wide *w = e->wide;
    BST_TRY(meet(w, at, root));
    for (int p = 0; p < w->info->n_processes; p++) {
        const struct record *r = record_of(w, p);
        if (r->at == AT_END)
            return bst_fail(BST_E_STATE, "rank %d: another rank failed", e->comm.rank);
        if (r->at != at || r->rank != (uint32_t)root)
            return bst_fail(BST_E_STATE, "rank %d is in another collective than process %d",
                            e->comm.rank, p);
    }
    return BST_OK;
}

/* What the first rank did is everybody's; if it failed, nobody goes on. */
static enum bst_err leave(struct end *e, enum bst_err err)
{
    if (err)
        e->local->ops->abort(e->local);
    return err ? err : e->local->ops->barrier(e->local);
}

static enum bst_err wide_barrier(struct bst_comm *c)
{
    struct end *e = (struct end *)c;
    BST_TRY(e->local->ops->barrier(e->local));
    return leave(e, e->i ? BST_OK : meet_in(e, AT_BARRIER, 0));
}

static enum bst_err gather_all(struct end *e)
{
    struct bst_comm_wide *w = e->wide;
    memcpy(w->mine->u.small, w->small, (size_t)w->n_local * BST_COMM_SMALL * sizeof *w->small);
    return meet_in(e, AT_GATHER, 0);
}

static enum bst_err wide_gather(struct bst_comm *c, const double *mine, int n, double *all)
{
    struct end *e = (struct end *)c;
    struct bst_comm_wide *w = e->wide;
    BST_ASSERT(n >= 0 && n <= BST_COMM_SMALL);
    memcpy(w->small + e->i * BST_COMM_SMALL, mine, (size_t)n * sizeof *mine);
    BST_TRY(e->local->ops->barrier(e->local));
    BST_TRY(leave(e, e->i ? BST_OK : gather_all(e)));
    for (int r = 0; r < c->n_ranks; r++)
        memcpy(all + r * n, record_of(w, r / w->n_local)->u.small + r % w->n_local * BST_COMM_SMALL,
               (size_t)n * sizeof *all);
    return e->local->ops->barrier(e->local);
}

static size_t piece_at(size_t bytes, size_t from)
{
    return bytes - from < PIECE ? bytes - from : PIECE;
}

/* This process's ranks are added to what came from those before, in order, into the first rank's
 * block. */
static enum bst_err add_up(struct end *e, const void *before, size_t from, size_t n)
{
    struct bst_comm_wide *w = e->wide;
    const void *src[BST_WIDE_LOCAL + 1];
    int n_srcs = 0;
    if (before)
        src[n_srcs++] = before;
    for (int i = 0; i < w->n_local; i++)
        src[n_srcs++] = (char *)w->block[i] + from;
    return e->comm.backend->sum(e->comm.be, (char *)w->block[0] + from, src, n_srcs, n);
}

/* From the first process to the last, piece by piece: one is on its way while another is added up.
 * A sum that fails does not keep pieces from the others, who learn of it when they meet next. */
static enum bst_err sum_through(struct end *e, size_t bytes)
{
    struct bst_comm_wide *w = e->wide;
    const int own = w->info->process, last = w->info->n_processes - 1;
    int coming = -1, going = -1;
    enum bst_err err = BST_OK;
    if (own > 0)
        coming = bst_cluster_receive(w->cluster, w->piece[0], piece_at(bytes, 0), own - 1);
    for (size_t from = 0, k = 0; from < bytes; from += PIECE, k++) {
        size_t n = piece_at(bytes, from), next = from + n;
        if (own > 0)
            BST_TRY(bst_cluster_end(w->cluster, coming));
        if (own > 0 && next < bytes)
            coming = bst_cluster_receive(w->cluster, w->piece[(k + 1) % 2], piece_at(bytes, next),
                                         own - 1);
        enum bst_err one = add_up(e, own > 0 ? w->piece[k % 2] : NULL, from, n);
        err = err ? err : one;
        if (going >= 0)
            BST_TRY(bst_cluster_end(w->cluster, going));
        going = -1;
        if (own < last) {
            going = bst_cluster_send(w->cluster, (char *)w->block[0] + from, n, own + 1);
            if (going < 0)
                return bst_cluster_end(w->cluster, going);
        }
    }
    if (going >= 0)
        BST_TRY(bst_cluster_end(w->cluster, going));
    return err;
}

/* From process `first` around the ring to the one before it. */
static enum bst_err pass_round(struct end *e, size_t bytes, int first, char *at)
{
    struct bst_comm_wide *w = e->wide;
    const int n = w->info->n_processes, own = w->info->process, next = (own + 1) % n;
    int going = -1;
    for (size_t from = 0; from < bytes; from += PIECE) {
        size_t some = piece_at(bytes, from);
        if (own != first)
            BST_TRY(bst_cluster_end(
                w->cluster, bst_cluster_receive(w->cluster, at + from, some, (own + n - 1) % n)));
        if (going >= 0)
            BST_TRY(bst_cluster_end(w->cluster, going));
        going = -1;
        if (next != first) {
            going = bst_cluster_send(w->cluster, at + from, some, next);
            if (going < 0)
                return bst_cluster_end(w->cluster, going);
        }
    }
    return going >= 0 ? bst_cluster_end(w->cluster, going) : BST_OK;
}

static enum bst_err reduce(struct end *e, size_t bytes)
{
    struct bst_comm_wide *w = e->wide;
    BST_TRY(meet_in(e, AT_REDUCE, 0));
    enum bst_err err = sum_through(e, bytes);
    if (err == BST_E_PEER)
        return err;
    enum bst_err passed = pass_round(e, bytes, w->info->n_processes - 1, w->block[0]);
    return err ? err : passed;
}

static enum bst_err host_memory(const struct bst_comm *c)
{
    return c->backend->own_memory
               ? bst_fail(BST_E_UNSUPPORTED,
                          "%s: blocks of a device's own memory go by its own library between "
                          "processes",
                          c->backend->name)
               : BST_OK;
}

static enum bst_err enter(struct end *e, void *block)
{
    BST_TRY(host_memory(&e->comm));
    e->wide->block[e->i] = block;
    return e->local->ops->barrier(e->local);
}

/* All but rank `from` of the process take its bytes; nobody leaves before all have. */
static enum bst_err spread(struct end *e, void *block, size_t bytes, int from)
{
    struct bst_comm *c = &e->comm;
    enum bst_err err =
        e->i == from ? BST_OK : c->backend->copy(c->be, block, e->wide->block[from], bytes);
    return leave(e, err);
}

static enum bst_err wide_all_reduce(struct bst_comm *c, void *block, size_t bytes)
{
    struct end *e = (struct end *)c;
    BST_TRY(enter(e, block));
    BST_TRY(leave(e, e->i ? BST_OK : reduce(e, bytes)));
    return spread(e, block, bytes, 0);
}

/* The process's first rank takes the root's bytes over the ring, the root's own process from the
 * root's block. */
static enum bst_err fetch(struct end *e, size_t bytes, int root)
{
    struct bst_comm_wide *w = e->wide;
    const int first = root / w->n_local;
    int from = w->info->process == first ? root % w->n_local : 0;
    BST_TRY(meet_in(e, AT_BROADCAST, root));
    return pass_round(e, bytes, first, w->block[from]);
}

static enum bst_err wide_broadcast(struct bst_comm *c, void *block, size_t bytes, int root)
{
    struct end *e = (struct end *)c;
    struct bst_comm_wide *w = e->wide;
    if (!bytes)
        return BST_OK;
    BST_TRY(enter(e, block));
    BST_TRY(leave(e, e->i ? BST_OK : fetch(e, bytes, root)));
    return spread(e, block, bytes, w->info->process == root / w->n_local ? root % w->n_local : 0);
}

static enum bst_err wide_settle(struct bst_comm *c)
{
    (void)c; /* a block collective is over when it returns */
    return BST_OK;
}

static void wide_abort(struct bst_comm *c)
{
    struct bst_comm *local = ((struct end *)c)->local;
    local->ops->abort(local);
}

static const struct bst_comm_ops wide_ops = {
    .name = "wide",
    .barrier = wide_barrier,
    .all_reduce = wide_all_reduce,
    .broadcast = wide_broadcast,
    .gather = wide_gather,
    .settle = wide_settle,
    .abort = wide_abort,
};

enum bst_err bst_comm_wide_over(struct bst_comm_wide *w, const struct bst_ending *mine,
                                struct bst_ending *all)
{
    bool over = false;
    while (!over) {
        w->mine->u.ending = *mine;
        BST_TRY(meet(w, AT_END, 0));
        over = true;
        for (int p = 0; p < w->info->n_processes; p++)
            over = over && record_of(w, p)->at == AT_END;
    }
    for (int p = 0; p < w->info->n_processes; p++)
        all[p] = record_of(w, p)->u.ending;
    return BST_OK;
}

struct bst_comm_wide *bst_comm_wide_new(struct bst_cluster *cluster, struct bst_comm_local *local,
                                        int n_local)
{
    struct bst_comm_wide *w = bst_xalloc(sizeof *w);
    size_t small = (size_t)n_local * BST_COMM_SMALL * sizeof(double);
    size_t payload = small > sizeof(struct bst_ending) ? small : sizeof(struct bst_ending);
    BST_ASSERT(n_local >= 1 && n_local <= BST_WIDE_LOCAL);
    w->cluster = cluster;
    w->info = bst_cluster_info(cluster);
    w->n_local = n_local;
    w->record_bytes = offsetof(struct record, u) + payload;
    w->mine = bst_xcalloc(1, w->record_bytes);
    w->all = bst_xcalloc((size_t)w->info->n_processes, w->record_bytes);
    w->ends = bst_xcalloc((size_t)n_local, sizeof *w->ends);
    w->block = bst_xcalloc((size_t)n_local, sizeof *w->block);
    w->small = bst_xcalloc(1, small);
    for (int i = 0; i < 2; i++)
        w->piece[i] = bst_xalloc(PIECE);
    for (int i = 0; i < n_local; i++) {
        struct end *e = &w->ends[i];
        e->local = bst_comm_local_at(local, i);
        e->wide = w;
        e->i = i;
        e->comm = *e->local;
        e->comm.ops = &wide_ops;
        e->comm.rank = w->info->process * n_local + i;
        e->comm.n_ranks = w->info->n_processes * n_local;
    }
    return w;
}

/* Of which MPI may have pieces still: as long as the process. */
static struct bst_comm_wide *left;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;

void bst_comm_wide_free(struct bst_comm_wide *w)
{
    if (!w)
        return;
    if (bst_cluster_owes(w->cluster)) {
        pthread_mutex_lock(&left_lock);
        w->next = left;
        left = w;
        pthread_mutex_unlock(&left_lock);
        return;
    }
    for (int i = 0; i < 2; i++)
        bst_free(w->piece[i]);
    bst_free(w->mine);
    bst_free(w->all);
    bst_free(w->ends);
    bst_free(w->block);
    bst_free(w->small);
    bst_free(w);
}

struct bst_comm *bst_comm_wide_at(struct bst_comm_wide *w, int i)
{
    return &w->ends[i].comm;
}
