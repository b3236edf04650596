/* What an update is asked to do, of the reference settings: Noam's schedule (Vaswani et al. 2017),
 * BERT's (warm-up of 10,000 updates, inverse square root, clipping every 256 updates). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "core/run/request.h"

/* A run of `updates` updates of `batch`, whole on one rank. */
static struct bst_live live_of(const struct bst_schedule_spec *spec, uint64_t batch,
                               uint64_t updates)
{
    const struct bst_scale scale = {.dataset = 60000, .batch = batch, .total = batch * updates};
    const struct bst_split_ask ask = {.batch = batch, .ranks = 1};
    struct bst_live l = {.batch = batch, .clip_interval = 1};
    assert_int_equal(bst_schedule_make(spec, &scale, &l.schedule), BST_OK);
    assert_int_equal(bst_split_make(&ask, &l.split), BST_OK);
    return l;
}

static struct bst_update_req request(const struct bst_live *l, uint64_t number)
{
    struct bst_split split;
    struct bst_update_req req;
    uint64_t samples = (number - 1) * l->batch;
    assert_int_equal(bst_request_make(l, samples, l->schedule.total, number, &split, &req), BST_OK);
    assert_int_equal(req.update, number);
    assert_int_equal(req.batch, l->batch);
    return req;
}

static void must_be(double got, double want, uint64_t number)
{
    /* The digits that a double has. */
    if (!(fabs(got / want - 1) <= 1e-15))
        fail_msg("update %llu: %.17g, expected %.17g", (unsigned long long)number, got, want);
}

static void noam(void **state)
{
    static const struct {
        uint64_t update;
        double rate;
    } known[] = {
        {1, 1.746928107421711e-7}, {4000, 6.987712429686843e-4}, {16000, 6.987712429686843e-4 / 2}};
    const struct bst_schedule_spec spec = {.kind = BST_SCHEDULE_NOAM,
                                           .peak = bst_schedule_noam_peak(512, 1, 4000),
                                           .warmup = {4000, BST_UNIT_STEPS}};
    struct bst_live l = live_of(&spec, 416, 100000);
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        must_be(request(&l, known[i].update).lr, known[i].rate, known[i].update);
    for (uint64_t m = 1; m <= 20000; m += 7) {
        double want = pow(512, -0.5) * fmin(pow((double)m, -0.5), (double)m * pow(4000, -1.5));
        double got = request(&l, m).lr;
        if (!(fabs(got / want - 1) <= 1e-14))
            fail_msg("update %llu: %.17g, expected %.17g", (unsigned long long)m, got, want);
    }
}

static void berts(void **state)
{
    static const struct {
        uint64_t update; /* from 1: its first sample is update - 1 batches in */
        double rate;
    } known[] = {{1, 0},        {2501, 1e-4},     {5001, 2e-4}, {10001, 4e-4}, {22501, 4e-4 / 1.5},
                 {40001, 2e-4}, {90001, 4e-4 / 3}};
    const struct bst_schedule_spec spec = {
        .kind = BST_SCHEDULE_INVERSE_SQRT, .peak = 4e-4, .warmup = {10000, BST_UNIT_STEPS}};
    struct bst_live l = live_of(&spec, 8192, 100000);
    (void)state;
    assert_true(request(&l, 1).lr == 0);
    for (size_t i = 1; i < sizeof known / sizeof *known; i++)
        must_be(request(&l, known[i].update).lr, known[i].rate, known[i].update);
}

/* Updates count from 1; clipped are those that the interval divides, and no others. */
static void clipping_has_its_interval(void **state)
{
    static const uint64_t intervals[] = {1, 2, 3, 256};
    const struct bst_schedule_spec spec = {.kind = BST_SCHEDULE_CONSTANT, .peak = 1};
    struct bst_live l = live_of(&spec, 8192, 1100);
    (void)state;
    l.max_grad_norm = 1;
    for (int i = 0; i < 4; i++) {
        l.clip_interval = intervals[i];
        for (uint64_t m = 1; m <= 1030; m++)
            assert_true(request(&l, m).max_grad_norm == (m % intervals[i] ? 0 : 1));
    }
    l.max_grad_norm = 0;
    assert_true(request(&l, 256).max_grad_norm == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noam),
        cmocka_unit_test(berts),
        cmocka_unit_test(clipping_has_its_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
