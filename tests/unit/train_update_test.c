#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "train_support.h"

#ifndef TRAIN_BACKENDS
#define TRAIN_BACKENDS "ref", "ref64", "cpu"
#endif
static const char *const backends[] = {TRAIN_BACKENDS};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

/* How far two results may be apart: the same sums in another order. */
static double slack(const char *backend)
{
    return strcmp(backend, "ref64") ? 2e-5 : 1e-12;
}

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fmax(fabs(want), 1e-3)))
        fail_msg("%.17g, expected %.17g ± %g of it", got, want, relative);
}

/* Two trainers that should have gone the same way. */
static void compare(struct bst_trainer *a, struct bst_trainer *b, double relative)
{
    int n = 0, m = 0;
    const struct bst_layer_norm *x = bst_trainer_layers(a, &n), *y = bst_trainer_layers(b, &m);
    assert_int_equal(n, m);
    for (int i = 0; i < n; i++) {
        assert_string_equal(x[i].name, y[i].name);
        assert_near(x[i].grad_norm, y[i].grad_norm, relative);
        assert_near(x[i].weight_norm, y[i].weight_norm, relative);
    }
}

static void loss_falls(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
        struct bst_trainer *t = train_open(&cfg);
        struct bst_eval_result before, after;
        ok(bst_trainer_eval(t, NULL, &before));
        struct bst_update_result first = train_some(t, 1, 30, 1);
        struct bst_update_result last = train_some(t, 60, 30, 1);
        ok(bst_trainer_eval(t, NULL, &after));
        if (!(last.loss < 0.9 * first.loss))
            fail_msg("%s: loss %g at first, %g at last", backends[b], first.loss, last.loss);
        assert_true(after.loss < before.loss);
        assert_int_equal(after.samples, EVAL_N);
        assert_int_equal(last.samples_used, 30);
        assert_int_equal(last.micro_largest, 30);
        assert_int_equal(last.micro_used, 1);
        assert_true(last.lr_used == 0.05 && last.momentum_used == 0.9);
        assert_true(last.weight_decay_used == 1e-3);
        bst_trainer_close(t);
    }
}

/* The gradient of a batch does not depend on how it is cut: micro-batches, ragged ones, ranks. */
static void any_split_gives_the_same_gradient(void **state)
{
    (void)state;
    static const struct {
        int ranks, k;
    } cuts[] = {{1, 2}, {1, 4}, {1, 5}, {1, 23}, {2, 1}, {2, 3}, {3, 2}, {5, 1}};
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_plain_net, backends[b]);
        struct bst_trainer *whole = train_open(&cfg);
        struct bst_update_result want = train_some(whole, 3, 23, 1);
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            cfg.ranks = cuts[i].ranks;
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result got = train_some(t, 3, 23, cuts[i].k);
            assert_near(got.loss, want.loss, slack(backends[b]));
            assert_near(got.grad_norm, want.grad_norm, slack(backends[b]));
            assert_true(got.accuracy == want.accuracy);
            assert_int_equal(got.samples_used, 23);
            compare(whole, t, 10 * slack(backends[b]));
            ok(bst_trainer_compare_ranks(t));
            bst_trainer_close(t);
        }
        bst_trainer_close(whole);
    }
}

/* With batch norm the parts themselves count: two ranks see what one rank sees in two
 * micro-batches. */
static void two_ranks_are_two_micro_batches(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
        struct bst_trainer *one = train_open(&cfg);
        cfg.ranks = 2;
        struct bst_trainer *two = train_open(&cfg);
        struct bst_update_result x = train_some(one, 4, 15, 2), y = train_some(two, 4, 15, 1);
        assert_near(x.loss, y.loss, 10 * slack(backends[b]));
        assert_near(x.grad_norm, y.grad_norm, 10 * slack(backends[b]));
        compare(one, two, 100 * slack(backends[b]));
        assert_int_equal(x.micro_largest, 8);
        assert_int_equal(x.micro_used, 2);
        assert_int_equal(y.micro_used, 1);
        bst_trainer_close(one);
        bst_trainer_close(two);
    }
}

static void runs_repeat_bit_for_bit(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        for (int ranks = 1; ranks <= 3; ranks++) {
            uint32_t hash[2];
            for (int i = 0; i < 2; i++) {
                struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
                cfg.ranks = ranks;
                struct bst_trainer *t = train_open(&cfg);
                train_some(t, 4, 17, 2);
                ok(bst_trainer_compare_ranks(t));
                hash[i] = train_hash(t);
                bst_trainer_close(t);
            }
            assert_int_equal(hash[0], hash[1]);
        }
    }
}

/* What ran in between must not show: other splits, evaluations, plans. */
static void only_updates_move_the_state(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    cfg.ranks = 2;
    struct bst_trainer *a = train_open(&cfg), *b = train_open(&cfg);
    struct bst_rank_memory m;
    struct bst_eval_result e;
    struct bst_update_result r;
    train_some(a, 3, 16, 2);
    for (int i = 0; i < 3; i++) {
        struct bst_update_req req = train_req((uint64_t)i * 16, 16, 2);
        ok(bst_trainer_set_split(b, 40, 3, NULL));
        ok(bst_trainer_eval(b, NULL, &e));
        ok(bst_trainer_plan(b, 11, 1, &m));
        ok(bst_trainer_set_split(b, 16, 2, NULL));
        ok(bst_trainer_update(b, &req, NULL, &r));
    }
    assert_int_equal(train_hash(a), train_hash(b));
    bst_trainer_close(a);
    bst_trainer_close(b);
}

/* The end of a run: fewer samples than ranks. */
static void ranks_may_run_empty(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, NULL);
    struct bst_trainer *one = train_open(&cfg);
    train_poison(true);
    cfg.ranks = 4;
    struct bst_trainer *four = train_open(&cfg);
    struct bst_update_result r;
    struct bst_update_req req = train_req(0, 8, 1);
    ok(bst_trainer_update(four, &req, NULL, &r)); /* leaves NaN in every rank's gradient block */
    assert_true(r.skipped);
    train_poison(false);
    struct bst_update_result x = train_some(one, 1, 2, 1), y = train_some(four, 1, 2, 1);
    assert_int_equal(y.samples_used, 2);
    assert_false(y.skipped);
    assert_near(y.grad_norm, x.grad_norm, 2e-5);
    ok(bst_trainer_compare_ranks(four));
    bst_trainer_close(one);
    bst_trainer_close(four);
}

static enum bst_err build_one_pixel(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    int x = bst_graph_image(g, cfg->in_channels, cfg->height, cfg->width);
    x = bst_graph_conv2d(g, x, 8, (struct bst_window){12, 12, 0}, "conv1");
    x = bst_graph_relu(g, bst_graph_batch_norm(g, x, "bn1"), "relu1");
    x = bst_graph_global_avg_pool(g, x, "pool");
    bst_graph_softmax_ce(g, bst_graph_linear(g, x, cfg->classes, "fc"), "loss");
    return bst_graph_check(g);
}

static void a_batch_norm_of_one_value_is_refused(void **state)
{
    (void)state;
    static const struct bst_net net = {"one-pixel", "", build_one_pixel, BST_INPUT_IMAGES, NULL};
    struct bst_train_cfg cfg = train_cfg(&net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_req req = train_req(0, 3, 2);
    struct bst_update_result r;
    train_some(t, 1, 4, 2);
    uint32_t before = train_hash(t);
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_SHAPE);
    assert_non_null(strstr(bst_err_text(), "bn1"));
    assert_int_equal(train_hash(t), before);
    train_some(t, 1, 4, 2);
    bst_trainer_close(t);
}

static void nothing_moves_in_a_skipped_update(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg);
    train_some(t, 2, 12, 2);
    uint32_t before = train_hash(t);
    train_poison(true);
    struct bst_update_req req = train_req(24, 12, 2);
    req.momentum_factor = 0.5;
    struct bst_update_result r;
    ok(bst_trainer_update(t, &req, NULL, &r));
    train_poison(false);
    assert_true(r.skipped && r.nonfinite && !r.clipped);
    assert_string_equal(r.first_nonfinite, "fc.weight");
    assert_int_equal(train_hash(t), before);
    ok(bst_trainer_update(t, &req, NULL, &r));
    assert_false(r.skipped);
    assert_null(r.first_nonfinite);
    assert_int_not_equal(train_hash(t), before);
    bst_trainer_close(t);
}

static void nothing_moves_in_a_cancelled_update(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
        cfg.ranks = ranks;
        struct bst_trainer *t = train_open(&cfg), *u = train_open(&cfg);
        struct bst_update_req req = train_req(24, 12, 3);
        struct bst_update_result r;
        struct bst_eval_result e;
        train_some(t, 2, 12, 3);
        train_some(u, 2, 12, 3);
        uint32_t before = train_hash(t);
        int cancelled = 0;
        for (int at = 1; at < 40; at += 5) {
            atomic_int stop = 0;
            train_stop_at(&stop, at);
            enum bst_err err = bst_trainer_update(t, &req, &stop, &r);
            train_stop_at(NULL, 0);
            assert_true(err == BST_E_CANCELLED);
            assert_int_equal(train_hash(t), before);
            cancelled++;
        }
        atomic_int stop = 1;
        assert_int_equal(bst_trainer_eval(t, &stop, &e), BST_E_CANCELLED);
        assert_int_equal(train_hash(t), before);
        assert_int_equal(cancelled, 8);
        ok(bst_trainer_update(t, &req, NULL, &r));
        ok(bst_trainer_update(u, &req, NULL, &r));
        assert_int_equal(train_hash(t), train_hash(u));
        bst_trainer_close(t);
        bst_trainer_close(u);
    }
}

/* Whatever rank and call fails: an error, no hang, and the state of before. */
static void a_failing_device_is_an_error(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    cfg.ranks = 3;
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_req req = train_req(24, 12, 2);
    struct bst_update_result r;
    train_some(t, 2, 12, 2);
    uint32_t before = train_hash(t);
    for (int at = 1; at <= 40; at += 3) {
        train_fault(FAULT_RUN, at, BST_E_LIBRARY);
        assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_LIBRARY);
        assert_non_null(strstr(bst_err_text(), "injected"));
        train_fault(FAULT_NONE, 0, BST_OK);
        assert_int_equal(train_hash(t), before);
    }
    for (int at = 1; at <= 3; at++) {
        train_fault(FAULT_SUM, at, BST_E_LIBRARY);
        assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_LIBRARY);
        train_fault(FAULT_NONE, 0, BST_OK);
        assert_int_equal(train_hash(t), before);
    }
    /* Half an optimizer step cannot be taken back, but it is not taken for a state either. */
    ok(bst_trainer_hold(t));
    train_fault(FAULT_SGD, 5, BST_E_LIBRARY);
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_LIBRARY);
    train_fault(FAULT_NONE, 0, BST_OK);
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_STATE);
    assert_int_equal(bst_trainer_save(t, BST_STATE_WEIGHTS, "/tmp/never"), BST_E_STATE);
    ok(bst_trainer_rewind(t));
    assert_int_equal(train_hash(t), before);
    ok(bst_trainer_update(t, &req, NULL, &r));
    ok(bst_trainer_compare_ranks(t));
    bst_trainer_close(t);
}

static void clipping_is_pytorchs(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref64");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_req req = train_req(0, 20, 1);
    struct bst_update_result r;
    double w[2][64] = {{0}};
    int n = 0;
    ok(bst_trainer_hold(t));
    const struct bst_layer_norm *l = bst_trainer_layers(t, &n);
    req.momentum = req.weight_decay = 0;
    req.max_grad_norm = 1e9;
    ok(bst_trainer_update(t, &req, NULL, &r));
    double norm = r.grad_norm;
    assert_false(r.clipped);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += l[i].grad_norm * l[i].grad_norm;
    assert_near(norm, sqrt(sum), 1e-14);
    /* A step of rate lr clipped by c is a step of rate lr · c. */
    double coef = (norm / 3) / (norm + 1e-6);
    for (int i = 0; i < 2; i++) {
        ok(bst_trainer_rewind(t));
        req.max_grad_norm = i ? 0 : norm / 3;
        req.lr = i ? 0.05 * coef : 0.05;
        ok(bst_trainer_update(t, &req, NULL, &r));
        assert_int_equal(r.clipped, !i);
        assert_near(r.grad_norm, norm, 1e-15);
        l = bst_trainer_layers(t, &n);
        for (int k = 0; k < n; k++)
            w[i][k] = l[k].weight_norm;
    }
    for (int k = 0; k < n; k++)
        assert_near(w[0][k], w[1][k], 1e-13);
    bst_trainer_close(t);
}

static double weight_of(struct bst_trainer *t, const char *name)
{
    int n = 0;
    const struct bst_layer_norm *l = bst_trainer_layers(t, &n);
    for (int i = 0; i < n; i++)
        if (!strcmp(l[i].name, name))
            return l[i].weight_norm;
    fail_msg("no %s", name);
    return 0;
}

static void groups_take_the_first_match(void **state)
{
    (void)state;
    static const struct bst_lr_group groups[] = {
        {"conv1.*", 0, -1}, {"conv?.weight", 0.5, 0.1}, {"fc.*", 1, -1}};
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref64");
    struct bst_trainer *all = train_open(&cfg);
    cfg.groups = groups;
    cfg.n_groups = 3;
    struct bst_trainer *t = train_open(&cfg);
    double conv1 = weight_of(t, "conv1.weight"), conv2 = weight_of(t, "conv2.weight");
    struct bst_update_req req = train_req(0, 20, 1);
    struct bst_update_result r, s;
    /* Weight decay alone tells the groups' numbers: with a rate of 1 and no gradient… */
    req.max_grad_norm = 1e-30;
    req.momentum = 0;
    req.nesterov = false;
    req.lr = 1;
    req.weight_decay = 0.25;
    ok(bst_trainer_update(t, &req, NULL, &r));
    ok(bst_trainer_update(all, &req, NULL, &s));
    assert_true(weight_of(t, "conv1.weight") == conv1);
    assert_near(weight_of(t, "conv2.weight"), conv2 * (1 - 0.5 * 0.1), 1e-12);
    assert_near(weight_of(all, "conv2.weight"), conv2 * (1 - 0.25), 1e-12);
    assert_near(weight_of(all, "bn1.weight"), sqrt(8), 1e-12);
    assert_true(r.lr_used == 1 && r.weight_decay_used == 0.25);
    /* Frozen parameters are no part of the norm. */
    assert_true(r.grad_norm < s.grad_norm);
    bst_trainer_close(t);
    bst_trainer_close(all);

    cfg = train_cfg(&train_bn_net, "ref64");
    cfg.decay_bn_and_bias = true;
    t = train_open(&cfg);
    ok(bst_trainer_update(t, &req, NULL, &r));
    assert_near(weight_of(t, "bn1.weight"), sqrt(8) * (1 - 0.25), 1e-12);
    bst_trainer_close(t);
}

static void a_pattern_without_a_match_is_an_error(void **state)
{
    (void)state;
    static const struct bst_lr_group nobody[] = {{"layer9.*", 1, -1}};
    static const struct bst_lr_group hidden[] = {{"conv*", 1, -1}, {"conv1.weight", 1, -1}};
    static const struct bst_lr_group partly[] = {{"conv", 1, -1}};
    static const struct bst_lr_group negative[] = {{"*", -1, -1}};
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = NULL;
    cfg.groups = nobody;
    cfg.n_groups = 1;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "layer9.*"));
    cfg.groups = partly;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_NOTFOUND);
    cfg.groups = negative;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_RANGE);
    cfg.groups = hidden;
    cfg.n_groups = 2;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "earlier group"));
    assert_null(t);
}

/* v ← f·v before the update: what two updates with μ and one with fμ would see. */
static void momentum_is_corrected(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref64");
    struct bst_trainer *a = train_open(&cfg), *b = train_open(&cfg);
    struct bst_update_req req = train_req(0, 20, 1);
    struct bst_update_result r;
    req.nesterov = false;
    ok(bst_trainer_update(a, &req, NULL, &r));
    ok(bst_trainer_update(b, &req, NULL, &r));
    req.first = 20;
    req.momentum_factor = 0.25;
    ok(bst_trainer_update(a, &req, NULL, &r));
    req.momentum_factor = 1;
    req.momentum *= 0.25;
    ok(bst_trainer_update(b, &req, NULL, &r));
    compare(a, b, 1e-14);
    bst_trainer_close(a);
    bst_trainer_close(b);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_result r;
    uint32_t before = train_hash(t);
    struct bst_update_req req = train_req(0, 20, 1);
    req.lr = NAN;
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_RANGE);
    req = train_req(0, 20, 1);
    req.label_smoothing = 1;
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_RANGE);
    req = train_req(0, 1, 1);
    req.batch = 0;
    assert_int_equal(bst_trainer_update(t, &req, NULL, &r), BST_E_ARG);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
    cfg.net_cfg.width = 13;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_SHAPE);
    cfg.net_cfg.width = 12;
    cfg.net_cfg.classes = 3;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_SHAPE);
    cfg.ranks = 0;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_RANGE);
}

/* Changing batches, skips and cancellations: every sample of an epoch exactly once. */
static void the_trace_has_each_sample_once(void **state)
{
    (void)state;
    char path[] = "/tmp/bst-trace-XXXXXX";
    static const int batches[] = {7, 16, 19, 1, 12, 33, 32}; /* 120 in all: two epochs */
    close(mkstemp(path));
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    cfg.ranks = 2;
    cfg.trace_path = path;
    struct bst_trainer *t = train_open(&cfg);
    uint64_t first = 0;
    for (int i = 0; i < 7; i++) {
        struct bst_update_req req = train_req(first, batches[i], 1 + i % 3);
        struct bst_update_result r;
        atomic_int stop = 0;
        req.update = (uint64_t)i + 1;
        train_stop_at(&stop, 9);
        assert_int_equal(bst_trainer_update(t, &req, &stop, &r), BST_E_CANCELLED);
        train_stop_at(NULL, 0);
        train_poison(i == 3);
        ok(bst_trainer_update(t, &req, NULL, &r));
        train_poison(false);
        first += (uint64_t)batches[i];
        /* A search's updates are not the run's. */
        req.update = 0;
        ok(bst_trainer_update(t, &req, NULL, &r));
    }
    bst_trainer_close(t);
    char *text = NULL, *save = NULL;
    size_t n = 0;
    int seen[TRAIN_N] = {0}, lines = 0, position = 0;
    ok(bst_io_read_file(path, 1 << 20, &text, &n));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *at = line;
        assert_int_equal(strtol(at, &at, 10), lines + 1);
        assert_int_equal(strtol(at, &at, 10), position);
        assert_int_equal(strtol(at, &at, 10), batches[lines]);
        for (int i = 0; i < batches[lines]; i++, position++) {
            long index = strtol(at, &at, 10);
            assert_in_range(index, 0, TRAIN_N - 1);
            assert_int_equal(index, bst_sampler_index(3, TRAIN_N, (uint64_t)position, true));
            seen[index]++;
        }
        assert_int_equal(*at, '\0');
        lines++;
    }
    assert_int_equal(lines, 7);
    for (int i = 0; i < TRAIN_N; i++)
        assert_int_equal(seen[i], 2);
    bst_free(text);
    unlink(path);
}

static void keep_line(void *arg, enum bst_log_level level, const char *line)
{
    (void)level;
    snprintf(arg, 300, "%s", line);
}

static void a_trace_that_cannot_be_written_costs_no_update(void **state)
{
    (void)state;
    char line[300] = "";
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    train_some(t, 2, 12, 1);
    uint32_t want = train_hash(t);
    bst_trainer_close(t);
    cfg.trace_path = "/dev/full";
    bst_log_to(keep_line, line);
    t = train_open(&cfg);
    train_some(t, 2, 12, 1);
    bst_log_to(NULL, NULL);
    assert_int_equal(train_hash(t), want);
    assert_non_null(strstr(line, "ends before update 1: /dev/full: No space left"));
    bst_trainer_close(t);
}

static void the_ceiling_moves_nothing(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    uint32_t before = train_hash(t);
    struct bst_update_req req = train_req(0, 20, 2);
    struct bst_update_result r;
    req.only_matmul = true;
    ok(bst_trainer_update(t, &req, NULL, &r));
    assert_int_equal(r.samples_used, 20);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_falls),
        cmocka_unit_test(any_split_gives_the_same_gradient),
        cmocka_unit_test(two_ranks_are_two_micro_batches),
        cmocka_unit_test(runs_repeat_bit_for_bit),
        cmocka_unit_test(only_updates_move_the_state),
        cmocka_unit_test(ranks_may_run_empty),
        cmocka_unit_test(a_batch_norm_of_one_value_is_refused),
        cmocka_unit_test(nothing_moves_in_a_skipped_update),
        cmocka_unit_test(nothing_moves_in_a_cancelled_update),
        cmocka_unit_test(a_failing_device_is_an_error),
        cmocka_unit_test(clipping_is_pytorchs),
        cmocka_unit_test(groups_take_the_first_match),
        cmocka_unit_test(a_pattern_without_a_match_is_an_error),
        cmocka_unit_test(momentum_is_corrected),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(the_trace_has_each_sample_once),
        cmocka_unit_test(a_trace_that_cannot_be_written_costs_no_update),
        cmocka_unit_test(the_ceiling_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
