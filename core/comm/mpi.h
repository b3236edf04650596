/* What bstune asks of MPI, as a table that a loadable module gives (mpi_module.c), so that one
 * binary starts where no MPI is. Point to point and one gather; what is built on them, and how long
 * anybody waits, is cluster.c's. One thread at a time calls. */
#ifndef BST_COMM_MPI_H
#define BST_COMM_MPI_H

#include <stdbool.h>
#include <stddef.h>

#define BST_MPI_TABLE "bst_mpi_table" /* the module's one symbol, a struct bst_mpi */

enum { BST_MPI_TEXT = 200 };

struct bst_mpi_world {
    int process, n_processes;
    int host;               /* the first process of this one's machine stands for it */
    int on_host, n_on_host; /* this process among those of its machine */
};

struct bst_mpi {
    const char *version; /* BST_VERSION */
    size_t table_bytes, world_bytes;
    /* "Open MPI v4.1.4, …"; also before start(). */
    void (*library)(char out[BST_MPI_TEXT]);
    /* False: why is in the text. */
    bool (*start)(struct bst_mpi_world *out, char why[BST_MPI_TEXT]);
    /* All three only begin; the number of what was begun is given to test(). -1: refused. */
    int (*gather)(const void *mine, void *all, size_t bytes); /* to all, in order of processes */
    int (*send)(const void *p, size_t bytes, int to, int tag);
    int (*receive)(void *p, size_t bytes, int from, int tag);
    /* 1: it is over, and its number free; 0: not yet; -1: it failed. */
    int (*test)(int begun);
    /* A message under this tag that has come from anybody is taken; at most `bytes` long. */
    bool (*take)(void *p, size_t bytes, int tag, int *from);
    /* Takes back what is to be received and looks at all else that was begun: how many are not
     * over, and have their memory still. */
    int (*left)(void);
    void (*finish)(void);    /* by all, in order */
    void (*abort)(int code); /* ends this process and the launcher's others */
};

#endif
