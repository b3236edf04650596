/* Whole programs: whatever the compiler does to a net (fuses it or not, in place or not, reorders,
 * takes apart what a backend cannot) must not change a bit of its numbers; two micro-batches add
 * up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "tests/net/net_rig.h"
#include "tests/net/random_net.h"
#include "tests/net/twist.h"

#define N_NETS 24

static struct random_net net_of(uint64_t seed)
{
    return (struct random_net){seed, 1 + (int)(seed % 3), 9 + (int)(seed % 4), seed % 6 != 5};
}

struct way { /* of compiling */
    const char *name;
    const struct bst_backend *b;
    struct bst_compile_opts o;
    unsigned refuse;
    bool plain;
};

/* Everything an update leaves behind: loss, gradients, statistics, one after the other. */
struct result {
    double *x;
    int64_t n;
};

static struct result collect(struct net_rig *r)
{
    struct result out = {0};
    for (int s = 0; s < r->table->n_slots; s++)
        out.n += bst_shape_count(&r->table->slots[s].shape);
    out.x = bst_xcalloc((size_t)out.n + 2, sizeof *out.x);
    int64_t at = 0;
    for (int s = 0; s < r->table->n_slots; s++) {
        net_get(r, s < r->table->n_trained ? BST_MEM_GRAD : BST_MEM_STAGED, s, out.x + at);
        at += bst_shape_count(&r->table->slots[s].shape);
    }
    out.x[at++] = r->result.loss_sum;
    out.x[at] = (double)r->result.correct;
    out.n += 2;
    return out;
}

/* 4 samples, then 3 more that are added. */
static struct result update(const struct way *w, const struct random_net *net,
                            const struct net_batch *batch)
{
    struct net_rig r;
    struct bst_compile_opts o = w->o;
    o.training = o.accumulate = true;
    twist = (struct twist){.refuse = w->refuse, .plain = w->plain};
    net_open(&r, w->b, 1);
    net_compile(&r, random_net_build(net, 4), &o);
    net_compile(&r, random_net_build(net, 3), &o);
    net_alloc(&r);
    net_fill(&r, net->seed);
    net_run(&r, batch, &(struct net_pass){0, 0, false, 1.0 / 7, 0.1});
    net_run(&r, batch, &(struct net_pass){1, 4, true, 1.0 / 7, 0.1});
    struct result out = collect(&r);
    net_close(&r);
    assert_int_equal(twist.held, 0);
    return out;
}

static void same_numbers(void **state)
{
    (void)state;
    const struct bst_backend *ref64 = bst_backend_find("ref64"), *tw = twist_backend();
    static const char *const names[] = {"*"};
    const struct bst_recompute every = {BST_RECOMPUTE_EVERY, .every = 1},
                               layers = {BST_RECOMPUTE_LAYERS, .layers = names, .n_layers = 1},
                               all = {BST_RECOMPUTE_AUTO, .arena_limit = 1};
    const struct way ways[] = {
        {"fused, in place", ref64, {0}, 0, true},
        {"unfused", ref64, {.no_fuse = true}, 0, true},
        {"nothing in place", ref64, {.no_alias = true}, 0, true},
        {"unfused, nothing in place", ref64, {.no_fuse = true, .no_alias = true}, 0, true},
        {"other layouts", tw, {0}, 0, false},
        {"other layouts, unfused", tw, {.no_fuse = true}, 0, false},
        {"other layouts, nothing in place", tw, {.no_alias = true}, 0, false},
        {"no ReLU in a batch norm", tw, {0}, BST_IF_RELU, false},
        {"no residual in a batch norm", tw, {0}, BST_IF_RESIDUAL, true},
        {"no second gradient", tw, {0}, BST_IF_DY2, false},
        {"nothing fused", tw, {0}, BST_IF_RELU | BST_IF_DY2, false},
        {"every block again", ref64, {.recompute = every}, 0, true},
        {"every block again, other layouts", tw, {.recompute = every}, 0, false},
        {"batch norms again", tw, {.recompute = layers}, BST_IF_RELU, false},
        {"as much again as there is", ref64, {.recompute = all}, 0, true},
        {"unfused and again", tw, {.recompute = all, .no_fuse = true}, 0, false},
        {"again, nothing in place", ref64, {.recompute = all, .no_alias = true}, 0, true},
    };
    for (uint64_t seed = 1; seed <= N_NETS; seed++) {
        struct random_net net = net_of(seed);
        struct net_batch batch;
        net_batch_make(&batch, 7, net.channels, net.size, RANDOM_NET_CLASSES, seed);
        struct result first = update(&ways[0], &net, &batch);
        for (size_t i = 1; i < sizeof ways / sizeof ways[0]; i++) {
            struct result r = update(&ways[i], &net, &batch);
            assert_int_equal(r.n, first.n);
            if (memcmp(r.x, first.x, (size_t)r.n * sizeof *r.x))
                fail_msg("net %d: '%s' gives other numbers", (int)seed, ways[i].name);
            bst_free(r.x);
        }
        for (int64_t i = 0; i < first.n; i++)
            assert_true(first.x[i] == first.x[i]);
        bst_free(first.x);
        net_batch_free(&batch);
    }
}

static void assert_near(const struct result *a, const struct result *b, double tolerance)
{
    double largest = 0, worst = 0;
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        double d = a->x[i] - b->x[i], m = a->x[i] < 0 ? -a->x[i] : a->x[i];
        d = d < 0 ? -d : d;
        largest = m > largest ? m : largest;
        worst = d <= worst ? worst : d;
    }
    if (!(worst <= tolerance * largest))
        fail_msg("off by %g of %g", worst, largest);
}

/* Without batch norm a sample's gradient does not know the others: 4 + 3 is 7. */
static void micro_batches_add_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_NETS; seed++) {
        struct random_net net = net_of(seed);
        struct bst_compile_opts o = {.training = true};
        struct net_batch batch;
        struct net_rig r;
        net.batch_norm = false;
        net_batch_make(&batch, 7, net.channels, net.size, RANDOM_NET_CLASSES, seed);
        net_open(&r, bst_backend_find("ref64"), 1);
        net_compile(&r, random_net_build(&net, 7), &o);
        net_alloc(&r);
        net_fill(&r, seed);
        net_run(&r, &batch, &(struct net_pass){0, 0, false, 1.0 / 7, 0.1});
        struct result whole = collect(&r);
        net_close(&r);
        struct way w = {"in parts", twist_backend(), {0}, 0, false};
        struct result parts = update(&w, &net, &batch);
        whole.n = parts.n -= 2; /* the rig's loss is that of the last part */
        assert_near(&whole, &parts, 1e-13);
        bst_free(whole.x);
        bst_free(parts.x);
        net_batch_free(&batch);
    }
}

/* With batch norm each part has its own statistics, and the gradient is the sum of the parts' own.
 */
static void parts_stand_alone(void **state)
{
    (void)state;
    struct random_net net = net_of(3);
    struct bst_compile_opts o = {.training = true, .accumulate = true};
    struct net_batch batch;
    struct net_rig r;
    net_batch_make(&batch, 7, net.channels, net.size, RANDOM_NET_CLASSES, 3);
    net_open(&r, bst_backend_find("ref64"), 1);
    net_compile(&r, random_net_build(&net, 4), &o);
    net_compile(&r, random_net_build(&net, 3), &o);
    net_alloc(&r);
    net_fill(&r, 3);
    net_run(&r, &batch, &(struct net_pass){0, 0, false, 1.0 / 7, 0});
    struct result a = collect(&r);
    net_run(&r, &batch, &(struct net_pass){1, 4, false, 1.0 / 7, 0});
    struct result b = collect(&r);
    net_stage(&r);
    net_run(&r, &batch, &(struct net_pass){0, 0, false, 1.0 / 7, 0});
    net_run(&r, &batch, &(struct net_pass){1, 4, true, 1.0 / 7, 0});
    struct result both = collect(&r);
    int64_t at = 0;
    for (int s = 0; s < r.table->n_trained; s++)
        at += bst_shape_count(&r.table->slots[s].shape);
    for (int64_t i = 0; i < both.n; i++)
        b.x[i] = i < at ? a.x[i] + b.x[i]
                        : b.x[i]; /* statistics: the second run went on from the first */
    assert_near(&both, &b, 1e-14);
    bst_free(a.x);
    bst_free(b.x);
    bst_free(both.x);
    net_close(&r);
    net_batch_free(&batch);
}

/* Evaluation reads committed statistics, in any form the same; compiled first, it may fix the
 * layouts. */
static void evaluation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct random_net net = net_of(seed);
        struct net_batch batch;
        double first = 0;
        net_batch_make(&batch, 4, net.channels, net.size, RANDOM_NET_CLASSES, seed);
        for (int way = 0; way < 4; way++) {
            struct bst_compile_opts train = {.training = true}, eval = {.no_fuse = way & 1};
            struct net_rig r;
            twist = (struct twist){0};
            net_open(&r, twist_backend(), 1);
            int e = 0;
            if (way & 2)
                e = net_compile(&r, random_net_build(&net, 4), &eval);
            int t = net_compile(&r, random_net_build(&net, 4), &train);
            if (!(way & 2))
                e = net_compile(&r, random_net_build(&net, 4), &eval);
            net_alloc(&r);
            net_fill(&r, seed);
            net_run(&r, &batch, &(struct net_pass){t, 0, false, 1, 0}); /* moves the staged ones */
            double trained = r.result.loss_sum;
            net_run(&r, &batch, &(struct net_pass){e, 0, false, 1, 0});
            if (!way)
                first = r.result.loss_sum;
            assert_true(r.result.loss_sum == first);
            assert_true(!net.batch_norm || trained != first);
            net_close(&r);
        }
        net_batch_free(&batch);
    }
}

/* Whichever description fails, nothing is held and the table is as before. */
static void failing_descriptions(void **state)
{
    (void)state;
    struct random_net net = net_of(1);
    struct bst_compile_opts o = {.training = true, .accumulate = true};
    struct bst_be_cfg cfg = {.threads = 1};
    struct bst_be *be;
    const struct bst_backend *b = twist_backend();
    net_must(b->open(&cfg, &be), "open");
    enum bst_err err = BST_E_NOMEM;
    for (int at = 1; err; at++) {
        struct bst_graph *g = random_net_build(&net, 4);
        struct bst_param_table *t = bst_param_table_new(g);
        struct bst_program *p;
        twist = (struct twist){.fail_at = at, .refuse = at % 2 ? BST_IF_RELU : 0};
        err = bst_compile(g, &b->describe, be, t, &o, &p);
        assert_true(err == BST_OK || err == BST_E_NOMEM);
        assert_true(!err == (p != NULL));
        assert_true(t->fixed == !err);
        if (err) {
            assert_int_equal(twist.held, 0);
            assert_true(t->slots[0].layout == BST_LAYOUT_ANY);
            assert_non_null(strstr(bst_err_text(), "as asked"));
        }
        bst_program_free(p);
        assert_int_equal(twist.held, 0);
        bst_param_table_free(t);
        bst_graph_free(g);
        assert_true(at < 1000);
    }
    b->close(be);
}

static void stops(void **state)
{
    (void)state;
    struct random_net net = net_of(2);
    struct bst_compile_opts o = {.training = true};
    struct bst_step_result result = {0};
    struct bst_step step = {.result = &result};
    atomic_int stop = 1;
    struct net_rig r;
    net_open(&r, bst_backend_find("ref"), 1);
    net_compile(&r, random_net_build(&net, 2), &o);
    net_alloc(&r);
    assert_int_equal(bst_program_run(r.b, r.programs[0], &r.mem, &step, 0, 1, &stop),
                     BST_E_CANCELLED);
    assert_int_equal(bst_program_run(r.b, r.programs[0], &r.mem, &step, 0, 0, &stop), BST_OK);
    net_close(&r);
}

static void bad_label(void **state)
{
    (void)state;
    struct random_net net = net_of(2);
    struct bst_compile_opts o = {.training = true};
    struct net_batch batch;
    struct net_rig r;
    net_batch_make(&batch, 2, net.channels, net.size, RANDOM_NET_CLASSES, 1);
    batch.labels[1] = RANDOM_NET_CLASSES;
    net_open(&r, bst_backend_find("ref"), 1);
    net_compile(&r, random_net_build(&net, 2), &o);
    net_alloc(&r);
    net_fill(&r, 1);
    struct bst_step step = {.images = batch.images,
                            .labels = batch.labels,
                            .n_valid = 2,
                            .grad_scale = 1,
                            .result = &r.result};
    assert_int_equal(
        bst_program_run(r.b, r.programs[0], &r.mem, &step, 0, r.programs[0]->n_instrs, NULL),
        BST_E_RANGE);
    assert_non_null(strstr(bst_err_text(), "label 5 of sample 1"));
    net_close(&r);
    net_batch_free(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_numbers),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(parts_stand_alone),
        cmocka_unit_test(evaluation),
        cmocka_unit_test(failing_descriptions),
        cmocka_unit_test(stops),
        cmocka_unit_test(bad_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
