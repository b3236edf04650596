/* The CPU backend on whole nets: no reference implementation in any shipped net, large batches
 * agree with ref, the same numbers from run to run and with another rank beside it. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cpu/be.h"
#include "core/base/alloc.h"
#include "nets/nets.h"
#include "tests/bench/rig.h"
#include "tests/team.h"

static struct rig_cfg config(const char *backend, const char *net, int channels, int size,
                             int batch)
{
    struct rig_cfg c = {.backend = backend, .batch = batch, .threads = TEAM_OF(2), .seed = 7};

    c.net.name = net;
    c.net.in_channels = channels;
    c.net.height = c.net.width = size;
    c.net.classes = 10;
    c.opts.training = true;
    for (int i = 0; i < 4; i++)
        c.net.std[i] = 0.5f;
    return c;
}

static int n_reference(const struct bst_program *p)
{
    int n = 0;

    for (int i = 0; i < p->n_instrs; i++) {
        const struct cpu_handle *h = p->instrs[i].handle;

        if (p->instrs[i].op != BST_I_REORDER && h->prim &&
            strncmp(shim_prim_impl(h->prim), "ref", 3) == 0)
            n++;
    }
    return n;
}

static void check_implementations(struct bst_be *be, const struct bst_net *net, int channels,
                                  int size, bool training)
{
    const struct rig_cfg c = config("cpu", net->name, channels, size, 2);
    const struct bst_compile_opts o = {.training = training};
    struct bst_graph *g = bst_graph_new(c.batch);
    struct bst_param_table *params;
    struct bst_program *p;

    assert_int_equal(net->build(&c.net, g), BST_OK);
    params = bst_param_table_new(g);
    if (bst_compile(g, &bst_backend_find("cpu")->describe, be, params, &o, &p))
        fail_msg("%s, %d channels of %d: %s", net->name, channels, size, bst_err_text());
    assert_int_equal(n_reference(p), 0);
    bst_program_free(p);
    bst_param_table_free(params);
    bst_graph_free(g);
}

static void no_reference_implementation(void **state)
{
    const struct bst_backend *b = bst_backend_find("cpu");
    const struct bst_be_cfg cfg = {.threads = TEAM_OF(2)};
    struct bst_be *be;

    (void)state;
    assert_int_equal(b->open(&cfg, &be), BST_OK);
    for (int i = 0; i < net_table.n_nets; i++) {
        if (net_table.nets[i].input !=
            BST_INPUT_IMAGES) /* no layout is left to the library there */
            continue;
        check_implementations(be, &net_table.nets[i], 1, 28, true);
        check_implementations(be, &net_table.nets[i], 3, 64, true);
        check_implementations(be, &net_table.nets[i], 3, 64, false);
    }
    b->close(be);
}

/* What the rule is for: sixteen channels a block have nothing but a reference implementation where
 * vectors hold eight, and the library would take it. */
static void reference_is_refused(void **state)
{
    struct shim_op op = {.kind = SHIM_CONV_FWD, .window = {3, 1, 1}};
    const struct bst_shape x = {4, {2, 16, 8, 8}}, w = {4, {16, 16, 3, 3}};
    struct shim *s;
    struct shim_prim *p;

    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        skip();
#endif
    assert_int_equal(shim_open(1, &s), BST_OK);
    op.t[SHIM_SRC].shape = op.t[SHIM_DST].shape = x;
    op.t[SHIM_WEIGHT].shape = w;
    for (int r = 0; r < SHIM_N_ROLES; r++)
        op.t[r].layout = op.t[r].now = r == SHIM_WEIGHT ? BST_LAYOUT_ANY : shim_layout_of_block(16);
    assert_int_equal(shim_prim_new(s, &op, &p), BST_E_UNSUPPORTED);
    assert_null(p);
    shim_close(s);
}

/* Relative distance of a whole gradient. */
static double gradient_distance(struct rig *a, struct rig *b)
{
    double d = 0, s = 0;

    for (int i = 0; i < a->params->n_trained; i++) {
        int64_t n = bst_shape_count(&a->params->slots[i].shape);
        double *x = rig_gradient(a, i), *y = rig_gradient(b, i);

        for (int64_t j = 0; j < n; j++) {
            d += (x[j] - y[j]) * (x[j] - y[j]);
            s += y[j] * y[j];
        }
        bst_free(x);
        bst_free(y);
    }
    return sqrt(d / s);
}

/* Large enough for results that go past the caches and for blocks shared by batch. */
static void large_batch(void **state)
{
    struct rig_cfg c = config("cpu", "resnet8", 1, 28, 48),
                   plain = config("ref", "resnet8", 1, 28, 48);
    struct rig a, b;

    (void)state;
    c.net.base_width = plain.net.base_width = 8;
    c.threads = TEAM_OF(3);
    assert_int_equal(rig_open(&a, &c), BST_OK);
    assert_int_equal(rig_open(&b, &plain), BST_OK);
    assert_int_equal(rig_pass(&a), BST_OK);
    assert_int_equal(rig_pass(&b), BST_OK);
    assert_true(fabs(a.result.loss_sum / b.result.loss_sum - 1) < 1e-5);
    assert_int_equal(a.result.correct, b.result.correct);
    assert_true(gradient_distance(&a, &b) < 1e-4);
    rig_close(&a);
    rig_close(&b);
}

struct outcome {
    enum bst_err err;
    double loss[4];
};

static void *train_four(void *arg)
{
    struct outcome *o = arg;
    struct rig_cfg c = config("cpu", "resnet8", 1, 28, 32);
    struct rig r;

    o->err = rig_open(&r, &c);
    for (int i = 0; i < 4 && !o->err; i++) {
        o->err = rig_pass(&r);
        o->loss[i] = r.result.loss_sum;
        if (!o->err)
            o->err = rig_update(&r);
    }
    rig_close(&r);
    return NULL;
}

static void same_from_run_to_run(void **state)
{
    struct outcome alone, beside[2];
    pthread_t t[2];

    (void)state;
    train_four(&alone);
    assert_int_equal(alone.err, BST_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, train_four, &beside[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(beside[i].err, BST_OK);
        assert_memory_equal(alone.loss, beside[i].loss, sizeof alone.loss);
    }
    assert_true(alone.loss[3] < alone.loss[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reference_implementation),
        cmocka_unit_test(reference_is_refused),
        cmocka_unit_test(large_batch),
        cmocka_unit_test(same_from_run_to_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
