/* What a sweep says of its batches, on results made up so that the answers are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "core/tune/sweep.h"

/* Two epochs of 1000 samples; accuracy a after the first, b after the second. */
static struct bst_sweep_run made(uint64_t batch, double epoch, double a, double b,
                                 struct bst_sweep_eval evals[2])
{
    evals[0] = (struct bst_sweep_eval){1000, epoch, a};
    evals[1] = (struct bst_sweep_eval){2000, 2 * epoch, b};
    return (struct bst_sweep_run){
        .batch = batch,
        .epoch_seconds = epoch,
        .samples_per_sec = 1000 / epoch,
        .memory_planned = 1e6 * (double)batch,
        .memory_peak = 1.1e6 * (double)batch,
        .accuracy = b,
        .best_accuracy = b > a ? b : a,
        .loss = 1 - b,
        .eval_samples = 10000,
        .whole = batch <= 256,
        .evals = evals,
        .n_evals = 2,
    };
}

static void marks_and_order(void **state)
{
    struct bst_sweep_eval e[8][2];
    struct bst_sweep s = {.delta = 0.005, .target = 0.8};
    struct bst_sweep_run runs[] = {
        made(512, 5, 0.60, 0.70, e[0]),
        made(32, 20, 0.85, 0.90, e[1]),
        made(256, 8, 0.75, 0.896, e[2]),
        made(64, 12, 0.80, 0.899, e[3]),
    };
    (void)state;
    bst_sweep_table(&s, runs, 4);
    assert_int_equal(s.n_rows, 4);
    assert_int_equal(s.rows[0].batch, 32);
    assert_int_equal(s.rows[3].batch, 512);
    assert_true(s.rows[0].accurate && s.rows[3].fastest && s.rows[2].largest);
    /* 0.896 is within half a point of 0.9, and the fastest that is. */
    assert_true(s.rows[2].choice);
    assert_false(s.rows[0].choice || s.rows[1].choice || s.rows[3].choice);
    /* 0.75 → 0.896 passes 0.8 after 50/146 of the second epoch. */
    assert_true(fabs(s.rows[2].samples_to_target - (1000 + 1000 * 50 / 146.0)) < 1e-6);
    assert_true(fabs(s.rows[2].seconds_to_target - (8 + 8 * 50 / 146.0)) < 1e-9);
    /* At the first evaluation nothing is known before it. */
    assert_true(s.rows[0].samples_to_target == 1000 && s.rows[0].efficiency == 1);
    assert_true(isnan(s.rows[3].samples_to_target) && isnan(s.rows[3].efficiency));
    assert_true(fabs(s.rows[2].efficiency - 1000 / s.rows[2].samples_to_target) < 1e-12);
}

static void seeds_give_mean_and_error(void **state)
{
    struct bst_sweep_eval e[8][2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    struct bst_sweep_run runs[] = {
        made(32, 10, 0.5, 0.90, e[0]),  made(32, 40, 0.5, 0.91, e[1]),
        made(32, 11, 0.5, 0.92, e[2]),  made(128, 4, 0.5, 0.890, e[3]),
        made(128, 4, 0.5, 0.895, e[4]), made(128, 4, 0.5, 0.900, e[5]),
    };
    (void)state;
    for (uint64_t i = 0; i < 6; i++)
        runs[i].seed = i % 3;
    bst_sweep_table(&s, runs, 6);
    assert_int_equal(s.rows[0].runs, 3);
    assert_true(fabs(s.rows[0].accuracy - 0.91) < 1e-12);
    /* The run that was held up moves neither time nor rate: they are medians. */
    assert_true(s.rows[0].epoch_seconds == 11);
    assert_true(s.rows[0].samples_per_sec == 1000 / 11.0);
    /* Deviation 0.01 over three seeds. */
    assert_true(fabs(s.rows[0].error - 0.01 / sqrt(3)) < 1e-12);
    /* 1.5 points apart; two standard errors of the difference are 1.29. */
    assert_true(s.rows[0].choice && !s.rows[1].choice);
    assert_true(fabs(s.target_used - 0.90) < 1e-12);
    s.delta = 0.02;
    bst_sweep_table(&s, runs, 6);
    assert_true(s.rows[1].choice);
    s.target = 0.9;
    bst_sweep_table(&s, runs, 6);
    /* 0.90 is crossed at samples 2000, 1000 + 1000 * 40/41 and 1000 + 1000 * 40/42, at seconds 20,
     * 40 + 40 * 40/41 and 11 + 11 * 40/42: the mean of the ones, the median of the others. */
    assert_true(
        fabs(s.rows[0].samples_to_target - (1000 + 1000 * (1 + 40 / 41.0 + 40 / 42.0) / 3)) < 1e-6);
    assert_true(fabs(s.rows[0].seconds_to_target - (11 + 11 * 40 / 42.0)) < 1e-9);
}

static void one_seed_has_the_error_of_its_evaluation(void **state)
{
    struct bst_sweep_eval e[8][2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    struct bst_sweep_run runs[] = {made(32, 10, 0.5, 0.900, e[0]), made(64, 5, 0.5, 0.893, e[1]),
                                   made(96, 4, 0.5, 0.880, e[2])};
    (void)state;
    bst_sweep_table(&s, runs, 3);
    double p = 9001 / 10002.;
    assert_true(fabs(s.rows[0].error - sqrt(p * (1 - p)) / 100) < 1e-12);
    /* 0.7 points: inside two standard errors of 0.43; 2 points are not. */
    assert_true(s.rows[1].choice);
}

static void what_is_not_known(void **state)
{
    struct bst_sweep s = {.delta = -1, .target = NAN};
    struct bst_sweep_run r = {.batch = 8, .accuracy = NAN, .epoch_seconds = NAN};
    (void)state;
    bst_sweep_table(&s, NULL, 0);
    assert_int_equal(s.n_rows, 0);
    bst_sweep_table(&s, &r, 1);
    assert_int_equal(s.n_rows, 1);
    assert_false(s.rows[0].accurate || s.rows[0].choice || s.rows[0].fastest);
    assert_true(isnan(s.target_used));
    /* One run that did not come to the target, and one whose time is not known. */
    struct bst_sweep_eval e[4][2];
    struct bst_sweep_run some[] = {made(8, 4, 0.5, 0.9, e[0]), made(8, 4, 0.5, 0.8, e[1]),
                                   made(16, 4, 0.5, 0.9, e[2]), made(16, NAN, 0.5, 0.9, e[3])};
    s.target = 0.85;
    bst_sweep_table(&s, some, 4);
    assert_true(isnan(s.rows[0].seconds_to_target) && isnan(s.rows[0].samples_to_target));
    assert_true(s.rows[0].epoch_seconds == 4);
    assert_true(isnan(s.rows[1].seconds_to_target) && isnan(s.rows[1].epoch_seconds));
    assert_true(fabs(s.rows[1].samples_to_target - (1000 + 1000 * 35 / 40.0)) < 1e-6);
}

static struct bst_sweep_run seeded(uint64_t batch, uint64_t seed, double epoch, double accuracy,
                                   struct bst_sweep_eval evals[2])
{
    struct bst_sweep_run r = made(batch, epoch, 0.5, accuracy, evals);
    r.seed = seed;
    return r;
}

/* Epochs and accuracies of ResNet-8 on two cores: the machine was faster while the third seed ran,
 * and no batch is faster than another by more than a few percent. */
static void as_fast_but_for_chance(void **state)
{
    struct bst_sweep_eval e[2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    const struct bst_sweep_run runs[] = {
        seeded(32, 1, 42, 0.9118, e),  seeded(32, 2, 42, 0.9134, e),  seeded(32, 3, 36, 0.9143, e),
        seeded(256, 1, 40, 0.9117, e), seeded(256, 2, 41, 0.9083, e), seeded(256, 3, 35, 0.9118, e),
        seeded(384, 1, 39, 0.9057, e), seeded(384, 2, 44, 0.9078, e), seeded(384, 3, 36, 0.9107, e),
    };
    (void)state;
    bst_sweep_table(&s, runs, 9);
    assert_true(s.rows[2].fastest && s.rows[0].accurate);
    /* (42/39 · 42/44 · 36/36)^(1/3) */
    assert_true(fabs(s.rows[0].slower - (cbrt(42 / 39. * 42 / 44.) - 1)) < 1e-12);
    assert_true(s.rows[0].as_fast && s.rows[1].as_fast && s.rows[2].as_fast && !s.told_apart);
    /* 256 is within 0.32 points of 32 and 3 % faster: not worth a larger batch. */
    assert_true(s.rows[0].choice && !s.rows[1].choice && !s.rows[2].choice);
}

/* Twice the time for one seed, for whatever else the machine did, hides no difference of 10 %. */
static void seeds_are_compared_one_by_one(void **state)
{
    struct bst_sweep_eval e[2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    const struct bst_sweep_run runs[] = {
        seeded(32, 1, 11, 0.9, e), seeded(32, 2, 22, 0.901, e), seeded(32, 3, 16.5, 0.9, e),
        seeded(64, 1, 10, 0.9, e), seeded(64, 2, 20, 0.9, e),   seeded(64, 3, 15, 0.9, e),
    };
    (void)state;
    bst_sweep_table(&s, runs, 6);
    assert_true(fabs(s.rows[0].slower - 0.1) < 1e-9);
    assert_true(!s.rows[0].as_fast && s.rows[1].as_fast && s.told_apart);
    assert_true(s.rows[0].accurate && s.rows[1].choice);
    /* Of which half the seeds are there yet. */
    bst_sweep_table(&s, runs, 4);
    assert_true(fabs(s.rows[0].slower - 0.1) < 1e-9 && !s.rows[0].as_fast);
    /* None that both have: the medians. */
    const struct bst_sweep_run apart[] = {runs[0], runs[4]};
    bst_sweep_table(&s, apart, 2);
    assert_true(s.rows[0].fastest && fabs(s.rows[1].slower - 9 / 11.) < 1e-9);
}

/* A batch that did not train with one seed of two is within two standard errors of anything. */
static void what_failed_to_train_is_no_choice(void **state)
{
    struct bst_sweep_eval e[2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    const struct bst_sweep_run runs[] = {
        seeded(32, 1, 20, 0.900, e), seeded(32, 2, 20, 0.902, e),  seeded(64, 1, 10, 0.899, e),
        seeded(64, 2, 10, 0.901, e), seeded(1024, 1, 5, 0.100, e), seeded(1024, 2, 5, 0.890, e),
    };
    (void)state;
    bst_sweep_table(&s, runs, 6);
    assert_true(s.rows[2].fastest && !s.rows[2].choice && s.rows[1].choice);
    assert_true(!s.vague && fabs(s.delta_used - 0.003) < 1e-12);
}

/* 100 images leave 12 points open; a delta that is given is the caller's own word. */
static void too_few_images_to_choose(void **state)
{
    struct bst_sweep_eval e[2];
    struct bst_sweep s = {.delta = -1, .target = NAN};
    struct bst_sweep_run runs[] = {seeded(32, 1, 20, 0.70, e), seeded(64, 1, 10, 0.65, e)};
    (void)state;
    runs[0].eval_samples = runs[1].eval_samples = 100;
    bst_sweep_table(&s, runs, 2);
    assert_true(s.vague && isnan(s.delta_used));
    assert_true(s.rows[1].fastest);
    assert_false(s.rows[0].choice || s.rows[1].choice);
    assert_false(s.rows[0].accurate || s.rows[1].accurate);
    /* All of 64 right is not known to the last one. */
    struct bst_sweep_run all = seeded(32, 1, 20, 1, e);
    all.eval_samples = 64;
    bst_sweep_table(&s, &all, 1);
    assert_true(s.vague && fabs(s.rows[0].error - sqrt(65. / 66 / 66 / 64)) < 1e-12);
    s.delta = 0.06;
    bst_sweep_table(&s, runs, 2);
    assert_true(!s.vague && s.rows[1].choice);
}

/* Of an even number, the middle of the middle two. */
static void two_seeds_meet_halfway(void **state)
{
    struct bst_sweep_eval e[2][2];
    struct bst_sweep s = {.delta = -1, .target = 0.9};
    struct bst_sweep_run runs[] = {made(32, 10, 0.5, 0.9, e[0]), made(32, 20, 0.5, 0.9, e[1])};
    (void)state;
    bst_sweep_table(&s, runs, 2);
    assert_true(s.rows[0].epoch_seconds == 15 && s.rows[0].seconds_to_target == 30);
    assert_true(s.rows[0].samples_per_sec == 75);
}

static void lists_of_batches(void **state)
{
    static const char *const bad[] = {"",   "0",   "32,",       ",32", "32,32",  "32 64", "a",
                                      "-1", "3.5", "999999999", "+4",  "32,,64", "0x20",  "032"};
    uint64_t b[BST_SWEEP_BATCHES];
    int n;
    (void)state;
    assert_true(bst_sweep_parse("32,64,128,1024", b, &n));
    assert_int_equal(n, 4);
    assert_int_equal(b[3], 1024);
    assert_true(bst_sweep_parse("1", b, &n));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bst_sweep_parse(bad[i], b, &n))
            fail_msg("taken: '%s'", bad[i]);
    assert_false(
        bst_sweep_parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,"
                        "26,27,28,29,30,31,32,33",
                        b, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_and_order),
        cmocka_unit_test(seeds_give_mean_and_error),
        cmocka_unit_test(one_seed_has_the_error_of_its_evaluation),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(as_fast_but_for_chance),
        cmocka_unit_test(seeds_are_compared_one_by_one),
        cmocka_unit_test(what_failed_to_train_is_no_choice),
        cmocka_unit_test(too_few_images_to_choose),
        cmocka_unit_test(two_seeds_meet_halfway),
        cmocka_unit_test(lists_of_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
