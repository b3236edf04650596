#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/split.h"

static struct bst_split make(uint64_t batch, uint64_t ranks, uint64_t cap, uint64_t k)
{
    struct bst_split_ask ask = {batch, ranks, cap, k, false};
    struct bst_split sp;
    assert_int_equal(bst_split_make(&ask, &sp), BST_OK);
    return sp;
}

/* Every sample of the batch belongs to exactly one micro-batch, in order; parts differ by at most
 * one among ranks and within a rank; none is empty; the largest is what the split says. */
static void check_exact(const struct bst_split *sp, bool may_be_empty)
{
    uint64_t at = 0, largest = 0, most_k = 0;
    for (uint64_t r = 0; r < sp->ranks; r++) {
        uint64_t n = bst_split_rank(sp, r), k = bst_split_n_micro(sp, r), in_rank = 0;
        assert_int_equal(bst_split_rank_start(sp, r), at);
        assert_true(n == sp->batch / sp->ranks || n == sp->batch / sp->ranks + 1);
        assert_true(may_be_empty || n > 0);
        for (uint64_t i = 0; i < k; i++) {
            uint64_t m = bst_split_micro(sp, r, i);
            assert_true(m > 0 && (m == n / k || m == n / k + 1));
            assert_int_equal(bst_split_micro_start(sp, r, i), in_rank);
            in_rank += m;
            largest = m > largest ? m : largest;
        }
        assert_int_equal(bst_split_micro(sp, r, k), 0);
        assert_int_equal(bst_split_micro_start(sp, r, k), n);
        assert_int_equal(in_rank, n);
        most_k = k > most_k ? k : most_k;
        at += n;
    }
    assert_int_equal(at, sp->batch);
    assert_int_equal(largest, sp->micro);
    assert_int_equal(most_k, sp->accumulate);
}

static void a_ragged_batch_is_used_to_the_last_sample(void **state)
{
    (void)state;
    struct bst_split sp = make(307, 2, 64, 0);
    assert_int_equal(sp.accumulate, 3); /* ceil(307 / 128) */
    assert_int_equal(sp.micro, 52);
    assert_int_equal(bst_split_rank(&sp, 0), 154);
    assert_int_equal(bst_split_rank(&sp, 1), 153);
    assert_int_equal(bst_split_micro(&sp, 0, 0), 52);
    assert_int_equal(bst_split_micro(&sp, 0, 2), 51);
    assert_int_equal(bst_split_micro(&sp, 1, 1), 51);
    check_exact(&sp, false);
}

static void the_caps_and_counts_of_the_field_tables(void **state)
{
    (void)state;
    struct bst_split sp = make(2048, 4, 512, 0); /* A100×4 DDP 2048 as meant */
    assert_int_equal(sp.accumulate, 1);
    assert_int_equal(sp.micro, 512);
    sp = make(2048, 1, 128, 0); /* … and on one small device */
    assert_int_equal(sp.accumulate, 16);
    assert_int_equal(sp.micro, 128);
    sp = make(1024, 1, 0, 8);
    assert_int_equal(sp.micro, 128);
    sp = make(256, 1, 0, 0);
    assert_int_equal(sp.accumulate, 1);
    assert_int_equal(sp.micro, 256);
}

static void every_small_split_is_exact(void **state)
{
    (void)state;
    for (uint64_t batch = 1; batch <= 70; batch++) {
        for (uint64_t ranks = 1; ranks <= batch && ranks <= 9; ranks++) {
            for (uint64_t cap = 0; cap <= 17; cap++) {
                struct bst_split sp = make(batch, ranks, cap, 0);
                check_exact(&sp, false);
                assert_true(!cap || sp.micro <= cap);
                if (cap)
                    assert_int_equal(sp.accumulate, (batch + ranks * cap - 1) / (ranks * cap));
            }
            for (uint64_t k = 1; k <= 19; k++) {
                struct bst_split sp = make(batch, ranks, 0, k);
                check_exact(&sp, false);
                assert_true(sp.accumulate <= k);
            }
        }
    }
}

static void large_random_splits_are_exact(void **state)
{
    (void)state;
    struct bst_rng r;
    bst_rng_init(&r, 7, BST_RNG_TEST, 0);
    for (int i = 0; i < 300; i++) {
        uint64_t ranks = 1 + bst_rng_below(&r, 64);
        struct bst_split sp =
            make(ranks + bst_rng_below(&r, 100000), ranks, 1 + bst_rng_below(&r, 3000), 0);
        check_exact(&sp, false);
    }
    struct bst_split sp = make(BST_BATCH_MAX, 3, 1 << 20, 0);
    check_exact(&sp, false);
}

static void what_cannot_be_split_is_refused(void **state)
{
    (void)state;
    struct bst_split sp;
    struct bst_split_ask too_few = {3, 4, 0, 0, false};
    assert_int_equal(bst_split_make(&too_few, &sp), BST_E_RANGE);
    assert_string_equal(bst_err_text(), "a batch of 3 leaves some of 4 ranks without a sample");
    struct bst_split_ask nothing = {0, 1, 0, 0, true};
    assert_int_equal(bst_split_make(&nothing, &sp), BST_E_RANGE);
    struct bst_split_ask huge = {BST_BATCH_MAX + 1, 1, 0, 0, false};
    assert_int_equal(bst_split_make(&huge, &sp), BST_E_RANGE);
    struct bst_split_ask no_rank = {8, 0, 0, 0, false};
    assert_int_equal(bst_split_make(&no_rank, &sp), BST_E_RANGE);
    struct bst_split_ask against = {256, 1, 64, 2, false};
    assert_int_equal(bst_split_make(&against, &sp), BST_E_SHAPE);
    assert_string_equal(bst_err_text(), "2 micro-batches of 128 for a batch of 256 are above the "
                                        "largest allowed, 64");
}

static void the_last_update_may_leave_ranks_idle(void **state)
{
    (void)state;
    struct bst_split_ask ask = {3, 4, 16, 2, true};
    struct bst_split sp;
    assert_int_equal(bst_split_make(&ask, &sp), BST_OK);
    assert_int_equal(bst_split_rank(&sp, 2), 1);
    assert_int_equal(bst_split_rank(&sp, 3), 0);
    assert_int_equal(bst_split_n_micro(&sp, 3), 0);
    check_exact(&sp, true);
}

static uint64_t press(uint64_t batch, int n)
{
    uint64_t out = 0;
    assert_int_equal(bst_split_press(batch, 20, n, &out), BST_OK);
    return out;
}

static void twenty_percent_is_exact(void **state)
{
    (void)state;
    assert_int_equal(press(256, 1), 307);   /* 307.2 */
    assert_int_equal(press(2048, 1), 2458); /* 2457.6 */
    assert_int_equal(press(256, -1), 205);  /* 204.8 */
    assert_int_equal(press(256, 2), 369);   /* 368.64, not 20 % of 307 */
    assert_int_equal(press(256, 3), 442);   /* 442.368 */
    assert_int_equal(press(256, -2), 164);  /* 163.84 */
    assert_int_equal(press(256, 0), 256);
    assert_int_equal(press(1, 1), 1);
    assert_int_equal(press(2, 1), 2);
    assert_int_equal(press(3, 1), 4); /* 3.6 */
    assert_int_equal(press(1, -37), 1);
    assert_int_equal(press(1000, 37), 850562); /* 850562.2…: needs more than 64 bits on the way */
}

static void halves_go_up(void **state)
{
    (void)state;
    uint64_t out;
    assert_int_equal(bst_split_press(5, 10, 1, &out), BST_OK);
    assert_int_equal(out, 6); /* 5.5 */
    assert_int_equal(bst_split_press(5, 10, -1, &out), BST_OK);
    assert_int_equal(out, 5); /* 4.5 */
    assert_int_equal(bst_split_press(1000, 12.5, 1, &out), BST_OK);
    assert_int_equal(out, 1125);
}

static void presses_out_of_range_are_refused(void **state)
{
    (void)state;
    uint64_t out;
    assert_int_equal(bst_split_press(BST_BATCH_MAX, 20, 1, &out), BST_E_RANGE);
    assert_int_equal(bst_split_press(256, 20, 38, &out), BST_E_RANGE);
    assert_int_equal(bst_split_press(256, 100, -1, &out), BST_E_RANGE);
    assert_int_equal(bst_split_press(256, 0, 1, &out), BST_E_RANGE);
    assert_int_equal(bst_split_press(256, -20, 1, &out), BST_E_RANGE);
}

static void tokens_come_to_the_nearest_samples(void **state)
{
    static const struct {
        uint64_t tokens, all, n, want;
    } rows[] = {
        {524288, 1024000, 1000, 512}, /* of 1024 each */
        {629146, 1024000, 1000, 614}, /* 20 % more: 614.4 */
        {629760, 1024000, 1000, 615},
        {629247, 1024000, 1000, 614}, /* 614.499 */
        {629248, 1024000, 1000, 615}, /* 614.5 */
        {1, 1024000, 1000, 1},
        {100, 7, 3, 43}, /* 42.86 */
        {BST_BATCH_MAX, UINT64_C(1) << 50, UINT64_C(1) << 40, BST_BATCH_MAX / 1024 + 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(bst_split_samples_of_tokens(rows[i].tokens, rows[i].all, rows[i].n),
                         rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ragged_batch_is_used_to_the_last_sample),
        cmocka_unit_test(the_caps_and_counts_of_the_field_tables),
        cmocka_unit_test(every_small_split_is_exact),
        cmocka_unit_test(large_random_splits_are_exact),
        cmocka_unit_test(what_cannot_be_split_is_refused),
        cmocka_unit_test(the_last_update_may_leave_ranks_idle),
        cmocka_unit_test(twenty_percent_is_exact),
        cmocka_unit_test(halves_go_up),
        cmocka_unit_test(presses_out_of_range_are_refused),
        cmocka_unit_test(tokens_come_to_the_nearest_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
