/* Communicators of NCCL's fake, and memory that NCCL could register. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/nccl_inner.h"

enum { ALLOC_GRAIN_BYTES = 2 << 20 };

static struct clique *cliques;
static int n_ids;
static _Thread_local char error_text[256];

ncclResult_t nccl_fail(ncclResult_t r, const char *text)
{
    snprintf(error_text, sizeof error_text, "%s", text);
    fake_report("NCCL: %s", text);
    return r;
}

static void clique_unref(struct clique *q)
{
    if (--q->refs)
        return;
    struct clique **at = &cliques;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    while (q->colls) {
        struct coll *c = q->colls;
        q->colls = c->next;
        free(c);
    }
    free(q);
}

void nccl_unref(struct ncclComm *c)
{
    if (--c->refs)
        return;
    c->clique->ranks[c->rank] = NULL;
    clique_unref(c->clique);
    free(c);
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (int)result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return error_text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return (ncclResult_t)refused;
    memset(id, 0, sizeof *id);
    fake_lock();
    snprintf(id->internal, sizeof id->internal, "fake %d", ++n_ids);
    fake_unlock();
    return ncclSuccess;
}

static struct clique *clique_of(const ncclUniqueId *id, int n)
{
    struct clique *q = cliques;
    while (q && memcmp(q->id, id->internal, sizeof q->id))
        q = q->next;
    if (q)
        return q->n == n ? q : NULL;
    q = calloc(1, sizeof *q);
    memcpy(q->id, id->internal, sizeof q->id);
    q->n = n;
    q->next = cliques;
    cliques = q;
    return q;
}

static bool device_is_taken(const struct clique *q, int rank, int device)
{
    for (int r = 0; r < q->n; r++) {
        if (q->ranks[r] && (r == rank || q->ranks[r]->device == device))
            return true;
    }
    return false;
}

static ncclResult_t join(struct ncclComm **out, int n, const ncclUniqueId *id, int rank,
                         bool is_blocking)
{
    int device = fake_current_device();
    if (fake_sticky(device))
        return ncclUnhandledCudaError;
    if (n < 1 || n > RANKS_MAX || rank < 0 || rank >= n)
        return nccl_fail(ncclInvalidArgument, "no such rank");
    struct clique *q = clique_of(id, n);
    if (!q)
        return nccl_fail(ncclInvalidArgument, "ranks disagree on their number");
    if (device_is_taken(q, rank, device))
        return nccl_fail(ncclInvalidUsage, "a rank twice, or two ranks on one device");
    if (!fake_take_bytes(device, fake_set.nccl_bytes))
        return nccl_fail(ncclUnhandledCudaError, "no device memory for a communicator");
    struct ncclComm *c = calloc(1, sizeof *c);
    *c = (struct ncclComm){.refs = 1,
                           .clique = q,
                           .rank = rank,
                           .device = device,
                           .is_blocking = is_blocking,
                           .is_pending = !is_blocking,
                           .taken_bytes = fake_set.nccl_bytes};
    q->refs++;
    q->ranks[rank] = c;
    q->joined++;
    fake_count(FAKE_NCCL_COMM, 1);
    fake_progress(); /* wakes those that wait for this rank */
    *out = c;
    return ncclSuccess;
}

static bool is_complete(void *comm)
{
    const struct ncclComm *c = comm;
    return c->is_aborted || c->clique->joined >= c->clique->n;
}

ncclResult_t nccl_wait_for_all(struct ncclComm *c)
{
    if (fake_drain(is_complete, c, -1))
        return nccl_fail(ncclInternalError, "not all ranks came: a deadlock on the real one");
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *comm = NULL;
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return (ncclResult_t)refused;
    if (config && (config->magic != 0xcafebeef || config->size != sizeof *config))
        return nccl_fail(ncclInvalidArgument, "a config not made with NCCL_CONFIG_INITIALIZER");
    bool is_blocking = !config || config->blocking != 0;
    fake_lock();
    ncclResult_t e = join(comm, n, &id, rank, is_blocking);
    if (!e && !is_blocking)
        e = ncclInProgress;
    else if (!e && nccl_in_group())
        nccl_join_at_end(*comm);
    else if (!e)
        e = nccl_wait_for_all(*comm);
    fake_unlock();
    return e;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, n, id, rank, NULL);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
    ncclUniqueId id;
    int before = fake_current_device();
    ncclResult_t e = ncclGetUniqueId(&id);
    ncclGroupStart();
    for (int r = 0; r < n && !e; r++) {
        cudaSetDevice(devices ? devices[r] : r);
        e = ncclCommInitRank(&comms[r], n, id, r);
    }
    ncclResult_t end = ncclGroupEnd();
    cudaSetDevice(before);
    return e ? e : end;
}

static void leave(struct ncclComm *c)
{
    fake_give_bytes(c->device, c->taken_bytes);
    fake_count(FAKE_NCCL_COMM, -1);
    nccl_unref(c);
}

static bool has_no_parts(void *comm)
{
    return ((struct ncclComm *)comm)->refs == 1;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? ncclSuccess : ncclInvalidArgument;
}

/* Waits for what is queued; captured graphs that hold calls of it have to be gone. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    fake_lock();
    ncclResult_t e = ncclSuccess;
    if (!comm->is_aborted && fake_drain(has_no_parts, comm, -1))
        e = nccl_fail(ncclInternalError,
                      "a communicator destroyed under collectives that never end");
    comm->is_aborted = true;
    leave(comm);
    fake_unlock();
    return e;
}

/* Lets this rank's calls go. Peers learn of it as of a connection that closed, and go on standing
 * still until they are aborted, too. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    fake_lock();
    comm->is_aborted = true;
    for (int r = 0; r < comm->clique->n; r++) {
        struct ncclComm *other = comm->clique->ranks[r];
        if (other && other != comm && !other->is_aborted && !other->async)
            other->async = ncclRemoteError;
    }
    fake_progress();
    leave(comm);
    fake_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
    if (!comm)
        return ncclInvalidArgument;
    fake_lock();
    fake_progress();
    *async = comm->async;
    if (!*async && comm->clique->joined < comm->clique->n) {
        *async = ncclInProgress;
    } else if (!*async && comm->is_pending) {
        comm->is_pending = false; /* once more, then it is done */
        *async = ncclInProgress;
    }
    fake_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *n)
{
    *n = comm->clique->n;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

/* Page-sized pieces that NCCL could register; CUDA gives them out by 2 MiB. */
ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    fake_lock();
    struct fake_verdict v = fake_judge(__func__, -1);
    size_t whole = (bytes + ALLOC_GRAIN_BYTES - 1) / ALLOC_GRAIN_BYTES * ALLOC_GRAIN_BYTES;
    *p = v.what == FAKE_RETURN ? NULL : fake_block_new(fake_current_device(), whole);
    fake_unlock();
    return v.what == FAKE_RETURN ? (ncclResult_t)v.code : *p ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
    return cudaFree(p) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t bytes, void **handle)
{
    *handle = p;
    return comm && fake_inside(p, bytes) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return comm && handle ? ncclSuccess : ncclInvalidArgument;
}
