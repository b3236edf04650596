/* Two plans and what is concluded from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/tune/memory_law.h"

static void a_line_goes_through_both(void **state)
{
    (void)state;
    const struct bst_memory_point a = {8, 1000 + 8 * 50}, b = {24, 1000 + 24 * 50};
    struct bst_memory_law l;
    assert_true(bst_memory_law_fit(&a, &b, &l));
    assert_true(l.fixed == 1000 && l.per_sample == 50);
    assert_true(bst_memory_law_bytes(&l, 100) == 6000);
    assert_true(bst_memory_law_fit(&b, &a, &l));
    assert_true(l.fixed == 1000 && l.per_sample == 50);
}

static void what_is_no_line_is_none(void **state)
{
    (void)state;
    const struct bst_memory_point a = {8, 1400}, less = {16, 1300}, same = {16, 1400};
    struct bst_memory_law l;
    assert_false(bst_memory_law_fit(&a, &a, &l));
    assert_false(bst_memory_law_fit(&a, &less, &l));
    assert_false(bst_memory_law_fit(&a, &same, &l));
}

/* The answer keeps to the capacity, the next one does not; to the byte. */
static void the_largest_is_the_last_that_fits(void **state)
{
    (void)state;
    const struct bst_memory_law l = {1000, 50};
    for (int n = 1; n <= 17; n++) {
        assert_int_equal(bst_memory_law_largest(&l, 1000 + 50 * n, 1000), n);
        assert_int_equal(bst_memory_law_largest(&l, 1000 + 50 * n - 1, 1000), n - 1);
    }
    assert_int_equal(bst_memory_law_largest(&l, 1e30, 77), 77);
    assert_int_equal(bst_memory_law_largest(&l, 0, 77), 0);
    assert_int_equal(bst_memory_law_largest(&l, 1049, 77), 0);
}

/* 78,330 parameters, 28x28 images, 10 classes; a sample takes as much as 300 times both. */
static void the_textbook_knows_parameters_once(void **state)
{
    (void)state;
    struct bst_textbook t = {.parameters = 78330, .inputs = 784, .outputs = 10};
    const double sample = 794.0 * 4 * 300;
    const struct bst_memory_point a = {8, 1e6 + 8 * sample}, b = {16, 1e6 + 16 * sample};
    assert_true(bst_textbook_fit(&t, &a, &b));
    assert_true(t.factor > 299.999999 && t.factor < 300.000001);
    double said = bst_textbook_bytes(&t, 8), off = bst_memory_error(said, a.bytes);
    assert_true(said > 78330.0 * 4 + 8 * sample - 1 && said < 78330.0 * 4 + 8 * sample + 1);
    assert_true(off < 0 && off > -1);
    assert_true(bst_memory_error(150, 100) == 0.5 && bst_memory_error(100, 100) == 0);
    t.inputs = t.outputs = 0;
    assert_false(bst_textbook_fit(&t, &a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_goes_through_both),
        cmocka_unit_test(what_is_no_line_is_none),
        cmocka_unit_test(the_largest_is_the_last_that_fits),
        cmocka_unit_test(the_textbook_knows_parameters_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
