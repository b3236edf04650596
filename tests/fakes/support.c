#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakes/half.h"
#include "tests/fakes/support.h"

struct fake_settings test_settings(int devices)
{
    struct fake_settings s = {
        .devices = devices, .hang_ms = 60000, .quiet = true, .name = "Fake H100", .sm_major = 9};
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        s.mem_bytes[i] = (size_t)64 << 20;
    return s;
}

void test_machine(int devices, uint64_t seed)
{
    struct fake_settings s = test_settings(devices);
    s.seed = seed;
    fake_reset(&s);
    ok(cudaSetDevice(0));
}

void test_all_gone(void)
{
    assert_int_equal(fake_leaks(), 0);
    assert_string_equal(fake_last_report(), "");
}

void dev_init(struct dev *d)
{
    ok(cudaStreamCreateWithFlags(&d->a, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&d->b, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&d->e, cudaEventDisableTiming));
    ok(cudaEventCreateWithFlags(&d->f, cudaEventDisableTiming));
}

void dev_fini(struct dev *d)
{
    ok(cudaStreamDestroy(d->a));
    ok(cudaStreamDestroy(d->b));
    ok(cudaEventDestroy(d->e));
    ok(cudaEventDestroy(d->f));
}

size_t test_bytes(enum test_type t)
{
    return t == TEST_F32 ? 4 : 2;
}

static uint16_t to_16(float v, enum test_type t)
{
    return t == TEST_F16 ? fake_to_half(v) : fake_to_bf16(v);
}

static float from_16(uint16_t v, enum test_type t)
{
    return t == TEST_F16 ? fake_from_half(v) : fake_from_bf16(v);
}

float test_round(float v, enum test_type t)
{
    return t == TEST_F32 ? v : from_16(to_16(v, t), t);
}

void test_fill(float *v, size_t n, uint64_t seed, enum test_type t)
{
    uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        v[i] = test_round((float)(int32_t)(s >> 32) * 0x1p-31f, t);
    }
}

void *test_up(const float *v, size_t n, enum test_type t)
{
    void *p;
    ok(cudaMalloc(&p, n * test_bytes(t)));
    if (!v)
        return p;
    uint16_t *h = malloc(n * sizeof *h + 2);
    for (size_t i = 0; t != TEST_F32 && i < n; i++)
        h[i] = to_16(v[i], t);
    ok(cudaMemcpy(p, t == TEST_F32 ? (const void *)v : h, n * test_bytes(t),
                  cudaMemcpyHostToDevice));
    free(h);
    return p;
}

void test_down(float *v, const void *p, size_t n, enum test_type t)
{
    uint16_t *h = malloc(n * sizeof *h + 2);
    ok(cudaMemcpy(t == TEST_F32 ? (void *)v : h, p, n * test_bytes(t), cudaMemcpyDeviceToHost));
    for (size_t i = 0; t != TEST_F32 && i < n; i++)
        v[i] = from_16(h[i], t);
    free(h);
}

void test_near(const float *got, const double *want, size_t n, double tolerance, double floor)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - want[i]) <= tolerance * (fabs(want[i]) + floor)))
            fail_msg("element %zu: %.9g instead of %.9g", i, (double)got[i], want[i]);
    }
}

struct axpb {
    float *y;
    const float *x;
    size_t n;
    float a, b;
};

static void run_axpb(void *args)
{
    const struct axpb *k = args;
    for (size_t i = 0; i < k->n; i++)
        k->y[i] = k->a * k->x[i] + k->b;
}

cudaError_t test_axpb(cudaStream_t s, float *y, const float *x, size_t n, float a, float b)
{
    struct axpb k = {y, x, n, a, b};
    return fake_launch(s, "axpb", run_axpb, &k, sizeof k);
}

int test_dies(void (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* cmocka and the sanitizers have handlers that go on */
        signal(SIGBUS, SIG_DFL);
        fn(arg);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
