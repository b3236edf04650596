/* The builder of graphs against real cuDNN, without a device: an H200's properties as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cuda/conv_ask.h"
#include "core/base/alloc.h"

static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,"
    "\"driverVer\":13000,\"totalGlobalMem\":150754820096,\"cudaDeviceId\":0}";

#define ok(expr) check((expr), #expr)
static void check(enum bst_err err, const char *what)
{
    if (err)
        fail_msg("%s: %s", what, bst_err_text());
}

static int open_device(void **state)
{
    cudnnBackendDescriptor_t d;

    ok(cuda_dnn_device_parse(h200, sizeof h200 - 1, &d));
    *state = d;
    return 0;
}

static int close_device(void **state)
{
    cuda_dnn_device_free(*state);
    return 0;
}

enum way { FORWARD, BY_DATA, BY_FILTER, WITH_SUMS, WITH_RELU, BY_DATA_RELU };

/* The gradient behind the ReLU that made `kept`. */
static void by_data_relu(struct cuda_dnn_graph *g, cudnnDataType_t type, const int64_t image[4],
                         int dy, int f)
{
    const int between = cuda_dnn_nhwc(g, CUDNN_DATA_FLOAT, image, CUDA_DNN_VIRTUAL);
    const int kept = cuda_dnn_nhwc(g, type, image, CUDA_DNN_REAL);
    const int dx = cuda_dnn_nhwc(g, type, image, CUDA_DNN_REAL);

    cuda_dnn_conv_bwd_data(g, dy, f, between, (struct cuda_dnn_window){1, 1}, 0);
    cuda_dnn_pointwise_bwd(g, CUDNN_POINTWISE_RELU_BWD, between, kept, dx);
}

/* A 3×3 convolution of 64 channels at 56×56, in a graph with what `way` says. */
static struct cuda_dnn_graph *graph(cudnnDataType_t type, enum way way, float beta)
{
    const int64_t image[4] = {32, 64, 56, 56}, weights[4] = {64, 64, 3, 3};
    const struct cuda_dnn_window w = {1, 1};
    struct cuda_dnn_graph *g = cuda_dnn_graph_new();
    const int x = cuda_dnn_nhwc(g, type, image, CUDA_DNN_REAL);
    const int f = cuda_dnn_nhwc(g, type, weights, CUDA_DNN_REAL);
    const int y =
        cuda_dnn_nhwc(g, type, image, way == WITH_RELU ? CUDA_DNN_VIRTUAL : CUDA_DNN_REAL);

    if (way == BY_DATA)
        cuda_dnn_conv_bwd_data(g, y, f, x, w, beta);
    else if (way == BY_DATA_RELU)
        by_data_relu(g, type, image, y, f);
    else if (way == BY_FILTER)
        cuda_dnn_conv_bwd_filter(g, x, y, f, w, beta);
    else
        cuda_dnn_conv_fwd(g, x, f, y, w);
    if (way == WITH_SUMS) {
        const int sum = cuda_dnn_channels(g, CUDNN_DATA_FLOAT, 64, CUDA_DNN_REAL);
        cuda_dnn_genstats(g, y, sum, cuda_dnn_channels(g, CUDNN_DATA_FLOAT, 64, CUDA_DNN_REAL));
    } else if (way == WITH_RELU) {
        const int z = cuda_dnn_nhwc(g, type, image, CUDA_DNN_REAL);
        cuda_dnn_pointwise(g, CUDNN_POINTWISE_RELU_FWD, y, -1, z);
    }
    return g;
}

static void count_plans(cudnnBackendDescriptor_t device, cudnnDataType_t type, enum way way,
                        float beta)
{
    const struct cuda_dnn_wish wish = {
        .refuse = CUDA_DNN_NOTE(NONDETERMINISTIC) |
                  (type == CUDNN_DATA_FLOAT ? CUDA_DNN_NOTES_INEXACT : 0),
        .refuse_behaviour =
            way == WITH_SUMS || beta != 0 ? CUDA_DNN_BEHAVIOUR(RUNTIME_COMPILATION) : 0,
        .workspace_most = -1,
    };
    struct cuda_dnn_graph *g = graph(type, way, beta);
    struct cuda_dnn_plan plan[4];
    int n = 0, proposed = 0;
    enum bst_err err = cuda_dnn_plans(g, device, &wish, plan, 4, &n, &proposed);

    if (err || n < 1)
        fail_msg("type %d, way %d, beta %g: %s", (int)type, (int)way, (double)beta, bst_err_text());
    assert_true(n <= proposed);
    for (int i = 0; i < n; i++) {
        assert_int_equal(plan[i].numerical & wish.refuse, 0);
        assert_int_equal(plan[i].behaviour & wish.refuse_behaviour, 0);
        assert_true(plan[i].workspace >= 0);
        cuda_dnn_plan_fini(&plan[i]);
    }
    cuda_dnn_graph_free(g);
}

static void what_the_backend_asks_for_has_plans(void **state)
{
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};

    for (int t = 0; t < 3; t++) {
        count_plans(*state, types[t], FORWARD, 0);
        for (int beta = 0; beta < 2; beta++) {
            count_plans(*state, types[t], BY_DATA, (float)beta);
            count_plans(*state, types[t], BY_FILTER, (float)beta);
        }
    }
    count_plans(*state, CUDNN_DATA_HALF, WITH_SUMS, 0);
}

/* Element by element behind a convolution: a graph that cuDNN understands, whether or not it has an
 * engine that needs no compiling. */
static void pointwise_operations_are_well_formed(void **state)
{
    static const enum way ways[] = {WITH_RELU, BY_DATA_RELU};
    const struct cuda_dnn_wish wish = {.workspace_most = -1};

    for (int i = 0; i < 2; i++) {
        struct cuda_dnn_graph *g = graph(CUDNN_DATA_HALF, ways[i], 0);
        struct cuda_dnn_plan p = {0};
        int n = 0;
        enum bst_err err = cuda_dnn_plans(g, *state, &wish, &p, 1, &n, NULL);

        if (err && (err != BST_E_UNSUPPORTED || !strstr(bst_err_text(), "no plan for this graph")))
            fail_msg("way %d: %s", (int)ways[i], bst_err_text());
        cuda_dnn_plan_fini(&p);
        cuda_dnn_graph_free(g);
    }
}

/* A limit on the workspace leaves out what is above it, and nothing else. */
static void a_workspace_limit_is_kept_to(void **state)
{
    struct cuda_dnn_wish wish = {.refuse = CUDA_DNN_NOTES_INEXACT, .workspace_most = -1};
    struct cuda_dnn_plan p[16];
    int64_t least = INT64_MAX, most = 0;
    int all = 0, n = 0, within = 0;

    struct cuda_dnn_graph *g = graph(CUDNN_DATA_FLOAT, FORWARD, 0);
    ok(cuda_dnn_plans(g, *state, &wish, p, 16, &all, NULL));
    for (int i = 0; i < all; i++) {
        least = p[i].workspace < least ? p[i].workspace : least;
        most = p[i].workspace > most ? p[i].workspace : most;
    }
    for (int i = 0; i < all; i++) {
        within += p[i].workspace <= least;
        cuda_dnn_plan_fini(&p[i]);
    }
    assert_true(all < 16 && least < most);
    wish.workspace_most = least;
    ok(cuda_dnn_plans(g, *state, &wish, p, 16, &n, NULL));
    assert_int_equal(n, within);
    for (int i = 0; i < n; i++) {
        assert_true(p[i].workspace <= least);
        cuda_dnn_plan_fini(&p[i]);
    }
    cuda_dnn_graph_free(g);
}

/* Fp32 has no engine that makes sums, which is an answer; the same convolution without them has. */
static void a_refusal_is_told_apart(void **state)
{
    struct cuda_conv_ask ask = {.way = CUDA_CONV_FWD,
                                .type = CUDNN_DATA_FLOAT,
                                .n = 48,
                                .c = 64,
                                .h = 56,
                                .w = 56,
                                .k = 64,
                                .kernel = 3,
                                .stride = 1,
                                .pad = 1,
                                .sums = true};
    struct cuda_dnn_plan p = {0};
    char key[CUDA_CONV_KEY];
    int n = 0;

    assert_int_equal(cuda_conv_plans(&ask, *state, &p, 1, &n), BST_E_UNSUPPORTED);
    ask.sums = false;
    ok(cuda_conv_plans(&ask, *state, &p, 1, &n));
    assert_int_equal(n, 1);
    assert_int_equal(p.numerical & (CUDA_DNN_NOTES_INEXACT | CUDA_DNN_NOTE(NONDETERMINISTIC)), 0);
    cuda_dnn_plan_fini(&p);
    cuda_conv_key(&ask, key);
    assert_string_equal(key, "fwd fp32 48x64x56x56 64 k3 s1 p1");
}

static void a_wrong_graph_says_where(void **state)
{
    const int64_t image[4] = {2, 8, 5, 5}, weights[4] = {8, 9, 3, 3}; /* 9 is not 8 */
    const struct cuda_dnn_wish wish = {.workspace_most = -1};
    struct cuda_dnn_graph *g = cuda_dnn_graph_new();
    struct cuda_dnn_plan p;
    int n = 0;

    const int x = cuda_dnn_nhwc(g, CUDNN_DATA_FLOAT, image, CUDA_DNN_REAL);
    const int f = cuda_dnn_nhwc(g, CUDNN_DATA_FLOAT, weights, CUDA_DNN_REAL);
    const int y = cuda_dnn_nhwc(g, CUDNN_DATA_FLOAT, image, CUDA_DNN_REAL);
    cuda_dnn_conv_fwd(g, x, f, y, (struct cuda_dnn_window){1, 1});
    assert_int_not_equal(cuda_dnn_plans(g, *state, &wish, &p, 1, &n, NULL), BST_OK);
    assert_int_equal(n, 0);
    assert_non_null(strstr(bst_err_text(), "cuDNN: "));
    cuda_dnn_graph_free(g);
}

/* In words of cuDNN's own: a plan goes to disk and comes back with the workspace it had. */
static void plans_and_devices_survive_as_text(void **state)
{
    const struct cuda_dnn_wish wish = {.workspace_most = -1};
    struct cuda_dnn_plan p, back;
    char *json = NULL, *device = NULL;
    size_t bytes = 0;
    int n = 0;

    struct cuda_dnn_graph *g = graph(CUDNN_DATA_HALF, FORWARD, 0);
    ok(cuda_dnn_plans(g, *state, &wish, &p, 1, &n, NULL));
    ok(cuda_dnn_plan_json(&p, &json, &bytes));
    ok(cuda_dnn_plan_parse(json, bytes, *state, &back));
    assert_int_equal(back.workspace, p.workspace);
    assert_int_not_equal(cuda_dnn_plan_parse(json, bytes / 2, *state, &(struct cuda_dnn_plan){0}),
                         BST_OK);
    cuda_dnn_plan_fini(&back);
    cuda_dnn_plan_fini(&p);
    cuda_dnn_graph_free(g);
    ok(cuda_dnn_device_json(*state, &device));
    assert_non_null(strstr(device, "H200"));
    bst_free(device);
    bst_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_backend_asks_for_has_plans),
        cmocka_unit_test(pointwise_operations_are_well_formed),
        cmocka_unit_test(a_workspace_limit_is_kept_to),
        cmocka_unit_test(a_refusal_is_told_apart),
        cmocka_unit_test(a_wrong_graph_says_where),
        cmocka_unit_test(plans_and_devices_survive_as_text),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
