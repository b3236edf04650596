/* How the processes of a run come to a connection beside MPI. Process 0 listens at each address
 * that its machine has, since it cannot know which of them lead there from another: a bridge of
 * containers is up on every machine and leads to that machine itself. The others try all at once
 * and keep the first where process 0 answers. Whoever else finds the port, or is found behind one
 * of the addresses, does not know the words that are said. Part of lifeline.c. */
#ifndef BST_COMM_DOOR_H
#define BST_COMM_DOOR_H

#include <netinet/in.h>

#include "core/base/err.h"
#include "core/comm/cluster.h"

enum { BST_DOOR_WORD = 16, BST_DOOR_ADDRESSES = 16 };

struct bst_address {
    uint32_t bytes;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
};

struct bst_hail { /* process 0's, to all, by MPI */
    uint32_t n;   /* 0: it cannot be reached */
    struct bst_address address[BST_DOOR_ADDRESSES];
    unsigned char question[BST_DOOR_WORD], answer[BST_DOOR_WORD];
};

struct bst_door;
/* On process 0: fills in the hail and lets in whoever asks, on a thread of its own. */
BST_MUST_USE enum bst_err bst_door_open(const struct bst_cluster_info *info, struct bst_hail *hail,
                                        struct bst_door **out);
/* Nobody is let in any more; fd[process] of those who were becomes the caller's, that of the others
 * stays. NULL is fine. */
void bst_door_close(struct bst_door *d, int *fd);

/* On the others: a connection to process 0, or -1 where no address led there in time. */
int bst_door_reach(const struct bst_hail *hail, int process);

#endif
