/* Convolutions and their statistics against plain loops in double. */
#include <math.h>

#include "tests/fakes/dnn_support.h"

enum kind { FORWARD, DATA, FILTER };

static const cudnnBackendDescriptorType_t kinds[] = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};

struct shape {
    int64_t n, c, h, w, k, r, s;
    struct window win;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, {{0, 0}, {1, 1}, {1, 1}}},
    {2, 3, 7, 5, 4, 3, 3, {{1, 1}, {1, 1}, {1, 1}}},
    {3, 17, 9, 9, 5, 3, 3, {{1, 1}, {2, 2}, {1, 1}}},
    {1, 4, 8, 8, 6, 1, 1, {{0, 0}, {2, 2}, {1, 1}}},
    {2, 3, 12, 11, 8, 7, 7, {{3, 3}, {2, 2}, {1, 1}}},
    {2, 3, 9, 6, 8, 5, 3, {{2, 1}, {1, 2}, {1, 1}}},
    {1, 2, 9, 9, 3, 3, 3, {{2, 2}, {1, 1}, {2, 2}}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int64_t out_size(const struct shape *s, int i)
{
    int64_t in = i ? s->w : s->h;
    int64_t f = i ? s->s : s->r;
    return (in + 2 * s->win.pad[i] - s->win.dilation[i] * (f - 1) - 1) / s->win.stride[i] + 1;
}

/* All products, each added to where the kind of convolution sums it up. */
static double *reference(const struct shape *s, enum kind kind, const struct val *x,
                         const struct val *w, const struct val *y)
{
    const struct val *out = kind == FORWARD ? y : kind == DATA ? x : w;
    double *sum = calloc(out->n, sizeof *sum);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t k = 0; k < s->k; k++)
            for (int64_t p = 0; p < y->dim[2]; p++)
                for (int64_t q = 0; q < y->dim[3]; q++)
                    for (int64_t c = 0; c < s->c; c++)
                        for (int64_t r = 0; r < s->r; r++)
                            for (int64_t t = 0; t < s->s; t++) {
                                int64_t h =
                                    p * s->win.stride[0] + r * s->win.dilation[0] - s->win.pad[0];
                                int64_t v =
                                    q * s->win.stride[1] + t * s->win.dilation[1] - s->win.pad[1];
                                if (h < 0 || h >= s->h || v < 0 || v >= s->w)
                                    continue;
                                size_t ix = at4(x, n, c, h, v);
                                size_t iw = at4(w, k, c, r, t);
                                size_t iy = at4(y, n, k, p, q);
                                if (kind == FORWARD)
                                    sum[iy] += (double)x->v[ix] * (double)w->v[iw];
                                else if (kind == DATA)
                                    sum[ix] += (double)y->v[iy] * (double)w->v[iw];
                                else
                                    sum[iw] += (double)x->v[ix] * (double)y->v[iy];
                            }
    return sum;
}

static double tolerance(cudnnDataType_t t)
{
    return t == CUDNN_DATA_HALF ? 0x1p-11 : t == CUDNN_DATA_BFLOAT16 ? 0x1p-8 : 1e-5;
}

struct conv {
    struct graph g;
    struct val *x, *w, *y;
};

static void conv_init(struct conv *c, const struct shape *s, cudnnDataType_t type,
                      enum layout layout)
{
    graph_init(&c->g);
    c->x = graph_tensor(&c->g, type, (int64_t[]){s->n, s->c, s->h, s->w}, layout, REAL);
    c->w = graph_tensor(&c->g, type, (int64_t[]){s->k, s->c, s->r, s->s}, layout, REAL);
    c->y = graph_tensor(&c->g, type, (int64_t[]){s->n, s->k, out_size(s, 0), out_size(s, 1)},
                        layout, REAL);
}

static void check_conv(const struct shape *s, enum kind kind, cudnnDataType_t type,
                       enum layout layout, float alpha, float beta)
{
    struct conv c;
    conv_init(&c, s, type, layout);
    struct val *out = kind == FORWARD ? c.y : kind == DATA ? c.x : c.w;
    double *want = reference(s, kind, c.x, c.w, c.y);
    for (size_t i = 0; i < out->n; i++)
        want[i] = (double)alpha * want[i] + (double)beta * (double)out->v[i];
    graph_conv(&c.g, kinds[kind], c.x, c.w, c.y, &s->win, alpha, beta);
    graph_run(&c.g, graph_plan(&c.g, 0));
    test_near(out->v, want, out->n, tolerance(type), 1);
    free(want);
    graph_fini(&c.g);
}

static void convolutions(void **state)
{
    (void)state;
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    test_machine(1, 3);
    for (int i = 0; i < N_SHAPES; i++) {
        for (int kind = FORWARD; kind <= FILTER; kind++) {
            for (int t = 0; t < 3; t++)
                check_conv(&shapes[i], (enum kind)kind, types[t], NHWC, 1, 0);
            check_conv(&shapes[i], (enum kind)kind, CUDNN_DATA_FLOAT, NCHW, 1, 0);
        }
    }
    test_all_gone();
}

static void results_are_scaled_and_added(void **state)
{
    (void)state;
    test_machine(1, 0);
    for (int i = 0; i < N_SHAPES; i++) {
        for (int kind = FORWARD; kind <= FILTER; kind++) {
            check_conv(&shapes[i], (enum kind)kind, CUDNN_DATA_FLOAT, NHWC, 1, 1);
            check_conv(&shapes[i], (enum kind)kind, CUDNN_DATA_HALF, NHWC, 0.5f, -2);
        }
    }
    test_all_gone();
}

/* Results are rounded once, from a sum in fp32: exactly the nearest half of a small exact sum. */
static void results_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    test_machine(1, 0);
    const struct shape s = {1, 2, 1, 1, 1, 1, 1, {{0, 0}, {1, 1}, {1, 1}}};
    struct conv c;
    conv_init(&c, &s, CUDNN_DATA_HALF, NHWC);
    graph_put(c.x, (float[]){1, 1});
    graph_put(c.w, (float[]){2048, 1}); /* 2049 lies between two halves: to the even one */
    graph_conv(&c.g, kinds[FORWARD], c.x, c.w, c.y, &s.win, 1, 0);
    cudnnBackendDescriptor_t plan = graph_plan(&c.g, 0);
    graph_run(&c.g, plan);
    assert_true(c.y->v[0] == 2048);
    graph_put(c.w, (float[]){2048, 3}); /* 2051 */
    graph_run(&c.g, plan);
    assert_true(c.y->v[0] == 2052);
    graph_put(c.w, (float[]){65504, 17}); /* beyond the largest */
    graph_run(&c.g, plan);
    assert_true(isinf(c.y->v[0]));
    graph_fini(&c.g);
    test_all_gone();
}

/* Statistics are those of the convolution's rounded result. */
static void statistics_of_the_result(void **state)
{
    (void)state;
    test_machine(1, 0);
    for (int i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        struct conv c;
        conv_init(&c, s, CUDNN_DATA_HALF, NHWC);
        struct val *sum = graph_channels(&c.g, s->k, REAL);
        struct val *squares = graph_channels(&c.g, s->k, REAL);
        graph_conv(&c.g, kinds[FORWARD], c.x, c.w, c.y, &s->win, 1, 0);
        graph_genstats(&c.g, c.y, sum, squares);
        graph_run(&c.g, graph_plan(&c.g, 1));
        double *want = calloc((size_t)s->k * 2, sizeof *want);
        for (int64_t n = 0; n < s->n; n++)
            for (int64_t k = 0; k < s->k; k++)
                for (int64_t p = 0; p < c.y->dim[2]; p++)
                    for (int64_t q = 0; q < c.y->dim[3]; q++) {
                        double v = (double)c.y->v[at4(c.y, n, k, p, q)];
                        want[k] += v;
                        want[s->k + k] += v * v;
                    }
        test_near(sum->v, want, (size_t)s->k, 1e-6, 1e-3);
        test_near(squares->v, want + s->k, (size_t)s->k, 1e-6, 1e-3);
        free(want);
        graph_fini(&c.g);
    }
    test_all_gone();
}

/* relu(x · scale + bias) → convolution, nothing but x in memory; rounded where a tensor says so. */
static void a_prologue_in_virtual_tensors(void **state)
{
    (void)state;
    test_machine(1, 5);
    const struct shape *s = &shapes[2];
    struct conv c;
    conv_init(&c, s, CUDNN_DATA_HALF, NHWC);
    struct val *scale = graph_channels(&c.g, s->c, REAL);
    struct val *bias = graph_channels(&c.g, s->c, REAL);
    struct val *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_tensor(&c.g, i == 2 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT, c.x->dim, NHWC,
                            VIRTUAL);
    graph_pointwise(&c.g, CUDNN_POINTWISE_MUL, c.x, scale, t[0]);
    graph_pointwise(&c.g, CUDNN_POINTWISE_ADD, t[0], bias, t[1]);
    graph_pointwise(&c.g, CUDNN_POINTWISE_RELU_FWD, t[1], NULL, t[2]);
    graph_conv(&c.g, kinds[FORWARD], t[2], c.w, c.y, &s->win, 1, 0);
    graph_run(&c.g, graph_plan(&c.g, 4));
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t ch = 0; ch < s->c; ch++)
            for (int64_t i = 0; i < s->h * s->w; i++) {
                size_t at = at4(t[2], n, ch, 0, i);
                float v = c.x->v[at] * scale->v[ch] + bias->v[ch];
                t[2]->v[at] = test_round(v > 0 ? v : 0, TEST_F16);
            }
    double *want = reference(s, FORWARD, t[2], c.w, c.y);
    test_near(c.y->v, want, c.y->n, 0x1p-11, 1);
    free(want);
    graph_fini(&c.g);
    test_all_gone();
}

/* A wrong shape is refused where it is described. */
static void shapes_are_checked(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct graph g;
    graph_init(&g);
    struct val *x = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){1, 4, 8, 8}, NHWC, REAL);
    struct val *w = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){2, 4, 3, 3}, NHWC, REAL);
    struct val *grouped = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){2, 2, 3, 3}, NHWC, REAL);
    struct val *y = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){1, 2, 8, 8}, NHWC, REAL);
    struct val *small = graph_tensor(&g, CUDNN_DATA_HALF, (int64_t[]){1, 2, 8, 7}, NHWC, REAL);
    const struct window win = {{1, 1}, {1, 1}, {1, 1}};
    graph_conv(&g, kinds[FORWARD], x, w, y, &win, 1, 0);
    struct {
        struct val *w, *y;
        cudnnStatus_t want;
    } cases[] = {{w, small, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH},
                 {grouped, y, CUDNN_STATUS_NOT_SUPPORTED}};
    for (int i = 0; i < 2; i++) {
        cudnnBackendDescriptor_t op, conv;
        ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, &conv));
        int64_t n;
        ok(cudnnBackendGetAttribute(g.ops[0], CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &conv));
        ok(cudnnBackendCreateDescriptor(kinds[FORWARD], &op));
        struct set sets[] = {SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x->desc),
                             SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, cases[i].w->desc),
                             SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, cases[i].y->desc),
                             SET_D(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)};
        for (int k = 0; k < 4; k++)
            ok(cudnnBackendSetAttribute(op, sets[k].name, sets[k].type, 1, sets[k].v));
        assert_int_equal(cudnnBackendFinalize(op), cases[i].want);
        ok(cudnnBackendDestroyDescriptor(op));
        ok(cudnnBackendDestroyDescriptor(conv));
    }
    graph_fini(&g);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(results_are_scaled_and_added),
        cmocka_unit_test(results_are_rounded_to_the_nearest),
        cmocka_unit_test(statistics_of_the_result),
        cmocka_unit_test(a_prologue_in_virtual_tensors),
        cmocka_unit_test(shapes_are_checked),
    };
    return cmocka_run_group_tests_name("fakes.cudnn.conv", tests, NULL, NULL);
}
