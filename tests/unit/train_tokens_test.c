/* Sequences through the trainer: the loss is the mean over what counts, however a batch is cut. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/graph_seq.h"
#include "train_support.h"

enum { WIDTH = 16 };

/* Tokens, and segments where there are any, to the token at each position: no two positions meet,
 * which is enough for sums and counts. */
static enum bst_err build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    int x = -1;
    for (int s = 0; s < BST_MAX_STREAMS && cfg->length[s]; s++) {
        const struct bst_embedding e = {.stream = s,
                                        .length = cfg->length[s],
                                        .rows = cfg->classes,
                                        .width = WIDTH,
                                        .deviation = 0.5};
        int y = bst_graph_embedding(g, &e, s ? "second" : "first");
        x = s ? bst_graph_add(g, x, y, "both") : y;
    }
    const struct bst_linear l = {.out = cfg->classes, .init = BST_INIT_XAVIER_UNIFORM};
    x = bst_graph_layer_norm(g, x, 1e-5, "norm");
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &l, "head"), "loss");
    return bst_graph_check(g);
}

static const struct bst_net next_net = {"next", "", build, BST_INPUT_NEXT, NULL};
static const struct bst_net masked_net = {"masked", "", build, BST_INPUT_MASKED, NULL};
static const struct bst_net translate_net = {"translate", "", build, BST_INPUT_TRANSLATE, NULL};

#ifndef TRAIN_BACKENDS
#define TRAIN_BACKENDS "ref", "ref64", "cpu"
#endif
static const char *const backends[] = {TRAIN_BACKENDS};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static struct bst_train_cfg cfg_of(const struct bst_net *net, const char *backend,
                                   const char *format, int length)
{
    struct bst_train_cfg cfg = train_cfg(net, backend);
    cfg.net_cfg = (struct bst_net_cfg){.name = net->name};
    cfg.data = (struct bst_data_cfg){.format = format,
                                     .length = length,
                                     .train_count = 60,
                                     .eval_count = 21,
                                     .bucket = true,
                                     .seed = 3};
    return cfg;
}

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fmax(fabs(want), 1e-3)))
        fail_msg("%.17g, expected %.17g ± %g of it", got, want, relative);
}

/* Rows of other lengths have other numbers of targets: a part counts by them, not by its samples.
 */
static void any_split_gives_the_same_gradient(void **state)
{
    static const struct {
        int ranks, k;
    } cuts[] = {{1, 2}, {1, 5}, {1, 23}, {2, 1}, {3, 2}};
    static const struct {
        const struct bst_net *net;
        const char *format;
    } sets[] = {{&next_net, "reverse"},
                {&translate_net, "copy"},
                {&masked_net, "random"},
                {&next_net, "addition"}};
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++)
        for (int s = 0; s < 4 && bst_backend_find(backends[b]); s++) {
            struct bst_train_cfg cfg = cfg_of(sets[s].net, backends[b], sets[s].format, 17);
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result want = train_some(t, 3, 23, 1);
            double slack = strcmp(backends[b], "ref64") ? 2e-5 : 1e-12;
            assert_int_equal(want.samples_used, 23);
            assert_true(want.targets_used > 0 && want.tokens_used > want.targets_used);
            bst_trainer_close(t);
            for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
                cfg.ranks = cuts[i].ranks;
                t = train_open(&cfg);
                struct bst_update_result got = train_some(t, 3, 23, cuts[i].k);
                assert_near(got.loss, want.loss, slack);
                assert_near(got.grad_norm, want.grad_norm, slack);
                assert_true(got.accuracy == want.accuracy);
                assert_true(sets[s].net == &masked_net ? isnan(got.exact)
                                                       : got.exact == want.exact);
                assert_int_equal(got.samples_used, 23);
                assert_int_equal(got.tokens_used, want.tokens_used);
                assert_int_equal(got.targets_used, want.targets_used);
                bst_trainer_close(t);
            }
        }
}

/* As above, with positions that meet, and are dropped now and then: attention over one's own row,
 * and over the source where there are two. */
static enum bst_err build_attention(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    const struct bst_attention self = {.heads = 2, .causal = true, .key_stream = -1, .drop = 0.3};
    const struct bst_attention cross = {.heads = 2, .key_stream = 0, .drop = 0.3};
    const struct bst_linear wide = {.out = 3 * WIDTH, .init = BST_INIT_XAVIER_UNIFORM};
    const struct bst_linear l = {.out = cfg->classes, .init = BST_INIT_XAVIER_UNIFORM};
    int x = -1, source = -1;
    for (int s = 0; s < BST_MAX_STREAMS && cfg->length[s]; s++) {
        const struct bst_embedding e = {.stream = s,
                                        .length = cfg->length[s],
                                        .rows = cfg->classes,
                                        .width = WIDTH,
                                        .deviation = 0.5};
        source = x;
        x = bst_graph_embedding(g, &e, s ? "second" : "first");
        x = bst_graph_sinusoid(g, x, s ? "second.place" : "first.place");
    }
    x = bst_graph_dropout(g, x, 0.2, "drop");
    int qkv[3] = {bst_graph_linear_as(g, x, &wide, "qkv"), -1, -1};
    x = bst_graph_attention(g, qkv, &self, "self");
    if (source >= 0)
        x = bst_graph_attention(g, (const int[3]){x, source, source}, &cross, "cross");
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &l, "head"), "loss");
    return bst_graph_check(g);
}

/* Rows are computed as far as the longest of their micro-batch, and nothing depends on that: not
 * even what is dropped. */
static void padding_is_not_computed(void **state)
{
    static const struct {
        const struct bst_net net;
        const char *format;
    } sets[] = {{{"attention", "", build_attention, BST_INPUT_NEXT, NULL}, "reverse"},
                {{"attention across", "", build_attention, BST_INPUT_TRANSLATE, NULL}, "copy"}};
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++)
        for (int s = 0; s < 2 && bst_backend_find(backends[b]); s++) {
            struct bst_train_cfg cfg = cfg_of(&sets[s].net, backends[b], sets[s].format, 33);
            double slack = strcmp(backends[b], "ref64") ? 2e-5 : 1e-12;
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result whole = train_some(t, 3, 23, 1);
            struct bst_eval_result want, got;
            ok(bst_trainer_eval(t, NULL, &want));
            bst_trainer_close(t);
            t = train_open(&cfg);
            struct bst_update_result each = train_some(t, 3, 23, 23);
            ok(bst_trainer_eval(t, NULL, &got));
            bst_trainer_close(t);
            assert_int_equal(each.tokens_used, whole.tokens_used);
            /* Each row for itself: rounded up to one of eight lengths, five tokens apart. */
            assert_true(each.positions_used < whole.positions_used);
            assert_true(each.positions_used < each.tokens_used + 23 * 5 * (s + 1));
            assert_near(each.loss, whole.loss, slack);
            assert_near(each.grad_norm, whole.grad_norm, slack);
            assert_near(got.loss, want.loss, slack);
        }
}

/* At the start nothing is known of the next digit: the loss is about log of the vocabulary, and
 * falls. What is ignored does not count: the source's positions would never get better. */
static void it_learns_what_can_be_known(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = cfg_of(&next_net, backends[b], "addition", 0);
        cfg.optim.kind = BST_OPTIMIZER_ADAMW;
        struct bst_trainer *t = train_open(&cfg);
        struct bst_eval_result before, after, again;
        struct bst_update_result r;
        ok(bst_trainer_eval(t, NULL, &before));
        for (int i = 0; i < 60; i++) {
            struct bst_update_req req = train_req((uint64_t)i * 30, 30, 2);
            req.lr = 0.05;
            req.label_smoothing = 0;
            ok(bst_trainer_update(t, &req, NULL, &r));
        }
        ok(bst_trainer_eval(t, NULL, &after));
        assert_int_equal(after.samples, 21);
        assert_int_equal(after.targets, 21 * 5);
        assert_int_equal(r.targets_used, 30 * 5);
        assert_int_equal(r.tokens_used, 30 * 12);
        /* Four digits, about even, and the end, which follows them at no certain place here. */
        assert_true(before.loss > 1.8 && after.loss < 0.9 * before.loss);
        ok(bst_trainer_eval_some(t, NULL, &again));
        bst_trainer_close(t);
    }
}

static void an_evaluation_does_not_depend_on_its_batches(void **state)
{
    (void)state;
    double want = 0;
    for (int batch = 1; batch <= 21; batch += 4) {
        struct bst_train_cfg cfg = cfg_of(&next_net, "ref64", "reverse", 17);
        cfg.eval_batch = batch;
        struct bst_trainer *t = train_open(&cfg);
        struct bst_eval_result e;
        ok(bst_trainer_eval(t, NULL, &e));
        if (batch == 1)
            want = e.loss;
        assert_near(e.loss, want, 1e-13);
        bst_trainer_close(t);
    }
}

static void bytes_planned_are_bytes_allocated(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = cfg_of(&translate_net, backends[b], "copy", 17);
        struct bst_trainer *t = train_open(&cfg);
        struct bst_rank_memory plan, got;
        struct bst_eval_result e;
        ok(bst_trainer_plan(t, 30, 2, &plan));
        ok(bst_trainer_set_split(t, 30, 2, NULL));
        train_some(t, 1, 30, 2);
        ok(bst_trainer_eval(t, NULL, &e));
        bst_trainer_memory(t, 0, &got);
        assert_int_equal(got.held, plan.total);
        /* Two streams and labels of 17 tokens, lengths, an index: more than 200 bytes a sample. */
        if (!cfg.backend->own_memory)
            assert_true(plan.loader > 3 * 15 * 3 * 17 * 4);
        bst_trainer_close(t);
    }
    assert_int_equal(bst_alloc_held(), 0);
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    struct bst_trainer *t = NULL;
    struct bst_train_cfg cfg = cfg_of(&next_net, "ref", "shapes", 0);
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_ARG);
    assert_string_equal(bst_err_text(),
                        "shapes is a set of images, the net takes sequences of tokens");
    cfg = train_cfg(&train_plain_net, "ref");
    cfg.data = (struct bst_data_cfg){.format = "copy"};
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_ARG);
    assert_string_equal(bst_err_text(), "copy is a set of sequences, the net takes images");
    cfg = cfg_of(&next_net, "ref", "copy", 17);
    cfg.net_cfg.classes = 13;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_SHAPE);
    assert_string_equal(bst_err_text(), "the data have a vocabulary of 14, the net knows 13");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_gradient),
        cmocka_unit_test(padding_is_not_computed),
        cmocka_unit_test(it_learns_what_can_be_known),
        cmocka_unit_test(an_evaluation_does_not_depend_on_its_batches),
        cmocka_unit_test(bytes_planned_are_bytes_allocated),
        cmocka_unit_test(what_does_not_fit_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
