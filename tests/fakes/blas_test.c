/* cublasLt's products and epilogues against plain loops in double, column-major as the library is.
 */
#include <math.h>

#include <cublasLt.h>
#include <cublas_v2.h>

#include "tests/fakes/support.h"

enum { M = 24, N = 17, K = 33 };

struct lt {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    enum test_type type;
    bool op_a, op_b; /* transposed */
    float va[M * K], vb[K * N], vd[M * N], bias[M], aux[M * N], before[M * N];
    void *pa, *pb, *pd, *pbias, *paux;
};

static cudaDataType data_type(enum test_type t)
{
    return t == TEST_F16 ? CUDA_R_16F : t == TEST_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void lt_init(struct lt *l, enum test_type type, bool op_a, bool op_b,
                    cublasLtEpilogue_t epilogue)
{
    cublasOperation_t ta = op_a ? CUBLAS_OP_T : CUBLAS_OP_N, tb = op_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int64_t ld = M;
    *l = (struct lt){.type = type, .op_a = op_a, .op_b = op_b};
    test_fill(l->va, M * K, 1, type);
    test_fill(l->vb, K * N, 2, type);
    test_fill(l->before, M * N, 3, type);
    test_fill(l->bias, M, 4, type);
    test_fill(l->aux, M * N, 5, type);
    l->pa = test_up(l->va, M * K, type);
    l->pb = test_up(l->vb, K * N, type);
    l->pd = test_up(l->before, M * N, type);
    l->pbias = test_up(l->bias, M, type);
    l->paux = test_up(l->aux, M * N, type);
    ok(cublasLtCreate(&l->handle));
    ok(cublasLtMatmulDescCreate(&l->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    struct {
        cublasLtMatmulDescAttributes_t name;
        const void *v;
        size_t bytes;
    } sets[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta},
                {CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb},
                {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
                {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &l->pbias, sizeof l->pbias},
                {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &l->paux, sizeof l->paux},
                {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        ok(cublasLtMatmulDescSetAttribute(l->desc, sets[i].name, sets[i].v, sets[i].bytes));
    ok(cublasLtMatrixLayoutCreate(&l->a, data_type(type), op_a ? K : M, op_a ? M : K,
                                  op_a ? K : M));
    ok(cublasLtMatrixLayoutCreate(&l->b, data_type(type), op_b ? N : K, op_b ? K : N,
                                  op_b ? N : K));
    ok(cublasLtMatrixLayoutCreate(&l->d, data_type(type), M, N, M));
}

static void lt_fini(struct lt *l)
{
    ok(cublasLtMatmulDescDestroy(l->desc));
    ok(cublasLtMatrixLayoutDestroy(l->a));
    ok(cublasLtMatrixLayoutDestroy(l->b));
    ok(cublasLtMatrixLayoutDestroy(l->d));
    ok(cublasLtDestroy(l->handle));
    void *all[] = {l->pa, l->pb, l->pd, l->pbias, l->paux};
    for (int i = 0; i < 5; i++)
        cudaFree(all[i]); /* on a dead device, too */
}

/* By the heuristics' algorithm `which`, with the workspace that it wants. */
static void lt_run(struct lt *l, int which, float alpha, float beta)
{
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t results[8];
    const size_t most = 4 << 20;
    int n = 0;
    ok(cublasLtMatmulPreferenceCreate(&pref));
    ok(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                            sizeof most));
    ok(cublasLtMatmulAlgoGetHeuristic(l->handle, l->desc, l->a, l->b, l->d, l->d, pref, 8, results,
                                      &n));
    assert_true(n > which);
    void *ws;
    ok(cudaMalloc(&ws, results[which].workspaceSize));
    ok(cublasLtMatmul(l->handle, l->desc, &alpha, l->pa, l->a, l->pb, l->b, &beta, l->pd, l->d,
                      l->pd, l->d, &results[which].algo, ws, results[which].workspaceSize, NULL));
    if (results[which].workspaceSize)
        assert_int_equal(cublasLtMatmul(l->handle, l->desc, &alpha, l->pa, l->a, l->pb, l->b, &beta,
                                        l->pd, l->d, l->pd, l->d, &results[which].algo, ws,
                                        results[which].workspaceSize - 1, NULL),
                         CUBLAS_STATUS_INVALID_VALUE);
    ok(cudaDeviceSynchronize());
    ok(cudaFree(ws));
    ok(cublasLtMatmulPreferenceDestroy(pref));
    test_down(l->vd, l->pd, M * N, l->type);
    test_down(l->bias, l->pbias, M, l->type);
    test_down(l->aux, l->paux, M * N, l->type);
}

static double a_at(const struct lt *l, int i, int k)
{
    return (double)l->va[l->op_a ? k + i * K : i + k * M];
}

static double b_at(const struct lt *l, int k, int j)
{
    return (double)l->vb[l->op_b ? j + k * N : k + j * K];
}

static double product(const struct lt *l, int i, int j)
{
    double s = 0;
    for (int k = 0; k < K; k++)
        s += a_at(l, i, k) * b_at(l, k, j);
    return s;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double tolerance(enum test_type t)
{
    return t == TEST_F16 ? 0x1p-11 : t == TEST_BF16 ? 0x1p-8 : 5e-6;
}

static void expect(const struct lt *l, const float *got, const double *want, size_t n)
{
    test_near(got, want, n, tolerance(l->type), 1);
}

static void products_of_all_types_and_transposes(void **state)
{
    (void)state;
    test_machine(1, 7);
    for (int type = TEST_F32; type <= TEST_BF16; type++) {
        for (int t = 0; t < 4; t++) {
            struct lt l;
            lt_init(&l, (enum test_type)type, t & 1, t & 2, CUBLASLT_EPILOGUE_DEFAULT);
            lt_run(&l, t % 3, 0.5f, t == 3 ? 1 : 0);
            double want[M * N];
            for (int i = 0; i < M * N; i++)
                want[i] = 0.5 * product(&l, i % M, i / M) + (t == 3 ? (double)l.before[i] : 0);
            expect(&l, l.vd, want, M * N);
            lt_fini(&l);
        }
    }
    test_all_gone();
}

static void bias_and_activation(void **state)
{
    (void)state;
    static const cublasLtEpilogue_t all[] = {
        CUBLASLT_EPILOGUE_BIAS,         CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,
        CUBLASLT_EPILOGUE_GELU_BIAS,    CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_RELU_AUX_BIAS};
    test_machine(1, 0);
    for (int type = TEST_F32; type <= TEST_BF16; type++) {
        for (size_t e = 0; e < sizeof all / sizeof *all; e++) {
            struct lt l;
            lt_init(&l, (enum test_type)type, true, false, all[e]);
            float bias[M];
            memcpy(bias, l.bias, sizeof bias);
            lt_run(&l, 2, 1, 0);
            double want[M * N], pre[M * N];
            bool has_bias = all[e] & CUBLASLT_EPILOGUE_BIAS;
            for (int i = 0; i < M * N; i++) {
                pre[i] = product(&l, i % M, i / M) + (has_bias ? (double)bias[i % M] : 0);
                want[i] = all[e] & CUBLASLT_EPILOGUE_RELU   ? fmax(pre[i], 0)
                          : all[e] & CUBLASLT_EPILOGUE_GELU ? gelu(pre[i])
                                                            : pre[i];
            }
            expect(&l, l.vd, want, M * N);
            if (all[e] == CUBLASLT_EPILOGUE_GELU_AUX || all[e] == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
                expect(&l, l.aux, pre, M * N);
            lt_fini(&l);
        }
    }
    test_all_gone();
}

/* D = (dY Wᵀ) ∘ gelu'(aux), and the bias's gradient: sums of D over its columns. */
static void gelu_backward_with_the_bias_gradient(void **state)
{
    (void)state;
    test_machine(1, 0);
    for (int type = TEST_F32; type <= TEST_BF16; type++) {
        struct lt l;
        lt_init(&l, (enum test_type)type, false, true, CUBLASLT_EPILOGUE_DGELU_BGRAD);
        lt_run(&l, 0, 1, 0);
        double want[M * N], sums[M] = {0};
        for (int i = 0; i < M * N; i++) {
            double x = (double)l.aux[i], h = 1e-6;
            want[i] = product(&l, i % M, i / M) * (gelu(x + h) - gelu(x - h)) / (2 * h);
            sums[i % M] += (double)l.vd[i]; /* of what was stored */
        }
        expect(&l, l.vd, want, M * N);
        expect(&l, l.bias, sums, M);
        lt_fini(&l);
    }
    test_all_gone();
}

/* ReLU forward leaves a bit an element, which backward takes. */
static void relu_and_its_mask(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct lt f, b;
    lt_init(&f, TEST_F32, false, false, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
    lt_run(&f, 1, 1, 0);
    lt_init(&b, TEST_F32, false, false, CUBLASLT_EPILOGUE_DRELU_BGRAD);
    ok(cudaMemcpy(b.paux, f.paux, M * N / 8, cudaMemcpyDeviceToDevice));
    lt_run(&b, 1, 1, 0);
    double want[M * N], sums[M] = {0};
    for (int i = 0; i < M * N; i++) {
        want[i] = f.vd[i] > 0 ? product(&b, i % M, i / M) : 0;
        sums[i % M] += want[i];
    }
    expect(&b, b.vd, want, M * N);
    test_near(b.bias, sums, M, 1e-5, 1);
    lt_fini(&f);
    lt_fini(&b);
    test_all_gone();
}

/* dW += dYᵀ X in fp32 with the bias's gradient beside it: sums of B, or of A, over K. */
static void weight_gradients_add_up(void **state)
{
    (void)state;
    test_machine(1, 0);
    for (int which = 0; which < 2; which++) {
        struct lt l;
        lt_init(&l, TEST_F16, which, !which,
                which ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB);
        cudaDataType f32 = CUDA_R_32F;
        float before[M * N], after[M * N], bias[M];
        test_fill(before, M * N, 9, TEST_F32);
        ok(cudaFree(l.pd));
        ok(cudaFree(l.pbias));
        l.pd = test_up(before, M * N, TEST_F32);
        l.pbias = test_up(NULL, M, TEST_F32);
        ok(cublasLtMatmulDescSetAttribute(l.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &l.pbias,
                                          sizeof l.pbias));
        ok(cublasLtMatmulDescSetAttribute(l.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &f32,
                                          sizeof f32));
        ok(cublasLtMatrixLayoutSetAttribute(l.d, CUBLASLT_MATRIX_LAYOUT_TYPE, &f32, sizeof f32));
        float one = 1;
        ok(cublasLtMatmul(l.handle, l.desc, &one, l.pa, l.a, l.pb, l.b, &one, l.pd, l.d, l.pd, l.d,
                          NULL, NULL, 0, NULL));
        ok(cudaDeviceSynchronize());
        test_down(after, l.pd, M * N, TEST_F32);
        test_down(bias, l.pbias, which ? M : N, TEST_F32);
        double want[M * N], sums[M] = {0};
        for (int i = 0; i < M * N; i++)
            want[i] = product(&l, i % M, i / M) + (double)before[i];
        for (int i = 0; i < (which ? M : N); i++)
            for (int k = 0; k < K; k++)
                sums[i] += which ? a_at(&l, i, k) : b_at(&l, k, i);
        test_near(after, want, M * N, 2e-6, 1);
        test_near(bias, sums, which ? M : N, 1e-6, 1);
        lt_fini(&l);
    }
    test_all_gone();
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(1);
    snprintf(s.fail, sizeof s.fail, "cublasLtMatmulAlgoGetHeuristic:2:15,cublasLtMatmul:1:13");
    fake_reset(&s);
    ok(cudaSetDevice(0));
    struct lt l;
    lt_init(&l, TEST_F16, false, false, CUBLASLT_EPILOGUE_DEFAULT);
    cublasLtMatmulHeuristicResult_t r[4];
    int n;
    float one = 1, zero = 0;
    /* Without leave for a workspace only what wants none. */
    ok(cublasLtMatmulAlgoGetHeuristic(l.handle, l.desc, l.a, l.b, l.d, l.d, NULL, 4, r, &n));
    assert_int_equal(n, 1);
    assert_int_equal(r[0].workspaceSize, 0);
    assert_int_equal(
        cublasLtMatmulAlgoGetHeuristic(l.handle, l.desc, l.a, l.b, l.d, l.d, NULL, 4, r, &n),
        CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(
        cublasLtMatmulAlgoGetHeuristic(l.handle, l.desc, l.b, l.a, l.d, l.d, NULL, 4, r, &n),
        CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmul(l.handle, l.desc, &one, l.pa, l.a, l.pb, l.b, &zero, l.pd, l.d,
                                    l.pd, l.d, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    ok(cublasLtMatmul(l.handle, l.desc, &one, l.pa, l.a, l.pb, l.b, &zero, l.pd, l.d, l.pd, l.d,
                      NULL, NULL, 0, NULL));
    ok(cudaDeviceSynchronize());
    /* A pointer that is short of its matrix: the device finds out. */
    assert_int_equal(cublasLtMatmul(l.handle, l.desc, &one, l.pa, l.a, l.pb, l.b, &zero, l.pbias,
                                    l.d, l.pbias, l.d, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_non_null(strstr(fake_last_report(), "D leaves its block"));
    lt_fini(&l);
    assert_int_equal(fake_leaks(), 0);
}

static void the_plain_library(void **state)
{
    (void)state;
    test_machine(1, 3);
    struct lt l;
    lt_init(&l, TEST_BF16, true, false, CUBLASLT_EPILOGUE_DEFAULT);
    cublasHandle_t h;
    cudaStream_t s;
    float alpha = 2, beta = 1;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cublasCreate(&h));
    ok(cublasSetStream(h, s));
    assert_int_equal(cublasSetWorkspace(h, (char *)l.paux + 2, 256), CUBLAS_STATUS_INVALID_VALUE);
    ok(cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, M, N, K, &alpha, l.pa, CUDA_R_16BF, K, l.pb,
                    CUDA_R_16BF, K, &beta, l.pd, CUDA_R_16BF, M, CUBLAS_COMPUTE_32F,
                    CUBLAS_GEMM_DEFAULT));
    ok(cudaStreamSynchronize(s));
    test_down(l.vd, l.pd, M * N, TEST_BF16);
    double want[M * N];
    for (int i = 0; i < M * N; i++)
        want[i] = 2 * product(&l, i % M, i / M) + (double)l.before[i];
    expect(&l, l.vd, want, M * N);
    ok(cublasDestroy(h));
    ok(cudaStreamDestroy(s));
    lt_fini(&l);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_types_and_transposes),
        cmocka_unit_test(bias_and_activation),
        cmocka_unit_test(gelu_backward_with_the_bias_gradient),
        cmocka_unit_test(relu_and_its_mask),
        cmocka_unit_test(weight_gradients_add_up),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_plain_library),
    };
    return cmocka_run_group_tests_name("fakes.cublas", tests, NULL, NULL);
}
