/* Collectives between the ranks of several processes, the same table as comm.h's: threads of a
 * process meet as in local.c, one of them then meets the other processes (cluster.h). Process p has
 * the ranks from p · n_local on. Sums are taken in the order of ranks, through the processes one
 * after the other, so that R ranks give the same bits however they are spread.
 *
 * Where one process's ranks come to a collective and another's job has ended, for it failed there,
 * the ranks get BST_E_STATE; both then meet in bst_comm_wide_over(), and can go on from there. */
#ifndef BST_COMM_WIDE_H
#define BST_COMM_WIDE_H

#include "core/comm/cluster.h"
#include "core/comm/comm.h"

enum { BST_WIDE_LOCAL = 16 }; /* ranks of a process at most */

/* How a job ended on a process: what the session's threads tell each other behind each. */
struct bst_ending {
    int32_t err;      /* enum bst_err */
    int32_t weight;   /* larger tells more */
    int32_t rank;     /* that it comes from; -1: none */
    int32_t broken;   /* a rank has moved that others may not have */
    int32_t moved;    /* rank 0 has made an update; the first process's */
    uint64_t most[3]; /* numbers of which the largest is everybody's; the job's to say what */
    uint64_t held[BST_WIDE_LOCAL];
    char text[400];
};

struct bst_comm_wide;
/* `local` and the cluster stay the caller's. */
struct bst_comm_wide *bst_comm_wide_new(struct bst_cluster *cluster, struct bst_comm_local *local,
                                        int n_local);
void bst_comm_wide_free(struct bst_comm_wide *w);
struct bst_comm *bst_comm_wide_at(struct bst_comm_wide *w, int i); /* of this process's ranks */
/* Every process's ending, all[process]; no rank is inside a collective. */
BST_MUST_USE enum bst_err bst_comm_wide_over(struct bst_comm_wide *w, const struct bst_ending *mine,
                                             struct bst_ending *all);

#endif
