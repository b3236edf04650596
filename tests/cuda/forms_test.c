/* Convolutions that do something beside: a data gradient added to the residual's, the sums of a
 * batch norm. Where cuDNN has a plan they are used, where it has none they are taken apart, and the
 * numbers are the same but for roundings; to the bit in place or not, and run a second time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cuda/cuda.h"
#include "core/base/alloc.h"
#include "tests/net/net_rig.h"

enum { SAMPLES = 4, SIZE = 10, CLASSES = 5 };

static int conv_bn(struct bst_graph *g, int x, int channels, int stride, const char *conv,
                   const char *bn)
{
    x = bst_graph_conv2d(g, x, channels, (struct bst_window){3, stride, 1}, conv);
    return bst_graph_batch_norm(g, x, bn);
}

/* A stem, an identity block and one with a projection. */
static struct bst_graph *residual_net(void)
{
    struct bst_graph *g = bst_graph_new(SAMPLES);
    int x = bst_graph_image(g, 3, SIZE, SIZE), y, z;

    for (int i = 0; i < 3; i++)
        g->mean[i] = g->std[i] = 0.5F;
    g->classes = CLASSES;
    x = bst_graph_relu(g, conv_bn(g, x, 8, 1, "conv1", "bn1"), "relu1");
    y = bst_graph_relu(g, conv_bn(g, x, 8, 1, "a.conv1", "a.bn1"), "a.relu1");
    y = conv_bn(g, y, 8, 1, "a.conv2", "a.bn2");
    x = bst_graph_relu(g, bst_graph_add(g, y, x, "a.add"), "a.relu2");
    y = bst_graph_relu(g, conv_bn(g, x, 16, 2, "b.conv1", "b.bn1"), "b.relu1");
    y = conv_bn(g, y, 16, 1, "b.conv2", "b.bn2");
    z = bst_graph_conv2d(g, x, 16, (struct bst_window){1, 2, 0}, "b.down.0");
    z = bst_graph_batch_norm(g, z, "b.down.1");
    x = bst_graph_relu(g, bst_graph_add(g, y, z, "b.add"), "b.relu2");
    x = bst_graph_linear(g, bst_graph_global_avg_pool(g, x, "pool"), CLASSES, "fc");
    bst_graph_softmax_ce(g, x, "loss");
    return g;
}

static unsigned refused; /* flags that have no plan */

static enum bst_err refusing(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    if (in->op != BST_I_BN_TRAIN && in->flags & refused)
        return bst_fail(BST_E_UNSUPPORTED, "no plan");
    return bst_backend_cuda.describe.describe(be, p, in, accumulate, w);
}

struct outcome {
    int n_sum, n_stats, n_bn_stats, n_dy2, n_add, n_in_place;
    double *x; /* gradients and statistics, then the loss */
    int64_t n;
};

static void count_forms(const struct bst_program *p, struct outcome *o)
{
    for (int i = 0; i < p->n_instrs; i++) {
        const struct bst_instr *in = &p->instrs[i];
        const bool sum = in->op == BST_I_CONV_BWD_DATA && in->flags & BST_IF_SUM;

        o->n_sum += sum;
        o->n_in_place += sum && p->values[in->dst[0]].alias == in->src[2];
        o->n_stats += in->op == BST_I_CONV_FWD && in->flags & BST_IF_STATS && !in->again;
        o->n_bn_stats += in->op == BST_I_BN_TRAIN && in->flags & BST_IF_STATS;
        o->n_dy2 += in->op == BST_I_BN_BWD && in->flags & BST_IF_DY2;
        o->n_add += in->op == BST_I_ADD;
    }
}

static struct outcome run(const char *backend, const struct bst_compile_opts *how)
{
    struct net_batch batch;
    struct net_rig r;
    struct outcome o = {0};
    struct bst_compile_opts opts = *how;

    opts.training = true;
    net_batch_make(&batch, SAMPLES, 3, SIZE, CLASSES, 7);
    net_open(&r, bst_backend_find(backend), 1);
    if (!strcmp(backend, "cuda"))
        r.describe.describe = refusing;
    net_compile(&r, residual_net(), &opts);
    count_forms(r.programs[0], &o);
    net_alloc(&r);
    net_fill(&r, 7);
    net_run(&r, &batch, &(struct net_pass){0, 0, false, 1.0 / SAMPLES, 0});
    for (int s = 0; s < r.table->n_slots; s++)
        o.n += bst_shape_count(&r.table->slots[s].shape);
    o.x = bst_xcalloc((size_t)++o.n, sizeof *o.x);
    double *to = o.x;
    for (int s = 0; s < r.table->n_slots; s++) {
        net_get(&r, s < r.table->n_trained ? BST_MEM_GRAD : BST_MEM_STAGED, s, to);
        to += bst_shape_count(&r.table->slots[s].shape);
    }
    *to = r.result.loss_sum;
    net_close(&r);
    net_batch_free(&batch);
    return o;
}

/* ‖a - b‖ / ‖b‖ */
static double distance(const struct outcome *a, const struct outcome *b)
{
    double d = 0, n = 0;

    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        d += (a->x[i] - b->x[i]) * (a->x[i] - b->x[i]);
        n += b->x[i] * b->x[i];
    }
    return sqrt(d / n);
}

static void forms_are_used_where_there_is_a_plan(void **state)
{
    static const struct bst_compile_opts plain;
    struct outcome exact = run("ref64", &plain);

    (void)state;
    net_use_precision(BST_PRECISION_TF32); /* which is fp32 here, and takes sums as 16 bits do */
    for (int i = 0; i < 4; i++) {
        const bool sum = !(i & 1), stats = !(i & 2);

        refused = (sum ? 0 : BST_IF_SUM) | (stats ? 0 : BST_IF_STATS);
        struct outcome o = run("cuda", &plain);
        /* Into the identity block's input and into the other's: a sum each. */
        assert_int_equal(o.n_sum, sum ? 2 : 0);
        assert_int_equal(o.n_in_place, sum ? 2 : 0);
        assert_int_equal(o.n_add, sum ? 0 : 2);
        assert_int_equal(o.n_dy2, 0);
        assert_int_equal(o.n_stats, stats ? 6 : 0);
        assert_int_equal(o.n_bn_stats, stats ? 6 : 0);
        const double d = distance(&o, &exact);
        if (!(d < 1e-5))
            fail_msg("without %x: off by %g", refused, d);
        bst_free(o.x);
    }
    assert_int_equal(exact.n_sum + exact.n_stats, 0); /* other backends are not asked */
    assert_int_equal(exact.n_dy2, 2);
    bst_free(exact.x);
    refused = 0;
    net_use_precision(BST_PRECISION_FP32);
}

/* A sum whose other share could not be taken over is made beside it. */
static void in_place_or_again_the_bits_are_the_same(void **state)
{
    static const struct bst_compile_opts ways[] = {
        {0},
        {.no_alias = true},
        {.recompute = {.kind = BST_RECOMPUTE_EVERY, .every = 1}},
        {.recompute = {.kind = BST_RECOMPUTE_EVERY, .every = 2}, .no_alias = true},
    };

    (void)state;
    for (int p = BST_PRECISION_FP32; p < BST_N_PRECISIONS; p++) {
        net_use_precision((enum bst_precision)p);
        struct outcome first = run("cuda", &ways[0]);
        for (int i = 1; i < 4; i++) {
            struct outcome o = run("cuda", &ways[i]);
            assert_int_equal(o.n_sum, 2);
            assert_int_equal(o.n_in_place, ways[i].no_alias ? 0 : 2);
            assert_int_equal(o.n_bn_stats, p == BST_PRECISION_FP32 ? 0 : 6);
            assert_memory_equal(o.x, first.x, (size_t)first.n * sizeof *first.x);
            bst_free(o.x);
        }
        bst_free(first.x);
    }
    net_use_precision(BST_PRECISION_FP32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_used_where_there_is_a_plan),
        cmocka_unit_test(in_place_or_again_the_bits_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
