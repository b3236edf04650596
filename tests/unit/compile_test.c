/* The compiler on the shipped nets: what is fused, where everything lies, how near the plan is to
 * the least possible, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/backend.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/sb.h"
#include "nets/nets.h"

struct net_case {
    const char *name;
    int micro_batch, size;
    bool training;
};

static struct bst_graph *build_for(const struct net_case *c, int classes)
{
    struct bst_net_cfg cfg = {.name = c->name,
                              .classes = classes,
                              .in_channels = 3,
                              .height = c->size,
                              .width = c->size,
                              .mean = {0.5f, 0.5f, 0.5f, 0.5f},
                              .std = {0.25f, 0.25f, 0.25f, 0.25f}};
    struct bst_graph *g = bst_graph_new(c->micro_batch);
    assert_int_equal(bst_net_find(&net_table, c->name)->build(&cfg, g), BST_OK);
    return g;
}

static struct bst_graph *build(const struct net_case *c)
{
    return build_for(c, 10);
}

struct compiled {
    struct bst_be *be;
    struct bst_param_table *t;
    struct bst_program *p;
    double ms;
};

static void compile_graph(struct bst_graph *g, const struct bst_compile_opts *o,
                          struct compiled *out)
{
    const struct bst_backend *b = bst_backend_find("ref");
    struct bst_be_cfg cfg = {.threads = 1};
    assert_int_equal(b->open(&cfg, &out->be), BST_OK);
    out->t = bst_param_table_new(g);
    double from = bst_clock_now();
    assert_int_equal(bst_compile(g, &b->describe, out->be, out->t, o, &out->p), BST_OK);
    out->ms = 1e3 * (bst_clock_now() - from);
    bst_graph_free(g);
}

static void compile(const struct net_case *c, const struct bst_compile_opts *o,
                    struct compiled *out)
{
    compile_graph(build(c), o, out);
}

static void drop(struct compiled *c)
{
    bst_program_free(c->p);
    bst_param_table_free(c->t);
    bst_backend_find("ref")->close(c->be);
}

/* Whole-net counts: resnet18 has 20 BNs, all with a ReLU but the 3 in projections; 8 with a
 * residual. */
static void fusion(void **state)
{
    (void)state;
    struct compiled c;
    int n[BST_I_N_OPS] = {0}, residual = 0, relu = 0, joined = 0;
    compile(&(struct net_case){"resnet18", 2, 64, true},
            &(struct bst_compile_opts){.training = true}, &c);
    for (int i = 0; i < c.p->n_instrs; i++) {
        const struct bst_instr *in = &c.p->instrs[i];
        n[in->op]++;
        if (in->op != BST_I_BN_BWD)
            continue;
        relu += !!(in->flags & BST_IF_RELU);
        residual += !!(in->flags & BST_IF_RESIDUAL);
        joined += !!(in->flags & BST_IF_DY2);
    }
    assert_int_equal(n[BST_I_BN_TRAIN], 20);
    assert_int_equal(n[BST_I_BN_BWD], 20);
    assert_int_equal(relu, 17);
    assert_int_equal(residual, 8);
    /* Two gradients meet behind each block but the last; behind the stem is a pool, which cannot
     * join. */
    assert_int_equal(joined, 7);
    assert_int_equal(n[BST_I_ADD], 1);
    assert_int_equal(n[BST_I_RELU_FWD] + n[BST_I_RELU_BWD] + n[BST_I_REORDER], 0);
    /* the image gets no gradient */
    assert_int_equal(n[BST_I_CONV_BWD_WEIGHT], 20);
    assert_int_equal(n[BST_I_CONV_BWD_DATA], 19);
    assert_int_equal(c.p->instrs[c.p->n_forward - 1].op, BST_I_SOFTMAX_CE);
    drop(&c);
}

/* With a hundred thousand classes most is alive at the loss, where the gradient of the logits is
 * written over them: whichever instruction that is, they are activations. */
static void logits_are_activations(void **state)
{
    (void)state;
    for (int micro = 1; micro <= 16; micro *= 2) {
        struct compiled c;
        compile_graph(build_for(&(struct net_case){"resnet8", micro, 32, true}, 100000),
                      &(struct bst_compile_opts){.training = true}, &c);
        size_t logits = (size_t)micro * 100000 * sizeof(float);
        assert_true(c.p->peak.activations >= logits);
        assert_true(c.p->peak.gradients < logits);
        drop(&c);
    }
}

static int root_of(const struct bst_program *p, int v)
{
    while (p->values[v].alias >= 0)
        v = p->values[v].alias;
    return v;
}

struct chain { /* values that share bytes, from the first write to the last read */
    size_t offset, bytes;
    int first, last;
};

/* In the arena, by root; others have no bytes. */
static struct chain *chains(const struct bst_program *p)
{
    struct chain *c = bst_xcalloc((size_t)p->n_values, sizeof *c);
    for (int v = 0; v < p->n_values; v++) {
        const struct bst_value *x = &p->values[v];
        if (x->memory != BST_MEM_ARENA || x->first < 0 || !x->bytes)
            continue;
        struct chain *r = &c[root_of(p, v)];
        if (!r->bytes)
            *r = (struct chain){x->offset, x->bytes, x->first, x->last};
        assert_int_equal(r->offset, x->offset);
        assert_true(x->bytes <= r->bytes || v == root_of(p, v));
        r->bytes = x->bytes > r->bytes ? x->bytes : r->bytes;
        r->first = x->first < r->first ? x->first : r->first;
        r->last = x->last > r->last ? x->last : r->last;
    }
    return c;
}

static void check_plan(const struct bst_program *p)
{
    struct chain *c = chains(p);
    for (int i = 0; i < p->n_values; i++) {
        if (!c[i].bytes)
            continue;
        assert_int_equal(c[i].offset % p->describe->alignment, 0);
        assert_true(c[i].offset + c[i].bytes <= p->arena_bytes);
        for (int k = 0; k < i; k++) {
            if (!c[k].bytes || c[k].last < c[i].first || c[k].first > c[i].last)
                continue;
            assert_true(c[k].offset + c[k].bytes <= c[i].offset ||
                        c[i].offset + c[i].bytes <= c[k].offset);
        }
    }
    bst_free(c);
}

static size_t least(const struct bst_program *p)
{
    struct chain *c = chains(p);
    size_t most = 0;
    for (int t = 0; t < p->n_instrs; t++) {
        size_t n = 0;
        for (int v = 0; v < p->n_values; v++) {
            if (c[v].bytes && c[v].first <= t && c[v].last >= t)
                n += c[v].bytes;
        }
        most = n > most ? n : most;
    }
    bst_free(c);
    return most;
}

static void plans(void **state)
{
    (void)state;
    static const struct net_case cases[] = {
        {"resnet8", 1, 28, true},    {"resnet8", 128, 28, true},  {"resnet20", 17, 32, true},
        {"resnet18", 16, 64, true},  {"resnet34", 3, 96, true},   {"resnet50", 1, 224, true},
        {"resnet50", 16, 224, true}, {"resnet101", 8, 224, true}, {"resnet50", 16, 224, false},
        {"resnet18", 1, 224, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
            struct compiled c;
            struct bst_compile_opts o = {.training = cases[i].training, .no_fuse = no_fuse};
            compile(&cases[i], &o, &c);
            check_plan(c.p);
            double over = (double)c.p->arena_bytes / (double)least(c.p) - 1;
            print_message("%s/%d %s%s: %zu bytes, %.2f %% over the least, %.1f ms\n", cases[i].name,
                          cases[i].micro_batch, o.training ? "training" : "evaluation",
                          no_fuse ? ", unfused" : "", c.p->arena_bytes, 100 * over, c.ms);
            assert_true(over <= 0.05);
            drop(&c);
        }
    }
}

/* The same net again is the same program, byte for byte; it goes into the listing whole. */
static void deterministic(void **state)
{
    (void)state;
    struct bst_sb text[2];
    for (int i = 0; i < 2; i++) {
        struct compiled c;
        compile(&(struct net_case){"resnet50", 4, 64, true},
                &(struct bst_compile_opts){.training = true, .accumulate = true}, &c);
        bst_sb_init(&text[i], 1 << 20);
        bst_program_print(c.p, &text[i]);
        drop(&c);
    }
    assert_false(text[0].full);
    assert_string_equal(text[0].data, text[1].data);
    assert_non_null(strstr(text[0].data, "bn_bwd layer4.2.bn3 +residual +relu"));
    bst_sb_fini(&text[0]);
    bst_sb_fini(&text[1]);
}

/* Parameters stay where they are when the batch changes; the statistics follow the trained ones. */
static void table_is_fixed(void **state)
{
    (void)state;
    struct compiled c;
    struct bst_program *p;
    struct bst_compile_opts eval = {.training = false};
    const struct bst_backend *b = bst_backend_find("ref");
    compile(&(struct net_case){"resnet8", 4, 28, true},
            &(struct bst_compile_opts){.training = true}, &c);
    struct bst_graph *g = build(&(struct net_case){"resnet8", 9, 28, false});
    size_t end = 0;
    for (int i = 0; i < c.t->n_slots; i++) {
        assert_true(c.t->slots[i].offset >= end);
        end = c.t->slots[i].offset + c.t->slots[i].bytes;
        if (i == c.t->n_trained - 1)
            assert_true(end <= c.t->trained_bytes);
    }
    assert_true(end <= c.t->trained_bytes + c.t->state_bytes);
    size_t trained = c.t->trained_bytes, state_bytes = c.t->state_bytes;
    assert_int_equal(bst_compile(g, &b->describe, c.be, c.t, &eval, &p), BST_OK);
    assert_int_equal(c.t->trained_bytes, trained);
    assert_int_equal(c.t->state_bytes, state_bytes);
    for (int i = 0; i < c.t->n_slots; i++)
        assert_int_equal(p->values[i].offset, c.t->slots[i].offset);
    bst_program_free(p);
    bst_graph_free(g);
    drop(&c);
}

static void refuses(void **state)
{
    (void)state;
    const struct bst_backend *b = bst_backend_find("ref");
    struct bst_be_cfg cfg = {.threads = 1};
    struct bst_compile_opts train = {.training = true}, eval = {.training = false};
    struct bst_be *be;
    struct bst_program *p;
    assert_int_equal(b->open(&cfg, &be), BST_OK);
    /* 32 pixels through the ImageNet stem end as one */
    struct bst_graph *g = build(&(struct net_case){"resnet18", 1, 32, true});
    struct bst_param_table *t = bst_param_table_new(g);
    assert_int_equal(bst_compile(g, &b->describe, be, t, &train, &p), BST_E_SHAPE);
    assert_null(p);
    assert_non_null(strstr(bst_err_text(), "layer4.0.bn1: batch norm cannot train on one value"));
    assert_int_equal(bst_compile(g, &b->describe, be, t, &eval, &p), BST_OK);
    bst_program_free(p);
    struct bst_graph *other = build(&(struct net_case){"resnet34", 2, 64, true});
    assert_int_equal(bst_compile(other, &b->describe, be, t, &train, &p), BST_E_SHAPE);
    bst_graph_free(other);
    g->std[1] = 0;
    assert_int_equal(bst_compile(g, &b->describe, be, t, &eval, &p), BST_E_RANGE);
    bst_param_table_free(t);
    bst_graph_free(g);
    b->close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fusion),         cmocka_unit_test(logits_are_activations),
        cmocka_unit_test(plans),          cmocka_unit_test(deterministic),
        cmocka_unit_test(table_is_fixed), cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
