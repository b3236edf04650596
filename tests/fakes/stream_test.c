/* Order: streams and events are kept under every seed, and nothing else is. */
#include <pthread.h>

#include "tests/fakes/support.h"

enum { N = 16, SEEDS = 50 };

static float *zeros(size_t n)
{
    float *p;
    ok(cudaMalloc((void **)&p, n * sizeof *p));
    ok(cudaMemset(p, 0, n * sizeof *p));
    ok(cudaDeviceSynchronize()); /* streams that do not block would not wait for the default one */
    return p;
}

static float first(const float *p)
{
    float v;
    ok(cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}

/* x = 1 on stream a, then y = 2x + 1 on b, then z = 3y on a: 9, if both waits are there. */
static float chain(uint64_t seed, bool waits_b, bool waits_a)
{
    test_machine(1, seed);
    struct dev d;
    dev_init(&d);
    float *x = zeros(N), *y = zeros(N), *z = zeros(N);
    ok(test_axpb(d.a, x, x, N, 0, 1));
    ok(cudaEventRecord(d.e, d.a));
    if (waits_b)
        ok(cudaStreamWaitEvent(d.b, d.e, 0));
    ok(test_axpb(d.b, y, x, N, 2, 1));
    ok(cudaEventRecord(d.f, d.b));
    if (waits_a)
        ok(cudaStreamWaitEvent(d.a, d.f, 0));
    ok(test_axpb(d.a, z, y, N, 3, 0));
    ok(cudaStreamSynchronize(d.a));
    ok(cudaStreamSynchronize(d.b));
    float v = first(z);
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaFree(z));
    dev_fini(&d);
    test_all_gone();
    return v;
}

static void waits_hold_under_every_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= SEEDS; seed++)
        assert_true(chain(seed, true, true) == 9);
}

static void a_missing_wait_is_found(void **state)
{
    (void)state;
    int wrong_b = 0, wrong_a = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wrong_b += chain(seed, false, true) != 9;
        wrong_a += chain(seed, true, false) != 9;
    }
    assert_true(wrong_b > 2 && wrong_b < SEEDS);
    assert_true(wrong_a > 2);
}

/* The same seed gives the same order, so that a failure can be looked at again. */
static void a_seed_is_repeated(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_true(chain(seed, false, false) == chain(seed, false, false));
}

/* A wait is for the record before it, not for a later one of the same event. */
static void an_event_may_be_recorded_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        test_machine(1, seed);
        struct dev d;
        dev_init(&d);
        float *x = zeros(N), *y = zeros(N);
        ok(test_axpb(d.a, x, x, N, 0, 1));
        ok(cudaEventRecord(d.e, d.a));
        ok(cudaStreamWaitEvent(d.b, d.e, 0));
        ok(cudaEventRecord(d.e, d.b)); /* were b to wait for this, it would stand for ever */
        ok(test_axpb(d.b, y, x, N, 1, 0));
        ok(cudaStreamSynchronize(d.b));
        assert_true(first(y) == 1);
        ok(cudaFree(x));
        ok(cudaFree(y));
        dev_fini(&d);
    }
}

static void an_event_never_recorded_is_passed(void **state)
{
    (void)state;
    test_machine(1, 3);
    struct dev d;
    dev_init(&d);
    ok(cudaStreamWaitEvent(d.a, d.e, 0));
    ok(cudaEventSynchronize(d.e));
    ok(cudaEventQuery(d.e));
    ok(cudaStreamSynchronize(d.a));
    dev_fini(&d);
    test_all_gone();
}

/* Work that nobody waits for is done by and by when it is asked after. */
static void queries_get_there(void **state)
{
    (void)state;
    int asked = 0;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        test_machine(1, seed);
        struct dev d;
        dev_init(&d);
        float *x = zeros(N);
        for (int i = 0; i < 20; i++)
            ok(test_axpb(d.a, x, x, N, 1, 1));
        ok(cudaEventRecord(d.e, d.a));
        cudaError_t e;
        int left = 1000;
        while ((e = cudaEventQuery(d.e)) == cudaErrorNotReady && --left) {
            assert_true(seed > 0);
            asked++;
        }
        ok(e);
        ok(cudaStreamQuery(d.a));
        assert_true(first(x) == 20);
        ok(cudaFree(x));
        dev_fini(&d);
    }
    assert_true(asked > SEEDS);
}

/* "Not ready" is kept as the thread's last error, as the real runtime keeps it. */
static void not_ready_is_remembered(void **state)
{
    (void)state;
    test_machine(1, 7);
    struct dev d;
    dev_init(&d);
    float *x = zeros(N);
    for (int i = 0; i < 50; i++)
        ok(test_axpb(d.a, x, x, N, 1, 1));
    assert_int_equal(cudaStreamQuery(d.a), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    ok(cudaGetLastError());
    ok(cudaStreamSynchronize(d.a));
    ok(cudaFree(x));
    dev_fini(&d);
}

/* Blocking streams and the legacy default stream wait for each other; others do not. */
static float legacy(uint64_t seed, unsigned flags)
{
    test_machine(1, seed);
    cudaStream_t s;
    ok(cudaStreamCreateWithFlags(&s, flags));
    float *x = zeros(N), *y = zeros(N);
    ok(test_axpb(s, x, x, N, 0, 1));
    ok(test_axpb(NULL, y, x, N, 1, 1));
    ok(test_axpb(s, x, y, N, 1, 1));
    ok(cudaDeviceSynchronize());
    float v = first(x);
    ok(cudaStreamDestroy(s));
    ok(cudaFree(x));
    ok(cudaFree(y));
    return v;
}

static void the_legacy_stream_is_in_the_way(void **state)
{
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(legacy(seed, cudaStreamDefault) == 3);
        wrong += legacy(seed, cudaStreamNonBlocking) != 3;
    }
    assert_true(wrong > 2);
}

static void note(void *data)
{
    int *calls = data;
    int count;
    ++*calls;
    if (cudaGetDeviceCount(&count) || cudaStreamSynchronize(NULL) != cudaErrorNotPermitted)
        *calls = -100; /* calls into CUDA are not permitted here */
}

static void host_functions_run_in_order(void **state)
{
    (void)state;
    test_machine(1, 5);
    struct dev d;
    dev_init(&d);
    int calls = 0;
    for (int i = 0; i < 3; i++)
        ok(cudaLaunchHostFunc(d.a, note, &calls));
    ok(cudaStreamSynchronize(d.a));
    assert_int_equal(calls, 3);
    dev_fini(&d);
}

/* The device's own clock: the sum of what ran between, whatever the host does. */
static void events_measure_the_devices_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        test_machine(1, seed);
        cudaStream_t s;
        cudaEvent_t from, to;
        ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        ok(cudaEventCreate(&from));
        ok(cudaEventCreate(&to));
        float *x = zeros(N);
        float ms;
        ok(cudaEventRecord(from, s));
        for (int i = 0; i < 500; i++)
            ok(test_axpb(s, x, x, N, 1, 1));
        ok(cudaEventRecord(to, s));
        ok(cudaEventSynchronize(to));
        ok(cudaEventElapsedTime(&ms, from, to));
        assert_true(ms > 0.4999f && ms < 0.5001f);
        ok(cudaFree(x));
        ok(cudaEventDestroy(from));
        ok(cudaEventDestroy(to));
        ok(cudaStreamDestroy(s));
        test_all_gone();
    }
}

/* A stream that is destroyed finishes what it has. */
static void a_destroyed_stream_ends_its_work(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        test_machine(1, seed);
        struct dev d;
        dev_init(&d);
        float *x = zeros(N);
        for (int i = 0; i < 10; i++)
            ok(test_axpb(d.a, x, x, N, 1, 1));
        ok(cudaEventRecord(d.e, d.a));
        ok(cudaStreamDestroy(d.a));
        assert_int_equal(cudaStreamSynchronize(d.a), cudaErrorInvalidResourceHandle);
        ok(cudaEventSynchronize(d.e));
        assert_true(first(x) == 10);
        ok(cudaStreamCreateWithFlags(&d.a, cudaStreamNonBlocking));
        ok(cudaFree(x));
        dev_fini(&d);
        assert_int_equal(fake_leaks(), 0);
    }
}

struct half {
    struct dev *d;
    float *x;
    pthread_barrier_t *met;
};

static void *waits_for_the_other(void *arg)
{
    struct half *h = arg;
    ok(cudaSetDevice(0));
    ok(cudaStreamWaitEvent(h->d->b, h->d->e, 0));
    ok(test_axpb(h->d->b, h->x, h->x, N, 2, 0));
    pthread_barrier_wait(h->met);
    ok(cudaStreamSynchronize(h->d->b));
    return NULL;
}

/* One thread waits for what another has enqueued. */
static void threads_share_the_devices(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= 10; seed++) {
        test_machine(1, seed);
        struct dev d;
        dev_init(&d);
        float *x = zeros(N);
        pthread_barrier_t met;
        pthread_barrier_init(&met, NULL, 2);
        struct half h = {&d, x, &met};
        ok(test_axpb(d.a, x, x, N, 0, 5));
        ok(cudaEventRecord(d.e, d.a));
        pthread_t t;
        pthread_create(&t, NULL, waits_for_the_other, &h);
        pthread_barrier_wait(&met);
        ok(cudaStreamSynchronize(d.a));
        pthread_join(t, NULL);
        pthread_barrier_destroy(&met);
        assert_true(first(x) == 10);
        ok(cudaFree(x));
        dev_fini(&d);
    }
}

/* Nothing can run and nobody comes: said, and an error as of a kernel that never ends. */
static void a_deadlock_is_found(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(1);
    s.hang_ms = 50;
    snprintf(s.fail, sizeof s.fail, "axpb:2:hang");
    fake_reset(&s);
    ok(cudaSetDevice(0));
    struct dev d;
    dev_init(&d);
    float *x = zeros(N);
    ok(test_axpb(d.a, x, x, N, 1, 1));
    ok(test_axpb(d.a, x, x, N, 1, 1));
    assert_int_equal(cudaStreamQuery(d.a), cudaErrorNotReady);
    assert_int_equal(cudaStreamSynchronize(d.a), cudaErrorLaunchTimeout);
    assert_non_null(strstr(fake_last_report(), "deadlock"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_hold_under_every_seed),
        cmocka_unit_test(a_missing_wait_is_found),
        cmocka_unit_test(a_seed_is_repeated),
        cmocka_unit_test(an_event_may_be_recorded_again),
        cmocka_unit_test(an_event_never_recorded_is_passed),
        cmocka_unit_test(queries_get_there),
        cmocka_unit_test(not_ready_is_remembered),
        cmocka_unit_test(the_legacy_stream_is_in_the_way),
        cmocka_unit_test(host_functions_run_in_order),
        cmocka_unit_test(events_measure_the_devices_time),
        cmocka_unit_test(a_destroyed_stream_ends_its_work),
        cmocka_unit_test(threads_share_the_devices),
        cmocka_unit_test(a_deadlock_is_found),
    };
    return cmocka_run_group_tests_name("fakes.stream", tests, NULL, NULL);
}
