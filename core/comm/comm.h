/* Collectives between the ranks of a run, behind one table (local.c: threads of one process). A
 * struct bst_comm is one rank's end and belongs to its thread; every rank makes the same calls in
 * the same order. Sums are taken in rank order, so that every rank gets the same bits, and the same
 * from run to run.
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
    void (*abort)(struct bst_comm *c); /* may be called at any time, by any thread */
};

struct bst_comm { /* a collective embeds it; open for reading */
    const struct bst_comm_ops *ops;
    int rank, n_ranks;
    /* The rank's arithmetic; set by bst_comm_use() before the first collective over device memory.
     */
    const struct bst_backend *backend;
    struct bst_be *be;
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

#endif
