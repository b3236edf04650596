/* Injected errors come at the call they are meant for; a device that died stays dead, alone. */
#include "tests/fakes/support.h"

enum { N = 32 };

static void machine_with(int devices, uint64_t seed, const char *fail)
{
    struct fake_settings s = test_settings(devices);
    s.seed = seed;
    snprintf(s.fail, sizeof s.fail, "%s", fail);
    fake_reset(&s);
    ok(cudaSetDevice(0));
}

static void the_nth_call_fails(void **state)
{
    (void)state;
    machine_with(1, 0, "cudaMalloc:3:2,cudaStreamCreateWithPriority:1:2");
    void *p;
    cudaStream_t s;
    for (int i = 1; i <= 5; i++) {
        cudaError_t e = cudaMalloc(&p, 64);
        assert_int_equal(e, i == 3 ? cudaErrorMemoryAllocation : cudaSuccess);
        if (!e)
            ok(cudaFree(p));
    }
    assert_int_equal(cudaStreamCreate(&s), cudaErrorMemoryAllocation);
    ok(cudaStreamCreate(&s));
    ok(cudaStreamDestroy(s));
    fake_fail_set("cudaMalloc:2+:2");
    ok(cudaMalloc(&p, 64));
    ok(cudaFree(p));
    for (int i = 0; i < 3; i++)
        assert_int_equal(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
    fake_fail_set("");
    ok(cudaMalloc(&p, 64));
    ok(cudaFree(p));
    cudaGetLastError();
    test_all_gone();
}

static void only_that_device_fails(void **state)
{
    (void)state;
    machine_with(4, 0, "cudaMalloc@2:1+:2");
    for (int d = 0; d < 4; d++) {
        void *p;
        ok(cudaSetDevice(d));
        assert_int_equal(cudaMalloc(&p, 64), d == 2 ? cudaErrorMemoryAllocation : cudaSuccess);
        if (d != 2)
            ok(cudaFree(p));
    }
    cudaGetLastError();
    test_all_gone();
}

static void nonsense_is_said(void **state)
{
    (void)state;
    const char *bad[] = {
        "cudaMalloc", "cudaMalloc:0:2", "cudaMalloc:1:", "cudaMalloc:1:x", "a:1-:2", "a:1:soon=3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        machine_with(1, 0, bad[i]);
        assert_non_null(strstr(fake_last_report(), "cannot read"));
    }
}

/* Every call on the device gives the same error from then on; others live. */
static void a_sticky_error_stays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        machine_with(2, seed, "axpb@1:2:late=700");
        struct dev d[2];
        float *x[2];
        for (int i = 0; i < 2; i++) {
            ok(cudaSetDevice(i));
            dev_init(&d[i]);
            ok(cudaMalloc((void **)&x[i], N * sizeof(float)));
            ok(test_axpb(d[i].a, x[i], x[i], N, 0, 1));
        }
        test_axpb(d[1].a, x[1], x[1], N, 1, 1); /* fails when it runs: now, or later */
        assert_int_equal(cudaStreamSynchronize(d[1].a), cudaErrorIllegalAddress);
        void *p;
        size_t f, t;
        cudaEvent_t e;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(cudaMalloc(&p, 64), cudaErrorIllegalAddress);
            assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
            assert_int_equal(cudaPeekAtLastError(), cudaErrorIllegalAddress);
            assert_int_equal(cudaMemGetInfo(&f, &t), cudaErrorIllegalAddress);
            assert_int_equal(cudaEventCreate(&e), cudaErrorIllegalAddress);
            assert_int_equal(cudaStreamQuery(d[1].b), cudaErrorIllegalAddress);
            assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
            assert_int_equal(test_axpb(d[1].a, x[1], x[1], N, 1, 1), cudaErrorIllegalAddress);
        }
        assert_non_null(strstr(fake_last_report(), "axpb fails on device 1"));
        ok(cudaSetDevice(0));
        float v;
        ok(test_axpb(d[0].a, x[0], x[0], N, 1, 1));
        ok(cudaStreamSynchronize(d[0].a));
        ok(cudaMemcpy(&v, x[0], sizeof v, cudaMemcpyDeviceToHost));
        assert_true(v == 2);
        ok(cudaFree(x[0]));
        dev_fini(&d[0]);
        /* What the dead one held can be given back, so that leaks are counted there, too. */
        assert_int_equal(cudaFree(x[1]), cudaErrorIllegalAddress);
        cudaStreamDestroy(d[1].a);
        cudaStreamDestroy(d[1].b);
        cudaEventDestroy(d[1].e);
        cudaEventDestroy(d[1].f);
        assert_int_equal(fake_leaks(), 0);
    }
}

/* An error that the header calls fatal is sticky also where a call returns it at once. */
static void a_fatal_code_is_sticky(void **state)
{
    (void)state;
    static const int fatal[] = {214, 220, 700, 702, 710, 716, 719, 721, 999};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        char fail[64];
        snprintf(fail, sizeof fail, "cudaMemsetAsync:1:%d", fatal[i]);
        machine_with(1, 0, fail);
        void *p;
        ok(cudaMalloc(&p, 64));
        assert_int_equal(cudaMemsetAsync(p, 0, 64, NULL), fatal[i]);
        assert_int_equal(cudaMalloc(&p, 64), fatal[i]);
    }
    static const int harmless[] = {1, 2, 46, 701, 801};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        char fail[64];
        snprintf(fail, sizeof fail, "cudaMemsetAsync:1:%d", harmless[i]);
        machine_with(1, 0, fail);
        void *p;
        ok(cudaMalloc(&p, 64));
        assert_int_equal(cudaMemsetAsync(p, 0, 64, NULL), harmless[i]);
        ok(cudaMemsetAsync(p, 0, 64, NULL));
        ok(cudaFree(p));
    }
    cudaGetLastError();
}

/* What waited for the dead device's work does not wait for ever. */
static void others_do_not_wait_for_the_dead(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        machine_with(2, seed, "axpb@1:1:lost");
        struct dev d[2];
        float *x[2];
        for (int i = 0; i < 2; i++) {
            ok(cudaSetDevice(i));
            dev_init(&d[i]);
            ok(cudaMalloc((void **)&x[i], N * sizeof(float)));
        }
        ok(cudaMemsetAsync(x[1], 0, N, d[1].a));
        ok(cudaEventRecord(d[1].e, d[1].a));
        ok(cudaStreamWaitEvent(d[0].a, d[1].e, 0));
        assert_int_equal(test_axpb(d[1].a, x[1], x[1], N, 1, 1), cudaErrorUnknown);
        ok(cudaSetDevice(0));
        ok(test_axpb(d[0].a, x[0], x[0], N, 0, 1));
        ok(cudaStreamSynchronize(d[0].a));
    }
}

static void leaks_are_counted(void **state)
{
    (void)state;
    machine_with(1, 0, "");
    struct fake_counts c;
    void *p, *h;
    cudaStream_t s;
    cudaEvent_t e;
    cudaGraph_t g;
    cudaGraphExec_t x;
    ok(cudaMalloc(&p, 100));
    ok(cudaMallocHost(&h, 100));
    ok(cudaStreamCreate(&s));
    ok(cudaEventCreate(&e));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    ok(cudaStreamEndCapture(s, &g));
    ok(cudaGraphInstantiate(&x, g, 0));
    fake_counts_get(&c);
    for (int k = FAKE_DEVICE_BLOCK; k <= FAKE_GRAPH_EXEC; k++)
        assert_int_equal(c.alive[k], 1);
    assert_int_equal(c.device_bytes[0], 512);
    assert_int_equal(fake_leaks(), 6);
    ok(cudaGraphExecDestroy(x));
    ok(cudaGraphDestroy(g));
    ok(cudaEventDestroy(e));
    ok(cudaStreamDestroy(s));
    ok(cudaFreeHost(h));
    ok(cudaFree(p));
    test_all_gone();
}

static void without_devices(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(0);
    fake_reset(&s);
    int n = -1;
    void *p;
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    assert_int_equal(n, 0);
    assert_int_equal(cudaSetDevice(0), cudaErrorNoDevice);
    assert_int_equal(cudaMalloc(&p, 64), cudaErrorNoDevice);
    machine_with(2, 0, "cudaGetDeviceCount:1:35");
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    ok(cudaGetDeviceCount(&n));
    assert_int_equal(n, 2);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
}

static void devices_say_what_they_are(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(8);
    s.mem_bytes[3] = 80 << 20;
    s.sm_major = 8;
    fake_reset(&s);
    struct cudaDeviceProp a, b;
    int v;
    char id[32];
    ok(cudaGetDeviceProperties(&a, 3));
    ok(cudaGetDeviceProperties(&b, 4));
    assert_int_equal(a.totalGlobalMem, 80 << 20);
    assert_int_equal(a.major, 8);
    assert_string_equal(a.name, "Fake H100");
    assert_memory_not_equal(&a.uuid, &b.uuid, sizeof a.uuid);
    ok(cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 3));
    assert_int_equal(v, 8);
    ok(cudaDeviceGetPCIBusId(id, sizeof id, 5));
    ok(cudaDeviceGetByPCIBusId(&v, id));
    assert_int_equal(v, 5);
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_fails),
        cmocka_unit_test(only_that_device_fails),
        cmocka_unit_test(nonsense_is_said),
        cmocka_unit_test(a_sticky_error_stays),
        cmocka_unit_test(a_fatal_code_is_sticky),
        cmocka_unit_test(others_do_not_wait_for_the_dead),
        cmocka_unit_test(leaks_are_counted),
        cmocka_unit_test(without_devices),
        cmocka_unit_test(devices_say_what_they_are),
    };
    return cmocka_run_group_tests_name("fakes.error", tests, NULL, NULL);
}
