/* Streams and events, as the runtime's API shows them. */
#include <stdlib.h>

#include "tests/fakes/runtime.h"

struct CUstream_st *fake_streams;
struct CUevent_st *fake_events;

static struct CUstream_st defaults[FAKE_DEVICES_MAX];
static bool have_defaults;

static void link_stream(struct CUstream_st *s)
{
    s->tail = &s->head;
    s->next = fake_streams;
    fake_streams = s;
}

static void make_defaults(void)
{
    for (int i = 0; i < FAKE_DEVICES_MAX && !have_defaults; i++) {
        defaults[i] = (struct CUstream_st){.device = i, .is_default = true};
        link_stream(&defaults[i]);
    }
    have_defaults = true;
}

static void unlink_stream(struct CUstream_st *s)
{
    struct CUstream_st **at = &fake_streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s->frontier.nodes);
    if (!s->is_default)
        free(s);
}

/* A destroyed stream lives on until its queue is empty. */
static void sweep(void)
{
    struct CUstream_st *next;
    for (struct CUstream_st *s = fake_streams; s; s = next) {
        next = s->next;
        if (s->is_destroyed && !s->head)
            unlink_stream(s);
    }
}

void fake_streams_reset(void)
{
    fake_drop_queues(-1);
    fake_captures_reset();
    while (fake_streams)
        unlink_stream(fake_streams);
    while (fake_events) {
        struct CUevent_st *e = fake_events;
        fake_events = e->next;
        capture_leave(e);
        mark_unref(e->mark);
        free(e);
    }
    have_defaults = false;
    make_defaults();
}

struct CUstream_st *stream_of(cudaStream_t stream)
{
    make_defaults();
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return &defaults[fake_current_device()];
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (s == stream)
            return s->is_destroyed ? NULL : s;
    }
    return NULL;
}

int fake_stream_device(cudaStream_t stream)
{
    struct CUstream_st *s = stream_of(stream);
    return s ? s->device : -1;
}

bool fake_stream_captures(cudaStream_t stream)
{
    struct CUstream_st *s = stream_of(stream);
    return s && s->capture;
}

bool fake_is_idle(int device)
{
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (s->device == device && s->head)
            return false;
    }
    return true;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    FAKE_API(-1);
    sweep();
    fake_use_device(fake_current_device());
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->device = fake_current_device();
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    link_stream(s);
    fake_count(FAKE_STREAM, 1);
    *stream = s;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    fake_lock();
    struct CUstream_st *s = stream_of(stream);
    if (!s || s->is_default) {
        fake_report("cudaStreamDestroy(%p): no such stream", (void *)stream);
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    }
    int device = s->device;
    cudaError_t e = fake_begin(__func__, device);
    if (e && !fake_sticky(device))
        return fake_return(e, device);
    s->is_destroyed = true;
    fake_count(FAKE_STREAM, -1);
    sweep();
    return fake_return(e, device);
}

static bool is_empty(void *stream)
{
    return !((struct CUstream_st *)stream)->head;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    if (!s)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    cudaError_t e = capture_forbids(s);
    if (!e)
        stream_sync_legacy(s);
    if (!e)
        e = fake_drain(is_empty, s, s->device);
    return fake_return(e, s->device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    if (!s)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    cudaError_t e = capture_forbids(s);
    if (!e) {
        fake_progress();
        e = s->head ? cudaErrorNotReady : cudaSuccess;
    }
    return fake_return(e, s->device);
}

static bool device_idle(void *device)
{
    return fake_is_idle(*(int *)device);
}

cudaError_t cudaDeviceSynchronize(void)
{
    FAKE_API(-1);
    int device = fake_current_device();
    cudaError_t e = capture_forbids_thread();
    if (!e)
        e = fake_drain(device_idle, &device, device);
    return fake_return(e, -1);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    FAKE_API(-1);
    struct CUstream_st *s = stream_of(stream);
    if (s)
        *priority = s->priority;
    return fake_return(s ? cudaSuccess : cudaErrorInvalidResourceHandle, -1);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    FAKE_API(-1);
    struct CUstream_st *s = stream_of(stream);
    if (s)
        *flags = s->flags;
    return fake_return(s ? cudaSuccess : cudaErrorInvalidResourceHandle, -1);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    FAKE_API(-1);
    struct CUstream_st *s = stream_of(stream);
    if (s)
        *device = s->device;
    return fake_return(s ? cudaSuccess : cudaErrorInvalidResourceHandle, -1);
}

struct host_call {
    cudaHostFn_t fn;
    void *data;
};

static void run_host(void *args)
{
    struct host_call *h = args;
    h->fn(h->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    FAKE_API(fake_stream_device(stream));
    struct host_call h = {fn, data};
    struct fake_call call = {
        .name = __func__, .run = run_host, .host = true, .verdict = fake_verdict_now()};
    return fake_return(fake_enqueue(stream, &call, &h, sizeof h), fake_stream_device(stream));
}

/* --- events --- */

static struct CUevent_st *event_of(cudaEvent_t event)
{
    for (struct CUevent_st *e = fake_events; e; e = e->next) {
        if (e == event)
            return e;
    }
    fake_report("%p is no event", (void *)event);
    return NULL;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    FAKE_API(-1);
    fake_use_device(fake_current_device());
    struct CUevent_st *e = calloc(1, sizeof *e);
    e->device = fake_current_device();
    e->flags = flags;
    e->next = fake_events;
    fake_events = e;
    fake_count(FAKE_EVENT, 1);
    *event = e;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    fake_lock();
    struct CUevent_st *e = event_of(event);
    if (!e)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    struct CUevent_st **at = &fake_events;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    int device = e->device;
    capture_leave(e);
    mark_unref(e->mark);
    free(e);
    fake_count(FAKE_EVENT, -1);
    return fake_return(cudaSuccess, device);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    (void)flags;
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    struct CUevent_st *e = event_of(event);
    if (!s || !e || e->device != s->device)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    if (s->capture)
        return fake_return(capture_record(s, e), s->device);
    cudaError_t err = capture_forbids_legacy(s);
    if (err)
        return fake_return(err, s->device);
    capture_leave(e);
    stream_sync_legacy(s);
    mark_unref(e->mark);
    e->mark = mark_new();
    stream_record(s, e->mark);
    return fake_return(cudaSuccess, s->device);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    (void)flags;
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    struct CUevent_st *e = event_of(event);
    if (!s || !e)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    cudaError_t err = cudaSuccess;
    if (e->capture || (s->capture && e->mark))
        err = capture_wait(s, e);
    else if (e->mark)
        stream_wait(s, e->mark);
    return fake_return(err, s->device);
}

static bool is_passed(void *mark)
{
    return ((struct mark *)mark)->done;
}

/* What a query and a wait have in common: not for an event inside a capture, nor during one. */
static cudaError_t can_ask(const struct CUevent_st *e)
{
    return e->capture ? cudaErrorCapturedEvent : capture_forbids_thread();
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    FAKE_API(-1);
    struct CUevent_st *e = event_of(event);
    if (!e)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    cudaError_t err = can_ask(e);
    if (!err && e->mark) {
        fake_progress();
        err = e->mark->done ? cudaSuccess : cudaErrorNotReady;
    }
    return fake_return(err, e->device);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    FAKE_API(-1);
    struct CUevent_st *e = event_of(event);
    if (!e)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    cudaError_t err = can_ask(e);
    int device = e->device;
    if (!err && e->mark) {
        struct mark *m = mark_ref(e->mark); /* another thread may record it again meanwhile */
        err = fake_drain(is_passed, m, device);
        mark_unref(m);
    }
    return fake_return(err, device);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    FAKE_API(-1);
    struct CUevent_st *a = event_of(start);
    struct CUevent_st *b = event_of(end);
    if (!a || !b || a->device != b->device || !a->mark || !b->mark ||
        ((a->flags | b->flags) & cudaEventDisableTiming))
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    if (!a->mark->done || !b->mark->done)
        return fake_return(cudaErrorNotReady, -1);
    *ms = (float)(((double)b->mark->t_ns - (double)a->mark->t_ns) * 1e-6);
    return fake_return(cudaSuccess, -1);
}
