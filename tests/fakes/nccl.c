/* NCCL among the ranks of one process. A collective runs once every rank's call is at the head of
 * its stream; the order of calls, not of their arrival, says which belong together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/nccl_inner.h"

enum { GROUP_MAX = 256 };

static const char *const kind_names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast",
                                         "ncclReduceScatter", "ncclAllGather"};

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

static _Thread_local int group_depth;
static _Thread_local struct pending group[GROUP_MAX];
static _Thread_local int n_group;
static _Thread_local struct ncclComm *joining[RANKS_MAX];
static _Thread_local int n_joining;

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
    nccl_fail(ncclInvalidUsage, text);
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
    return nccl_type_bytes(s->type) * s->count * (s->kind == REDUCE_SCATTER ? (size_t)n : 1);
}

static size_t dst_bytes(const struct coll_spec *s, int n)
{
    return nccl_type_bytes(s->type) * s->count * (s->kind == ALL_GATHER ? (size_t)n : 1);
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
            nccl_run(c, q->n);
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
    nccl_unref(p->comm);
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
        return nccl_fail(ncclInvalidArgument, "no communicator");
    if (c->is_aborted)
        return nccl_fail(ncclInvalidUsage, "a communicator used after its end");
    if (c->clique->joined < c->clique->n || c->is_pending)
        return nccl_fail(ncclInvalidUsage,
                         "a communicator used while an earlier call is in progress");
    if (!nccl_type_bytes(s->type) || s->root < 0 || s->root >= c->clique->n)
        return nccl_fail(ncclInvalidArgument, "a type that is not faked, or no such root");
    if (fake_stream_device(stream) != c->device)
        return nccl_fail(ncclInvalidUsage, "the stream is not of the communicator's device");
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
            return nccl_fail(ncclInvalidUsage, "too many calls in one group");
        }
        group[n_group++] = w;
        return ncclSuccess;
    }
    c->issuer = pthread_self();
    c->has_issuer = true;
    if (thread_has_another(c)) {
        c->refs--;
        return nccl_fail(ncclInvalidUsage, "one thread, several ranks, and no group");
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

/* --- groups --- */

bool nccl_in_group(void)
{
    return group_depth > 0;
}

void nccl_join_at_end(struct ncclComm *c)
{
    joining[n_joining++] = c;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!group_depth)
        return nccl_fail(ncclInvalidUsage, "a group ended that never began");
    if (--group_depth)
        return ncclSuccess;
    fake_lock();
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < n_joining; i++) {
        ncclResult_t e = nccl_wait_for_all(joining[i]);
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
