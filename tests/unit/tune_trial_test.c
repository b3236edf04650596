/* Trials on made-up losses whose difference is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/trial.h"

enum { UPDATES = 200, BATCH = 128, RUNS = 200 };

/* Losses that fall; `hard` is how hard the samples are, the same for both arms. */
static void arm(struct bst_rng *own, const double *hard, int batch, double better, double noise,
                struct bst_trial_update *out, int *n)
{
    *n = 0;
    for (int s = 0; s < UPDATES * BATCH; s += batch) {
        int end = s + batch < UPDATES * BATCH ? s + batch : UPDATES * BATCH;
        double x = (double)end / (UPDATES * BATCH), loss = 0;
        for (int i = s; i < end; i++)
            loss += hard[i] / (end - s);
        out[*n].samples = (uint64_t)end;
        out[(*n)++].loss = 2 - x - better * x + loss + noise * bst_rng_normal(own) / sqrt(end - s);
    }
}

static int count(double better, int batch, enum bst_trial_verdict want)
{
    static double hard[UPDATES * BATCH];
    static struct bst_trial_update a[UPDATES * 4], b[UPDATES * 4];
    int n_a, n_b, found = 0;
    for (int run = 0; run < RUNS; run++) {
        struct bst_rng rng;
        struct bst_trial_answer out;
        bst_rng_init(&rng, 7, BST_RNG_TEST, (uint64_t)run);
        for (int i = 0; i < UPDATES * BATCH; i++)
            hard[i] = bst_rng_normal(&rng);
        arm(&rng, hard, BATCH, 0, 0.3, a, &n_a);
        arm(&rng, hard, batch, better, 0.3, b, &n_b);
        bst_trial_compare(a, n_a, b, n_b, UPDATES * BATCH, &out);
        found += out.verdict == want;
    }
    return found;
}

static void equals_are_called_equal(void **state)
{
    (void)state;
    assert_in_range(count(0, BATCH, BST_TRIAL_EQUAL), RUNS * 90 / 100, RUNS * 99 / 100);
    assert_in_range(count(0, 154, BST_TRIAL_EQUAL), RUNS * 90 / 100, RUNS * 99 / 100);
}

static void better_wins_and_worse_loses(void **state)
{
    (void)state;
    assert_in_range(count(0.03, 154, BST_TRIAL_BETTER), RUNS * 95 / 100, RUNS);
    assert_in_range(count(-0.03, 154, BST_TRIAL_WORSE), RUNS * 95 / 100, RUNS);
    assert_in_range(count(0.05, 154, BST_TRIAL_BETTER), RUNS * 99 / 100, RUNS);
    /* Seldom the wrong way round. */
    assert_in_range(count(0.003, 154, BST_TRIAL_WORSE), 0, RUNS / 50);
}

/* The arms take turns in being ahead, for a part or two each: correlation 0.4 from part to part.
 * Parts taken for independent would tell a difference in 18 % of these. */
static void being_ahead_lasts(void **state)
{
    enum { TURNS = 1000 };
    struct bst_trial_update a[BST_TRIAL_PARTS], b[BST_TRIAL_PARTS];
    struct bst_trial_answer out;
    int equal = 0;
    (void)state;
    for (int run = 0; run < TURNS; run++) {
        struct bst_rng rng;
        bst_rng_init(&rng, 8, BST_RNG_TEST, (uint64_t)run);
        double ahead = bst_rng_normal(&rng);
        for (int k = 0; k < BST_TRIAL_PARTS; k++) {
            ahead = 0.4 * ahead + sqrt(1 - 0.16) * bst_rng_normal(&rng);
            a[k] = (struct bst_trial_update){BATCH * (uint64_t)(k + 1), 2};
            b[k] = (struct bst_trial_update){BATCH * (uint64_t)(k + 1), 2 + 0.1 * ahead};
        }
        bst_trial_compare(a, BST_TRIAL_PARTS, b, BST_TRIAL_PARTS, BATCH * BST_TRIAL_PARTS, &out);
        equal += out.verdict == BST_TRIAL_EQUAL;
    }
    assert_in_range(equal, TURNS * 87 / 100, TURNS * 98 / 100);
}

static void the_numbers(void **state)
{
    struct bst_trial_update a[48], b[24];
    struct bst_trial_answer out;
    (void)state;
    for (int i = 0; i < 48; i++)
        a[i] = (struct bst_trial_update){10 * (uint64_t)(i + 1), i};
    for (int i = 0; i < 24; i++)
        b[i] = (struct bst_trial_update){20 * (uint64_t)(i + 1), 2 * i + 0.5 + (i % 2 ? 3 : 1)};
    bst_trial_compare(a, 48, b, 24, 480, &out);
    /* Parts of 20 samples: a's mean is 2k + 0.5; b is 1 or 3 above. */
    assert_true(fabs(out.loss[0] - 35.5) < 1e-12 && fabs(out.loss[1] - 37.5) < 1e-12);
    assert_true(fabs(out.difference - 2) < 1e-12);
    assert_true(fabs(out.high - out.low - 2 * 2.201 * sqrt(12.0 / 11 / 12)) < 1e-9);
    assert_int_equal(out.verdict, BST_TRIAL_WORSE);
    bst_trial_compare(a, 48, a, 48, 480, &out);
    assert_int_equal(out.verdict, BST_TRIAL_EQUAL);
    assert_true(out.difference == 0 && out.low == 0 && out.high == 0);
    /* Updates across the parts' edges are divided among them. */
    for (int i = 0; i < 5; i++)
        b[i] = (struct bst_trial_update){96 * (uint64_t)(i + 1), 7};
    bst_trial_compare(b, 5, b, 5, 480, &out);
    assert_true(fabs(out.loss[0] - 7) < 1e-12);
}

/* One arm is ahead in each part, by next to nothing or by more. */
static void what_matters(void **state)
{
    static const struct {
        double by;
        enum bst_trial_verdict verdict;
    } cells[] = {
        {2.1e-3, BST_TRIAL_WORSE},   {-2.1e-3, BST_TRIAL_BETTER}, {1.9e-3, BST_TRIAL_TRIFLE},
        {-1.9e-3, BST_TRIAL_TRIFLE}, {1e-9, BST_TRIAL_TRIFLE},    {0, BST_TRIAL_EQUAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        struct bst_trial_update a[48], b[48];
        struct bst_trial_answer out;
        for (int k = 0; k < 48; k++) {
            a[k] = (struct bst_trial_update){10 * (uint64_t)(k + 1), 2};
            b[k] = (struct bst_trial_update){10 * (uint64_t)(k + 1), 2 + cells[i].by};
        }
        bst_trial_compare(a, 48, b, 48, 480, &out);
        assert_int_equal(out.verdict, cells[i].verdict);
    }
}

static void what_is_not_finite(void **state)
{
    struct bst_trial_update a[48], b[48];
    struct bst_trial_answer out;
    (void)state;
    for (int i = 0; i < 48; i++)
        a[i] = b[i] = (struct bst_trial_update){10 * (uint64_t)(i + 1), 1};
    b[3].loss = INFINITY;
    bst_trial_compare(a, 48, b, 48, 480, &out);
    assert_int_equal(out.verdict, BST_TRIAL_DIVERGED);
    assert_true(isnan(out.difference));
    bst_trial_compare(b, 48, a, 48, 480, &out);
    assert_int_equal(out.verdict, BST_TRIAL_RESCUED);
    bst_trial_compare(b, 48, b, 48, 480, &out);
    assert_int_equal(out.verdict, BST_TRIAL_BOTH_DIVERGED);
    assert_true(isnan(out.low) && isnan(out.loss[0]));
    /* An arm that stopped early has no loss to compare. */
    bst_trial_compare(a, 48, a, 20, 480, &out);
    assert_int_equal(out.verdict, BST_TRIAL_DIVERGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_are_called_equal),
        cmocka_unit_test(better_wins_and_worse_loses),
        cmocka_unit_test(being_ahead_lasts),
        cmocka_unit_test(the_numbers),
        cmocka_unit_test(what_matters),
        cmocka_unit_test(what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
