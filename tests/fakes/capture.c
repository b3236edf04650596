/* Stream capture and graphs. A graph keeps who comes after whom and nothing else, so a replay may
 * take its nodes in any order that the captured streams and events allow. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/runtime.h"

struct node {
    struct fake_call call;
    void *args;
    size_t bytes;
    int device;
    struct frontier deps;
};

struct CUgraph_st {
    int refs;
    struct node *nodes;
    int n, room;
    bool is_open; /* the capture has not ended */
    bool is_bad;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    struct CUgraph_st *next_open;
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

struct replay {
    struct CUgraph_st *graph;
    void **args;
    bool *done;
    uint64_t *end_ns;
    int left;
};

static struct CUgraph_st *open_captures;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void frontier_set(struct frontier *f, const int *nodes, int n)
{
    int *copy = malloc((size_t)(n ? n : 1) * sizeof *copy);
    if (n)
        memcpy(copy, nodes, (size_t)n * sizeof *copy);
    free(f->nodes);
    *f = (struct frontier){n, copy};
}

void frontier_add(struct frontier *f, const struct frontier *more)
{
    f->nodes = realloc(f->nodes, (size_t)(f->n + more->n + 1) * sizeof *f->nodes);
    for (int i = 0; i < more->n; i++) {
        bool has = false;
        for (int k = 0; k < f->n; k++)
            has = has || f->nodes[k] == more->nodes[i];
        if (!has)
            f->nodes[f->n++] = more->nodes[i];
    }
}

void graph_unref(struct CUgraph_st *g)
{
    if (!g || --g->refs)
        return;
    for (int i = 0; i < g->n; i++) {
        struct node *node = &g->nodes[i];
        if (node->call.fini)
            node->call.fini(node->args);
        free(node->args);
        free(node->deps.nodes);
    }
    free(g->nodes);
    free(g);
}

void capture_leave(struct CUevent_st *e)
{
    graph_unref(e->capture);
    e->capture = NULL;
    free(e->frontier.nodes);
    e->frontier = (struct frontier){0};
}

/* --- what a capture takes in, and what it forbids --- */

cudaError_t capture_call(struct CUstream_st *s, const struct fake_call *call, const void *args,
                         size_t bytes)
{
    struct CUgraph_st *g = s->capture;
    if (g->is_bad)
        return cudaErrorStreamCaptureInvalidated;
    if (g->n == g->room) {
        g->room = g->room ? 2 * g->room : 32;
        g->nodes = realloc(g->nodes, (size_t)g->room * sizeof *g->nodes);
    }
    struct node *node = &g->nodes[g->n];
    *node = (struct node){.call = *call, .bytes = bytes, .device = s->device};
    node->args = malloc(bytes ? bytes : 1);
    if (bytes)
        memcpy(node->args, args, bytes);
    frontier_set(&node->deps, s->frontier.nodes, s->frontier.n);
    frontier_set(&s->frontier, &g->n, 1);
    g->n++;
    return cudaSuccess;
}

cudaError_t capture_record(struct CUstream_st *s, struct CUevent_st *e)
{
    if (s->capture->is_bad)
        return cudaErrorStreamCaptureInvalidated;
    s->capture->refs++;
    capture_leave(e);
    e->capture = s->capture;
    frontier_set(&e->frontier, s->frontier.nodes, s->frontier.n);
    return cudaSuccess;
}

static cudaError_t break_capture(struct CUgraph_st *g, cudaError_t e)
{
    g->is_bad = true;
    return e;
}

cudaError_t capture_wait(struct CUstream_st *s, struct CUevent_st *e)
{
    if (!e->capture) {
        fake_report("a capturing stream waits for an event from outside of the capture");
        return break_capture(s->capture, cudaErrorStreamCaptureIsolation);
    }
    if (!e->capture->is_open)
        return cudaErrorInvalidValue;
    if (s->capture && s->capture != e->capture) {
        s->capture->is_bad = true;
        return break_capture(e->capture, cudaErrorStreamCaptureMerge);
    }
    if (s->is_default)
        return break_capture(e->capture, cudaErrorStreamCaptureImplicit);
    s->capture = e->capture;
    frontier_add(&s->frontier, &e->frontier);
    return cudaSuccess;
}

cudaError_t capture_forbids(struct CUstream_st *s)
{
    if (s->capture)
        return break_capture(s->capture, cudaErrorStreamCaptureUnsupported);
    return capture_forbids_legacy(s);
}

cudaError_t capture_forbids_thread(void)
{
    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return cudaSuccess;
    cudaError_t e = cudaSuccess;
    for (struct CUgraph_st *g = open_captures; g; g = g->next_open) {
        bool mine = pthread_equal(g->thread, pthread_self());
        if (g->mode == cudaStreamCaptureModeGlobal ||
            (g->mode == cudaStreamCaptureModeThreadLocal && mine))
            e = break_capture(g, cudaErrorStreamCaptureUnsupported);
    }
    return e;
}

bool capture_is_open_here(void)
{
    const struct CUgraph_st *g = open_captures;
    while (g && !pthread_equal(g->thread, pthread_self()))
        g = g->next_open;
    return g;
}

cudaError_t capture_forbids_legacy(struct CUstream_st *s)
{
    if (!s->is_default)
        return cudaSuccess;
    for (struct CUstream_st *t = fake_streams; t; t = t->next) {
        if (t->capture && t->device == s->device && !(t->flags & cudaStreamNonBlocking))
            return break_capture(t->capture, cudaErrorStreamCaptureImplicit);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    if (!s)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    if (s->is_default)
        return fake_return(cudaErrorStreamCaptureUnsupported, s->device);
    if (s->capture)
        return fake_return(cudaErrorIllegalState, s->device);
    struct CUgraph_st *g = calloc(1, sizeof *g);
    g->refs = 1;
    g->is_open = true;
    g->mode = mode;
    g->thread = pthread_self();
    g->next_open = open_captures;
    open_captures = g;
    s->capture = g;
    s->is_origin = true;
    frontier_set(&s->frontier, NULL, 0);
    return fake_return(cudaSuccess, s->device);
}

/* Every node has to lead to the origin's end. Nodes come after what they depend on. */
static bool is_joined(const struct CUgraph_st *g, const struct frontier *end)
{
    bool *leads = calloc((size_t)g->n + 1, sizeof *leads);
    for (int i = 0; i < end->n; i++)
        leads[end->nodes[i]] = true;
    bool all = true;
    for (int i = g->n - 1; i >= 0; i--) {
        all = all && leads[i];
        for (int k = 0; k < g->nodes[i].deps.n; k++)
            leads[g->nodes[i].deps.nodes[k]] |= leads[i];
    }
    free(leads);
    return all;
}

static void close_capture(struct CUgraph_st *g)
{
    g->is_open = false;
    struct CUgraph_st **at = &open_captures;
    while (*at != g)
        at = &(*at)->next_open;
    *at = g->next_open;
    for (struct CUstream_st *s = fake_streams; s; s = s->next) {
        if (s->capture != g)
            continue;
        s->capture = NULL;
        s->is_origin = false;
        frontier_set(&s->frontier, NULL, 0);
    }
}

static void discard_capture(struct CUgraph_st *g)
{
    close_capture(g);
    graph_unref(g);
}

void fake_captures_reset(void)
{
    while (open_captures)
        discard_capture(open_captures);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    fake_lock();
    struct CUstream_st *s = stream_of(stream);
    cudaError_t injected = fake_begin(__func__, fake_stream_device(stream));
    *graph = NULL;
    if (injected) {
        if (s && s->capture && s->is_origin) /* an end that fails is one all the same */
            discard_capture(s->capture);
        return fake_return(injected, fake_stream_device(stream));
    }
    if (!s || !s->capture)
        return fake_return(s ? cudaErrorIllegalState : cudaErrorInvalidResourceHandle, -1);
    struct CUgraph_st *g = s->capture;
    if (!s->is_origin)
        return fake_return(break_capture(g, cudaErrorStreamCaptureUnmatched), s->device);
    if (g->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(g->thread, pthread_self()))
        return fake_return(break_capture(g, cudaErrorStreamCaptureWrongThread), s->device);
    cudaError_t e = g->is_bad                    ? cudaErrorStreamCaptureInvalidated
                    : is_joined(g, &s->frontier) ? cudaSuccess
                                                 : cudaErrorStreamCaptureUnjoined;
    close_capture(g);
    if (e) {
        graph_unref(g);
        return fake_return(e, s->device);
    }
    fake_count(FAKE_GRAPH, 1);
    *graph = g;
    return fake_return(cudaSuccess, s->device);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    return cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **deps, const cudaGraphEdgeData **edges,
                                     size_t *n_deps)
{
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    if (!s || deps || edges || n_deps)
        return fake_return(s ? cudaErrorNotSupported : cudaErrorInvalidResourceHandle, -1);
    *status = !s->capture          ? cudaStreamCaptureStatusNone
              : s->capture->is_bad ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
    if (id)
        *id = (unsigned long long)(uintptr_t)s->capture;
    if (graph)
        *graph = s->capture;
    return fake_return(cudaSuccess, s->device);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

/* --- graphs --- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    FAKE_API(-1);
    if (!graph)
        return fake_return(cudaErrorInvalidValue, -1);
    struct CUgraphExec_st *x = calloc(1, sizeof *x);
    x->graph = graph;
    graph->refs++;
    fake_count(FAKE_GRAPH_EXEC, 1);
    *exec = x;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    fake_lock();
    if (!graph)
        return fake_return(cudaErrorInvalidValue, -1);
    graph_unref(graph);
    fake_count(FAKE_GRAPH, -1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    fake_lock();
    if (!exec)
        return fake_return(cudaErrorInvalidValue, -1);
    graph_unref(exec->graph);
    free(exec);
    fake_count(FAKE_GRAPH_EXEC, -1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    FAKE_API(-1);
    if (!graph || nodes)
        return fake_return(graph ? cudaErrorNotSupported : cudaErrorInvalidValue, -1);
    *n = (size_t)graph->n;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    return fake_return(exec ? cudaSuccess : cudaErrorInvalidValue, -1);
}

static struct replay *replay_new(struct CUgraph_st *g)
{
    size_t n = (size_t)g->n + 1;
    struct replay *r = calloc(1, sizeof *r);
    *r = (struct replay){.graph = g,
                         .args = calloc(n, sizeof *r->args),
                         .done = calloc(n, sizeof *r->done),
                         .end_ns = calloc(n, sizeof *r->end_ns),
                         .left = g->n};
    g->refs++;
    for (int i = 0; i < g->n; i++) {
        const struct node *node = &g->nodes[i];
        r->args[i] = malloc(node->bytes ? node->bytes : 1);
        memcpy(r->args[i], node->args, node->bytes);
        if (node->call.start)
            node->call.start(r->args[i]);
    }
    return r;
}

void replay_free(struct replay *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->graph->n; i++)
        free(r->args[i]);
    free(r->args);
    free(r->done);
    free(r->end_ns);
    graph_unref(r->graph);
    free(r);
}

bool replay_done(const struct replay *r)
{
    return !r->left;
}

static bool can_run(struct replay *r, int i)
{
    const struct node *node = &r->graph->nodes[i];
    if (r->done[i])
        return false;
    for (int k = 0; k < node->deps.n; k++) {
        if (!r->done[node->deps.nodes[k]])
            return false;
    }
    return call_is_ready(&node->call, r->args[i]);
}

bool replay_can_step(struct replay *r)
{
    for (int i = 0; i < r->graph->n; i++) {
        if (can_run(r, i))
            return true;
    }
    return !r->left;
}

/* The first node that may run, or under a seed any of them. */
static int choose_node(struct replay *r)
{
    int chosen = -1;
    uint32_t n = 0;
    for (int i = 0; i < r->graph->n && (fake_set.seed || chosen < 0); i++) {
        if (can_run(r, i) && (!fake_set.seed || !fake_draw(++n)))
            chosen = i;
    }
    return chosen;
}

void replay_step(struct replay *r)
{
    int i = choose_node(r);
    if (i < 0)
        return;
    const struct node *node = &r->graph->nodes[i];
    for (int d = 0; d < node->deps.n; d++) {
        uint64_t t = r->end_ns[node->deps.nodes[d]];
        r->end_ns[i] = t > r->end_ns[i] ? t : r->end_ns[i];
    }
    r->end_ns[i] += call_cost(&node->call);
    r->done[i] = true;
    r->left--;
    run_call(&node->call, r->args[i], node->device);
}

uint64_t replay_cost(const struct replay *r)
{
    uint64_t most = 0;
    for (int i = 0; i < r->graph->n; i++)
        most = r->end_ns[i] > most ? r->end_ns[i] : most;
    return most;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    struct CUstream_st *s = stream_of(stream);
    if (!s || !exec)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    if (s->capture) {
        fake_report("graphs inside graphs are not faked");
        return fake_return(break_capture(s->capture, cudaErrorNotSupported), s->device);
    }
    cudaError_t e = capture_forbids_legacy(s);
    if (e)
        return fake_return(e, s->device);
    stream_sync_legacy(s);
    struct op *op = calloc(1, sizeof *op);
    op->kind = OP_REPLAY;
    op->replay = replay_new(exec->graph);
    stream_push(s, op);
    return fake_return(cudaSuccess, s->device);
}
