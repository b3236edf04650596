/* Streams as queues. Whoever calls in runs what may run: eagerly, or in an order drawn from the
 * seed that keeps nothing but what streams and events promise. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fakes/runtime.h"

enum {
    COST_NS = 1000,
    QUEUE_MOST = 4096, /* beyond it an enqueue makes room, as the driver does */
};

static pthread_cond_t ran = PTHREAD_COND_INITIALIZER;
static uint64_t rng;
static uint64_t n_run;   /* operations */
static uint64_t n_steps; /* queue entries of any kind: progress */
static int n_waiting;
static bool is_held;

struct mark *mark_new(void)
{
    struct mark *m = calloc(1, sizeof *m);
    m->refs = 1;
    return m;
}

struct mark *mark_ref(struct mark *m)
{
    m->refs++;
    return m;
}

void mark_unref(struct mark *m)
{
    if (m && !--m->refs)
        free(m);
}

void fake_seed(uint64_t seed)
{
    rng = seed;
    is_held = false;
    n_run = n_steps = 0;
}

void fake_hold(bool on)
{
    fake_lock();
    is_held = on;
    fake_unlock();
}

uint64_t fake_ops_run(void)
{
    return n_run;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint32_t fake_draw(uint32_t n)
{
    uint64_t z = rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static bool is_eager(void)
{
    return !fake_set.seed;
}

/* --- running --- */

void run_call(const struct fake_call *call, void *args, int device)
{
    n_run++;
    if (call->verdict.what == FAKE_LATE) {
        fake_fault(device, (cudaError_t)call->verdict.code, "injected: %s fails on device %d",
                   call->name, device);
        return;
    }
    if (call->host) {
        fake_set_in_host_function(true);
        call->run(args);
        fake_set_in_host_function(false);
        return;
    }
    fake_open(call->all_devices ? -1 : device);
    call->run(args);
    fake_close(call->all_devices ? -1 : device);
}

bool call_is_ready(const struct fake_call *call, void *args)
{
    return call->verdict.what != FAKE_HANG && (!call->ready || call->ready(args));
}

uint64_t call_cost(const struct fake_call *call)
{
    return call->cost_ns ? call->cost_ns : COST_NS;
}

void op_free(struct op *op)
{
    mark_unref(op->mark);
    replay_free(op->replay);
    if (op->kind == OP_CALL && op->call.fini)
        op->call.fini(op->args);
    free(op->args);
    free(op);
}

static bool is_ready(struct op *op)
{
    switch (op->kind) {
    case OP_CALL:
        return call_is_ready(&op->call, op->args);
    case OP_WAIT:
        return op->mark->done;
    case OP_REPLAY:
        return replay_can_step(op->replay);
    case OP_RECORD:
        break;
    }
    return true;
}

static struct op *take_head(struct CUstream_st *s)
{
    struct op *op = s->head;
    s->head = op->next;
    if (!s->head)
        s->tail = &s->head;
    s->n_queued--;
    return op;
}

static void put_back(struct CUstream_st *s, struct op *op)
{
    op->next = s->head;
    if (!s->head)
        s->tail = &op->next;
    s->head = op;
    s->n_queued++;
}

static void later(struct CUstream_st *s, uint64_t t_ns)
{
    if (t_ns > s->t_ns)
        s->t_ns = t_ns;
}

/* Runs the head of the queue if it may. The operation is out of the queue meanwhile, for it may
 * kill the device, which empties the queue. */
static bool step(struct CUstream_st *s)
{
    if (is_held || !s->head || !is_ready(s->head))
        return false;
    struct op *op = take_head(s);
    switch (op->kind) {
    case OP_CALL:
        run_call(&op->call, op->args, s->device);
        s->t_ns += call_cost(&op->call);
        break;
    case OP_WAIT:
        later(s, op->mark->t_ns);
        break;
    case OP_RECORD:
        op->mark->done = true;
        op->mark->t_ns = s->t_ns;
        break;
    case OP_REPLAY:
        replay_step(op->replay);
        if (!replay_done(op->replay) && !fake_sticky(s->device)) {
            put_back(s, op);
            op = NULL;
        } else {
            s->t_ns += replay_cost(op->replay);
        }
        break;
    }
    if (op)
        op_free(op);
    n_steps++;
    if (n_waiting)
        pthread_cond_broadcast(&ran);
    return true;
}

/* One entry of a stream, each that can go on being as likely as the others. */
static bool step_any(void)
{
    struct CUstream_st *chosen = NULL;
    uint32_t n = 0;
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (s->head && is_ready(s->head) && !fake_draw(++n))
            chosen = s;
    }
    return chosen && step(chosen);
}

static bool pump(void)
{
    bool any = false;
    bool again = true;
    while (again) {
        again = false;
        for (struct CUstream_st *s = fake_streams; s; s = s->next) {
            while (step(s))
                again = any = true;
        }
    }
    return any;
}

void fake_progress(void)
{
    if (is_eager()) {
        pump();
        return;
    }
    for (uint32_t n = 1 + fake_draw(3); n; n--)
        step_any();
}

void fake_drop_queues(int device)
{
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (device >= 0 && s->device != device)
            continue;
        while (s->head) {
            struct op *op = take_head(s);
            if (op->kind == OP_RECORD)
                op->mark->done = true;
            op_free(op);
        }
    }
    n_steps++;
    pthread_cond_broadcast(&ran);
}

/* --- enqueueing --- */

void stream_push(struct CUstream_st *s, struct op *op)
{
    op->next = NULL;
    *s->tail = op;
    s->tail = &op->next;
    s->n_queued++;
    if (is_eager()) {
        pump();
        return;
    }
    if (!fake_draw(4)) /* slower than the host, so that queues fill */
        step_any();
    while (s->n_queued > QUEUE_MOST && step_any())
        ;
}

void stream_record(struct CUstream_st *s, struct mark *m)
{
    struct op *op = calloc(1, sizeof *op);
    op->kind = OP_RECORD;
    op->mark = mark_ref(m);
    stream_push(s, op);
}

void stream_wait(struct CUstream_st *s, struct mark *m)
{
    if (m->done && m->t_ns <= s->t_ns && !s->head)
        return;
    struct op *op = calloc(1, sizeof *op);
    op->kind = OP_WAIT;
    op->mark = mark_ref(m);
    stream_push(s, op);
}

/* `after` goes on only when what `before` holds now has run. */
static void follow(struct CUstream_st *after, struct CUstream_st *before)
{
    if (!before->head)
        return;
    struct mark *m = mark_new();
    stream_record(before, m);
    stream_wait(after, m);
    mark_unref(m);
}

/* The legacy default stream and blocking streams of a device wait for each other. */
void stream_sync_legacy(struct CUstream_st *s)
{
    if (s->flags & cudaStreamNonBlocking)
        return;
    for (struct CUstream_st *t = fake_streams; t; t = t->next) {
        if (t != s && t->device == s->device && !(t->flags & cudaStreamNonBlocking) &&
            (s->is_default || t->is_default))
            follow(s, t);
    }
}

static void *copy_args(const void *args, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    if (bytes)
        memcpy(copy, args, bytes);
    return copy;
}

static cudaError_t enqueue(struct CUstream_st *s, const struct fake_call *call, const void *args,
                           size_t bytes)
{
    if (s->capture)
        return capture_call(s, call, args, bytes);
    cudaError_t e = capture_forbids_legacy(s);
    if (e)
        return e;
    stream_sync_legacy(s);
    struct op *op = calloc(1, sizeof *op);
    op->kind = OP_CALL;
    op->call = *call;
    op->args = copy_args(args, bytes);
    if (call->start)
        call->start(op->args);
    stream_push(s, op);
    return fake_sticky(s->device);
}

cudaError_t fake_enqueue(cudaStream_t stream, const struct fake_call *call, const void *args,
                         size_t bytes)
{
    fake_lock();
    struct CUstream_st *s = stream_of(stream);
    cudaError_t e = s ? fake_sticky(s->device) : cudaErrorInvalidResourceHandle;
    bool taken = !e;
    if (!e) {
        e = enqueue(s, call, args, bytes);
        taken = !e || fake_sticky(s->device);
    }
    if (!taken && call->fini) {
        void *copy = copy_args(args, bytes);
        call->fini(copy);
        free(copy);
    }
    fake_unlock();
    return e;
}

cudaError_t fake_launch(cudaStream_t stream, const char *name, fake_fn *fn, const void *args,
                        size_t bytes)
{
    fake_lock();
    int device = fake_stream_device(stream);
    cudaError_t e = fake_begin(name, device);
    struct fake_call call = {.name = name, .run = fn, .verdict = fake_verdict_now()};
    if (!e)
        e = fake_enqueue(stream, &call, args, bytes);
    return fake_return(e, device);
}

/* --- waiting --- */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Until another thread brings something, 20 ms at most. */
static void wait_for_others(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    n_waiting++;
    fake_lock_wait(&ran, &until);
    n_waiting--;
}

static const char *head_name(const struct CUstream_st *s)
{
    switch (s->head->kind) {
    case OP_CALL:
        return s->head->call.name;
    case OP_WAIT:
        return "a wait for an event";
    case OP_REPLAY:
        return "a graph";
    case OP_RECORD:
        break;
    }
    return "a record";
}

static cudaError_t deadlock(int device)
{
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (s->head)
            fake_report("device %d stands at %s, %d behind it", s->device, head_name(s),
                        s->n_queued - 1);
    }
    if (device >= 0)
        fake_fault(device, cudaErrorLaunchTimeout, "deadlock: nothing can run any more");
    return cudaErrorLaunchTimeout;
}

cudaError_t fake_drain(bool (*done)(void *x), void *x, int device)
{
    uint64_t seen = n_steps;
    uint64_t since_ms = now_ms();
    while (!done(x) && !fake_sticky(device)) {
        if (is_eager() ? pump() : step_any())
            continue;
        if (done(x))
            break;
        wait_for_others();
        if (n_steps != seen) {
            seen = n_steps;
            since_ms = now_ms();
        } else if (now_ms() - since_ms >= (uint64_t)fake_set.hang_ms) {
            return deadlock(device);
        }
    }
    return fake_sticky(device);
}
