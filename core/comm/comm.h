/* Collectives between the ranks of a run, behind one table (local.c: threads of one process;
 * device.c: blocks by the devices' own library). A struct bst_comm is one rank's end and belongs to
 * its thread; every rank makes the same calls in the same order. Every rank gets the same bits;
 * local sums are taken in rank order, so that they are the same from run to run, too.
 *
 * A rank that fails calls abort(): whoever waits, now or later, gets BST_E_STATE instead of a hang.
 */
#ifndef BST_COMM_COMM_H
#define BST_COMM_COMM_H

#include "core/backend/backend.h"

#define BST_COMM_SMALL 32 /* numbers in one gather */

struct bst_comm;

struct bst_comm_ops {
    const char *name;
    enum bst_err (*barrier)(struct bst_comm *c);
    /* Sum over ranks of `bytes` of device memory (whole reals), in place. */
    enum bst_err (*all_reduce)(struct bst_comm *c, void *block, size_t bytes);
    /* Root's bytes to everyone. */
    enum bst_err (*broadcast)(struct bst_comm *c, void *block, size_t bytes, int root);
    /* n ≤ BST_COMM_SMALL host numbers of every rank: all[rank · n + i]. */
    enum bst_err (*gather)(struct bst_comm *c, const double *mine, int n, double *all);
    /* Until the block collectives asked for are through: what fails in one fails here at the
     * latest. */
    enum bst_err (*settle)(struct bst_comm *c);
    void (*abort)(struct bst_comm *c); /* may be called at any time, by any thread */
};

struct bst_comm_shared {  /* by all ranks of a group */
    atomic_bool given_up; /* abort() was called */
    atomic_uint resets;   /* how often the group was made usable again after that */
};

struct bst_comm { /* a collective embeds it; open for reading */
    const struct bst_comm_ops *ops;
    int rank, n_ranks;
    /* The rank's arithmetic; set by bst_comm_use() before the first collective over device memory.
     */
    const struct bst_backend *backend;
    struct bst_be *be;
    struct bst_comm_shared *shared;
};

void bst_comm_use(struct bst_comm *c, const struct bst_backend *backend, struct bst_be *be);

/* In place: sums over ranks (in rank order), and the largest. */
BST_MUST_USE enum bst_err bst_comm_sum(struct bst_comm *c, double *x, int n);
BST_MUST_USE enum bst_err bst_comm_max(struct bst_comm *c, double *x, int n);

/* Threads of one process. The group outlives its ends. */
struct bst_comm_local;
struct bst_comm_local *bst_comm_local_new(int n_ranks);
void bst_comm_local_free(struct bst_comm_local *g);
struct bst_comm *bst_comm_local_at(struct bst_comm_local *g, int rank);
/* Usable again after an abort. No rank may be inside a collective. */
void bst_comm_local_reset(struct bst_comm_local *g);

/* Over `host`, which stays the caller's: block collectives go through the backend's link, the rest
 * through host. bst_comm_use() was called on host. Joining, leaving and joining again after a
 * failure are collectives themselves. A block collective may still be under way when it returns:
 * what is done next on the context comes after it, also after one that failed (settle). */
BST_MUST_USE enum bst_err bst_comm_device_open(struct bst_comm *host, struct bst_comm **out);
void bst_comm_device_close(struct bst_comm *c); /* NULL is fine */

#endif
