#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/data/data.h"

static const int64_t sizes[] = {1, 2, 3, 17, 255, 256, 257, 1000, 60000};

static void check_once_each(int64_t n, uint64_t seed, uint64_t epoch)
{
    uint8_t *seen = calloc((size_t)n, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = bst_sampler_index(seed, n, epoch * (uint64_t)n + (uint64_t)i, true);
        assert_in_range(x, 0, n - 1);
        assert_int_equal(seen[x], 0);
        seen[x] = 1;
    }
    free(seen);
}

static void every_sample_once_an_epoch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_once_each(sizes[i], 42 + i, epoch);
    check_once_each(1000, 7, UINT64_C(1) << 50);
}

static void unshuffled_is_in_order(void **state)
{
    (void)state;
    for (uint64_t p = 0; p < 40; p++)
        assert_int_equal(bst_sampler_index(9, 17, p, false), p % 17);
}

static int64_t same_places(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b)
{
    int64_t same = 0;
    for (uint64_t i = 0; i < 1000; i++)
        same += bst_sampler_index(seed_a, 1000, epoch_a * 1000 + i, true) ==
                bst_sampler_index(seed_b, 1000, epoch_b * 1000 + i, true);
    return same;
}

/* Two independent orders agree in one place on average; ten is beyond 1e-7. */
static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    for (uint64_t e = 0; e < 20; e++) {
        assert_in_range(same_places(1, e, 1, e + 1), 0, 9);
        assert_in_range(same_places(e, 0, e + 1, 0), 0, 9);
    }
    assert_int_equal(same_places(3, 5, 3, 5), 1000);
}

static double chi_square(const int64_t *count, int n, double expected)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    return sum;
}

/* Where sample goes, over many epochs, for a set whose size is no power of two. 99.99 % of
 * chi-square with 9 degrees of freedom is 33.7; with 5, 25.7. */
static void places_are_uniform(void **state)
{
    (void)state;
    for (int64_t sample = 0; sample < 10; sample += 3) {
        int64_t count[10] = {0};
        for (uint64_t epoch = 0; epoch < 20000; epoch++)
            for (uint64_t i = 0; i < 10; i++)
                if (bst_sampler_index(5, 10, epoch * 10 + i, true) == sample)
                    count[i]++;
        assert_true(chi_square(count, 10, 2000) < 33.7);
    }
}

/* All six orders of three samples come up equally often. */
static void orders_are_uniform(void **state)
{
    (void)state;
    int64_t count[9] = {0}, six[6];
    for (uint64_t epoch = 0; epoch < 30000; epoch++)
        count[3 * bst_sampler_index(11, 3, epoch * 3, true) +
              bst_sampler_index(11, 3, epoch * 3 + 1, true)]++;
    int n = 0;
    for (int i = 0; i < 9; i++)
        if (i % 4)
            six[n++] = count[i];
        else
            assert_int_equal(count[i], 0);
    assert_true(chi_square(six, 6, 5000) < 25.7);
}

/* Neighbours in the stream are not neighbours in the set. */
static void steps_are_uniform(void **state)
{
    (void)state;
    int64_t count[16] = {0};
    int64_t n = 60000;
    for (uint64_t i = 0; i + 1 < (uint64_t)n; i++) {
        int64_t a = bst_sampler_index(1, n, i, true), b = bst_sampler_index(1, n, i + 1, true);
        count[((b - a + n) % n) * 16 / n]++;
    }
    assert_true(chi_square(count, 16, (double)(n - 1) / 16) < 44.3);
}

/* A resumed run must find the order it left: these change only with a note in NEWS.md. */
static void order_is_stable(void **state)
{
    (void)state;
    static const int64_t known[8] = {30220, 20183, 35156, 50413, 53330, 29246, 15134, 29142};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(bst_sampler_index(1, 60000, 60000 + i, true), known[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_once_an_epoch),
        cmocka_unit_test(unshuffled_is_in_order),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(places_are_uniform),
        cmocka_unit_test(orders_are_uniform),
        cmocka_unit_test(steps_are_uniform),
        cmocka_unit_test(order_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
