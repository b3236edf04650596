/* What the trainer hands the noise scale: norms of parts of an update, checked against updates made
 * of those parts alone, and that measuring moves nothing. */
#include <math.h>
#include <string.h>

#include "train_support.h"

static const char *const backends[] = {"ref64", "cpu"};
enum { N_BACKENDS = sizeof backends / sizeof *backends, BATCH = 23 };

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.17g, expected %.17g ± %g of it", got, want, relative);
}

static double slack(const char *backend)
{
    return strcmp(backend, "ref64") ? 5e-5 : 1e-11;
}

static struct bst_update_result measured(struct bst_trainer *t, uint64_t first, int64_t batch,
                                         int k)
{
    struct bst_update_result r;
    struct bst_update_req req = train_req(first, batch, k);
    req.noise = true;
    ok(bst_trainer_update(t, &req, NULL, &r));
    return r;
}

/* The squared norm of `n` samples' mean gradient at the starting weights. */
static double alone(const struct bst_train_cfg *cfg, uint64_t first, int64_t n)
{
    struct bst_train_cfg one = *cfg;
    one.ranks = 1;
    struct bst_trainer *t = train_open(&one);
    struct bst_update_result r = measured(t, first, n, 1);
    assert_true(r.noise.b_small == 0); /* it has no parts */
    bst_trainer_close(t);
    return r.grad_norm * r.grad_norm;
}

static void the_first_micro_batch_is_measured(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        /* 23 = 8 + 8 + 7, 12 + 11 */
        static const int ks[] = {3, 2}, firsts[] = {8, 12};
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
        for (int i = 0; i < 2; i++) {
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result r = measured(t, 0, BATCH, ks[i]);
            bst_trainer_close(t);
            assert_true(r.noise.b_small == firsts[i] && r.noise.b_big == BATCH);
            assert_true(r.noise.g_big == r.grad_norm * r.grad_norm);
            assert_near(r.noise.g_small, alone(&cfg, 0, firsts[i]), slack(backends[b]));
            assert_true(r.noise_seconds > 0 && r.noise_seconds < r.seconds);
        }
    }
}

/* Of two ranks with two micro-batches each, the ranks are the parts. */
static void every_rank_is_measured(void **state)
{
    (void)state;
    for (int b = 0; b < N_BACKENDS; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_plain_net, backends[b]);
        cfg.ranks = 2;
        double want = (alone(&cfg, 0, 12) + alone(&cfg, 12, 11)) / 2;
        for (int k = 1; k <= 2; k++) {
            struct bst_trainer *t = train_open(&cfg);
            struct bst_update_result r = measured(t, 0, BATCH, k);
            bst_trainer_close(t);
            assert_near(r.noise.b_small, 2 / (1.0 / 12 + 1.0 / 11), 1e-12);
            assert_true(r.noise.b_big == BATCH);
            assert_near(r.noise.g_small, want, slack(backends[b]));
        }
    }
}

/* One sample for two ranks: one part, as large as the whole, which says nothing. */
static void one_part_says_nothing(void **state)
{
    (void)state;
    double grad_sq, trace;
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_result r = measured(t, 0, 1, 1);
    assert_false(bst_noise_estimate(&r.noise, &grad_sq, &trace));
    bst_trainer_close(t);
}

static void frozen_parameters_have_no_part(void **state)
{
    (void)state;
    static const struct bst_lr_group groups[] = {{"conv*", 0, -1}, {"*", 1, -1}};
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref64");
    cfg.groups = groups;
    cfg.n_groups = 2;
    struct bst_trainer *t = train_open(&cfg);
    struct bst_update_result r = measured(t, 0, 16, 2);
    bst_trainer_close(t);
    assert_near(r.noise.g_small, alone(&cfg, 0, 8), 1e-11);
}

static void measuring_moves_nothing(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cpu");
        if (!bst_backend_find("cpu"))
            cfg = train_cfg(&train_bn_net, "ref");
        cfg.ranks = ranks;
        struct bst_trainer *with = train_open(&cfg), *without = train_open(&cfg);
        struct bst_update_result x = {0}, y = {0};
        for (uint64_t i = 0; i < 6; i++)
            x = measured(with, i * BATCH, BATCH, 3);
        y = train_some(without, 6, BATCH, 3);
        assert_true(x.loss == y.loss && x.grad_norm == y.grad_norm);
        assert_true(y.noise.b_small == 0 && y.noise_seconds == 0);
        assert_int_equal(train_hash(with), train_hash(without));
        bst_trainer_close(with);
        bst_trainer_close(without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_micro_batch_is_measured),
        cmocka_unit_test(every_rank_is_measured),
        cmocka_unit_test(one_part_says_nothing),
        cmocka_unit_test(frozen_parameters_have_no_part),
        cmocka_unit_test(measuring_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
