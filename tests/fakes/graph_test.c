/* Capture and replay: the same numbers as eagerly, what the real runtime forbids is forbidden. */
#include "tests/fakes/support.h"

enum { N = 64, SEEDS = 50 };

struct net {
    struct dev d;
    cudaEvent_t back;
    float *x, *left, *right, *y;
};

static void net_init(struct net *n)
{
    dev_init(&n->d);
    ok(cudaEventCreateWithFlags(&n->back, cudaEventDisableTiming));
    float **all[] = {&n->x, &n->left, &n->right, &n->y};
    for (int i = 0; i < 4; i++) {
        ok(cudaMalloc((void **)all[i], N * sizeof(float)));
        ok(cudaMemset(*all[i], 0, N * sizeof(float)));
    }
    ok(cudaDeviceSynchronize());
}

static void net_fini(struct net *n)
{
    ok(cudaFree(n->x));
    ok(cudaFree(n->left));
    ok(cudaFree(n->right));
    ok(cudaFree(n->y));
    ok(cudaEventDestroy(n->back));
    dev_fini(&n->d);
}

struct add {
    float *y;
    const float *a, *b;
};

static void run_add(void *args)
{
    const struct add *k = args;
    for (int i = 0; i < N; i++)
        k->y[i] = k->a[i] + k->b[i];
}

enum left_out { NOTHING, FORK, JOIN };

/* x = x + 1; left = 2x on a beside right = 3x on b; y = left + right on a. */
static void enqueue(struct net *n, enum left_out missing)
{
    ok(test_axpb(n->d.a, n->x, n->x, N, 1, 1));
    ok(cudaEventRecord(n->d.e, n->d.a));
    if (missing != FORK)
        ok(cudaStreamWaitEvent(n->d.b, n->d.e, 0));
    ok(test_axpb(n->d.a, n->left, n->x, N, 2, 0));
    ok(test_axpb(n->d.b, n->right, n->x, N, 3, 0));
    ok(cudaEventRecord(n->d.f, n->d.b));
    if (missing != JOIN)
        ok(cudaStreamWaitEvent(n->d.a, n->d.f, 0));
    struct add k = {n->y, n->left, n->right};
    ok(fake_launch(n->d.a, "add", run_add, &k, sizeof k));
}

static cudaError_t capture(struct net *n, enum left_out missing, cudaGraph_t *graph)
{
    ok(cudaStreamBeginCapture(n->d.a, cudaStreamCaptureModeThreadLocal));
    enqueue(n, missing);
    return cudaStreamEndCapture(n->d.a, graph);
}

static void y_is(struct net *n, float want)
{
    float y[N];
    ok(cudaStreamSynchronize(n->d.a));
    ok(cudaMemcpy(y, n->y, sizeof y, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        assert_true(y[i] == want);
}

static void a_replay_is_the_eager_run(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        test_machine(1, seed);
        struct net n;
        net_init(&n);
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        enqueue(&n, NOTHING);
        ok(cudaStreamSynchronize(n.d.b));
        y_is(&n, 5);
        ok(capture(&n, NOTHING, &graph));
        y_is(&n, 5); /* capturing runs nothing */
        ok(cudaGraphInstantiate(&exec, graph, 0));
        ok(cudaGraphDestroy(graph));
        for (int i = 0; i < 3; i++)
            ok(cudaGraphLaunch(exec, n.d.a));
        y_is(&n, 20);
        ok(cudaGraphLaunch(exec, n.d.a));
        ok(cudaGraphExecDestroy(exec)); /* what is under way goes on */
        y_is(&n, 25);
        net_fini(&n);
        test_all_gone();
    }
}

/* Branches of a graph run in any order, so that a missing edge shows. */
static void a_missing_fork_is_found(void **state)
{
    (void)state;
    test_machine(1, 1);
    struct net n;
    net_init(&n);
    cudaGraph_t graph;
    ok(cudaStreamBeginCapture(n.d.a, cudaStreamCaptureModeThreadLocal));
    ok(test_axpb(n.d.a, n.x, n.x, N, 1, 1));
    ok(cudaEventRecord(n.d.f, n.d.a)); /* b joins here, before what it reads is written */
    ok(test_axpb(n.d.a, n.left, n.x, N, 2, 0));
    ok(cudaStreamWaitEvent(n.d.b, n.d.f, 0));
    ok(test_axpb(n.d.b, n.right, n.left, N, 3, 0));
    ok(cudaEventRecord(n.d.e, n.d.b));
    ok(cudaStreamWaitEvent(n.d.a, n.d.e, 0));
    struct add k = {n.y, n.left, n.right};
    ok(fake_launch(n.d.a, "add", run_add, &k, sizeof k));
    ok(cudaStreamEndCapture(n.d.a, &graph));
    cudaGraphExec_t exec;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    int wrong = 0;
    for (int i = 1; i <= SEEDS; i++) {
        float y;
        ok(cudaGraphLaunch(exec, n.d.a));
        ok(cudaStreamSynchronize(n.d.a));
        ok(cudaMemcpy(&y, n.y, sizeof y, cudaMemcpyDeviceToHost));
        wrong += y != (float)(8 * i);
    }
    assert_true(wrong > 5 && wrong < SEEDS);
    ok(cudaGraphExecDestroy(exec));
    ok(cudaGraphDestroy(graph));
    net_fini(&n);
    test_all_gone();
}

static void a_fork_has_to_be_joined(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct net n;
    net_init(&n);
    cudaGraph_t graph;
    assert_int_equal(capture(&n, JOIN, &graph), cudaErrorStreamCaptureUnjoined);
    assert_null(graph);
    /* Without the fork b was never part of it: its work ran, and waiting for its event is an error.
     */
    ok(cudaStreamBeginCapture(n.d.a, cudaStreamCaptureModeThreadLocal));
    ok(test_axpb(n.d.b, n.right, n.x, N, 3, 0));
    ok(cudaEventRecord(n.d.f, n.d.b));
    assert_int_equal(cudaStreamWaitEvent(n.d.a, n.d.f, 0), cudaErrorStreamCaptureIsolation);
    assert_int_equal(cudaStreamEndCapture(n.d.a, &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    net_fini(&n);
    assert_int_equal(fake_leaks(), 0);
}

static void synchronising_calls_break_a_capture(void **state)
{
    (void)state;
    for (int which = 0; which < 7; which++) {
        test_machine(1, 0);
        struct net n;
        net_init(&n);
        cudaGraph_t graph;
        void *p = NULL;
        float v;
        ok(cudaEventRecord(n.back, n.d.b));
        ok(cudaStreamBeginCapture(n.d.a, cudaStreamCaptureModeThreadLocal));
        cudaError_t e = which == 0   ? cudaStreamSynchronize(n.d.a)
                        : which == 1 ? cudaDeviceSynchronize()
                        : which == 2 ? cudaMalloc(&p, 16)
                        : which == 3 ? cudaMemcpy(&v, n.x, sizeof v, cudaMemcpyDeviceToHost)
                        : which == 4 ? cudaStreamQuery(n.d.a)
                        : which == 5 ? cudaEventQuery(n.back)
                                     : cudaFree(n.left);
        assert_int_equal(e, cudaErrorStreamCaptureUnsupported);
        assert_int_equal(test_axpb(n.d.a, n.x, n.x, N, 1, 1), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(n.d.a, &graph), cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
        ok(test_axpb(n.d.a, n.x, n.x, N, 1, 1)); /* and the stream is as before */
        net_fini(&n);
        assert_int_equal(fake_leaks(), 0);
    }
}

static void captured_events_cannot_be_asked(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct net n;
    net_init(&n);
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    ok(capture(&n, NOTHING, &graph));
    assert_int_equal(cudaEventQuery(n.d.e), cudaErrorCapturedEvent);
    assert_int_equal(cudaEventSynchronize(n.d.e), cudaErrorCapturedEvent);
    ok(cudaEventRecord(n.d.e, n.d.a));
    ok(cudaEventSynchronize(n.d.e));
    ok(cudaStreamBeginCapture(n.d.a, cudaStreamCaptureModeThreadLocal));
    ok(cudaStreamIsCapturing(n.d.a, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    ok(cudaStreamIsCapturing(n.d.b, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    ok(cudaGraphDestroy(graph));
    ok(cudaStreamEndCapture(n.d.a, &graph));
    size_t n_nodes = 9;
    ok(cudaGraphGetNodes(graph, NULL, &n_nodes));
    assert_int_equal(n_nodes, 0);
    ok(cudaGraphDestroy(graph));
    assert_int_equal(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
                     cudaErrorStreamCaptureUnsupported);
    cudaGetLastError();
    net_fini(&n);
    test_all_gone();
}

/* Arguments are frozen at the capture, memory is read at the replay. */
static void what_a_graph_keeps(void **state)
{
    (void)state;
    test_machine(1, 4);
    struct net n;
    net_init(&n);
    float *pinned;
    ok(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float rate = 2;
    ok(cudaStreamBeginCapture(n.d.a, cudaStreamCaptureModeThreadLocal));
    ok(cudaMemcpyAsync(n.x, pinned, N * sizeof *pinned, cudaMemcpyHostToDevice, n.d.a));
    ok(test_axpb(n.d.a, n.y, n.x, N, rate, 0));
    ok(cudaStreamEndCapture(n.d.a, &graph));
    ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 3; round++) {
        rate = 100; /* too late to matter */
        for (int i = 0; i < N; i++)
            pinned[i] = (float)round;
        ok(cudaGraphLaunch(exec, n.d.a));
        y_is(&n, 2.0f * (float)round);
    }
    ok(cudaGraphExecDestroy(exec));
    ok(cudaGraphDestroy(graph));
    ok(cudaFreeHost(pinned));
    net_fini(&n);
    test_all_gone();
}

/* A graph's time is that of its longest path. */
static void branches_take_their_time_together(void **state)
{
    (void)state;
    test_machine(1, 6);
    struct net n;
    net_init(&n);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    float ms;
    ok(capture(&n, NOTHING, &graph));
    ok(cudaGraphInstantiate(&exec, graph, 0));
    ok(cudaEventCreate(&from));
    ok(cudaEventCreate(&to));
    ok(cudaEventRecord(from, n.d.a));
    ok(cudaGraphLaunch(exec, n.d.a));
    ok(cudaEventRecord(to, n.d.a));
    ok(cudaStreamSynchronize(n.d.a));
    ok(cudaEventElapsedTime(&ms, from, to));
    assert_true(ms > 2.999e-3f && ms < 3.001e-3f); /* 3 of the 4 nodes, 1 µs each */
    ok(cudaEventDestroy(from));
    ok(cudaEventDestroy(to));
    ok(cudaGraphExecDestroy(exec));
    ok(cudaGraphDestroy(graph));
    net_fini(&n);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_is_the_eager_run),
        cmocka_unit_test(a_missing_fork_is_found),
        cmocka_unit_test(a_fork_has_to_be_joined),
        cmocka_unit_test(synchronising_calls_break_a_capture),
        cmocka_unit_test(captured_events_cannot_be_asked),
        cmocka_unit_test(what_a_graph_keeps),
        cmocka_unit_test(branches_take_their_time_together),
    };
    return cmocka_run_group_tests_name("fakes.graph", tests, NULL, NULL);
}
