/* Whole nets over sequences: gradients against central differences, backends against ref64, the
 * same bits in place and in second runs, the same gradient however an update is split, memory that
 * grows with the length and not its square. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/graph/graph_seq.h"
#include "tests/net/seq_nets.h"

#ifndef SEQ_BACKEND /* beside ref */
#define SEQ_BACKEND "cpu"
#endif
#define SAMPLES 4
/* Single precision through a dozen layers. */
#define ALLOWED 2e-5

struct kind {
    const char *name;
    struct bst_graph *(*build)(const struct seq_net *how, int micro_batch);
    int target; /* stream with labels */
};

static const struct kind kinds[] = {{"decoder", seq_decoder, 0},
                                    {"encoder and decoder", seq_encoder_decoder, 1}};

static void open_net(struct net_rig *r, const char *backend, const struct kind *kind,
                     const struct seq_net *how, struct seq_batch *batch)
{
    struct bst_graph *g = kind->build(how, SAMPLES);
    net_must(bst_graph_check(g), kind->name);
    net_open(r, bst_backend_find(backend), 2);
    seq_batch_make(batch, SAMPLES, g, kind->target, 3);
    bst_graph_free(g);
}

static double loss_with(struct net_rig *r, struct bst_step *step, int slot, double *w, int64_t at,
                        double value)
{
    double was = w[at];
    w[at] = value;
    net_set(r, BST_MEM_WEIGHT, slot, w);
    net_run_step(r, 0, step);
    w[at] = was;
    net_set(r, BST_MEM_WEIGHT, slot, w);
    return r->result.loss_sum * step->grad_scale;
}

/* Every operation here is smooth: one step size is enough. */
static void check_slot(struct net_rig *r, struct bst_step *step, int slot)
{
    int64_t n = bst_shape_count(&r->table->slots[slot].shape);
    double *w = bst_xcalloc((size_t)n, sizeof *w), *g = bst_xcalloc((size_t)n, sizeof *g);
    struct bst_rng rng;
    bst_rng_init(&rng, 5, BST_RNG_TEST, 99 + (uint64_t)slot);
    net_get(r, BST_MEM_WEIGHT, slot, w);
    net_run_step(r, 0, step);
    net_get(r, BST_MEM_GRAD, slot, g);
    for (int k = 0; k < 3; k++) {
        const double h = 1e-5;
        int64_t at = bst_rng_below(&rng, (uint32_t)n);
        double up = loss_with(r, step, slot, w, at, w[at] + h);
        double slope = (up - loss_with(r, step, slot, w, at, w[at] - h)) / (2 * h);
        if (!(fabs(slope - g[at]) <= 1e-9 + 1e-6 * fabs(g[at])))
            fail_msg("%s[%d]: gradient %.9g, difference %.9g", r->table->slots[slot].name, (int)at,
                     g[at], slope);
    }
    bst_free(w);
    bst_free(g);
}

static void against_differences(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct kind *kind = &kinds[i % 2];
        const struct seq_net how = {.length = 5, .layers = 1, .drop = i < 2 ? 0 : 0.2};
        struct bst_compile_opts o = {.training = true, .no_fuse = i % 2};
        struct seq_batch batch;
        struct net_rig r;
        open_net(&r, "ref64", kind, &how, &batch);
        net_compile(&r, kind->build(&how, SAMPLES), &o);
        net_alloc(&r);
        net_fill(&r, 4);
        struct bst_step step = seq_step(&batch, kind->target, 0, SAMPLES);
        for (int s = 0; s < r.table->n_trained; s++)
            check_slot(&r, &step, s);
        net_close(&r);
        seq_batch_free(&batch);
    }
}

struct run { /* all gradients, then the loss */
    double *x;
    int64_t n;
};

/* Two halves that add up, or all at once. */
static struct run run_net(const char *backend, const struct kind *kind, const struct seq_net *how,
                          const struct bst_compile_opts *opts, int parts)
{
    struct bst_compile_opts o = *opts;
    struct seq_batch batch;
    struct net_rig r;
    struct run out = {0};
    double loss = 0;
    o.training = o.accumulate = true;
    open_net(&r, backend, kind, how, &batch);
    net_compile(&r, kind->build(how, SAMPLES / parts), &o);
    net_alloc(&r);
    net_fill(&r, 4);
    for (int i = 0; i < parts; i++) {
        struct bst_step step = seq_step(&batch, kind->target, i * SAMPLES / parts, SAMPLES / parts);
        step.accumulate = i > 0;
        net_run_step(&r, 0, &step);
        loss += r.result.loss_sum;
        assert_true(r.result.targets > 0 &&
                    r.result.targets < SAMPLES * batch.length[kind->target]);
    }
    for (int s = 0; s < r.table->n_trained; s++)
        out.n += bst_shape_count(&r.table->slots[s].shape);
    out.x = bst_xcalloc((size_t)++out.n, sizeof *out.x);
    double *to = out.x;
    for (int s = 0; s < r.table->n_trained; s++) {
        net_get(&r, BST_MEM_GRAD, s, to);
        to += bst_shape_count(&r.table->slots[s].shape);
    }
    *to = loss;
    net_close(&r);
    seq_batch_free(&batch);
    return out;
}

static double distance(const struct run *got, const struct run *want)
{
    double d = 0, n = 0;
    assert_int_equal(got->n, want->n);
    for (int64_t i = 0; i < want->n - 1; i++) {
        d += (got->x[i] - want->x[i]) * (got->x[i] - want->x[i]);
        n += want->x[i] * want->x[i];
    }
    double loss = fabs(got->x[got->n - 1] / want->x[want->n - 1] - 1);
    return fmax(sqrt(d / n), loss);
}

/* 70 positions do not fill two tiles of 64. */
static void backends_agree(void **state)
{
    static const char *const backends[] = {"ref", SEQ_BACKEND};
    static const struct bst_compile_opts ways[] = {
        {0}, {.no_alias = true}, {.no_fuse = true}, {.no_fuse = true, .no_alias = true}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct kind *kind = &kinds[i % 2];
        const struct seq_net how = {.length = i < 2 ? 70 : 1, .layers = 2, .drop = i < 2 ? 0.1 : 0};
        struct run exact = run_net("ref64", kind, &how, &ways[0], 2), r[4];
        for (int b = 0; b < 2; b++) {
            for (int w = 0; w < 4; w++) {
                r[w] = run_net(backends[b], kind, &how, &ways[w], 2);
                double d = distance(&r[w], &exact);
                if (!(d <= ALLOWED))
                    fail_msg("%s, %s, way %d: off by %.3g of ref64", backends[b], kind->name, w, d);
            }
            for (int w = 1; w < 4; w++)
                assert_memory_equal(r[0].x, r[w].x, (size_t)r[0].n * sizeof *r[0].x);
            for (int w = 0; w < 4; w++)
                bst_free(r[w].x);
        }
        bst_free(exact.x);
    }
}

/* With dropout: a sample's masks are its own, wherever it comes in an update. */
static void split_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct seq_net how = {.length = 9, .layers = 1, .drop = 0.3};
        const struct bst_compile_opts o = {0};
        struct run whole = run_net("ref64", &kinds[i], &how, &o, 1);
        struct run halves = run_net("ref64", &kinds[i], &how, &o, 2);
        struct run quarters = run_net(SEQ_BACKEND, &kinds[i], &how, &o, 4);
        assert_true(distance(&halves, &whole) < 1e-14);
        assert_true(distance(&quarters, &whole) < ALLOWED);
        bst_free(whole.x);
        bst_free(halves.x);
        bst_free(quarters.x);
    }
}

static void second_runs_drop_the_same(void **state)
{
    static const char *const backends[] = {"ref", SEQ_BACKEND};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct seq_net how = {.length = 17, .layers = 2, .drop = 0.3};
        const struct bst_compile_opts kept = {0};
        struct bst_compile_opts again = {0};
        again.recompute = (struct bst_recompute){.kind = BST_RECOMPUTE_EVERY, .every = 1 + i / 2};
        struct run a = run_net(backends[i % 2], &kinds[i / 2], &how, &kept, 1);
        struct run b = run_net(backends[i % 2], &kinds[i / 2], &how, &again, 1);
        assert_memory_equal(a.x, b.x, (size_t)a.n * sizeof *a.x);
        bst_free(a.x);
        bst_free(b.x);
    }
}

/* The whole net and a single attention: arena against length. */
static size_t arena_of(const char *backend, int length, bool recompute)
{
    struct bst_graph *g = bst_graph_new(1);
    const struct bst_embedding e = {.length = length, .rows = 11, .width = 64, .deviation = 1};
    const struct bst_attention a = {.heads = 4, .causal = true, .key_stream = -1};
    const struct bst_linear wide = {.out = 192}, head = {.out = 11};
    struct bst_compile_opts o = {.training = true};
    struct net_rig r;
    if (recompute)
        o.recompute = (struct bst_recompute){.kind = BST_RECOMPUTE_EVERY, .every = 1};
    int qkv[3] = {bst_graph_linear_as(g, bst_graph_embedding(g, &e, "e"), &wide, "qkv"), -1, -1};
    int x = bst_graph_attention(g, qkv, &a, "attn");
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &head, "head"), "loss");
    net_open(&r, bst_backend_find(backend), 2);
    net_compile(&r, g, &o);
    size_t bytes = r.programs[0]->arena_bytes;
    net_close(&r);
    return bytes;
}

static void memory_grows_with_length(void **state)
{
    static const char *const backends[] = {"ref", SEQ_BACKEND};
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int t = 512; t <= 4096; t *= 2) {
            size_t one = arena_of(backends[i % 2], t, i / 2);
            size_t two = arena_of(backends[i % 2], 2 * t, i / 2);
            if (two > one / 100 * 202)
                fail_msg("%s: %zu bytes at %d positions, %zu at %d", backends[i % 2], one, t, two,
                         2 * t);
        }
    }
}

static enum bst_err without_attention(struct bst_be *be, const struct bst_program *p,
                                      const struct bst_instr *in, bool accumulate,
                                      struct bst_wants *w)
{
    if (in->op == BST_I_ATTN_FWD)
        return bst_fail(BST_E_UNSUPPORTED, "the backend does not have this operation");
    return bst_backend_find("ref")->describe.describe(be, p, in, accumulate, w);
}

static void missing_operation_is_named(void **state)
{
    const struct seq_net how = {.length = 4, .layers = 1};
    const struct bst_compile_opts o = {.training = true};
    struct bst_describe d = bst_backend_find("ref")->describe;
    struct bst_program *p = NULL;
    struct net_rig r;
    (void)state;
    d.describe = without_attention;
    net_open(&r, bst_backend_find("ref"), 1);
    struct bst_graph *g = seq_decoder(&how, 2);
    r.table = bst_param_table_new(g);
    assert_int_equal(bst_compile(g, &d, r.be, r.table, &o, &p), BST_E_UNSUPPORTED);
    assert_string_equal(bst_err_text(),
                        "h.0.attn: attn_fwd: the backend does not have this operation");
    assert_null(p);
    bst_graph_free(g);
    bst_param_table_free(r.table);
    r.b->close(r.be);
}

/* A token or a label that does not exist names its place, on every backend. */
static void bad_tokens_are_refused(void **state)
{
    static const char *const backends[] = {"ref", SEQ_BACKEND};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct seq_net how = {.length = 5, .layers = 1};
        const struct bst_compile_opts o = {.training = true};
        struct seq_batch batch;
        struct net_rig r;
        open_net(&r, backends[i % 2], &kinds[0], &how, &batch);
        net_compile(&r, seq_decoder(&how, SAMPLES), &o);
        net_alloc(&r);
        net_fill(&r, 4);
        if (i < 2)
            batch.tokens[0][2 * 5 + 3] = SEQ_VOCAB;
        else
            batch.labels[2 * 5 + 3] = -1;
        struct bst_step step = seq_step(&batch, 0, 0, SAMPLES);
        step.result = &r.result;
        assert_int_equal(
            bst_program_run(r.b, r.programs[0], &r.mem, &step, 0, r.programs[0]->n_instrs, NULL),
            BST_E_RANGE);
        if (i < 2)
            assert_non_null(strstr(bst_err_text(), "token 23 at position 3 of sample 2"));
        else
            assert_non_null(strstr(bst_err_text(), "label -1 of sample 2"));
        net_close(&r);
        seq_batch_free(&batch);
    }
}

/* Logits are the token itself: a label is met where it is the token. */
static struct bst_graph *echo(int length, int vocab, int samples)
{
    struct bst_graph *g = bst_graph_new(samples);
    const struct bst_embedding e = {.length = length, .rows = vocab, .width = vocab};
    bst_graph_softmax_ce(g, bst_graph_embedding(g, &e, "e"), "loss");
    return g;
}

/* One wrong label makes an answer wrong, wherever it is; what is ignored makes none, a sample
 * without any target is no right answer, and one that does not count is none at all. */
static void answers_are_right_as_a_whole(void **state)
{
    enum { T = 3, V = 5, N = 6, NO = BST_LABEL_IGNORED };
    static const int32_t tokens[N * T] = {1, 2, 3, 1, 2, 3, 4, 4, 4, 0, 1, 2, 2, 2, 2, 3, 3, 3};
    static const int32_t labels[N * T] = {1,  2,  3, 1,  2,  0,  0, 4, 4,
                                          NO, NO, 2, NO, NO, NO, 3, 3, 3};
    static const struct {
        int valid, exact, correct, targets;
    } want[] = {{6, 3, 11, 13}, {5, 2, 8, 10}, {4, 2, 8, 10}, {1, 1, 3, 3}, {0, 0, 0, 0}};
    static const char *const backends[] = {"ref", "ref64", SEQ_BACKEND};
    double identity[V * V] = {0};
    (void)state;
    for (int i = 0; i < V; i++)
        identity[i * V + i] = 4;
    for (int b = 0; b < 3; b++)
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            struct bst_compile_opts o = {.training = i % 2};
            struct bst_step step = {.tokens = {tokens}, .labels = labels, .grad_scale = 1};
            struct net_rig r;
            net_open(&r, bst_backend_find(backends[b]), 2);
            net_compile(&r, echo(T, V, N), &o);
            net_alloc(&r);
            net_set(&r, BST_MEM_WEIGHT, 0, identity);
            step.n_valid = want[i].valid;
            net_run_step(&r, 0, &step);
            assert_int_equal(r.result.exact, want[i].exact);
            assert_int_equal(r.result.correct, want[i].correct);
            assert_int_equal(r.result.targets, want[i].targets);
            net_close(&r);
        }
}

static void expect_error(struct bst_graph *g, enum bst_err err, const char *text)
{
    assert_int_equal(bst_graph_check(g), err);
    if (!strstr(bst_err_text(), text))
        fail_msg("'%s' is not in '%s'", text, bst_err_text());
    bst_graph_free(g);
}

static int embedded(struct bst_graph *g, int width)
{
    const struct bst_embedding e = {.length = 4, .rows = 7, .width = width};
    return bst_graph_embedding(g, &e, "e");
}

static void builder_refuses(void **state)
{
    const struct bst_attention five = {.heads = 5, .key_stream = -1};
    const struct bst_linear tied = {.out = 9, .tied = "e"}, lost = {.out = 7, .tied = "f"};
    (void)state;
    struct bst_graph *g = bst_graph_new(2);
    int qkv[3] = {embedded(g, 24), -1, -1};
    bst_graph_attention(g, qkv, &five, "a");
    expect_error(g, BST_E_SHAPE, "a: 2x4x24 does not divide into 5 heads");

    g = bst_graph_new(2);
    bst_graph_linear_as(g, embedded(g, 8), &tied, "head");
    expect_error(g, BST_E_SHAPE, "head: wants a weight of 9x8, but the table of e is 7x8");

    g = bst_graph_new(2);
    bst_graph_linear_as(g, embedded(g, 8), &lost, "head");
    expect_error(g, BST_E_ARG, "head: there is no embedding f");

    g = bst_graph_new(2);
    const struct bst_linear part = {.out = 4, .part_of = "p", .first = 1, .rows = 8};
    int x = bst_graph_linear_as(g, embedded(g, 4), &part, "a");
    bst_graph_linear_as(g, x, &part, "b");
    expect_error(g, BST_E_ARG, "b: its rows are those of a too");

    g = bst_graph_new(2);
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, embedded(g, 4), &part, "a"), "loss");
    expect_error(g, BST_E_ARG, "p_weight: 4 of its 8 rows are used");

    g = bst_graph_new(2);
    bst_graph_dropout(g, embedded(g, 8), 1.0, "drop");
    expect_error(g, BST_E_RANGE, "drop: a dropout of 1");

    g = bst_graph_new(2);
    bst_graph_position(g, embedded(g, 8), &(struct bst_position){.rows = 3}, "p");
    expect_error(g, BST_E_SHAPE, "p: sequences of 4, but only 3 positions");

    g = bst_graph_new(2);
    const struct bst_embedding longer = {.length = 5, .rows = 7, .width = 8};
    embedded(g, 8);
    bst_graph_embedding(g, &longer, "f");
    expect_error(g, BST_E_SHAPE, "f: 5 tokens a sample, where the stream has 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_differences),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(split_moves_nothing),
        cmocka_unit_test(second_runs_drop_the_same),
        cmocka_unit_test(memory_grows_with_length),
        cmocka_unit_test(missing_operation_is_named),
        cmocka_unit_test(bad_tokens_are_refused),
        cmocka_unit_test(builder_refuses),
        cmocka_unit_test(answers_are_right_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
