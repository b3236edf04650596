/* What cuDNN's fake checks, refuses and offers: descriptors, plans, execution. */
#include "tests/fakes/dnn_support.h"

/* y = x + b on 2×3×4×5 halves: as plain a graph as there is. */
struct sum {
    struct graph g;
    struct val *x, *b, *y;
};

static void sum_init(struct sum *s)
{
    const int64_t dim[DIMS] = {2, 3, 4, 5};
    graph_init(&s->g);
    s->x = graph_tensor(&s->g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    s->b = graph_scalar(&s->g, 2);
    s->y = graph_tensor(&s->g, CUDNN_DATA_HALF, dim, NHWC, REAL);
    graph_pointwise(&s->g, CUDNN_POINTWISE_ADD, s->x, s->b, s->y);
}

static void sum_is_right(const struct sum *s)
{
    for (size_t i = 0; i < s->y->n; i++)
        assert_true(s->y->v[i] == test_round(s->x->v[i] + 2, TEST_F16));
}

static void said(const char *text)
{
    char got[256];
    cudnnGetLastErrorString(got, sizeof got);
    if (!strstr(got, text))
        fail_msg("'%s' does not say '%s'", got, text);
}

static void descriptors_are_checked(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    cudnnBackendDescriptor_t t, g;
    int64_t uid = 77, dims[2] = {2, 3}, n;
    float wrong = 1;
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &t));
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g));
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &wrong),
        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &uid),
        CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, NULL),
        CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    ok(cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, dims));
    assert_int_equal(cudnnBackendFinalize(t), CUDNN_STATUS_BAD_PARAM);
    said("lacks attribute");
    assert_int_equal(
        cudnnBackendGetAttribute(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, &n, dims),
        CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    /* A child has to be final; one that is may not be changed. */
    assert_int_equal(cudnnBackendSetAttribute(g, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(
        cudnnBackendSetAttribute(s.x->desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid),
        CUDNN_STATUS_NOT_SUPPORTED);
    assert_int_equal(cudnnBackendFinalize(g), CUDNN_STATUS_BAD_PARAM);
    said("without operations");
    ok(cudnnBackendDestroyDescriptor(t));
    ok(cudnnBackendDestroyDescriptor(g));
    graph_fini(&s.g);
    test_all_gone();
}

static cudnnStatus_t graph_status(struct graph *g)
{
    cudnnBackendDescriptor_t d;
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &d));
    ok(cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                g->n_ops, g->ops));
    cudnnStatus_t s = cudnnBackendFinalize(d);
    ok(cudnnBackendDestroyDescriptor(d));
    return s;
}

static void graphs_are_checked(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    struct val *v = graph_tensor(&s.g, CUDNN_DATA_FLOAT, s.x->dim, NHWC, VIRTUAL);
    struct val *z = graph_tensor(&s.g, CUDNN_DATA_FLOAT, s.x->dim, NHWC, REAL);
    ok(graph_status(&s.g));
    graph_pointwise(&s.g, CUDNN_POINTWISE_ADD, s.y, v, z);
    assert_int_equal(graph_status(&s.g), CUDNN_STATUS_BAD_PARAM);
    said("read before it is written");
    s.g.n_ops--;
    graph_pointwise(&s.g, CUDNN_POINTWISE_RELU_FWD, s.x, NULL, s.y);
    assert_int_equal(graph_status(&s.g), CUDNN_STATUS_BAD_PARAM);
    said("written twice");
    s.g.n_ops--;
    /* One uid for two shapes. */
    int64_t dim[DIMS] = {2, 3, 4, 1}, stride[DIMS] = {12, 1, 3, 3}, align = 16;
    cudnnDataType_t half = CUDNN_DATA_HALF;
    struct val twin = *s.x;
    twin.desc = DESC(&s.g, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                     {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &s.x->uid},
                     {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &half},
                     {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DIMS, dim},
                     {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DIMS, stride},
                     {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align});
    graph_pointwise(&s.g, CUDNN_POINTWISE_ADD, s.x, &twin, z);
    assert_int_equal(graph_status(&s.g), CUDNN_STATUS_BAD_PARAM);
    said("two different tensors");
    graph_fini(&s.g);
    test_all_gone();
}

static void execution_is_checked(void **state)
{
    (void)state;
    test_machine(2, 0);
    struct sum s;
    sum_init(&s);
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 0);
    void *ws;
    ok(cudaMalloc(&ws, (size_t)graph_workspace(plan)));
    void *y = s.y->p;
    /* A tensor that is not given. */
    int n_vals = s.g.n_vals;
    s.g.n_vals = 2;
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM);
    said("tensor 3 is not in the pack");
    s.g.n_vals = n_vals;
    s.y->p = (char *)y + 2;
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    s.y->p = s.y->v; /* the host's */
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM);
    said("not in device 0's memory");
    s.y->p = NULL;
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    ok(cudaSetDevice(1));
    ok(cudaMalloc(&s.y->p, 1024));
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM);
    ok(cudaFree(s.y->p));
    ok(cudaSetDevice(0));
    s.y->p = y;
    /* By value means by value. */
    float *value = s.b->v;
    ok(cudaMalloc((void **)&s.b->v, 16));
    assert_int_equal(graph_execute(&s.g, plan, ws), CUDNN_STATUS_BAD_PARAM);
    said("by value is in device memory");
    ok(cudaFree(s.b->v));
    s.b->v = value;
    assert_int_equal(graph_execute(&s.g, plan, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    said("workspace");
    ok(graph_execute(&s.g, plan, ws));
    ok(cudaDeviceSynchronize());
    graph_get(s.y);
    sum_is_right(&s);
    ok(cudaFree(ws));
    graph_fini(&s.g);
    test_all_gone();
}

/* Beyond the end of its block: found by the device, later, and for good. */
static void out_of_bounds_is_an_illegal_address(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        test_machine(1, 4);
        struct sum s;
        sum_init(&s);
        cudnnBackendDescriptor_t plan = graph_plan(&s.g, 0);
        void *ws;
        ok(cudaMalloc(&ws, (size_t)graph_workspace(plan) - (which ? 1 : 0)));
        if (!which) {
            ok(cudaFree(s.y->p));
            ok(cudaMalloc(&s.y->p, s.y->n * 2 - 2));
        }
        graph_execute(&s.g, plan, ws); /* fails at once where it runs at once */
        assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        assert_non_null(strstr(fake_last_report(), which ? "workspace" : "tensor 3"));
        assert_int_equal(cudaFree(ws), cudaErrorIllegalAddress);
        graph_fini(&s.g);
        assert_int_equal(fake_leaks(), 0);
    }
}

static void workspace_is_scribbled_on(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 0);
    size_t bytes = (size_t)graph_workspace(plan);
    assert_true(bytes > 0);
    unsigned char *ws, *back = malloc(bytes + 1);
    ok(cudaMalloc((void **)&ws, bytes + 1));
    ok(cudaMemset(ws, 0, bytes + 1));
    ok(graph_execute(&s.g, plan, ws));
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(back, ws, bytes + 1, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        assert_int_not_equal(back[i], 0);
    assert_int_equal(back[bytes], 0);
    free(back);
    ok(cudaFree(ws));
    graph_fini(&s.g);
    test_all_gone();
}

/* Engines: same numbers, other workspaces, notes and times; one of them makes no plan. */
static void engines_differ_in_what_a_selector_sees(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    int64_t seen[5];
    float ms[5];
    int n_plans = 0, n_nondeterministic = 0;
    cudaEvent_t from, to;
    ok(cudaEventCreate(&from));
    ok(cudaEventCreate(&to));
    for (int i = 0; i < 5; i++) {
        if (i == 2) /* the heuristics' third refuses */
            continue;
        cudnnBackendDescriptor_t plan = graph_plan(&s.g, i);
        float poison = 99;
        float v[120];
        for (size_t k = 0; k < s.y->n; k++)
            v[k] = poison;
        graph_put(s.y, v);
        void *ws;
        seen[n_plans] = graph_workspace(plan);
        ok(cudaMalloc(&ws, (size_t)seen[n_plans]));
        ok(cudaEventRecord(from, NULL));
        ok(graph_execute(&s.g, plan, ws));
        ok(cudaEventRecord(to, NULL));
        ok(cudaEventSynchronize(to));
        ok(cudaEventElapsedTime(&ms[n_plans], from, to));
        graph_get(s.y);
        sum_is_right(&s);
        ok(cudaFree(ws));
        cudnnBackendDescriptor_t config, engine;
        int64_t n, n_notes;
        cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config));
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
        ok(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &config));
        ok(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
        ok(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                    &n_notes, notes));
        for (int k = 0; k < n_notes; k++)
            n_nondeterministic += notes[k] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        ok(cudnnBackendDestroyDescriptor(config));
        ok(cudnnBackendDestroyDescriptor(engine));
        n_plans++;
    }
    assert_int_equal(n_plans, 4);
    assert_int_equal(n_nondeterministic, 1);
    for (int i = 0; i < n_plans; i++)
        for (int k = 0; k < i; k++)
            assert_true(seen[i] != seen[k] && ms[i] != ms[k]);
    ok(cudaEventDestroy(from));
    ok(cudaEventDestroy(to));
    graph_fini(&s.g);
    test_all_gone();
}

static cudnnStatus_t make_plan(struct graph *g, cudnnBackendHeurMode_t mode, int which)
{
    cudnnBackendDescriptor_t gr, heur, configs[8], plan;
    int64_t n = 0;
    gr = DESC(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
              {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops},
              {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle});
    heur = DESC(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                SET_D(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, gr),
                {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    ok(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                0, &n, NULL));
    assert_true(n > which);
    for (int i = 0; i < n; i++) {
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
        g->descs[g->n_descs++] = configs[i];
    }
    ok(cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                n, &n, configs));
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
    ok(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configs[which]));
    ok(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                &g->handle));
    cudnnStatus_t s = cudnnBackendFinalize(plan);
    ok(cudnnBackendDestroyDescriptor(plan));
    return s;
}

static void refusals(void **state)
{
    (void)state;
    struct fake_settings set = test_settings(1);
    snprintf(set.fail, sizeof set.fail,
             "cudnnBackendFinalize.plan:2:3000,cudnnBackendFinalize.plan:4:3001,"
             "cudnnBackendExecute:1:5000,cudnnCreate:2:1001");
    fake_reset(&set);
    ok(cudaSetDevice(0));
    struct sum s;
    sum_init(&s);
    cudnnHandle_t h;
    assert_int_equal(cudnnCreate(&h), CUDNN_STATUS_NOT_INITIALIZED);
    ok(make_plan(&s.g, CUDNN_HEUR_MODE_A, 0));
    assert_int_equal(make_plan(&s.g, CUDNN_HEUR_MODE_A, 0), CUDNN_STATUS_NOT_SUPPORTED);
    ok(make_plan(&s.g, CUDNN_HEUR_MODE_FALLBACK, 0));
    assert_int_equal(make_plan(&s.g, CUDNN_HEUR_MODE_INSTANT, 1),
                     CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    assert_int_equal(make_plan(&s.g, CUDNN_HEUR_MODE_A, 2), CUDNN_STATUS_NOT_SUPPORTED);
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 4);
    assert_int_equal(graph_execute(&s.g, plan, NULL), CUDNN_STATUS_EXECUTION_FAILED);
    graph_run(&s.g, plan);
    sum_is_right(&s);
    graph_fini(&s.g);
    test_all_gone();
}

/* A plan as text makes the same plan again, without the graph it was made of. */
static void plans_are_kept_as_text(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 1), again, broken;
    int64_t n = 0, got;
    ok(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, 0, &n, NULL));
    char *text = malloc((size_t)n);
    ok(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, n, &got, text));
    assert_int_equal(text[0], '{');
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &again));
    ok(cudnnBackendSetAttribute(again, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, n, text));
    ok(cudnnBackendFinalize(again));
    assert_int_equal(graph_workspace(again), graph_workspace(plan));
    graph_run(&s.g, again);
    sum_is_right(&s);
    ok(cudnnBackendDestroyDescriptor(again));
    /* Cut off or changed anywhere, it is refused and nothing is lost. */
    for (int64_t cut = 0; cut < n - 3; cut += 7) {
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &broken));
        ok(cudnnBackendSetAttribute(broken, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, cut, text));
        assert_int_not_equal(cudnnBackendFinalize(broken), CUDNN_STATUS_SUCCESS);
        ok(cudnnBackendDestroyDescriptor(broken));
    }
    free(text);
    graph_fini(&s.g);
    test_all_gone();
}

/* In a captured graph a number by value is that of the capture. */
static void values_are_frozen_by_a_capture(void **state)
{
    (void)state;
    test_machine(1, 9);
    struct sum s;
    sum_init(&s);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudnnSetStream(s.g.handle, stream));
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 4);
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ok(graph_execute(&s.g, plan, NULL));
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&exec, graph, 0));
    s.b->v[0] = 50;
    for (int i = 0; i < 2; i++) {
        ok(cudaGraphLaunch(exec, stream));
        ok(cudaStreamSynchronize(stream));
        graph_get(s.y);
        sum_is_right(&s);
    }
    ok(cudaGraphExecDestroy(exec));
    ok(cudaGraphDestroy(graph));
    ok(cudaStreamDestroy(stream));
    graph_fini(&s.g);
    test_all_gone();
}

/* A graph's plan outlives the descriptors that it was made of. */
static void plans_outlive_their_parts(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct sum s;
    sum_init(&s);
    cudnnBackendDescriptor_t plan = graph_plan(&s.g, 0);
    for (int i = 0; i < s.g.n_descs; i++) {
        if (s.g.descs[i] != plan)
            ok(cudnnBackendDestroyDescriptor(s.g.descs[i]));
    }
    s.g.descs[0] = plan;
    s.g.n_descs = 1;
    graph_run(&s.g, plan);
    sum_is_right(&s);
    graph_fini(&s.g);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_checked),
        cmocka_unit_test(graphs_are_checked),
        cmocka_unit_test(execution_is_checked),
        cmocka_unit_test(out_of_bounds_is_an_illegal_address),
        cmocka_unit_test(workspace_is_scribbled_on),
        cmocka_unit_test(engines_differ_in_what_a_selector_sees),
        cmocka_unit_test(refusals),
        cmocka_unit_test(plans_are_kept_as_text),
        cmocka_unit_test(values_are_frozen_by_a_capture),
        cmocka_unit_test(plans_outlive_their_parts),
    };
    return cmocka_run_group_tests_name("fakes.cudnn.api", tests, NULL, NULL);
}
