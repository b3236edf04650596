/* The processes of one run: what `mpirun` and `srun` start. Process 0 leads. A struct bst_cluster
 * is this process's end; whichever of its threads has something to say calls, one at a time, and
 * all processes make the same calls in the same order, but for notices.
 *
 * Every wait but that for the next request ends: when the other processes have come, when one of
 * them is lost, or after the wait time. A process that is lost is lost for good: from then on
 * every call here fails with BST_E_PEER, and the state that process 0 has is what is left. */
#ifndef BST_COMM_CLUSTER_H
#define BST_COMM_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bst_cluster;

struct bst_cluster_info {
    int process, n_processes;
    int host; /* the first process of this one's machine stands for it */
    int on_host, n_on_host;
};

/* Whether the launcher's environment says that this is one process of several. */
bool bst_cluster_asked(void);
/* What MPI the module finds, for `bstune doctor`. */
BST_MUST_USE enum bst_err bst_cluster_library(char *out, size_t room);

/* Joins the launcher's processes. One alone is no cluster: *out is NULL then. */
BST_MUST_USE enum bst_err bst_cluster_open(struct bst_cluster **out);
/* At the very end. Where a process was lost, or is left in the middle of a run, the launcher is
 * told to end them all and this does not return: the process ends with `code`. A process that
 * follows has said why by then, and leaves process 0 the time to save before it does so. NULL is
 * fine. */
void bst_cluster_close(struct bst_cluster *c, int code);
/* Others are in a run with this process; closing in between is for the launcher to clear up. */
void bst_cluster_busy(struct bst_cluster *c, bool busy);

const struct bst_cluster_info *bst_cluster_info(const struct bst_cluster *c);
/* How long a process is waited for; 60 at first. */
void bst_cluster_set_wait(struct bst_cluster *c, double seconds);
/* BST_E_PEER with the text of it once a process is lost. Any thread. */
BST_MUST_USE enum bst_err bst_cluster_check(struct bst_cluster *c);

/* Everybody's `bytes`, in order of processes, to all. */
BST_MUST_USE enum bst_err bst_cluster_gather(struct bst_cluster *c, const void *mine, void *all,
                                             size_t bytes);
/* Process 0's to all others, and there: without a limit, for a run may be paused for days. */
BST_MUST_USE enum bst_err bst_cluster_tell(struct bst_cluster *c, const void *what, size_t bytes);
BST_MUST_USE enum bst_err bst_cluster_hear(struct bst_cluster *c, void *what, size_t bytes);

/* A short word to all others in the middle of anything, and the next such word; false: none. */
struct bst_notice {
    uint32_t kind;
    uint64_t job;
};
void bst_cluster_notify(struct bst_cluster *c, const struct bst_notice *n);
bool bst_cluster_noticed(struct bst_cluster *c, struct bst_notice *out);

/* The ring, for blocks: to the next process and from the one before, of which both are process
 * (own ± 1) mod n. begin() gives a number for end(); -1 is refused there. */
int bst_cluster_send(struct bst_cluster *c, const void *p, size_t bytes, int to);
int bst_cluster_receive(struct bst_cluster *c, void *p, size_t bytes, int from);
BST_MUST_USE enum bst_err bst_cluster_end(struct bst_cluster *c, int begun);
/* After a loss: blocks of the ring may be under way still, and all that were given to it have to
 * stay where they are until the process ends. */
bool bst_cluster_owes(struct bst_cluster *c);

#endif
