/* The other operations of cuDNN's fake, each against plain C in double. */
#include <math.h>

#include "tests/fakes/dnn_support.h"

static const int64_t usual[DIMS] = {3, 17, 5, 4};

/* --- pointwise --- */

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double elu(double x)
{
    return x > 0 ? x : expm1(x);
}

static double softplus(double x)
{
    return log1p(exp(x));
}

static double swish(double x)
{
    return x * sigmoid(x);
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double negative(double x)
{
    return -x;
}

static const struct {
    cudnnPointwiseMode_t fwd, bwd; /* bwd 0: none */
    double (*f)(double);
    bool positive; /* wants positive numbers */
} unary[] = {
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, relu, false},
    {CUDNN_POINTWISE_TANH_FWD, CUDNN_POINTWISE_TANH_BWD, tanh, false},
    {CUDNN_POINTWISE_SIGMOID_FWD, CUDNN_POINTWISE_SIGMOID_BWD, sigmoid, false},
    {CUDNN_POINTWISE_ELU_FWD, CUDNN_POINTWISE_ELU_BWD, elu, false},
    {CUDNN_POINTWISE_GELU_FWD, CUDNN_POINTWISE_GELU_BWD, gelu, false},
    {CUDNN_POINTWISE_SOFTPLUS_FWD, CUDNN_POINTWISE_SOFTPLUS_BWD, softplus, false},
    {CUDNN_POINTWISE_SWISH_FWD, CUDNN_POINTWISE_SWISH_BWD, swish, false},
    {CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, CUDNN_POINTWISE_GELU_APPROX_TANH_BWD, gelu_tanh, false},
    {CUDNN_POINTWISE_ABS, 0, fabs, false},
    {CUDNN_POINTWISE_CEIL, 0, ceil, false},
    {CUDNN_POINTWISE_FLOOR, 0, floor, false},
    {CUDNN_POINTWISE_COS, 0, cos, false},
    {CUDNN_POINTWISE_SIN, 0, sin, false},
    {CUDNN_POINTWISE_TAN, 0, tan, false},
    {CUDNN_POINTWISE_EXP, 0, exp, false},
    {CUDNN_POINTWISE_ERF, 0, erf, false},
    {CUDNN_POINTWISE_NEG, 0, negative, false},
    {CUDNN_POINTWISE_LOG, 0, log, true},
    {CUDNN_POINTWISE_SQRT, 0, sqrt, true},
    {CUDNN_POINTWISE_RSQRT, 0, rsqrt, true},
    {CUDNN_POINTWISE_RECIPROCAL, 0, reciprocal, true},
};

static void unary_modes(void **state)
{
    (void)state;
    test_machine(1, 2);
    for (size_t m = 0; m < sizeof unary / sizeof *unary; m++) {
        struct graph g;
        graph_init(&g);
        struct val *x = graph_tensor(&g, CUDNN_DATA_FLOAT, usual, NHWC, REAL);
        struct val *dy = graph_tensor(&g, CUDNN_DATA_FLOAT, usual, NCHW, REAL);
        struct val *y = graph_tensor(&g, CUDNN_DATA_FLOAT, usual, NHWC, REAL);
        struct val *dx = graph_tensor(&g, CUDNN_DATA_FLOAT, usual, NHWC, REAL);
        for (size_t i = 0; i < x->n; i++)
            x->v[i] = unary[m].positive ? fabsf(x->v[i]) + 0.1f : 3 * x->v[i];
        graph_put(x, x->v);
        graph_pointwise(&g, unary[m].fwd, x, NULL, y);
        if (unary[m].bwd)
            graph_pointwise_bwd(&g, unary[m].bwd, dy, x, dx);
        double *want = calloc(2 * x->n, sizeof *want);
        for (size_t i = 0; i < x->n; i++) {
            double at = (double)x->v[i], h = 1e-6;
            want[i] = unary[m].f(at);
            want[x->n + i] = (double)dy->v[i] * (unary[m].f(at + h) - unary[m].f(at - h)) / (2 * h);
        }
        graph_run(&g, graph_plan(&g, 0));
        test_near(y->v, want, y->n, 2e-6, 1);
        if (unary[m].bwd)
            test_near(dx->v, want + x->n, dx->n, 1e-5, 1);
        free(want);
        graph_fini(&g);
    }
    test_all_gone();
}

/* Two operands, the second one broadcast along channels or altogether. */
static void binary_modes(void **state)
{
    (void)state;
    static const cudnnPointwiseMode_t modes[] = {
        CUDNN_POINTWISE_ADD,    CUDNN_POINTWISE_SUB,    CUDNN_POINTWISE_MUL,
        CUDNN_POINTWISE_DIV,    CUDNN_POINTWISE_MAX,    CUDNN_POINTWISE_MIN,
        CUDNN_POINTWISE_CMP_GT, CUDNN_POINTWISE_CMP_LE, CUDNN_POINTWISE_ADD_SQUARE,
        CUDNN_POINTWISE_CMP_EQ};
    test_machine(1, 0);
    for (int scalar = 0; scalar < 2; scalar++) {
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            struct graph g;
            graph_init(&g);
            struct val *x = graph_tensor(&g, CUDNN_DATA_HALF, usual, NHWC, REAL);
            struct val *b = scalar ? graph_scalar(&g, 0.75f) : graph_channels(&g, usual[1], REAL);
            struct val *y = graph_tensor(&g, CUDNN_DATA_FLOAT, usual, NHWC, REAL);
            graph_pointwise(&g, modes[m], x, b, y);
            graph_run(&g, graph_plan(&g, 0));
            for (size_t i = 0; i < x->n; i++) {
                double p = (double)x->v[i];
                double q = (double)b->v[scalar ? 0 : i / (5 * 4) % 17];
                double want = modes[m] == CUDNN_POINTWISE_ADD          ? p + q
                              : modes[m] == CUDNN_POINTWISE_SUB        ? p - q
                              : modes[m] == CUDNN_POINTWISE_MUL        ? p * q
                              : modes[m] == CUDNN_POINTWISE_DIV        ? p / q
                              : modes[m] == CUDNN_POINTWISE_MAX        ? fmax(p, q)
                              : modes[m] == CUDNN_POINTWISE_MIN        ? fmin(p, q)
                              : modes[m] == CUDNN_POINTWISE_CMP_GT     ? p > q
                              : modes[m] == CUDNN_POINTWISE_CMP_LE     ? p <= q
                              : modes[m] == CUDNN_POINTWISE_ADD_SQUARE ? p + q * q
                                                                       : p == q;
                test_near(&y->v[i], &want, 1, 1e-6, 1);
            }
            graph_fini(&g);
        }
    }
    test_all_gone();
}

/* y > 0 ? y : z by way of a mask of one byte an element. */
static void a_mask_and_a_selection(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct graph g;
    graph_init(&g);
    struct val *x = graph_tensor(&g, CUDNN_DATA_HALF, usual, NHWC, REAL);
    struct val *z = graph_tensor(&g, CUDNN_DATA_HALF, usual, NHWC, REAL);
    struct val *mask = graph_tensor(&g, CUDNN_DATA_BOOLEAN, usual, NHWC, REAL);
    struct val *y = graph_tensor(&g, CUDNN_DATA_HALF, usual, NHWC, REAL);
    struct val *zero = graph_scalar(&g, 0);
    graph_pointwise(&g, CUDNN_POINTWISE_CMP_GT, x, zero, mask);
    cudnnPointwiseMode_t select = CUDNN_POINTWISE_BINARY_SELECT;
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t m =
        DESC(&g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
             {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &select},
             {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32});
    OP(&g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, m),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, z->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask->desc),
       SET_D(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y->desc));
    graph_run(&g, graph_plan(&g, 0));
    for (size_t i = 0; i < x->n; i++) {
        assert_true(mask->v[i] == (x->v[i] > 0));
        assert_true(y->v[i] == (x->v[i] > 0 ? x->v[i] : z->v[i]));
    }
    graph_fini(&g);
    test_all_gone();
}

/* --- reductions --- */

static void reductions(void **state)
{
    (void)state;
    static const cudnnReduceTensorOp_t ops[] = {
        CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_AVG,  CUDNN_REDUCE_TENSOR_MAX,
        CUDNN_REDUCE_TENSOR_MIN, CUDNN_REDUCE_TENSOR_AMAX, CUDNN_REDUCE_TENSOR_NORM1,
        CUDNN_REDUCE_TENSOR_MUL, CUDNN_REDUCE_TENSOR_NORM2};
    static const int64_t shapes[][DIMS] = {{1, 17, 1, 1}, {3, 17, 1, 1}, {3, 1, 5, 4},
                                           {3, 17, 5, 1}, {1, 1, 1, 1},  {3, 17, 5, 4}};
    test_machine(1, 0);
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct graph g;
            graph_init(&g);
            struct val *x = graph_tensor(&g, CUDNN_DATA_BFLOAT16, usual, NHWC, REAL);
            struct val *y = graph_tensor(&g, CUDNN_DATA_FLOAT, shapes[s], NHWC, REAL);
            for (size_t i = 0; i < x->n; i++)
                x->v[i] = ops[o] == CUDNN_REDUCE_TENSOR_MUL ? 1 + 0.01f * x->v[i] : x->v[i];
            graph_put(x, x->v);
            graph_reduce(&g, ops[o], x, y);
            double *want = calloc(y->n, sizeof *want);
            bool *any = calloc(y->n, sizeof *any);
            for (int64_t i = 0; i < (int64_t)x->n; i++) {
                int64_t left = i, at = 0, step = 1;
                for (int k = DIMS - 1; k >= 0; k--) {
                    at += (y->dim[k] == 1 ? 0 : left % x->dim[k]) * step;
                    step *= y->dim[k];
                    left /= x->dim[k];
                }
                double v = (double)x->v[i], *w = &want[at];
                double before = any[at] ? *w : ops[o] == CUDNN_REDUCE_TENSOR_MUL ? 1 : 0;
                *w = ops[o] == CUDNN_REDUCE_TENSOR_MAX     ? (any[at] ? fmax(*w, v) : v)
                     : ops[o] == CUDNN_REDUCE_TENSOR_MIN   ? (any[at] ? fmin(*w, v) : v)
                     : ops[o] == CUDNN_REDUCE_TENSOR_AMAX  ? fmax(before, fabs(v))
                     : ops[o] == CUDNN_REDUCE_TENSOR_MUL   ? before * v
                     : ops[o] == CUDNN_REDUCE_TENSOR_NORM1 ? before + fabs(v)
                     : ops[o] == CUDNN_REDUCE_TENSOR_NORM2 ? before + v * v
                                                           : before + v;
                any[at] = true;
            }
            for (size_t i = 0; i < y->n; i++) {
                if (ops[o] == CUDNN_REDUCE_TENSOR_AVG)
                    want[i] *= (double)y->n / (double)x->n;
                if (ops[o] == CUDNN_REDUCE_TENSOR_NORM2)
                    want[i] = sqrt(want[i]);
            }
            graph_run(&g, graph_plan(&g, 0));
            test_near(y->v, want, y->n, ops[o] == CUDNN_REDUCE_TENSOR_MUL ? 1e-4 : 1e-6, 1e-3);
            free(want);
            free(any);
            graph_fini(&g);
        }
    }
    test_all_gone();
}

/* --- products --- */

/* c[z] = a[z] b[z / groups], b given transposed in memory. */
static void products(void **state)
{
    (void)state;
    test_machine(1, 0);
    for (int groups = 1; groups <= 2; groups++) {
        enum { B = 2, H = 4, M = 5, K = 7, N = 3 };
        const int64_t hb = H / groups;
        struct graph g;
        graph_init(&g);
        struct val *a = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){B, H, M, K}, NCHW, REAL);
        struct val *b = graph_strided(&g, CUDNN_DATA_HALF, (int64_t[]){B, hb, K, N},
                                      (int64_t[]){hb * K * N, K * N, 1, K}, REAL);
        struct val *c = graph_tensor(&g, CUDNN_DATA_FLOAT, (int64_t[]){B, H, M, N}, NCHW, REAL);
        graph_matmul(&g, a, b, c);
        graph_run(&g, graph_plan(&g, 0));
        for (int z = 0; z < B; z++)
            for (int h = 0; h < H; h++)
                for (int i = 0; i < M; i++)
                    for (int j = 0; j < N; j++) {
                        double want = 0;
                        for (int k = 0; k < K; k++)
                            want += (double)a->v[at4(a, z, h, i, k)] *
                                    (double)b->v[at4(b, z, h / groups, k, j)];
                        test_near(&c->v[at4(c, z, h, i, j)], &want, 1, 1e-6, 1);
                    }
        graph_fini(&g);
    }
    test_all_gone();
}

/* --- random numbers --- */

static void dropout_masks(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct graph g;
    graph_init(&g);
    const int64_t one[DIMS] = {1, 1, 1, 1};
    struct val *seed = graph_tensor(&g, CUDNN_DATA_INT64, one, NHWC, REAL);
    struct val *offset = graph_tensor(&g, CUDNN_DATA_INT64, one, NHWC, REAL);
    struct val *y = graph_tensor(&g, CUDNN_DATA_FLOAT, (int64_t[]){4, 8, 32, 16}, NHWC, REAL);
    cudnnRngDistribution_t bernoulli = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    double keep = 0.75;
    cudnnBackendDescriptor_t d =
        DESC(&g, CUDNN_BACKEND_RNG_DESCRIPTOR,
             {CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &bernoulli},
             {CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &keep});
    OP(&g, CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, SET_D(CUDNN_ATTR_OPERATION_RNG_DESC, d),
       SET_D(CUDNN_ATTR_OPERATION_RNG_SEED, seed->desc),
       SET_D(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset->desc),
       SET_D(CUDNN_ATTR_OPERATION_RNG_YDESC, y->desc));
    cudnnBackendDescriptor_t plan = graph_plan(&g, 0);
    float *masks[4];
    for (int i = 0; i < 4; i++) {
        /* Seeds far beyond what a float can tell apart; the last is the first again. */
        int64_t s = ((int64_t)1 << 60) + (i == 1), o = i == 2;
        ok(cudaMemcpy(seed->p, &s, sizeof s, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(offset->p, &o, sizeof o, cudaMemcpyHostToDevice));
        graph_run(&g, plan);
        masks[i] = malloc(y->n * sizeof(float));
        memcpy(masks[i], y->v, y->n * sizeof(float));
        double kept = 0;
        for (size_t k = 0; k < y->n; k++) {
            assert_true(y->v[k] == 0 || y->v[k] == 1);
            kept += (double)y->v[k];
        }
        assert_true(fabs(kept / (double)y->n - keep) < 0.02);
    }
    assert_memory_equal(masks[0], masks[3], y->n * sizeof(float));
    assert_memory_not_equal(masks[0], masks[1], y->n * sizeof(float));
    assert_memory_not_equal(masks[0], masks[2], y->n * sizeof(float));
    for (int i = 0; i < 4; i++)
        free(masks[i]);
    graph_fini(&g);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_modes),
        cmocka_unit_test(binary_modes),
        cmocka_unit_test(a_mask_and_a_selection),
        cmocka_unit_test(reductions),
        cmocka_unit_test(products),
        cmocka_unit_test(dropout_masks),
    };
    return cmocka_run_group_tests_name("fakes.cudnn.ops", tests, NULL, NULL);
}
