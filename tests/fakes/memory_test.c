/* Device memory: capped, out of the host's reach, and copied as the runtime copies. */
#include <unistd.h>

#include "tests/fakes/support.h"

enum { N = 1000 };

static void reads(void *p)
{
    volatile char *c = p;
    char v = *c;
    (void)v;
}

static void writes(void *p)
{
    *(volatile char *)p = 1;
}

static void host_is_kept_out(enum fake_guard guard)
{
    struct fake_settings s = test_settings(2);
    s.guard = guard;
    fake_reset(&s);
    ok(cudaSetDevice(1));
    float v[N], back[N];
    test_fill(v, N, 1, TEST_F32);
    float *p = test_up(v, N, TEST_F32);
    assert_true(test_dies(reads, p));
    assert_true(test_dies(writes, p + N - 1));
    ok(test_axpb(NULL, p, p, N, 2, 0)); /* and kernels are not */
    assert_true(test_dies(reads, p));
    test_down(back, p, N, TEST_F32);
    for (int i = 0; i < N; i++)
        assert_true(back[i] == 2 * v[i]);
    ok(cudaFree(p));
    assert_true(test_dies(reads, p));
    test_all_gone();
}

static void the_host_is_kept_out(void **state)
{
    (void)state;
    host_is_kept_out(FAKE_GUARD_AUTO);
    host_is_kept_out(FAKE_GUARD_PAGES);
}

struct touch {
    char *p;
};

static void run_touch(void *args)
{
    ((struct touch *)args)->p[0] = 1;
}

static void launch_touch(void *arg)
{
    fake_launch(NULL, "touch", run_touch, arg, sizeof(struct touch));
}

/* A kernel reaches its own device's blocks, and not one byte of what lies behind or elsewhere. */
static void a_kernel_stays_in_its_blocks(void **state)
{
    (void)state;
    test_machine(2, 0);
    char *p, *q;
    ok(cudaMalloc((void **)&p, 1024));
    ok(cudaSetDevice(1));
    ok(cudaMalloc((void **)&q, 1024));
    ok(cudaSetDevice(0));
    struct touch in = {p + 1023}, behind = {p + 1024}, before = {p - 4096}, other = {q};
    assert_false(test_dies(launch_touch, &in));
    assert_true(test_dies(launch_touch, &behind));
    assert_true(test_dies(launch_touch, &before));
    struct fake_counts c;
    fake_counts_get(&c);
    assert_int_equal(c.device_bytes[0], 1024);
    assert_true(test_dies(launch_touch, &other));
    ok(cudaFree(p));
    ok(cudaFree(q));
    test_all_gone();
}

static void memory_is_capped(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(2);
    s.mem_bytes[0] = 1 << 20;
    s.mem_bytes[1] = 2 << 20;
    s.context_bytes = 64 << 10;
    fake_reset(&s);
    ok(cudaSetDevice(0));
    size_t free_bytes, total_bytes;
    ok(cudaMemGetInfo(&free_bytes, &total_bytes));
    assert_int_equal(total_bytes, 1 << 20);
    assert_int_equal(free_bytes, (1 << 20) - (64 << 10));
    void *p = (void *)1, *q;
    assert_int_equal(cudaMalloc(&p, free_bytes + 1), cudaErrorMemoryAllocation);
    assert_null(p);
    assert_int_equal(cudaMalloc(&p, SIZE_MAX), cudaErrorMemoryAllocation);
    /* Not sticky: given out once, and the next call is as if nothing had been. */
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    ok(cudaGetLastError());
    ok(cudaMalloc(&p, free_bytes));
    assert_int_equal(cudaMalloc(&q, 1), cudaErrorMemoryAllocation);
    ok(cudaMemset(p, 0, free_bytes));
    ok(cudaSetDevice(1)); /* which has its own */
    ok(cudaMalloc(&q, 1 << 20));
    ok(cudaFree(q));
    ok(cudaFree(p));
    struct fake_counts c;
    fake_counts_get(&c);
    assert_int_equal(c.device_bytes[0], 64 << 10);
    assert_int_equal(c.device_peak_bytes[0], 1 << 20);
    cudaGetLastError();
    test_all_gone();
}

static void out_of_memory_many_times(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(1);
    s.mem_bytes[0] = 64 << 10;
    fake_reset(&s);
    ok(cudaSetDevice(0));
    for (int i = 0; i < 10000; i++) {
        void *p, *q;
        ok(cudaMalloc(&p, 40 << 10));
        assert_int_equal(cudaMalloc(&q, 40 << 10), cudaErrorMemoryAllocation);
        ok(cudaFree(p));
    }
    struct fake_counts c;
    fake_counts_get(&c);
    assert_int_equal(c.device_bytes[0], 0);
    cudaGetLastError();
    test_all_gone();
}

/* What was never written is no number that passes for a result. */
static void fresh_memory_is_poisoned(void **state)
{
    (void)state;
    test_machine(1, 0);
    float v[N];
    float *p = test_up(NULL, N, TEST_F32);
    test_down(v, p, N, TEST_F32);
    for (int i = 0; i < N; i++)
        assert_true(v[i] < -1e7f);
    ok(cudaFree(p));
}

/* From page-locked memory a copy reads when it runs, from other memory before the call returns. */
static void copies_are_asynchronous_only_from_pinned_memory(void **state)
{
    (void)state;
    int late_pinned = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        test_machine(1, seed);
        struct dev d;
        dev_init(&d);
        float plain = 1, got;
        float *pinned, *p;
        ok(cudaHostAlloc((void **)&pinned, sizeof *pinned, cudaHostAllocDefault));
        ok(cudaMalloc((void **)&p, sizeof *p));
        ok(cudaMemcpyAsync(p, &plain, sizeof plain, cudaMemcpyHostToDevice, d.a));
        plain = 2;
        ok(cudaStreamSynchronize(d.a));
        ok(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
        assert_true(got == 1);
        *pinned = 3;
        ok(cudaMemcpyAsync(p, pinned, sizeof *pinned, cudaMemcpyHostToDevice, d.a));
        *pinned = 4; /* too early */
        ok(cudaStreamSynchronize(d.a));
        ok(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
        late_pinned += got == 4;
        /* Back to plain memory: waited for. */
        ok(test_axpb(d.a, p, p, 1, 0, 9));
        ok(cudaMemcpyAsync(&plain, p, sizeof plain, cudaMemcpyDeviceToHost, d.a));
        assert_true(plain == 9);
        ok(cudaFree(p));
        ok(cudaFreeHost(pinned));
        dev_fini(&d);
        test_all_gone();
    }
    assert_true(late_pinned > 5);
}

static void copies_are_checked(void **state)
{
    (void)state;
    test_machine(1, 0);
    float v[N];
    float *p = test_up(NULL, N, TEST_F32);
    size_t bytes = sizeof v;
    assert_int_equal(cudaMemcpy(p + 1, v, bytes, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_non_null(strstr(fake_last_report(), "leaves its block"));
    assert_int_equal(cudaMemcpy(v, p, bytes, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_non_null(strstr(fake_last_report(), "does not match"));
    assert_int_equal(cudaMemset(p, 0, bytes + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(p + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(v), cudaErrorInvalidValue);
    assert_int_equal(cudaFreeHost(v), cudaErrorInvalidValue);
    ok(cudaFree(NULL));
    ok(cudaFree(p));
    assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
    cudaGetLastError();
    assert_int_equal(fake_leaks(), 0);
}

static void rows_are_copied(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct dev d;
    dev_init(&d);
    unsigned char host[4 * 10], back[4 * 16];
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (unsigned char)i;
    char *p;
    ok(cudaMalloc((void **)&p, 4 * 16));
    ok(cudaMemsetAsync(p, 0xff, 4 * 16, d.a));
    ok(cudaMemcpy2DAsync(p, 16, host, 10, 8, 4, cudaMemcpyHostToDevice, d.a));
    ok(cudaMemcpyAsync(back, p, sizeof back, cudaMemcpyDeviceToHost, d.a));
    ok(cudaStreamSynchronize(d.a));
    for (int r = 0; r < 4; r++) {
        assert_memory_equal(back + 16 * r, host + 10 * r, 8);
        assert_int_equal(back[16 * r + 8], 0xff);
    }
    ok(cudaFree(p));
    dev_fini(&d);
    test_all_gone();
}

static void between_devices(void **state)
{
    (void)state;
    test_machine(2, 11);
    float v[N], back[N];
    test_fill(v, N, 2, TEST_F32);
    float *p = test_up(v, N, TEST_F32);
    ok(cudaSetDevice(1));
    float *q = test_up(NULL, N, TEST_F32);
    cudaStream_t s;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaMemcpyPeerAsync(q, 1, p, 0, sizeof v, s));
    ok(cudaStreamSynchronize(s));
    test_down(back, q, N, TEST_F32);
    assert_memory_equal(back, v, sizeof v);
    struct cudaPointerAttributes a;
    ok(cudaPointerGetAttributes(&a, q));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_int_equal(a.device, 1);
    ok(cudaPointerGetAttributes(&a, v));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    ok(cudaStreamDestroy(s));
    ok(cudaFree(p));
    ok(cudaFree(q));
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_kept_out),
        cmocka_unit_test(a_kernel_stays_in_its_blocks),
        cmocka_unit_test(memory_is_capped),
        cmocka_unit_test(out_of_memory_many_times),
        cmocka_unit_test(fresh_memory_is_poisoned),
        cmocka_unit_test(copies_are_asynchronous_only_from_pinned_memory),
        cmocka_unit_test(copies_are_checked),
        cmocka_unit_test(rows_are_copied),
        cmocka_unit_test(between_devices),
    };
    return cmocka_run_group_tests_name("fakes.memory", tests, NULL, NULL);
}
