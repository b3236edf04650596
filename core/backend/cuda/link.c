/* A context's end of an NCCL communicator. Nothing here blocks in NCCL but the end of a broken
 * communicator, which has a thread and a deadline of its own. Collectives have a stream to
 * themselves, tied to the context's by events. */
#include <stdio.h>
#include <string.h>

#include "core/backend/cuda/be.h"
#include "core/backend/cuda/gate.h"
#include "core/backend/cuda/nccl.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

/* A rank whose own device hangs says so first. */
#define OTHERS_TIMES 1.5
#define GRACE_SECONDS 1.0 /* for the rank whose failure showed here, to say what it was */
#define END_SECONDS 5.0
#define ABORT_SECONDS 10.0
enum { CALLS = 8 }; /* on their way: two an update, and more updates than commits */

struct link_call {
    cudaEvent_t ready, done; /* what is before it has run; it has run itself */
    double since;            /* when it was first seen to be ready; 0: not yet */
};

struct cuda_link {
    const struct cuda_nccl *nccl;
    ncclComm_t comm; /* NULL: broken */
    cudaStream_t stream;
    struct link_call calls[CALLS];
    const atomic_bool *given_up;
    struct cuda_gate *gate;
    int rank, n_ranks;
    uint64_t n_calls, n_over; /* n_over: known to be */
    struct bst_failure why;   /* it was left */
    bool is_owed;             /* nobody was told */
};

const int32_t *cuda_link_gate(const struct bst_be *be)
{
    return be->link ? cuda_gate_word(be->link->gate) : NULL;
}

/* --- the end of a broken communicator --- */

struct last_call {
    const struct cuda_nccl *nccl;
    ncclComm_t comm;
};

static void *abort_main(void *arg)
{
    struct last_call *c = arg;

    c->nccl->CommAbort(c->comm);
    bst_free(c);
    return NULL;
}

/* An abort that hangs is left behind, with its thread: the run ends with what made it necessary. */
static void abort_comm(struct cuda_link *l)
{
    pthread_t thread;

    if (!l->comm)
        return;
    cuda_gate_shut(l->gate);
    struct last_call *c = bst_xalloc(sizeof *c);
    *c = (struct last_call){l->nccl, l->comm};
    l->comm = NULL;
    l->n_over = l->n_calls;
    if (bst_thread_start(&thread, abort_main, c))
        abort_main(c);
    else
        bst_thread_join_within(thread, ABORT_SECONDS);
}

/* --- failures --- */

static bool given_up(const struct cuda_link *l)
{
    return atomic_load(l->given_up);
}

/* What is said of it again and again: by every commit behind the collective that was left. */
static enum bst_err left(struct cuda_link *l, enum bst_err err)
{
    l->why = bst_err_keep(err);
    return err;
}

static enum bst_err others_failed(struct cuda_link *l)
{
    abort_comm(l);
    return left(l, bst_fail(BST_E_STATE, "rank %d: another rank failed", l->rank));
}

enum bst_err cuda_link_why(struct bst_be *be)
{
    struct cuda_link *l = be->link;

    if (!l || !l->why.err)
        return bst_fail(BST_E_STATE, "another rank failed");
    l->is_owed = false;
    return bst_err_restore(&l->why);
}

void cuda_link_owes(struct bst_be *be)
{
    if (be->link)
        be->link->is_owed = be->link->why.err != BST_OK;
}

static enum bst_err owed(struct bst_be *be)
{
    return be->link && be->link->is_owed ? cuda_link_why(be) : BST_OK;
}

/* NCCL tells of a peer's failure too, and of this device's own. Whoever had it says what it was. */
static enum bst_err broken(struct bst_be *be, ncclResult_t r, const char *what)
{
    struct cuda_link *l = be->link;
    const double until = bst_clock_now() + GRACE_SECONDS;
    char text[256];
    unsigned looks = 0;

    snprintf(text, sizeof text, "%s", l->nccl->GetLastError(l->comm));
    abort_comm(l);
    const cudaError_t own = cudaStreamQuery(be->stream);
    if (own != cudaSuccess && own != cudaErrorNotReady)
        return left(l, cuda_fail(own, what));
    cudaGetLastError(); /* "not ready" stays behind as one */
    while (r == ncclRemoteError && !given_up(l) && bst_clock_now() < until)
        cuda_pause(&looks);
    if (r == ncclRemoteError && given_up(l))
        return others_failed(l);
    return left(l, bst_fail(BST_E_LIBRARY, "%s: NCCL: %s%s%s", what, l->nccl->GetErrorString(r),
                            text[0] ? ": " : "", text));
}

/* What every wait looks at. ncclInProgress is no failure. */
static enum bst_err look(struct bst_be *be, const char *what, ncclResult_t *state)
{
    struct cuda_link *l = be->link;

    *state = ncclSuccess;
    if (given_up(l))
        return others_failed(l);
    ncclResult_t r = l->nccl->CommGetAsyncError(l->comm, state);
    if (r == ncclSuccess)
        r = *state;
    return r != ncclSuccess && r != ncclInProgress ? broken(be, r, what) : BST_OK;
}

static enum bst_err no_answer(struct bst_be *be, const char *what, uint64_t call)
{
    struct cuda_link *l = be->link;

    abort_comm(l);
    return left(l, bst_fail(BST_E_LIBRARY,
                            "%s: no answer from the other ranks for %.0f s (rank %d, collective "
                            "%llu)",
                            what, be->wait_seconds, l->rank, (unsigned long long)call));
}

/* A call on a communicator that does not block is over when it says so. */
static enum bst_err settle(struct bst_be *be, ncclResult_t r, const char *what)
{
    const double until = bst_clock_now() + be->wait_seconds;
    unsigned looks = 0;

    while (r == ncclInProgress) {
        BST_TRY(look(be, what, &r));
        if (r == ncclInProgress && bst_clock_now() > until)
            return no_answer(be, what, be->link->n_calls);
        if (r == ncclInProgress)
            cuda_pause(&looks);
    }
    return r == ncclSuccess ? BST_OK : broken(be, r, what);
}

static enum bst_err has_passed(cudaEvent_t event, bool *passed)
{
    const cudaError_t e = cudaEventQuery(event);

    *passed = e == cudaSuccess;
    if (e != cudaErrorNotReady)
        return cuda_fail(e, "a collective");
    cudaGetLastError();
    return BST_OK;
}

/* The time of the oldest collective on its way counts from when this device has come to it: until
 * then it is this device that holds up the rest. */
enum bst_err cuda_link_look(struct bst_be *be, bool *others)
{
    struct cuda_link *l = be->link;
    ncclResult_t state;

    if (!l || !l->comm || l->n_over == l->n_calls)
        return BST_OK;
    BST_TRY(look(be, "a collective", &state));
    for (bool passed = true; passed && l->n_over < l->n_calls; l->n_over += passed)
        BST_TRY(has_passed(l->calls[l->n_over % CALLS].done, &passed));
    if (l->n_over == l->n_calls)
        return BST_OK;
    struct link_call *c = &l->calls[l->n_over % CALLS];
    const double now = bst_clock_now();
    bool is_ready = c->since > 0;
    if (!is_ready)
        BST_TRY(has_passed(c->ready, &is_ready));
    if (is_ready && !(c->since > 0))
        c->since = now;
    *others = c->since > 0;
    return *others && now - c->since > OTHERS_TIMES * be->wait_seconds
               ? no_answer(be, "a collective", l->n_over + 1)
               : BST_OK;
}

uint64_t cuda_link_calls(const struct bst_be *be)
{
    return be->link ? be->link->n_calls : 0;
}

void cuda_link_is_over(struct bst_be *be, uint64_t n_calls)
{
    if (be->link && n_calls > be->link->n_over)
        be->link->n_over = n_calls;
}

void cuda_link_give_up(struct bst_be *be)
{
    if (be->link)
        abort_comm(be->link);
}

/* --- collectives --- */

enum direction { TO_LINK, FROM_LINK };

static enum bst_err hand_over(struct bst_be *be, enum direction d)
{
    const struct cuda_link *l = be->link;
    const struct link_call *c = &l->calls[(l->n_calls - 1) % CALLS];
    cudaEvent_t event = d == TO_LINK ? c->ready : c->done;
    cudaError_t e = cudaEventRecord(event, d == TO_LINK ? be->stream : l->stream);

    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(d == TO_LINK ? l->stream : be->stream, event, 0);
    return cuda_fail(e, "a collective's turn");
}

static enum bst_err begin(struct bst_be *be)
{
    struct cuda_link *l = be->link;

    if (!l || !l->comm)
        return bst_fail(BST_E_STATE, "a collective over a broken communicator");
    if (l->n_calls - l->n_over == CALLS) {
        BST_TRY(cuda_wait_event(be, l->calls[l->n_over % CALLS].done));
        cuda_link_is_over(be, l->n_calls - CALLS + 1);
    }
    l->calls[l->n_calls++ % CALLS].since = 0;
    return hand_over(be, TO_LINK);
}

static enum bst_err end(struct bst_be *be, ncclResult_t r, const char *what)
{
    BST_TRY(settle(be, r, what));
    return hand_over(be, FROM_LINK);
}

static enum bst_err all_reduce(struct bst_be *be, void *block, size_t bytes)
{
    BST_TRY(begin(be));
    const struct cuda_link *l = be->link;
    return end(be,
               l->nccl->AllReduce(block, block, bytes / sizeof(float), ncclFloat, ncclSum, l->comm,
                                  l->stream),
               "all-reduce");
}

static enum bst_err broadcast(struct bst_be *be, void *block, size_t bytes, int root)
{
    BST_TRY(begin(be));
    const struct cuda_link *l = be->link;
    return end(be, l->nccl->Broadcast(block, block, bytes, ncclChar, root, l->comm, l->stream),
               "broadcast");
}

/* --- the beginning and the end --- */

static enum bst_err name(struct bst_be *be, unsigned char id[BST_LINK_ID])
{
    const struct cuda_nccl *nccl;
    ncclUniqueId unique;

    (void)be;
    _Static_assert(sizeof unique <= BST_LINK_ID, "an id fits");
    BST_TRY(cuda_nccl_get(&nccl));
    const ncclResult_t r = nccl->GetUniqueId(&unique);
    if (r != ncclSuccess)
        return bst_fail(BST_E_LIBRARY, "NCCL: %s: %s", nccl->GetErrorString(r),
                        nccl->GetLastError(NULL));
    memset(id, 0, BST_LINK_ID);
    memcpy(id, &unique, sizeof unique);
    return BST_OK;
}

static enum bst_err open_streams(struct cuda_link *l)
{
    int least = 0, greatest = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    if (e == cudaSuccess)
        e = cudaStreamCreateWithPriority(&l->stream, cudaStreamNonBlocking, greatest);
    for (int i = 0; i < CALLS && e == cudaSuccess; i++) {
        e = cudaEventCreateWithFlags(&l->calls[i].ready, cudaEventDisableTiming);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&l->calls[i].done, cudaEventDisableTiming);
    }
    return cuda_fail(e, "a stream for collectives");
}

static enum bst_err connect(struct bst_be *be, const struct bst_link_cfg *cfg)
{
    struct cuda_link *l = be->link;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;

    memcpy(&unique, cfg->id, sizeof unique);
    config.blocking = 0;
    const ncclResult_t r =
        l->nccl->CommInitRankConfig(&l->comm, l->n_ranks, unique, l->rank, &config);
    if (!l->comm)
        return bst_fail(BST_E_LIBRARY, "joining the other ranks: NCCL: %s: %s",
                        l->nccl->GetErrorString(r), l->nccl->GetLastError(NULL));
    BST_TRY(settle(be, r, "joining the other ranks"));
    /* NCCL connects, and takes its memory, at the first collective: before free memory is asked
     * for. */
    BST_TRY(all_reduce(be, be->loss, sizeof(float)));
    return cuda_wait(be);
}

static void leave(struct bst_be *be, bool is_broken)
{
    struct cuda_link *l = be->link;
    const double since = bst_clock_now();
    unsigned looks = 0;

    if (!l)
        return;
    if (l->comm && !is_broken && !be->is_hung && !cuda_wait(be)) {
        ncclResult_t r = l->nccl->CommFinalize(l->comm);
        while (r == ncclInProgress && bst_clock_now() - since < END_SECONDS) {
            cuda_pause(&looks);
            if (l->nccl->CommGetAsyncError(l->comm, &r) != ncclSuccess)
                break;
        }
        if (r == ncclSuccess) {
            l->nccl->CommDestroy(l->comm);
            l->comm = NULL;
        }
    }
    abort_comm(l);
    if (!be->is_hung) {
        for (int i = 0; i < CALLS; i++) {
            if (l->calls[i].ready)
                cudaEventDestroy(l->calls[i].ready);
            if (l->calls[i].done)
                cudaEventDestroy(l->calls[i].done);
        }
        if (l->stream)
            cudaStreamDestroy(l->stream);
    }
    cuda_gate_give_back(l->gate, be->is_hung);
    be->link = NULL;
    bst_free(l);
}

static enum bst_err join(struct bst_be *be, const struct bst_link_cfg *cfg)
{
    const struct cuda_nccl *nccl;

    BST_ASSERT(!be->link);
    BST_TRY(cuda_nccl_get(&nccl));
    be->link = bst_xalloc(sizeof *be->link);
    *be->link = (struct cuda_link){
        .nccl = nccl, .given_up = cfg->given_up, .rank = cfg->rank, .n_ranks = cfg->n_ranks};
    enum bst_err err = cuda_gate_take(cfg->given_up, &be->link->gate);
    if (!err)
        err = open_streams(be->link);
    if (!err)
        err = connect(be, cfg);
    if (err) {
        const struct bst_failure why = bst_err_keep(err);
        leave(be, true);
        return bst_err_restore(&why);
    }
    return BST_OK;
}

static bool intact(const struct bst_be *be)
{
    return be->link && be->link->comm;
}

const struct bst_link_ops cuda_link_ops = {
    .name = name,
    .join = join,
    .leave = leave,
    .intact = intact,
    .owed = owed,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .settle = cuda_wait,
};
