/* A program that nvcc and the real libraries' link names built, run on the drop-in fakes: four
 * devices, a kernel started with <<<>>>, an all-reduce, cuDNN and cublasLt handles, NVML by dlopen.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

enum { DEVICES = 4, N = 1000 };

#define ok(call) assert_int_equal((call), 0)

cudaError_t dropin_run_axpb(cudaStream_t s, float *y, const float *x, size_t n, float a, float b,
                            unsigned threads);
cudaError_t dropin_run_unknown(cudaStream_t s, float *y);

/* Names only the fakes have tell that it is them. */
static void these_are_the_fakes(void **state)
{
    (void)state;
    assert_non_null(dlsym(RTLD_DEFAULT, "fake_counts_get"));
    struct cudaDeviceProp p;
    int n;
    ok(cudaGetDeviceCount(&n));
    assert_int_equal(n, DEVICES);
    ok(cudaGetDeviceProperties(&p, DEVICES - 1));
    assert_string_equal(p.name, "Fake H100");
    assert_int_equal(p.totalGlobalMem, 8 << 20);
}

static void kernels_and_a_collective(void **state)
{
    (void)state;
    float host[N], back[N];
    float *x[DEVICES], *y[DEVICES];
    cudaStream_t s[DEVICES];
    ncclComm_t comm[DEVICES];
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    ok(ncclCommInitAll(comm, DEVICES, NULL));
    for (int d = 0; d < DEVICES; d++) {
        ok(cudaSetDevice(d));
        ok(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
        ok(cudaMalloc((void **)&x[d], sizeof host));
        ok(cudaMalloc((void **)&y[d], sizeof host));
        ok(cudaMemcpyAsync(x[d], host, sizeof host, cudaMemcpyHostToDevice, s[d]));
        ok(dropin_run_axpb(s[d], y[d], x[d], N, (float)d, 1, 128));
    }
    ok(ncclGroupStart());
    for (int d = 0; d < DEVICES; d++)
        ok(ncclAllReduce(y[d], y[d], N, ncclFloat32, ncclSum, comm[d], s[d]));
    ok(ncclGroupEnd());
    for (int d = 0; d < DEVICES; d++) {
        ok(cudaSetDevice(d));
        ok(cudaMemcpyAsync(back, y[d], sizeof back, cudaMemcpyDeviceToHost, s[d]));
        ok(cudaStreamSynchronize(s[d]));
        for (int i = 0; i < N; i++)
            assert_true(back[i] == 6 * (float)i + 4);
        /* As the real runtime, whatever a host version could do. */
        assert_int_equal(dropin_run_axpb(s[d], y[d], x[d], N, 1, 1, 2048),
                         cudaErrorInvalidConfiguration);
        assert_int_equal(dropin_run_unknown(s[d], y[d]), cudaErrorInvalidDeviceFunction);
        ok(cudaFree(x[d]));
        ok(cudaFree(y[d]));
        ok(cudaStreamDestroy(s[d]));
        ok(ncclCommDestroy(comm[d]));
    }
}

static void the_other_libraries(void **state)
{
    (void)state;
    cudnnHandle_t dnn;
    cublasLtHandle_t lt;
    assert_int_equal(cudnnGetVersion(), CUDNN_VERSION);
    ok(cudnnCreate(&dnn));
    ok(cublasLtCreate(&lt));
    ok(cudnnDestroy(dnn));
    ok(cublasLtDestroy(lt));
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(lib);
    int (*init)(void) = (int (*)(void))(uintptr_t)dlsym(lib, "nvmlInit_v2");
    int (*count)(unsigned *) = (int (*)(unsigned *))(uintptr_t)dlsym(lib, "nvmlDeviceGetCount_v2");
    unsigned n = 0;
    ok(init());
    ok(count(&n));
    assert_int_equal(n, DEVICES);
    dlclose(lib);
}

static void nothing_is_left(void **state)
{
    (void)state;
    long (*leaks)(void) = (long (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "fake_leaks");
    assert_int_equal(leaks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(these_are_the_fakes),
        cmocka_unit_test(kernels_and_a_collective),
        cmocka_unit_test(the_other_libraries),
        cmocka_unit_test(nothing_is_left),
    };
    return cmocka_run_group_tests_name("fakes.dropin", tests, NULL, NULL);
}
