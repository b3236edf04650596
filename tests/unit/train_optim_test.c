/* The optimizers inside the trainer: masks, the count of steps through skipped updates, files,
 * holds, and the bytes of their state. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/safetensors.h"
#include "core/tune/optimizer.h"
#include "train_support.h"

static char dir[] = "/tmp/bst-optim-XXXXXX";
static char before[64], after[64], state_file[64];

static const enum bst_optimizer kinds[] = {BST_OPTIMIZER_SGD, BST_OPTIMIZER_ADAMW,
                                           BST_OPTIMIZER_LAMB, BST_OPTIMIZER_LARS};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(before, sizeof before, "%s/before", dir);
    snprintf(after, sizeof after, "%s/after", dir);
    snprintf(state_file, sizeof state_file, "%s/state", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return bst_io_remove_tree(dir);
}

static struct bst_train_cfg cfg_of(enum bst_optimizer kind, const char *backend)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, backend);
    cfg.optim.kind = kind;
    return cfg;
}

/* Three updates from `first` on with a rate that suits all. */
static struct bst_update_result go_on(struct bst_trainer *t, int first, int n)
{
    struct bst_update_result r = {0};
    for (int i = first; i < first + n; i++) {
        struct bst_update_req req = train_req((uint64_t)i * 12, 12, 2);
        req.lr = 0.01;
        ok(bst_trainer_update(t, &req, NULL, &r));
    }
    return r;
}

static void every_optimizer_learns(void **state)
{
    static const double rates[] = {0.05, 0.01, 0.02, 0.5};
    static const char *const backends[] = {"ref", "cpu"};
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < N_KINDS && bst_backend_find(backends[b]); i++) {
            struct bst_train_cfg cfg = cfg_of(kinds[i], backends[b]);
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result r;
            double first = 0, last = 0;
            for (int n = 0; n < 60; n++) {
                struct bst_update_req req = train_req((uint64_t)n * 30, 30, 1);
                req.lr = rates[i];
                ok(bst_trainer_update(t, &req, NULL, &r));
                first = n ? first : r.loss;
                last = r.loss;
            }
            if (!(last < 0.9 * first))
                fail_msg("%s: loss %g at first, %g at last", bst_optimizer_info(kinds[i])->name,
                         first, last);
            assert_true(r.lr_used == rates[i] && r.weight_decay_used == 1e-3);
            assert_true(r.momentum_used == (bst_optimizer_info(kinds[i])->momentum ? 0.9 : 0));
            assert_int_equal(bst_trainer_optim_steps(t), 60);
            bst_trainer_close(t);
        }
}

static void read_tensor(const char *path, const char *name, double *out, int *n)
{
    struct bst_tensors *r = NULL;
    ok(bst_tensors_open(path, &r));
    const struct bst_tensor *x = bst_tensors_find(r, name);
    if (!x)
        fail_msg("%s: no %s", path, name);
    ok(bst_tensors_read(r, x, out));
    *n = (int)x->count;
    bst_tensors_close(r);
}

static double norm(const double *x, int n)
{
    double q = 0;
    for (int i = 0; i < n; i++)
        q += x[i] * x[i];
    return sqrt(q);
}

/* The first update of one parameter, worked out from its weights before and its state after: the
 * first mean is a tenth of the gradient, lars's velocity is the step itself. */
static void check_first(enum bst_optimizer kind, const char *name, bool decays)
{
    char of_state[64];
    double w[600], m[600], got[600], g[600], u[600], decay = decays ? 1e-3 : 0;
    int n, n_state;
    snprintf(of_state, sizeof of_state, "%s.%s", bst_optimizer_info(kind)->blocks[0], name);
    read_tensor(before, name, w, &n);
    read_tensor(after, name, got, &n_state);
    read_tensor(state_file, of_state, m, &n_state);
    assert_int_equal(n, n_state);
    for (int i = 0; i < n; i++) {
        g[i] = m[i] / 0.1;
        u[i] = g[i] / (fabs(g[i]) + 1e-6) + decay * w[i];
    }
    double r = kind == BST_OPTIMIZER_LAMB && decays && norm(w, n) > 0 ? norm(w, n) / norm(u, n) : 1;
    for (int i = 0; i < n; i++) {
        double step = kind == BST_OPTIMIZER_LARS ? m[i] : r * u[i];
        double want = w[i] - 0.01 * step;
        if (!(fabs(got[i] - want) <= 1e-12 * fmax(1, fabs(want))))
            fail_msg("%s: element %d is %.17g, not %.17g", name, i, got[i], want);
    }
    /* lars: ‖r(g + λw)‖ is about η‖w‖ where trusted, with r at most η‖w‖ / (λ‖w‖). */
    if (kind == BST_OPTIMIZER_LARS && decays) {
        assert_true(norm(m, n) <= 0.02 * norm(w, n) * (1 + 1e-12));
        assert_true(norm(m, n) >= 0.02 * norm(w, n) * 0.9);
    }
}

static void biases_and_norms_may_be_left_out(void **state)
{
    (void)state;
    for (int all = 0; all <= 1; all++)
        for (int i = 1; i < N_KINDS; i++) {
            struct bst_train_cfg cfg = cfg_of(kinds[i], "ref64");
            struct bst_update_result r;
            struct bst_update_req req = train_req(0, 12, 1);
            cfg.decay_bn_and_bias = all;
            req.lr = 0.01;
            req.nesterov = false;
            struct bst_trainer *t = train_open(&cfg);
            ok(bst_trainer_save(t, BST_STATE_WEIGHTS, before));
            ok(bst_trainer_update(t, &req, NULL, &r));
            ok(bst_trainer_save(t, BST_STATE_WEIGHTS, after));
            ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, state_file));
            check_first(kinds[i], "conv1.weight", true);
            check_first(kinds[i], "fc.weight", true);
            check_first(kinds[i], "fc.bias", all);
            check_first(kinds[i], "bn1.weight", all);
            bst_trainer_close(t);
        }
}

/* Bias correction goes by the updates that moved something: a skipped one leaves no trace. */
static void a_skipped_update_is_no_step(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        struct bst_train_cfg cfg = cfg_of(kinds[i], NULL);
        struct bst_trainer *plain = train_open(&cfg), *skips = train_open(&cfg);
        struct bst_update_result r;
        go_on(plain, 0, 2);
        go_on(skips, 0, 2);
        uint32_t hash = train_hash(skips);
        train_poison(true);
        r = go_on(skips, 2, 1);
        train_poison(false);
        assert_true(r.skipped);
        assert_int_equal(bst_trainer_optim_steps(skips), 2);
        assert_int_equal(train_hash(skips), hash);
        go_on(plain, 2, 2);
        go_on(skips, 2, 2);
        assert_int_equal(bst_trainer_optim_steps(skips), 4);
        assert_int_equal(train_hash(skips), train_hash(plain));
        bst_trainer_close(plain);
        bst_trainer_close(skips);
    }
}

static void its_files_bring_everything_back(void **state)
{
    static const char *const backends[] = {"ref", "ref64", "cpu"};
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < N_KINDS && bst_backend_find(backends[b]); i++) {
            struct bst_train_cfg cfg = cfg_of(kinds[i], backends[b]);
            struct bst_trainer *t = train_open(&cfg);
            go_on(t, 0, 3);
            uint32_t saved = train_hash(t);
            ok(bst_trainer_save(t, BST_STATE_WEIGHTS, after));
            ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, state_file));
            go_on(t, 3, 2);
            uint32_t end = train_hash(t);
            bst_trainer_close(t);
            cfg.seed = 77;
            t = train_open(&cfg);
            ok(bst_trainer_load(t, BST_STATE_WEIGHTS, after, false, NULL, 0));
            ok(bst_trainer_load(t, BST_STATE_OPTIMIZER, state_file, false, NULL, 0));
            assert_int_equal(train_hash(t), saved);
            bst_trainer_close(t);
            cfg.seed = 3;
            cfg.ranks = 1;
            t = train_open(&cfg);
            ok(bst_trainer_load(t, BST_STATE_WEIGHTS, after, false, NULL, 0));
            ok(bst_trainer_load(t, BST_STATE_OPTIMIZER, state_file, false, NULL, 0));
            assert_int_equal(bst_trainer_optim_steps(t),
                             bst_optimizer_info(kinds[i])->adaptive ? 3 : 0);
            go_on(t, 3, 2);
            assert_int_equal(train_hash(t), end);
            bst_trainer_close(t);
        }
}

static void another_optimizers_files_are_refused(void **state)
{
    (void)state;
    for (int from = 0; from < N_KINDS; from++) {
        struct bst_train_cfg cfg = cfg_of(kinds[from], "ref");
        struct bst_trainer *t = train_open(&cfg);
        go_on(t, 0, 1);
        ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, state_file));
        bst_trainer_close(t);
        for (int to = 0; to < N_KINDS; to++) {
            cfg = cfg_of(kinds[to], "ref");
            t = train_open(&cfg);
            go_on(t, 0, 1);
            uint32_t hash = train_hash(t);
            bool same = bst_optimizer_info(kinds[from])->adaptive ==
                        bst_optimizer_info(kinds[to])->adaptive;
            enum bst_err err = bst_trainer_load(t, BST_STATE_OPTIMIZER, state_file, false, NULL, 0);
            assert_int_equal(err, same ? BST_OK : BST_E_NOTFOUND);
            if (!same)
                assert_int_equal(train_hash(t), hash);
            bst_trainer_close(t);
        }
    }
}

/* A file whose tensors are all there but whose count of steps is not one. */
static void a_count_of_steps_that_is_none_is_refused(void **state)
{
    static const double bad[][2] = {{0, -1}, {0, 0.5}, {0, 1048576}, {1048576, 0}};
    (void)state;
    struct bst_train_cfg cfg = cfg_of(BST_OPTIMIZER_ADAMW, "ref");
    struct bst_trainer *t = train_open(&cfg);
    go_on(t, 0, 2);
    uint32_t hash = train_hash(t);
    ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, state_file));
    struct bst_tensors *r = NULL;
    ok(bst_tensors_open(state_file, &r));
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        double x[600];
        struct bst_tensors_writer *w = bst_tensors_writer_new(BST_DT_F32);
        for (int i = 0; i < bst_tensors_count(r); i++) {
            const struct bst_tensor *s = bst_tensors_at(r, i);
            bst_tensors_writer_add(w, s->name, s->rank, s->d);
        }
        remove(after);
        ok(bst_tensors_writer_start(w, after));
        for (int i = 0; i < bst_tensors_count(r); i++) {
            const struct bst_tensor *s = bst_tensors_at(r, i);
            ok(bst_tensors_read(r, s, x));
            if (!strcmp(s->name, "step"))
                memcpy(x, bad[b], sizeof bad[b]);
            ok(bst_tensors_writer_put(w, x, s->count));
        }
        ok(bst_tensors_writer_finish(w));
        bst_tensors_writer_free(w);
        assert_int_equal(bst_trainer_load(t, BST_STATE_OPTIMIZER, after, false, NULL, 0),
                         BST_E_CORRUPT);
        assert_non_null(strstr(bst_err_text(), "step"));
        assert_int_equal(train_hash(t), hash);
    }
    bst_tensors_close(r);
    bst_trainer_close(t);
}

static void holds_and_trials_bring_the_steps_back(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        struct bst_train_cfg cfg = cfg_of(kinds[i], "ref");
        struct bst_trainer *t = train_open(&cfg);
        struct bst_kept *kept = NULL;
        go_on(t, 0, 2);
        ok(bst_trainer_hold(t));
        uint32_t held = train_hash(t);
        go_on(t, 2, 3);
        ok(bst_trainer_keep(t, &kept));
        uint32_t hash = train_hash(t);
        go_on(t, 5, 2);
        uint32_t end = train_hash(t);
        ok(bst_trainer_restore(kept));
        assert_int_equal(bst_trainer_optim_steps(t), 5);
        assert_int_equal(train_hash(t), hash);
        go_on(t, 5, 2);
        assert_int_equal(train_hash(t), end);
        bst_trainer_kept_free(kept);
        ok(bst_trainer_rewind(t));
        assert_int_equal(bst_trainer_optim_steps(t), 2);
        assert_int_equal(train_hash(t), held);
        bst_trainer_close(t);
    }
}

static void its_bytes_are_planned(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        struct bst_train_cfg cfg = cfg_of(kinds[i], "ref");
        cfg.ranks = 2;
        struct bst_trainer *t = train_open(&cfg);
        struct bst_rank_memory m;
        const struct bst_optimizer_info *info = bst_optimizer_info(kinds[i]);
        go_on(t, 0, 1);
        bst_trainer_memory(t, 1, &m);
        assert_int_equal(m.optimizer, (uint64_t)info->n_blocks * m.gradients);
        assert_int_equal(m.hold, m.weights + m.optimizer);
        assert_int_equal(m.total, m.weights + m.gradients + m.optimizer + m.staged + m.hold +
                                      m.arena + m.loader);
        assert_int_equal(m.held, m.total);
        bst_trainer_close(t);
    }
    assert_int_equal(bst_alloc_held(), 0);
}

static void ranks_end_up_alike(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        struct bst_train_cfg cfg = cfg_of(kinds[i], "ref");
        cfg.ranks = 3;
        struct bst_trainer *t = train_open(&cfg);
        go_on(t, 0, 3);
        ok(bst_trainer_compare_ranks(t));
        bst_trainer_close(t);
    }
}

/* Layer-wise rates and frozen layers go through the spans as they do through SGD's runs. */
static void groups_freeze_and_scale(void **state)
{
    static const struct bst_lr_group groups[] = {{"conv1.*", 0, -1}, {"fc.*", 0.5, 0.25}};
    (void)state;
    for (int i = 1; i < N_KINDS; i++) {
        struct bst_train_cfg cfg = cfg_of(kinds[i], "ref64");
        double was[600], is[600];
        int n;
        cfg.groups = groups;
        cfg.n_groups = 2;
        struct bst_trainer *t = train_open(&cfg);
        ok(bst_trainer_save(t, BST_STATE_WEIGHTS, before));
        struct bst_update_result r = go_on(t, 0, 1);
        ok(bst_trainer_save(t, BST_STATE_WEIGHTS, after));
        read_tensor(before, "conv1.weight", was, &n);
        read_tensor(after, "conv1.weight", is, &n);
        assert_memory_equal(was, is, (size_t)n * sizeof *is);
        read_tensor(before, "fc.weight", was, &n);
        read_tensor(after, "fc.weight", is, &n);
        assert_memory_not_equal(was, is, (size_t)n * sizeof *is);
        assert_true(r.lr_used == 0.01 && r.weight_decay_used == 1e-3);
        bst_trainer_close(t);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct bst_trainer *t = NULL;
    struct bst_train_cfg cfg = cfg_of(BST_OPTIMIZER_ADAMW, "ref");
    cfg.optim.beta2 = 1;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_RANGE);
    cfg = cfg_of(BST_OPTIMIZER_LARS, "ref");
    cfg.optim.trust = 0;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_RANGE);
    struct bst_backend without = *bst_backend_find("ref");
    without.name = "small";
    without.optimize = NULL;
    cfg = cfg_of(BST_OPTIMIZER_LAMB, "ref");
    cfg.backend = &without;
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_UNSUPPORTED);
    assert_string_equal(bst_err_text(), "backend small has no lamb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_learns),
        cmocka_unit_test(biases_and_norms_may_be_left_out),
        cmocka_unit_test(a_skipped_update_is_no_step),
        cmocka_unit_test(its_files_bring_everything_back),
        cmocka_unit_test(another_optimizers_files_are_refused),
        cmocka_unit_test(a_count_of_steps_that_is_none_is_refused),
        cmocka_unit_test(holds_and_trials_bring_the_steps_back),
        cmocka_unit_test(its_bytes_are_planned),
        cmocka_unit_test(ranks_end_up_alike),
        cmocka_unit_test(groups_freeze_and_scale),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
