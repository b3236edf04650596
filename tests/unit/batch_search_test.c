#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/batch_search.h"
#include "core/tune/throughput.h"

/* A device: n runs when fits(n). */
typedef bool device(int64_t n);

static int64_t capacity;

static bool monotone(int64_t n)
{
    return n <= capacity;
}

/* 16 … 31 need a workspace that 32 does not. */
static bool with_hole(int64_t n)
{
    return n < 16 || (n >= 32 && n <= capacity);
}

static void search(struct bst_batch_search *s, int64_t start, int64_t most, device *fits)
{
    int64_t n;
    bst_batch_search_init(s, start, most);
    while ((n = bst_batch_search_next(s)) != 0) {
        assert_in_range(n, 1, most);
        for (int i = 0; i < s->n_tries; i++)
            assert_true(s->tries[i].n != n);
        assert_int_equal(bst_batch_search_told(s, n, fits(n) ? BST_OK : BST_E_NOMEM), BST_OK);
    }
}

/* 1: ran, 0: failed, -1: never tried. */
static int what_of(const struct bst_batch_search *s, int64_t n)
{
    for (int i = 0; i < s->n_tries; i++)
        if (s->tries[i].n == n)
            return s->tries[i].ran;
    return -1;
}

static void check_answer(const struct bst_batch_search *s, int64_t most, device *fits)
{
    if (s->largest == 0) {
        assert_int_equal(what_of(s, 1), 0);
        return;
    }
    assert_int_equal(what_of(s, s->largest), 1);
    assert_true(fits(s->largest) && s->largest <= most);
    if (s->largest < most)
        assert_int_equal(what_of(s, s->largest + 1), 0);
}

static void test_capacities(void **state)
{
    static const int64_t capacities[] = {0, 1, 2, 7, 100, 8191, 8192};
    static const int64_t ends[] = {1,   2,   3,   5,   7,    8,    16,   17,    64,       99,
                                   100, 101, 127, 128, 8191, 8192, 8193, 20000, INT32_MAX};
    (void)state;
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++)
        for (size_t a = 0; a < sizeof ends / sizeof *ends; a++)
            for (size_t b = 0; b < sizeof ends / sizeof *ends; b++) {
                struct bst_batch_search s;
                int64_t least, greatest;
                capacity = capacities[c];
                search(&s, ends[a], ends[b], monotone);
                check_answer(&s, ends[b], monotone);
                assert_int_equal(s.largest, capacity < ends[b] ? capacity : ends[b]);
                assert_false(bst_batch_search_hole(&s, &least, &greatest));
                assert_in_range(s.n_tries, 1, 80);
            }
}

/* Lightning's finder answers 128 for a maximum of 100, and 8192 where 8191 fit. */
static void test_never_past_what_ran(void **state)
{
    struct bst_batch_search s;
    (void)state;
    capacity = INT64_MAX;
    search(&s, 2, 100, monotone);
    assert_int_equal(s.largest, 100);
    capacity = 8191;
    search(&s, 2, INT32_MAX, monotone);
    assert_int_equal(s.largest, 8191);
    assert_int_equal(what_of(&s, 8192), 0);
}

static void test_from_the_plan(void **state)
{
    struct bst_batch_search s;
    (void)state;
    /* The plan names the answer: it runs, the next does not, and no more than a look ahead. */
    capacity = 345;
    search(&s, 345, 8192, monotone);
    assert_int_equal(s.largest, 345);
    assert_in_range(s.n_tries, 2, 6);
}

static void test_hole(void **state)
{
    struct bst_batch_search s;
    int64_t least, greatest;
    (void)state;
    for (int64_t start = 1; start <= 100; start++) {
        capacity = 40;
        search(&s, start, 8192, with_hole);
        check_answer(&s, 8192, with_hole);
        assert_int_equal(s.largest, 40);
        if (start < 32) {
            assert_true(bst_batch_search_hole(&s, &least, &greatest));
            assert_in_range(least, 16, 31);
            assert_in_range(greatest, 16, 31);
        }
    }
    /* The whole capacity is the part below. */
    capacity = 15;
    search(&s, 8, 8192, with_hole);
    assert_int_equal(s.largest, 15);
    assert_false(bst_batch_search_hole(&s, &least, &greatest));
}

static bool jagged(int64_t n)
{
    uint32_t counter[4] = {(uint32_t)n}, out[4];
    bst_philox(7, counter, out);
    return n <= capacity && out[0] % 3 != 0;
}

/* Whatever the device, the answer ran and its neighbour was seen to fail. */
static void test_jagged(void **state)
{
    struct bst_rng r;
    (void)state;
    bst_rng_init(&r, 3, BST_RNG_INIT, 0);
    for (int i = 0; i < 2000; i++) {
        struct bst_batch_search s;
        int64_t most = 1 + bst_rng_below(&r, 5000);
        capacity = bst_rng_below(&r, 5000);
        search(&s, 1 + bst_rng_below(&r, 5000), most, jagged);
        check_answer(&s, most, jagged);
        assert_in_range(s.n_tries, 1, BST_SEARCH_TRIES - 1);
    }
}

static void test_other_error_ends(void **state)
{
    struct bst_batch_search s;
    (void)state;
    bst_batch_search_init(&s, 8, 100);
    assert_int_equal(bst_batch_search_told(&s, 8, BST_OK), BST_OK);
    assert_int_equal(bst_batch_search_next(&s), 9);
    assert_int_equal(bst_batch_search_told(&s, 9, BST_E_LIBRARY), BST_E_LIBRARY);
    assert_int_equal(bst_batch_search_next(&s), 0);
    assert_int_equal(s.largest, 8);
}

static void test_knee(void **state)
{
    (void)state;
    /* +90 %, +60 %, +4 %, +3 %: from 4 on doubling gives less than 5 %. */
    struct bst_throughput rows[] = {{1, 100}, {2, 190}, {4, 304}, {8, 316}, {16, 325}};
    assert_int_equal(bst_throughput_knee(rows, 5), 2);
    assert_int_equal(bst_throughput_fastest(rows, 5), 4);
    /* +8 % from 8 to 32 is +3.9 % a doubling. */
    struct bst_throughput wide[] = {{4, 100}, {8, 150}, {32, 162}};
    assert_int_equal(bst_throughput_knee(wide, 3), 1);
    /* Exactly 5 % pays. */
    struct bst_throughput pays[] = {{1, 100}, {2, 105}, {4, 120}};
    assert_int_equal(bst_throughput_knee(pays, 3), 2);
    /* One row that was measured while the machine did something else. */
    struct bst_throughput dip[] = {{1, 100}, {2, 180}, {4, 170}, {8, 300}, {16, 310}};
    assert_int_equal(bst_throughput_knee(dip, 5), 3);
    int next;
    assert_int_equal(bst_throughput_dip(dip, 5, 3, &next), 1);
    assert_int_equal(next, 2);
    /* Behind the knee nothing has to pay, and before it here everything does. */
    assert_int_equal(bst_throughput_dip(rows, 5, 2, &next), -1);
    assert_int_equal(bst_throughput_dip(pays, 3, 2, &next), -1);
    /* A row that is not known is no dip; what lies on both sides of it is a doubling and a half. */
    struct bst_throughput gap[] = {{2, 100}, {4, NAN}, {6, 107}, {12, 150}, {24, 151}};
    assert_int_equal(bst_throughput_knee(gap, 5), 3);
    assert_int_equal(bst_throughput_dip(gap, 5, 3, &next), 0);
    assert_int_equal(next, 2);
    struct bst_throughput unknown[] = {{1, NAN}, {2, 100}, {4, 0}, {8, 102}, {16, NAN}};
    assert_int_equal(bst_throughput_knee(unknown, 5), 1);
    assert_int_equal(bst_throughput_fastest(unknown, 5), 3);
    assert_int_equal(bst_throughput_knee(unknown, 2), -1);
    assert_int_equal(bst_throughput_fastest(unknown, 1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacities),    cmocka_unit_test(test_never_past_what_ran),
        cmocka_unit_test(test_from_the_plan), cmocka_unit_test(test_hole),
        cmocka_unit_test(test_jagged),        cmocka_unit_test(test_other_error_ends),
        cmocka_unit_test(test_knee),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
