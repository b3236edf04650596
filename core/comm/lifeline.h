/* How a process learns at once that another has died, also while nobody is inside MPI: a connection
 * between process 0 and every other, over which nothing is said but a last word. It breaks when its
 * owner ends, however it ends, and by the kernel's own probes when a machine is gone. One thread
 * watches. Part of cluster.c. */
#ifndef BST_COMM_LIFELINE_H
#define BST_COMM_LIFELINE_H

#include "core/base/err.h"
#include "core/comm/cluster.h"

struct bst_lifeline;

struct bst_lifeline_cfg {
    const struct bst_cluster_info *info;
    enum bst_err (*gather)(void *arg, const void *mine, void *all, size_t bytes);
    void (*lost)(void *arg, int process); /* on the watching thread */
    void *arg;
};

/* By all processes at once. A process that cannot be reached is none the worse for it, and its end
 * is noticed after the wait time. */
BST_MUST_USE enum bst_err bst_lifeline_open(const struct bst_lifeline_cfg *cfg,
                                            struct bst_lifeline **out);
/* Says goodbye, so that it is nobody's loss. NULL is fine. */
void bst_lifeline_close(struct bst_lifeline *l);

#endif
