/* NCCL among the ranks of one process. A collective runs once every rank's call is at the head of
 * its stream; the order of calls, not of their arrival, says which belong together. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#include "tests/fakes/core.h"
#include "tests/fakes/half.h"

enum { RANKS_MAX = FAKE_DEVICES_MAX, GROUP_MAX = 256, ALLOC_GRAIN_BYTES = 2 << 20 };

enum coll_kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER };

static const char *const kind_names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast",
                                         "ncclReduceScatter", "ncclAllGather"};

/* What all ranks have to say alike. */
struct coll_spec {
    enum coll_kind kind;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};

/* One collective under way. */
struct coll {
    struct coll *next;
    uint64_t seq;
    struct coll_spec spec; /* as the first rank gave it */
    int first_rank;
    uint32_t arrived, done; /* a bit a rank */
    bool has_run;
    const void *src[RANKS_MAX];
    void *dst[RANKS_MAX];
};

/* What the ranks of a communicator share. */
struct clique {
    struct clique *next;
    char id[NCCL_UNIQUE_ID_BYTES];
    int refs, n, joined;
    struct ncclComm *ranks[RANKS_MAX];
    struct coll *colls;
};

struct ncclComm {
    int refs; /* the user's, and one a captured or queued call */
    struct clique *clique;
    int rank, device;
    uint64_t seq;
    bool is_blocking, is_aborted;
    bool is_pending; /* not blocking: has to be polled before it is used again */
    bool was_used;
    ncclResult_t async;
    pthread_t issuer; /* who made its last call outside of a group */
    bool has_issuer;
    size_t taken_bytes;
};

struct part {
    struct ncclComm *comm; /* referenced by the call, not by copies of a graph's node */
    struct coll_spec spec;
    const void *src;
    void *dst;
    uint64_t seq;
    struct fake_verdict verdict;
    bool has_arrived, has_failed;
};

struct pending {
    struct part part;
    cudaStream_t stream;
};

/* nccl.h declares these two without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

static struct clique *cliques;
static int n_ids;
static _Thread_local int group_depth;
static _Thread_local struct pending group[GROUP_MAX];
static _Thread_local int n_group;
static _Thread_local struct ncclComm *joining[RANKS_MAX];
static _Thread_local int n_joining;
static _Thread_local char error_text[256];

static ncclResult_t fail(ncclResult_t r, const char *text)
{
    snprintf(error_text, sizeof error_text, "%s", text);
    fake_report("NCCL: %s", text);
    return r;
}

/* --- elements --- */

static size_t type_bytes(ncclDataType_t t)
{
    static const unsigned char bytes[ncclNumTypes] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,  [ncclFloat16] = 2, [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2};
    return (int)t >= 0 && t < ncclNumTypes ? bytes[t] : 0;
}

static double load(const void *p, ncclDataType_t t, size_t i)
{
    switch (t) {
    case ncclFloat16:
        return (double)fake_from_half(((const uint16_t *)p)[i]);
    case ncclBfloat16:
        return (double)fake_from_bf16(((const uint16_t *)p)[i]);
    case ncclFloat32:
        return (double)((const float *)p)[i];
    case ncclFloat64:
        return ((const double *)p)[i];
    case ncclInt8:
        return ((const int8_t *)p)[i];
    case ncclUint8:
        return ((const uint8_t *)p)[i];
    case ncclInt32:
        return ((const int32_t *)p)[i];
    case ncclUint32:
        return ((const uint32_t *)p)[i];
    case ncclUint64:
        return (double)((const uint64_t *)p)[i];
    default:
        return (double)((const int64_t *)p)[i];
    }
}

static void store(void *p, ncclDataType_t t, size_t i, double v)
{
    switch (t) {
    case ncclFloat16:
        ((uint16_t *)p)[i] = fake_to_half((float)v);
        break;
    case ncclBfloat16:
        ((uint16_t *)p)[i] = fake_to_bf16((float)v);
        break;
    case ncclFloat32:
        ((float *)p)[i] = (float)v;
        break;
    case ncclFloat64:
        ((double *)p)[i] = v;
        break;
    case ncclInt8:
        ((int8_t *)p)[i] = (int8_t)v;
        break;
    case ncclUint8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case ncclInt32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case ncclUint32:
        ((uint32_t *)p)[i] = (uint32_t)v;
        break;
    case ncclUint64:
        ((uint64_t *)p)[i] = (uint64_t)v;
        break;
    default:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    }
}

static double combine(ncclRedOp_t op, double a, double b)
{
    switch (op) {
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    case ncclProd:
        return a * b;
    default:
        return a + b;
    }
}

/* In rank order, in double: every rank gets the same bits. */
static double reduced(const struct coll *c, int n, size_t i)
{
    double v = load(c->src[0], c->spec.type, i);
    for (int r = 1; r < n; r++)
        v = combine(c->spec.op, v, load(c->src[r], c->spec.type, i));
    return c->spec.op == ncclAvg ? v / n : v;
}

/* A rank's send buffer may be its receive buffer, so an element is read in all ranks before it is
 * written in any. */
static void run_collective(const struct coll *c, int n)
{
    const struct coll_spec *s = &c->spec;
    for (size_t i = 0; i < s->count; i++) {
        if (s->kind == ALL_REDUCE || s->kind == REDUCE) {
            double v = reduced(c, n, i);
            for (int r = 0; r < n; r++) {
                if (s->kind == ALL_REDUCE || r == s->root)
                    store(c->dst[r], s->type, i, v);
            }
        } else if (s->kind == BROADCAST) {
            double v = load(c->src[s->root], s->type, i);
            for (int r = 0; r < n; r++)
                store(c->dst[r], s->type, i, v);
        } else if (s->kind == ALL_GATHER) {
            for (int r = 0; r < n; r++) {
                double v = load(c->src[r], s->type, i);
                for (int to = 0; to < n; to++)
                    store(c->dst[to], s->type, (size_t)r * s->count + i, v);
            }
        }
    }
    if (s->kind != REDUCE_SCATTER)
        return;
    size_t all = (size_t)n * s->count;
    double *v = malloc((all ? all : 1) * sizeof *v);
    for (size_t i = 0; i < all; i++)
        v[i] = reduced(c, n, i);
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < s->count; i++)
            store(c->dst[r], s->type, i, v[(size_t)r * s->count + i]);
    }
    free(v);
}

/* --- lifetimes --- */

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

static void comm_unref(struct ncclComm *c)
{
    if (--c->refs)
        return;
    c->clique->ranks[c->rank] = NULL;
    clique_unref(c->clique);
    free(c);
}

static struct coll *coll_of(struct clique *q, uint64_t seq)
{
    struct coll **at = &q->colls;
    while (*at && (*at)->seq != seq)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        (*at)->seq = seq;
    }
    return *at;
}

static void forget_coll(struct clique *q, struct coll *c)
{
    struct coll **at = &q->colls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c);
}

/* --- one rank's part in the queue --- */

static void start_part(void *args)
{
    struct part *p = args;
    p->seq = p->comm->seq++;
}

static void mismatch(struct clique *q, const struct coll *c, const struct part *p)
{
    char text[200];
    snprintf(
        text, sizeof text,
        "collective %llu: rank %d calls %s of %zu elements (type %d), rank %d %s of %zu (type %d)",
        (unsigned long long)c->seq, c->first_rank, kind_names[c->spec.kind], c->spec.count,
        (int)c->spec.type, p->comm->rank, kind_names[p->spec.kind], p->spec.count,
        (int)p->spec.type);
    for (int r = 0; r < q->n; r++) {
        if (q->ranks[r] && !q->ranks[r]->async)
            q->ranks[r]->async = ncclInvalidUsage;
    }
    fail(ncclInvalidUsage, text);
}

static bool same_spec(const struct coll_spec *a, const struct coll_spec *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->op == b->op &&
           a->root == b->root;
}

static void arrive(struct part *p)
{
    struct clique *q = p->comm->clique;
    struct coll *c = coll_of(q, p->seq);
    if (!c->arrived) {
        c->spec = p->spec;
        c->first_rank = p->comm->rank;
    } else if (!same_spec(&c->spec, &p->spec)) {
        mismatch(q, c, p);
    }
    c->arrived |= 1u << p->comm->rank;
    c->src[p->comm->rank] = p->src;
    c->dst[p->comm->rank] = p->dst;
    p->has_arrived = true;
}

/* A communicator with an error stands still until it is aborted. */
static bool part_ready(void *args)
{
    struct part *p = args;
    struct ncclComm *c = p->comm;
    if (c->is_aborted)
        return true;
    if (p->verdict.what == FAKE_LATE && !p->has_failed) {
        p->has_failed = true;
        c->async = (ncclResult_t)p->verdict.code;
        fake_report("NCCL: rank %d injected: asynchronous error %d", c->rank, p->verdict.code);
    }
    if (p->verdict.what == FAKE_LATE || p->verdict.what == FAKE_HANG || c->async)
        return false;
    if (!p->has_arrived)
        arrive(p);
    return !c->async && coll_of(c->clique, p->seq)->arrived == (1u << c->clique->n) - 1;
}

static size_t src_bytes(const struct coll_spec *s, int n)
{
    return type_bytes(s->type) * s->count * (s->kind == REDUCE_SCATTER ? (size_t)n : 1);
}

static size_t dst_bytes(const struct coll_spec *s, int n)
{
    return type_bytes(s->type) * s->count * (s->kind == ALL_GATHER ? (size_t)n : 1);
}

static bool buffers_inside(const struct coll *c, const struct clique *q)
{
    for (int r = 0; r < q->n; r++) {
        bool reads = c->spec.kind != BROADCAST || r == c->spec.root;
        bool writes = c->spec.kind != REDUCE || r == c->spec.root;
        if ((reads && !fake_inside(c->src[r], src_bytes(&c->spec, q->n))) ||
            (writes && !fake_inside(c->dst[r], dst_bytes(&c->spec, q->n)))) {
            int device = q->ranks[r] ? q->ranks[r]->device : 0;
            fake_fault(device, cudaErrorIllegalAddress, "NCCL: rank %d's buffer leaves its block",
                       r);
            return false;
        }
    }
    return true;
}

static void run_part(void *args)
{
    struct part *p = args;
    struct clique *q = p->comm->clique;
    if (p->comm->is_aborted)
        return;
    struct coll *c = coll_of(q, p->seq);
    if (!c->has_run) {
        c->has_run = true;
        if (buffers_inside(c, q))
            run_collective(c, q->n);
    }
    c->done |= 1u << p->comm->rank;
    if (c->done == (1u << q->n) - 1)
        forget_coll(q, c);
}

/* A part that is dropped with its device's queue takes its arrival back: the others wait on. */
static void fini_part(void *args)
{
    struct part *p = args;
    struct clique *q = p->comm->clique;
    for (struct coll *c = q->colls; c && p->has_arrived; c = c->next) {
        if (c->seq == p->seq && !c->has_run)
            c->arrived &= ~(1u << p->comm->rank);
    }
    comm_unref(p->comm);
}

static ncclResult_t enqueue(const struct pending *w)
{
    struct fake_call call = {.name = kind_names[w->part.spec.kind],
                             .run = run_part,
                             .ready = part_ready,
                             .start = start_part,
                             .fini = fini_part,
                             .cost_ns = 20000,
                             .all_devices = true};
    return fake_enqueue(w->stream, &call, &w->part, sizeof w->part) ? ncclUnhandledCudaError
                                                                    : ncclSuccess;
}

/* The first use of a communicator that does not block connects it, which takes a while. */
static ncclResult_t after_use(struct ncclComm *c)
{
    if (c->is_blocking || c->was_used)
        return ncclSuccess;
    c->was_used = true;
    c->is_pending = true;
    return ncclInProgress;
}

/* NCCL: "from a single thread, group calls are mandatory". */
static bool thread_has_another(const struct ncclComm *c)
{
    for (int r = 0; r < c->clique->n; r++) {
        const struct ncclComm *other = c->clique->ranks[r];
        if (other && other != c && other->has_issuer &&
            pthread_equal(other->issuer, pthread_self()))
            return true;
    }
    return false;
}

static ncclResult_t check_use(struct ncclComm *c, const struct coll_spec *s, cudaStream_t stream)
{
    if (!c)
        return fail(ncclInvalidArgument, "no communicator");
    if (c->is_aborted)
        return fail(ncclInvalidUsage, "a communicator used after its end");
    if (c->clique->joined < c->clique->n || c->is_pending)
        return fail(ncclInvalidUsage, "a communicator used while an earlier call is in progress");
    if (!type_bytes(s->type) || s->root < 0 || s->root >= c->clique->n)
        return fail(ncclInvalidArgument, "a type that is not faked, or no such root");
    if (fake_stream_device(stream) != c->device)
        return fail(ncclInvalidUsage, "the stream is not of the communicator's device");
    return c->async;
}

static ncclResult_t call(struct ncclComm *c, const struct coll_spec *s, const void *src, void *dst,
                         cudaStream_t stream)
{
    struct fake_verdict v = fake_judge(kind_names[s->kind], c ? c->device : -1);
    if (v.what == FAKE_RETURN)
        return (ncclResult_t)v.code;
    if (v.what == FAKE_LOST)
        fake_lose(c->device);
    ncclResult_t e = check_use(c, s, stream);
    if (e)
        return e;
    struct pending w = {{.comm = c, .spec = *s, .src = src, .dst = dst, .verdict = v}, stream};
    c->refs++;
    if (group_depth) {
        if (n_group == GROUP_MAX) {
            c->refs--;
            return fail(ncclInvalidUsage, "too many calls in one group");
        }
        group[n_group++] = w;
        return ncclSuccess;
    }
    c->issuer = pthread_self();
    c->has_issuer = true;
    if (thread_has_another(c)) {
        c->refs--;
        return fail(ncclInvalidUsage, "one thread, several ranks, and no group");
    }
    e = enqueue(&w);
    return e ? e : after_use(c);
}

static ncclResult_t collective(enum coll_kind kind, const void *src, void *dst, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, int root, struct ncclComm *c,
                               cudaStream_t stream)
{
    fake_lock();
    struct coll_spec s = {kind, count, type, op, root};
    ncclResult_t e = call(c, &s, src, dst, stream);
    fake_unlock();
    return e;
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALL_REDUCE, src, dst, count, type, op, 0, comm, stream);
}

ncclResult_t ncclReduce(const void *src, void *dst, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE, src, dst, count, type, op, root, comm, stream);
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(BROADCAST, src, dst, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return collective(BROADCAST, buffer, buffer, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE_SCATTER, src, dst, count, type, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALL_GATHER, src, dst, count, type, ncclSum, 0, comm, stream);
}

/* --- communicators --- */

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
        return fail(ncclInvalidArgument, "no such rank");
    struct clique *q = clique_of(id, n);
    if (!q)
        return fail(ncclInvalidArgument, "ranks disagree on their number");
    if (device_is_taken(q, rank, device))
        return fail(ncclInvalidUsage, "a rank twice, or two ranks on one device");
    if (!fake_take_bytes(device, fake_set.nccl_bytes))
        return fail(ncclUnhandledCudaError, "no device memory for a communicator");
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

static ncclResult_t wait_for_all(struct ncclComm *c)
{
    if (fake_drain(is_complete, c, -1))
        return fail(ncclInternalError, "not all ranks came: a deadlock on the real one");
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
        return fail(ncclInvalidArgument, "a config not made with NCCL_CONFIG_INITIALIZER");
    bool is_blocking = !config || config->blocking != 0;
    fake_lock();
    ncclResult_t e = join(comm, n, &id, rank, is_blocking);
    if (!e && !is_blocking)
        e = ncclInProgress;
    else if (!e && group_depth)
        joining[n_joining++] = *comm;
    else if (!e)
        e = wait_for_all(*comm);
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
    comm_unref(c);
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
        e = fail(ncclInternalError, "a communicator destroyed under collectives that never end");
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

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!group_depth)
        return fail(ncclInvalidUsage, "a group ended that never began");
    if (--group_depth)
        return ncclSuccess;
    fake_lock();
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < n_joining; i++) {
        ncclResult_t e = wait_for_all(joining[i]);
        result = result ? result : e;
    }
    for (int i = 0; i < n_group; i++) {
        struct ncclComm *c = group[i].part.comm;
        ncclResult_t e = enqueue(&group[i]);
        result = e ? e : result;
        e = e ? e : after_use(c);
        result = result ? result : e;
    }
    n_joining = n_group = 0;
    fake_unlock();
    return result;
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
