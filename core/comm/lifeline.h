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
    /* On the watching thread. `why`: what it said in leaving; "": nothing. */
    void (*lost)(void *arg, int process, const char *why);
    void *arg;
};

/* By all processes at once. A process that cannot be reached is none the worse for it, and its end
 * is noticed after the wait time. */
BST_MUST_USE enum bst_err bst_lifeline_open(const struct bst_lifeline_cfg *cfg,
                                            struct bst_lifeline **out);
/* On a process that follows and does not go on, before it ends: process 0 is told why, which is its
 * loss, and is then waited for until it has gone, too, having saved what it has. No longer than
 * `seconds`; not at all where it has gone already. NULL is fine. */
void bst_lifeline_leave(struct bst_lifeline *l, const char *why, double seconds);
/* Says goodbye, so that it is nobody's loss. NULL is fine. */
void bst_lifeline_close(struct bst_lifeline *l);

#endif
