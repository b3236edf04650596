/* Nets over sequences on the cuda backend: whole ones in every precision, captured or not; what a
 * captured stretch drops is the step's at hand, a table's gradient is added up in the order of the
 * batch however often a token comes, and what the host has to look at is looked at. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backend/cuda/be.h"
#include "core/base/alloc.h"
#include "core/graph/graph_seq.h"
#include "tests/net/net_rig.h"
#include "tests/net/seq_nets.h"

enum { SAMPLES = 4, LENGTH = 9, CLASSES = 2 };

/* A small GPT with the second loss of a BERT. */
static struct bst_graph *net_of(int samples, double drop)
{
    struct bst_graph *g = bst_graph_new(samples);
    const struct bst_embedding wte = {
        .length = LENGTH, .rows = SEQ_VOCAB, .width = SEQ_WIDTH, .deviation = 0.5};
    const struct bst_attention self = {
        .heads = SEQ_HEADS, .causal = true, .key_stream = -1, .drop = drop};
    const struct bst_linear three = {.out = 3 * SEQ_WIDTH},
                            wide = {.out = 4 * SEQ_WIDTH, .in_out = true},
                            back = {.out = SEQ_WIDTH}, pair = {.out = CLASSES},
                            head = {.out = SEQ_VOCAB, .no_bias = true, .tied = "wte"};
    int x = bst_graph_embedding(g, &wte, "wte");

    x = bst_graph_position(g, x, &(struct bst_position){LENGTH + 2, 0.5}, "wpe");
    x = bst_graph_dropout(g, x, drop, "drop");
    int y = bst_graph_linear_as(g, bst_graph_layer_norm(g, x, 1e-5, "ln_0"), &three, "qkv");
    x = bst_graph_add(g, x, bst_graph_attention(g, (const int[3]){y, -1, -1}, &self, "attn"),
                      "sum");
    y = bst_graph_layer_norm(g, x, 1e-5, "ln_1");
    y = bst_graph_gelu(g, bst_graph_linear_as(g, y, &wide, "fc"), true, "act");
    y = bst_graph_dropout(g, bst_graph_linear_as(g, y, &back, "proj"), drop, "drop_1");
    x = bst_graph_layer_norm(g, bst_graph_add(g, x, y, "add"), 1e-5, "ln_f");
    y = bst_graph_tanh(g, bst_graph_first(g, x, "first"), "tanh");
    bst_graph_pair_ce(g, bst_graph_linear_as(g, y, &pair, "pair"), "loss.pair");
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &head, "lm_head"), "loss");
    return g;
}

struct run {
    struct net_rig r;
    struct seq_batch batch;
    double *x; /* gradients in the order of the parameters, then both losses */
    int64_t n;
};

/* Of a net whose labels are those of stream `target`. */
static void open_net(struct run *o, const char *backend, struct bst_graph *g, int target,
                     bool captures)
{
    const struct bst_compile_opts opts = {.training = true, .accumulate = true};

    *o = (struct run){0};
    net_must(bst_graph_check(g), "graph");
    seq_batch_make(&o->batch, SAMPLES, g, target, 3);
    net_open(&o->r, bst_backend_find(backend), 1);
    if (captures)
        o->r.be->captures = true;
    net_compile(&o->r, g, &opts);
    net_alloc(&o->r);
    net_fill(&o->r, 5);
    for (int s = 0; s < o->r.table->n_slots; s++)
        o->n += bst_shape_count(&o->r.table->slots[s].shape);
    o->x = bst_xcalloc((size_t)o->n + 2, sizeof *o->x);
}

static void open_run(struct run *o, const char *backend, double drop, bool captures)
{
    open_net(o, backend, net_of(SAMPLES, drop), 0, captures);
}

static void close_run(struct run *o)
{
    bst_free(o->x);
    seq_batch_free(&o->batch);
    net_close(&o->r);
}

static struct bst_step step_of(const struct run *o, uint64_t seed, uint64_t position)
{
    static const int32_t pair[SAMPLES] = {1, 0, 1, 1};
    struct bst_step step = seq_step(&o->batch, 0, 0, SAMPLES);

    step.pair = pair;
    step.pair_scale = 0.25;
    step.seed = seed;
    step.position = position;
    return step;
}

static void pass(struct run *o, struct bst_step step)
{
    double *to = o->x;

    net_run_step(&o->r, 0, &step);
    for (int s = 0; s < o->r.table->n_slots; s++) {
        net_get(&o->r, BST_MEM_GRAD, s, to);
        to += bst_shape_count(&o->r.table->slots[s].shape);
    }
    to[0] = o->r.result.loss_sum;
    to[1] = o->r.result.pair_loss_sum;
}

/* ‖got - want‖ / ‖want‖ of the gradients; of the losses where that is more. */
static double distance(const struct run *got, const struct run *want)
{
    double d = 0, n = 0;

    for (int64_t i = 0; i < want->n; i++) {
        d += (got->x[i] - want->x[i]) * (got->x[i] - want->x[i]);
        n += want->x[i] * want->x[i];
    }
    d = sqrt(d / n);
    for (int64_t i = want->n; i < want->n + 2; i++) {
        const double off = fabs(got->x[i] - want->x[i]) / fmax(want->x[i], 1e-9);
        d = off <= d ? d : off;
    }
    return d;
}

static void must_agree(const struct run *a, const struct run *b, const char *when)
{
    if (memcmp(a->x, b->x, ((size_t)a->n + 2) * sizeof *a->x))
        fail_msg("other bits %s", when);
}

static void a_captured_stretch_drops_what_the_step_says(void **state)
{
    static const double allowed[] = {[BST_PRECISION_FP32] = 1e-5,
                                     [BST_PRECISION_TF32] = 1e-5, /* the fakes' is fp32 */
                                     [BST_PRECISION_FP16] = 4e-3,
                                     [BST_PRECISION_BF16] = 3e-2};

    (void)state;
    for (int p = 0; p < BST_N_PRECISIONS; p++) {
        struct run exact, eager, captured;
        double was = 0;

        net_use_precision((enum bst_precision)p);
        open_run(&exact, "ref64", 0.3, false);
        open_run(&eager, "cuda", 0.3, false);
        open_run(&captured, "cuda", 0.3, true);
        for (uint64_t i = 0; i < 9; i++) {
            struct bst_step step = step_of(&exact, 7 + i / 3, 1000 + 5 * (i % 3));
            step.accumulate = i % 3 == 2;
            pass(&exact, step);
            pass(&eager, step);
            pass(&captured, step);
            must_agree(&eager, &captured, "captured");
            assert_true(captured.x[captured.n] != was); /* other numbers are dropped each time */
            was = captured.x[captured.n];
            if (!(distance(&eager, &exact) <= allowed[p]))
                fail_msg("%s: off by %.3g of ref64", bst_precision_name((enum bst_precision)p),
                         distance(&eager, &exact));
        }
        assert_int_equal(eager.r.be->n_captured, 0);
        /* Ahead of the losses, between them and behind; adding and not. */
        assert_true(captured.r.be->n_captured >= 4);
        close_run(&exact);
        close_run(&eager);
        close_run(&captured);
    }
    net_use_precision(BST_PRECISION_FP32);
}

/* What is off is mostly the rounding of activations, 2⁻¹¹ or 2⁻⁸ each, through two blocks. Captured
 * and not, the same bits. */
static void whole_nets_agree_in_every_precision(void **state)
{
    static const double allowed[] = {[BST_PRECISION_FP32] = 2e-5,
                                     [BST_PRECISION_TF32] = 2e-5, /* the fakes' is fp32 */
                                     [BST_PRECISION_FP16] = 6e-3,
                                     [BST_PRECISION_BF16] = 5e-2};
    const struct seq_net how = {.length = 17, .layers = 2, .drop = 0.1};

    (void)state;
    for (int i = 0; i < 2 * BST_N_PRECISIONS; i++) {
        const enum bst_precision p = (enum bst_precision)(i / 2);
        const int target = i % 2;
        struct run r[3];

        net_use_precision(p);
        for (int k = 0; k < 3; k++) {
            struct bst_graph *g =
                target ? seq_encoder_decoder(&how, SAMPLES) : seq_decoder(&how, SAMPLES);
            open_net(&r[k], k ? "cuda" : "ref64", g, target, k == 2);
            for (int u = 0; u < 3; u++)
                pass(&r[k], seq_step(&r[k].batch, target, 0, SAMPLES));
        }
        must_agree(&r[1], &r[2], "captured");
        const double d = distance(&r[1], &r[0]);
        if (!(d <= allowed[p]))
            fail_msg("%s, net %d: off by %.3g of ref64", bst_precision_name(p), target, d);
        for (int k = 0; k < 3; k++)
            close_run(&r[k]);
    }
    net_use_precision(BST_PRECISION_FP32);
}

static void what_changes_in_a_step_captures_nothing(void **state)
{
    struct run o;

    (void)state;
    open_run(&o, "cuda", 0.3, true);
    for (uint64_t i = 0; i < 2; i++)
        pass(&o, step_of(&o, 7, 1000));
    const int once = o.r.be->n_captured;
    assert_true(once > 0);
    for (uint64_t i = 0; i < 6; i++)
        pass(&o, step_of(&o, i, 31 * i));
    assert_int_equal(o.r.be->n_captured, once);
    close_run(&o);
}

/* One token all over takes more than a piece; rows that no token reads have a gradient of 0, and
 * keep what is there where gradients are added. */
static void a_token_may_come_any_number_of_times(void **state)
{
    enum { TIMES = 700, ROWS = 5, WIDTH = 3, N = 7 };
    static int32_t tokens[TIMES], labels[TIMES];
    const struct bst_embedding e = {.length = TIMES / N, .rows = ROWS, .width = WIDTH, .scale = 2};
    const struct bst_compile_opts opts = {.training = true, .accumulate = true};
    double x[2][ROWS * WIDTH];

    (void)state;
    for (int i = 0; i < TIMES; i++) {
        tokens[i] = i % 100 == 3 ? 1 : i % 9 == 2 ? 4 : 3;
        labels[i] = i % WIDTH;
    }
    for (int b = 0; b < 2; b++) {
        struct bst_graph *g = bst_graph_new(N);
        struct bst_step step = {
            .tokens = {tokens}, .labels = labels, .n_valid = N, .grad_scale = 0.01};
        struct net_rig r;

        bst_graph_softmax_ce(g, bst_graph_embedding(g, &e, "e"), "loss");
        net_open(&r, bst_backend_find(b ? "cuda" : "ref64"), 1);
        net_compile(&r, g, &opts);
        net_alloc(&r);
        net_fill(&r, 1);
        for (int i = 0; i < 2; i++) {
            step.accumulate = i;
            net_run_step(&r, 0, &step);
            net_get(&r, BST_MEM_GRAD, 0, x[b]);
            for (int k = 0; k < WIDTH; k++)
                assert_true(x[b][k] == 0 && x[b][2 * WIDTH + k] == 0);
        }
        net_close(&r);
    }
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabs(x[1][i] - x[0][i]) <= 2e-6 * (1 + fabs(x[0][i])));
}

static void expect_error(struct run *o, struct bst_step step, const char *text)
{
    struct bst_step_result result = {0};
    const struct bst_program *p = o->r.programs[0];

    step.result = &result;
    assert_int_equal(bst_program_run(o->r.b, p, &o->r.mem, &step, 0, p->n_instrs, NULL),
                     BST_E_RANGE);
    if (!strstr(bst_err_text(), text))
        fail_msg("'%s' is not in '%s'", text, bst_err_text());
}

static void what_does_not_exist_is_named(void **state)
{
    static const int32_t bad_pair[SAMPLES] = {1, 0, CLASSES, 1};
    struct run o;

    (void)state;
    open_run(&o, "cuda", 0, false);
    struct bst_step step = step_of(&o, 1, 1);
    o.batch.tokens[0][2 * LENGTH + 3] = SEQ_VOCAB;
    expect_error(&o, step, "token 23 at position 3 of sample 2; the table has 23");
    o.batch.tokens[0][2 * LENGTH + 3] = 0;
    o.batch.labels[LENGTH + 1] = SEQ_VOCAB;
    expect_error(&o, step, "label 23 of sample 1");
    o.batch.labels[LENGTH + 1] = 0;
    step.pair = bad_pair;
    expect_error(&o, step, "label 2 of sample 2");
    pass(&o, step_of(&o, 1, 1)); /* and goes on */
    assert_true(isfinite(o.x[o.n]));
    close_run(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_stretch_drops_what_the_step_says),
        cmocka_unit_test(whole_nets_agree_in_every_precision),
        cmocka_unit_test(what_changes_in_a_step_captures_nothing),
        cmocka_unit_test(a_token_may_come_any_number_of_times),
        cmocka_unit_test(what_does_not_exist_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
