/* Second runs on whole nets: the same bits with less memory, what each setting chooses, and that
 * `auto` keeps to what it is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "nets/nets.h"
#include "tests/bench/rig.h"
#include "tests/team.h"

struct net_case {
    const char *name;
    int width, channels, size, batch;
};

/* A narrow ResNet-50 has every kind of block of the wide one. */
static const struct net_case nets[] = {{"resnet8", 8, 1, 28, 3}, {"resnet50", 4, 3, 32, 2}};

static struct rig_cfg config(const char *backend, const struct net_case *n)
{
    struct rig_cfg c = {.backend = backend, .batch = n->batch, .threads = TEAM_OF(2), .seed = 3};
    c.net.name = n->name;
    c.net.base_width = n->width;
    c.net.in_channels = n->channels;
    c.net.height = c.net.width = n->size;
    c.net.classes = 10;
    for (int i = 0; i < 4; i++)
        c.net.std[i] = 0.5f;
    c.opts.training = c.opts.accumulate = true;
    return c;
}

static void must(enum bst_err err)
{
    if (err)
        fail_msg("%s", bst_err_text());
}

struct outcome {
    double loss;
    void *grad, *staged;
    size_t grad_bytes, staged_bytes, arena, activations;
    struct bst_peak peak;
    int n_again;
    double again_share;
};

static void *copy(const void *p, size_t n)
{
    return n ? memcpy(bst_xalloc(n), p, n) : NULL;
}

/* Two micro-batches, the second added, in an arena that holds NaN. */
static struct outcome update(const struct rig_cfg *c)
{
    struct rig r;
    struct outcome o = {0};
    must(rig_open(&r, c));
    for (int i = 0; i < 2; i++) {
        memset(r.m.base[BST_MEM_ARENA], 0xff, r.bytes[BST_MEM_ARENA]);
        r.step.accumulate = i > 0;
        must(rig_pass(&r));
        o.loss += r.result.loss_sum;
    }
    o.grad_bytes = r.bytes[BST_MEM_GRAD];
    o.grad = copy(r.m.base[BST_MEM_GRAD], o.grad_bytes);
    o.staged_bytes = r.bytes[BST_MEM_STAGED];
    o.staged = copy(r.m.base[BST_MEM_STAGED], o.staged_bytes);
    o.arena = r.program->arena_bytes;
    o.activations = r.program->activation_bytes;
    o.peak = r.program->peak;
    o.n_again = r.program->n_again;
    o.again_share = r.program->again_share;
    rig_close(&r);
    return o;
}

static void drop(struct outcome *o)
{
    bst_free(o->grad);
    bst_free(o->staged);
}

static void check_same(const struct outcome *o, const struct outcome *plain)
{
    assert_true(o->loss == plain->loss && plain->loss > 0);
    assert_int_equal(o->grad_bytes, plain->grad_bytes);
    assert_memory_equal(o->grad, plain->grad, plain->grad_bytes);
    assert_memory_equal(o->staged, plain->staged, plain->staged_bytes);
    assert_int_equal(o->peak.activations + o->peak.recomputed + o->peak.gradients +
                         o->peak.scratch + o->peak.gaps,
                     o->arena);
}

static void same_bits(const char *backend, const struct net_case *n)
{
    static const char *const names[] = {"layer1.*", "*bn?"};
    struct rig_cfg c = config(backend, n);
    struct outcome plain = update(&c);
    const struct bst_recompute ways[] = {
        {BST_RECOMPUTE_EVERY, .every = 1},
        {BST_RECOMPUTE_EVERY, .every = 100},
        {BST_RECOMPUTE_LAYERS, .layers = names, .n_layers = 2},
        {BST_RECOMPUTE_AUTO, .arena_limit = plain.arena / 10 * 7},
        {BST_RECOMPUTE_AUTO, .arena_limit = 1},
    };
    assert_int_equal(plain.n_again, 0);
    assert_int_equal(plain.peak.recomputed, 0);
    check_same(&plain, &plain);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        c.opts.recompute = ways[i];
        struct outcome o = update(&c);
        check_same(&o, &plain);
        assert_true(o.n_again > 0 && o.again_share > 0 && o.again_share < 0.5);
        assert_true(o.activations < plain.activations);
        if (ways[i].every != 100)
            assert_true(o.arena < plain.arena);
        drop(&o);
    }
    drop(&plain);
}

static void same_bits_on_ref(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        same_bits("ref", &nets[i]);
}

static void same_bits_on_cpu(void **state)
{
    (void)state;
    if (!bst_backend_find("cpu"))
        skip();
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        same_bits("cpu", &nets[i]);
}

/* A program that is not run. */
struct compiled {
    struct bst_be *be;
    struct bst_param_table *table;
    struct bst_program *p;
};

static enum bst_err try_compile(const struct net_case *n, const struct bst_recompute *how,
                                struct compiled *out)
{
    const struct bst_backend *b = bst_backend_find("ref");
    const struct bst_be_cfg cfg = {.threads = 1};
    struct rig_cfg c = config("ref", n);
    struct bst_graph *g = bst_graph_new(n->batch);
    c.opts.recompute = *how;
    must(bst_net_find(&net_table, n->name)->build(&c.net, g));
    must(b->open(&cfg, &out->be));
    out->table = bst_param_table_new(g);
    enum bst_err err = bst_compile(g, &b->describe, out->be, out->table, &c.opts, &out->p);
    bst_graph_free(g);
    return err;
}

static void forget(struct compiled *c)
{
    bst_program_free(c->p);
    bst_param_table_free(c->table);
    bst_backend_find("ref")->close(c->be);
}

static bool runs_again(const struct bst_program *p, const char *name)
{
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].again && strcmp(p->instrs[i].name, name) == 0)
            return true;
    return false;
}

/* ResNet-50 at 224: half the arena for a tenth of the work, and the less memory the more work. */
static void auto_keeps_to_its_limit(void **state)
{
    (void)state;
    static const struct net_case n = {"resnet50", 64, 3, 224, 2};
    static const struct bst_recompute none = {.kind = BST_RECOMPUTE_NONE};
    struct compiled c;
    must(try_compile(&n, &none, &c));
    size_t whole = c.p->arena_bytes;
    forget(&c);
    double before = 0;
    for (size_t percent = 100; percent >= 40; percent -= 20) {
        struct bst_recompute how = {BST_RECOMPUTE_AUTO, .arena_limit = whole / 100 * percent};
        must(try_compile(&n, &how, &c));
        assert_true(c.p->arena_bytes <= how.arena_limit);
        assert_true(c.p->again_share >= before);
        before = c.p->again_share;
        forget(&c);
    }
    assert_true(before > 0.02 && before < 0.13);
}

/* What just fits without second runs has none, one byte less has. */
static void auto_does_no_more_than_it_must(void **state)
{
    (void)state;
    static const struct bst_recompute none = {.kind = BST_RECOMPUTE_NONE};
    struct compiled c;
    must(try_compile(&nets[0], &none, &c));
    size_t whole = c.p->arena_bytes;
    forget(&c);
    for (size_t less = 0; less <= 1; less++) {
        const struct bst_recompute how = {BST_RECOMPUTE_AUTO, .arena_limit = whole - less};
        must(try_compile(&nets[0], &how, &c));
        assert_int_equal(c.p->n_again > 0, less);
        assert_true(c.p->arena_bytes <= how.arena_limit);
        for (int i = 0; i < c.p->n_forward; i++)
            assert_false(c.p->instrs[i].again);
        forget(&c);
    }
}

static void blocks_are_the_residual_ones(void **state)
{
    (void)state;
    static const struct bst_recompute every[] = {{BST_RECOMPUTE_EVERY, .every = 1},
                                                 {BST_RECOMPUTE_EVERY, .every = 2}};
    struct compiled c;
    for (int i = 0; i < 2; i++) {
        must(try_compile(&nets[1], &every[i], &c));
        assert_true(runs_again(c.p, "bn1"));
        assert_true(runs_again(c.p, "layer1.0.conv1"));
        assert_true(runs_again(c.p, "layer1.0.bn2"));
        assert_true(runs_again(c.p, "layer1.0.conv3"));
        assert_true(runs_again(c.p, "layer2.0.downsample.0"));
        /* Blocks: 0 the stem, 1 layer1.0, 2 layer1.1, …: of these two one enters block 2. */
        assert_false(runs_again(c.p, "layer1.0.bn3"));
        assert_int_equal(runs_again(c.p, "maxpool"), i);
        assert_int_equal(runs_again(c.p, "layer1.1.bn3"), i);
        assert_false(runs_again(c.p, "fc"));
        forget(&c);
    }
}

static void layers_are_those_named(void **state)
{
    (void)state;
    static const char *const names[] = {"layer2.1.*", "layer9.*"};
    struct bst_recompute how = {BST_RECOMPUTE_LAYERS, .layers = names, .n_layers = 1};
    struct compiled c;
    must(try_compile(&nets[1], &how, &c));
    assert_true(runs_again(c.p, "layer2.1.conv2"));
    for (int i = 0; i < c.p->n_instrs; i++)
        if (c.p->instrs[i].again)
            assert_memory_equal(c.p->instrs[i].name, "layer2.1.", 9);
    forget(&c);
    how.n_layers = 2;
    assert_int_equal(try_compile(&nets[1], &how, &c), BST_E_ARG);
    assert_non_null(strstr(bst_err_text(), "layer9.*"));
    forget(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_keeps_to_its_limit),
        cmocka_unit_test(auto_does_no_more_than_it_must),
        cmocka_unit_test(blocks_are_the_residual_ones),
        cmocka_unit_test(layers_are_those_named),
        cmocka_unit_test(same_bits_on_ref),
        cmocka_unit_test(same_bits_on_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
