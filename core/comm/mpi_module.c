/* MPI's side of mpi.h: the one file that sees its header. The module comm_mpi.so is this file. */
#include "core/comm/mpi.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { BEGUN_MOST = 256, BYTES_MOST = 1 << 30 };

static MPI_Request begun[BEGUN_MOST];
static bool taken[BEGUN_MOST], receives[BEGUN_MOST];

static void mpi_library(char out[BST_MPI_TEXT])
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;

    if (MPI_Get_library_version(text, &n) != MPI_SUCCESS)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0'; /* MPICH's is a page */
    snprintf(out, BST_MPI_TEXT, "%.*s", BST_MPI_TEXT - 1, text);
}

/* Open MPI loads parts of its own that look for its symbols among the global ones; a module's
 * libraries are not there by themselves. */
static void make_global(void)
{
    Dl_info at;
    void *own = NULL;
    int (*function)(int *, char ***) = MPI_Init;

    memcpy(&own, &function, sizeof own);
    if (dladdr(own, &at) && at.dli_fname)
        (void)dlopen(at.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static bool refused(int code, const char *what, char why[BST_MPI_TEXT])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;

    if (code == MPI_SUCCESS)
        return false;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS)
        text[0] = '\0';
    snprintf(why, BST_MPI_TEXT, "%s: %.120s", what, text);
    return true;
}

static bool look_around(struct bst_mpi_world *w, char why[BST_MPI_TEXT])
{
    MPI_Comm host;

    if (refused(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI", why) ||
        refused(MPI_Comm_rank(MPI_COMM_WORLD, &w->process), "MPI_Comm_rank", why) ||
        refused(MPI_Comm_size(MPI_COMM_WORLD, &w->n_processes), "MPI_Comm_size", why) ||
        refused(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, w->process, MPI_INFO_NULL,
                                    &host),
                "MPI_Comm_split_type", why))
        return false;
    w->host = w->process;
    bool bad = refused(MPI_Comm_rank(host, &w->on_host), "MPI_Comm_rank", why) ||
               refused(MPI_Comm_size(host, &w->n_on_host), "MPI_Comm_size", why) ||
               refused(MPI_Bcast(&w->host, 1, MPI_INT, 0, host), "MPI_Bcast", why);
    return !refused(MPI_Comm_free(&host), "MPI_Comm_free", why) && !bad;
}

static bool mpi_start(struct bst_mpi_world *out, char why[BST_MPI_TEXT])
{
    int level = MPI_THREAD_SINGLE;

    make_global();
    if (refused(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread", why))
        return false;
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(why, BST_MPI_TEXT, "this MPI is for one thread alone (its level is %d)", level);
        return false;
    }
    return look_around(out, why);
}

static int begin(void)
{
    for (int i = 0; i < BEGUN_MOST; i++)
        if (!taken[i]) {
            taken[i] = true;
            receives[i] = false;
            return i;
        }
    return -1;
}

static int keep(int i, int code)
{
    if (code == MPI_SUCCESS)
        return i;
    taken[i] = false;
    return -1;
}

static int mpi_gather(const void *mine, void *all, size_t bytes)
{
    int i = bytes <= BYTES_MOST ? begin() : -1, n = (int)bytes;

    return i < 0 ? -1
                 : keep(i, MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD,
                                          &begun[i]));
}

static int mpi_send(const void *p, size_t bytes, int to, int tag)
{
    int i = bytes <= BYTES_MOST ? begin() : -1;

    return i < 0 ? -1
                 : keep(i, MPI_Isend(p, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &begun[i]));
}

static int mpi_receive(void *p, size_t bytes, int from, int tag)
{
    int i = bytes <= BYTES_MOST ? begin() : -1;

    if (i < 0)
        return -1;
    receives[i] = true;
    return keep(i, MPI_Irecv(p, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &begun[i]));
}

static int mpi_test(int i)
{
    int over = 0;

    if (MPI_Test(&begun[i], &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return -1;
    taken[i] = !over;
    return over;
}

static bool mpi_take(void *p, size_t bytes, int tag, int *from)
{
    MPI_Status status;
    int there = 0;

    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS || !there)
        return false;
    *from = status.MPI_SOURCE;
    return MPI_Recv(p, (int)bytes, MPI_BYTE, *from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS;
}

/* Only what is received may be taken back: a send by now reads its memory when the other side asks
 * for it, and a gather is not to be cancelled at all. */
static int mpi_left(void)
{
    int n = 0;

    for (int i = 0; i < BEGUN_MOST; i++) {
        if (taken[i] && receives[i]) {
            MPI_Cancel(&begun[i]);
            receives[i] = false;
        }
        n += taken[i] && mpi_test(i) != 1;
    }
    return n;
}

static void mpi_finish(void)
{
    MPI_Finalize();
}

static void mpi_abort(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

extern const struct bst_mpi bst_mpi_table;
__attribute__((visibility("default"))) const struct bst_mpi bst_mpi_table = {
    .version = BST_VERSION,
    .table_bytes = sizeof(struct bst_mpi),
    .world_bytes = sizeof(struct bst_mpi_world),
    .library = mpi_library,
    .start = mpi_start,
    .gather = mpi_gather,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .take = mpi_take,
    .left = mpi_left,
    .finish = mpi_finish,
    .abort = mpi_abort,
};
