#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/schedule.h"

static void near_rel(double got, double want, double tolerance, const char *what, int k)
{
    if (fabs(got - want) > tolerance * fabs(want))
        fail_msg("%s, update %d: %.17g instead of %.17g", what, k, got, want);
}

static struct bst_schedule make(struct bst_schedule_spec spec, uint64_t batch, uint64_t total)
{
    struct bst_scale scale = {.dataset = 60000, .batch = batch, .total = total};
    struct bst_schedule sch;
    if (bst_schedule_make(&spec, &scale, &sch))
        fail_msg("%s", bst_err_text());
    return sch;
}

/* A cosine run of 1000 updates of 100 with a linear warm-up of 100 updates from 0.1 to 1. */
static struct bst_schedule plain(void)
{
    return make((struct bst_schedule_spec){.kind = BST_SCHEDULE_COSINE,
                                           .peak = 1,
                                           .start_lr = 0.1,
                                           .warmup = {100, BST_UNIT_STEPS}},
                100, 100000);
}

struct pytorch_case {
    const char *name;
    enum bst_schedule_kind kind;
    enum bst_warmup_curve curve;
    int n;
    uint64_t batch;
    double peak, start, end_ratio, warmup;
    const double *rates;
};
#include "tests/unit/schedule_pytorch.inc"

static struct bst_schedule of_case(const struct pytorch_case *c)
{
    struct bst_schedule_spec spec = {
        .kind = c->kind,
        .curve = c->curve,
        .peak = c->peak,
        .start_lr = c->start,
        .min_lr_ratio = c->end_ratio,
        .gamma = 0.1,
        .warmup = {c->warmup, BST_UNIT_STEPS},
    };
    if (c->kind == BST_SCHEDULE_ONE_CYCLE) {
        spec.warmup.value = 0;
        spec.pct = c->warmup;
    }
    if (c->kind == BST_SCHEDULE_NOAM)
        spec.peak = bst_schedule_noam_peak(512, c->peak, c->warmup);
    if (c->kind == BST_SCHEDULE_MULTISTEP) {
        spec.n_milestones = 3;
        for (int i = 0; i < 3; i++)
            spec.milestones[i] = 30.0 * (i + 1) * (double)c->batch / 60000;
    }
    return make(spec, c->batch, (uint64_t)c->n * c->batch);
}

static void agrees_with_pytorch_at_every_update(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pytorch_cases / sizeof pytorch_cases[0]; i++) {
        const struct pytorch_case *c = &pytorch_cases[i];
        struct bst_schedule sch = of_case(c);
        for (int k = 0; k < c->n; k++)
            near_rel(bst_schedule_lr(&sch, (uint64_t)k * c->batch, c->batch), c->rates[k], 1e-12,
                     c->name, k);
    }
}

static void noam_known_answers(void **state)
{
    (void)state;
    double peak = bst_schedule_noam_peak(512, 1, 4000);
    struct bst_schedule sch = make((struct bst_schedule_spec){.kind = BST_SCHEDULE_NOAM,
                                                              .peak = peak,
                                                              .warmup = {4000, BST_UNIT_STEPS}},
                                   25, 25 * 20000);
    near_rel(bst_schedule_lr(&sch, 0, 25), 1.746928107421711e-7, 1e-14, "noam", 1);
    near_rel(bst_schedule_lr(&sch, 3999 * 25, 25), 6.987712429686843e-4, 1e-14, "noam", 4000);
    near_rel(bst_schedule_lr(&sch, 15999 * 25, 25), 6.987712429686843e-4 / 2, 1e-14, "noam", 16000);
    /* m = (s+B)/B0: under another batch the same samples give the same place. */
    near_rel(bst_schedule_lr(&sch, 4000 * 25 - 50, 50), 6.987712429686843e-4, 1e-14, "noam ×2",
             4000);
}

static void one_cycle_known_answers(void **state)
{
    (void)state;
    static const struct {
        int k;
        double lr;
    } known[] = {
        {0, 0.004}, {50, 0.05276156626407079}, {99, 0.1}, {500, 0.0585106409164018}, {999, 4e-7}};
    struct bst_schedule sch =
        make((struct bst_schedule_spec){.kind = BST_SCHEDULE_ONE_CYCLE, .peak = 0.1, .pct = 0.1},
             64, 64000);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        near_rel(bst_schedule_lr(&sch, (uint64_t)known[i].k * 64, 64), known[i].lr, 1e-12,
                 "one-cycle", known[i].k);
}

/* Goyal et al. 2017: 8192 images a batch, five epochs of warm-up from 0.1 to 3.2. */
static void goyal_warmup(void **state)
{
    (void)state;
    struct bst_schedule sch = make((struct bst_schedule_spec){.kind = BST_SCHEDULE_CONSTANT,
                                                              .peak = 3.2,
                                                              .start_lr = 0.1,
                                                              .warmup = {5, BST_UNIT_EPOCHS}},
                                   8192, 60000 * 90);
    near_rel(bst_schedule_lr(&sch, 0, 8192), 0.1, 1e-15, "goyal", 0);
    near_rel(bst_schedule_lr(&sch, 150000, 8192), 1.65, 1e-15, "goyal", 18);
    near_rel(bst_schedule_lr(&sch, 300000, 8192), 3.2, 1e-15, "goyal", 36);
}

static void curves_at_half_way(void **state)
{
    (void)state;
    static const struct {
        enum bst_warmup_curve curve;
        double lr;
    } known[] = {
        {BST_WARMUP_LINEAR, 0.0505},
        {BST_WARMUP_EXPONENTIAL, 0.01},
        {BST_WARMUP_COSINE, 0.0505},
        {BST_WARMUP_LOGARITHMIC, 0.001 + 0.099 * 0.8516456890593307} /* ln(50.5)/ln(100) */,
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bst_schedule sch = make((struct bst_schedule_spec){.curve = known[i].curve,
                                                                  .peak = 0.1,
                                                                  .start_lr = 0.001,
                                                                  .warmup = {100, BST_UNIT_STEPS}},
                                       32, 64000);
        near_rel(bst_schedule_lr(&sch, 0, 32), 0.001, 1e-12, "start", (int)i);
        near_rel(bst_schedule_lr(&sch, 1600, 32), known[i].lr, 1e-8, "half way", (int)i);
        near_rel(bst_schedule_lr(&sch, 3200, 32), 0.1, 1e-15, "end", (int)i);
    }
    /* cosine at a quarter: (1 - cos 45°)/2 */
    struct bst_schedule cosine = make((struct bst_schedule_spec){.curve = BST_WARMUP_COSINE,
                                                                 .peak = 1,
                                                                 .warmup = {100, BST_UNIT_STEPS}},
                                      32, 64000);
    near_rel(bst_schedule_lr(&cosine, 800, 32), 0.14644660940672627, 1e-14, "quarter", 0);
}

/* The rate at a sample does not depend on the batches that led there. */
static void is_a_function_of_samples(void **state)
{
    (void)state;
    struct bst_schedule sch = plain();
    for (uint64_t s = 0; s <= 100000; s += 777)
        for (uint64_t b = 1; b <= 4096; b = b * 3 + 1)
            near_rel(bst_schedule_lr(&sch, s, b), bst_schedule_lr(&sch, s, 100), 1e-9, "batch",
                     (int)b);
}

static void stays_at_the_end_and_in_bounds(void **state)
{
    (void)state;
    struct bst_rng r;
    bst_rng_init(&r, 3, BST_RNG_TEST, 0);
    for (int i = 0; i < 2000; i++) {
        enum bst_schedule_kind kind = (enum bst_schedule_kind)bst_rng_below(&r, BST_N_SCHEDULES);
        struct bst_schedule_spec spec = {
            .kind = kind,
            .curve = (enum bst_warmup_curve)bst_rng_below(&r, BST_N_WARMUPS),
            .peak = 0.5,
            .start_lr = 0.01,
            .min_lr_ratio = 0.1,
            .gamma = 0.5,
            .n_milestones = 2,
            .milestones = {0.3, 0.9},
            .warmup = {1 + bst_rng_below(&r, 200), BST_UNIT_STEPS},
        };
        uint64_t batch = 1 + bst_rng_below(&r, 500);
        struct bst_schedule sch = make(spec, batch, 60000);
        double lr = bst_schedule_lr(&sch, bst_rng_below(&r, 200000), batch);
        assert_true(isfinite(lr) && lr >= 0 && lr <= 0.5 * (1 + 1e-12));
    }
    struct bst_schedule sch = plain();
    assert_true(bst_schedule_lr(&sch, 100000, 100) == 0);
    assert_true(bst_schedule_lr(&sch, UINT64_MAX, 100) == 0);
}

static void a_longer_warmup_stretches_without_a_jump(void **state)
{
    (void)state;
    for (int curve = 0; curve < BST_N_WARMUPS; curve++) {
        struct bst_schedule sch = plain();
        sch.curve = (enum bst_warmup_curve)curve;
        double before = bst_schedule_lr(&sch, 4000, 100);
        assert_int_equal(bst_schedule_set_warmup(&sch, 16000, 4000, 100, false), BST_OK);
        near_rel(bst_schedule_lr(&sch, 4000, 100), before, 1e-15, "at the change", curve);
        /* x0 0.4; half of the rest of the way at half of the rest of the samples */
        near_rel(bst_schedule_warmup_done(&sch, 10000, 100), 0.7, 1e-15, "middle", curve);
        assert_true(bst_schedule_lr(&sch, 15900, 100) < 1);
        near_rel(bst_schedule_lr(&sch, 16000, 100), 1, 1e-15, "end", curve);
    }
}

static void a_shorter_warmup_stretches_too(void **state)
{
    (void)state;
    struct bst_schedule sch = plain();
    double before = bst_schedule_lr(&sch, 4000, 100);
    assert_int_equal(bst_schedule_set_warmup(&sch, 5000, 4000, 100, false), BST_OK);
    near_rel(bst_schedule_lr(&sch, 4000, 100), before, 1e-15, "at the change", 0);
    near_rel(bst_schedule_lr(&sch, 4500, 100), 0.1 + 0.9 * 0.7, 1e-15, "middle", 0);
    assert_true(bst_schedule_lr(&sch, 5000, 100) == 1);
    /* A second change stretches what is left after the first. */
    sch = plain();
    assert_int_equal(bst_schedule_set_warmup(&sch, 16000, 4000, 100, false), BST_OK);
    assert_int_equal(bst_schedule_set_warmup(&sch, 14000, 10000, 100, false), BST_OK);
    near_rel(bst_schedule_warmup_done(&sch, 10000, 100), 0.7, 1e-15, "second", 0);
    near_rel(bst_schedule_warmup_done(&sch, 12000, 100), 0.85, 1e-15, "second", 0);
}

static void a_warmup_at_or_before_now_ends(void **state)
{
    (void)state;
    static const double lengths[] = {0, 100, 4000};
    for (int i = 0; i < 3; i++) {
        struct bst_schedule sch = plain();
        assert_int_equal(bst_schedule_set_warmup(&sch, lengths[i], 4000, 100, false), BST_OK);
        assert_true(bst_schedule_lr(&sch, 4000, 100) == 1);
        assert_int_equal(bst_schedule_warmup_end(&sch), 4000); /* the decay starts here */
    }
}

static void jump_keeps_the_formula(void **state)
{
    (void)state;
    struct bst_schedule sch = plain();
    assert_int_equal(bst_schedule_set_warmup(&sch, 16000, 4000, 100, true), BST_OK);
    near_rel(bst_schedule_lr(&sch, 4000, 100), 0.1 + 0.9 * 0.25, 1e-15, "jump", 0);
}

static void after_its_end_a_change_is_refused(void **state)
{
    (void)state;
    struct bst_schedule sch = plain(), was = sch;
    assert_int_equal(bst_schedule_set_warmup(&sch, 20000, 10000, 100, false), BST_E_STATE);
    assert_memory_equal(&sch, &was, sizeof sch);
    sch.warmup = 0;
    assert_int_equal(bst_schedule_set_warmup(&sch, 20000, 0, 100, false), BST_E_STATE);
}

static void own_warmups_stretch_as_well(void **state)
{
    (void)state;
    static const enum bst_schedule_kind kinds[] = {BST_SCHEDULE_NOAM, BST_SCHEDULE_ONE_CYCLE,
                                                   BST_SCHEDULE_INVERSE_SQRT};
    for (int i = 0; i < 3; i++) {
        struct bst_schedule sch = make(
            (struct bst_schedule_spec){
                .kind = kinds[i], .peak = 1, .start_lr = 0.1, .warmup = {100, BST_UNIT_STEPS}},
            100, 100000);
        double before = bst_schedule_lr(&sch, 4000, 100);
        assert_int_equal(bst_schedule_set_warmup(&sch, 16000, 4000, 100, false), BST_OK);
        near_rel(bst_schedule_lr(&sch, 4000, 100), before, 1e-14, "at the change", i);
        assert_true(bst_schedule_lr(&sch, 12000, 100) < 1);
        uint64_t top = kinds[i] == BST_SCHEDULE_INVERSE_SQRT ? 16000 : 15900;
        near_rel(bst_schedule_lr(&sch, top, 100), 1, 1e-15, "top", i);
        assert_true(bst_schedule_lr(&sch, 30000, 100) < 1);
        assert_int_equal(bst_schedule_set_warmup(&sch, 10, 6000, 100, false), BST_OK);
        near_rel(bst_schedule_lr(&sch, 6000, 100), 1, 1e-15, "ended", i);
    }
}

static void undo_goes_back_without_a_jump(void **state)
{
    (void)state;
    struct bst_schedule old = plain(), now = old;
    assert_int_equal(bst_schedule_set_warmup(&now, 16000, 4000, 100, false), BST_OK);
    double at = bst_schedule_lr(&now, 7000, 100);
    struct bst_schedule back = old;
    bst_schedule_go_back(&back, &now, 7000, 100);
    near_rel(bst_schedule_lr(&back, 7000, 100), at, 1e-15, "undo", 0);
    near_rel(bst_schedule_lr(&back, 10000, 100), 1, 1e-15, "old end", 0);
    /* Undone at the sample of the change: the old line again. */
    back = old;
    bst_schedule_go_back(&back, &now, 4000, 100);
    for (uint64_t s = 4000; s < 20000; s += 500)
        near_rel(bst_schedule_lr(&back, s, 100), bst_schedule_lr(&old, s, 100), 1e-14, "same",
                 (int)s);
    /* A warm-up cut short is over; undo does not start it again. */
    now = old;
    assert_int_equal(bst_schedule_set_warmup(&now, 0, 4000, 100, false), BST_OK);
    back = old;
    bst_schedule_go_back(&back, &now, 6000, 100);
    near_rel(bst_schedule_lr(&back, 6000, 100), bst_schedule_lr(&now, 6000, 100), 1e-15, "cut", 0);
    assert_int_equal(bst_schedule_warmup_end(&back), 4000);
}

static void undo_of_something_else_restores_to_the_bit(void **state)
{
    (void)state;
    struct bst_schedule old = plain(), now = old;
    bst_schedule_scale_peak(&now, 1.3);
    struct bst_schedule back = old;
    bst_schedule_go_back(&back, &now, 4000, 100);
    assert_memory_equal(&back, &old, sizeof old);
}

static void scaling_scales_the_whole_curve(void **state)
{
    (void)state;
    struct bst_schedule sch = plain(), was = sch;
    bst_schedule_scale_peak(&sch, 1.2001953125);
    for (uint64_t s = 0; s < 100000; s += 999)
        near_rel(bst_schedule_lr(&sch, s, 100), 1.2001953125 * bst_schedule_lr(&was, s, 100), 1e-13,
                 "scaled", (int)s);
}

static void a_preset_taken_over(void **state)
{
    (void)state;
    struct bst_schedule now = plain();
    struct bst_schedule next = make((struct bst_schedule_spec){.kind = BST_SCHEDULE_LINEAR,
                                                               .peak = 2,
                                                               .start_lr = 0.2,
                                                               .warmup = {200, BST_UNIT_STEPS}},
                                    100, 100000);
    /* Both under way: from x 0.4 on to the new end. */
    struct bst_schedule t = next;
    bst_schedule_take_over(&t, &now, 4000, 100);
    near_rel(bst_schedule_lr(&t, 4000, 100), 0.2 + 1.8 * 0.4, 1e-15, "under way", 0);
    near_rel(bst_schedule_lr(&t, 12000, 100), 0.2 + 1.8 * 0.7, 1e-15, "under way", 1);
    near_rel(bst_schedule_lr(&t, 20000, 100), 2, 1e-15, "under way", 2);
    /* The run is past its warm-up: the preset's counts as done, and no other is made up. */
    t = next;
    bst_schedule_take_over(&t, &now, 15000, 100);
    near_rel(bst_schedule_lr(&t, 15000, 100), 2 * (1 - 5000.0 / 90000), 1e-15, "done", 0);
    assert_int_equal(bst_schedule_warmup_end(&t), 10000);
    struct bst_schedule none = now;
    none.warmup = 0;
    t = next;
    bst_schedule_take_over(&t, &none, 15000, 100);
    near_rel(bst_schedule_lr(&t, 15000, 100), 2 * 0.85, 1e-15, "none", 0);
    assert_int_equal(bst_schedule_warmup_end(&t), 0);
    /* What is measured by its warm-up needs one. */
    t = next;
    t.kind = BST_SCHEDULE_INVERSE_SQRT;
    bst_schedule_take_over(&t, &none, 15000, 100);
    assert_true(bst_schedule_lr(&t, 15000, 100) == 2);
    assert_int_equal(bst_schedule_check(&t), BST_OK);
    /* Past the preset's own warm-up: its decay as it would be by now. */
    t = next;
    bst_schedule_take_over(&t, &now, 50000, 100);
    near_rel(bst_schedule_lr(&t, 50000, 100), 2 * (1 - 30000.0 / 80000), 1e-15, "past", 0);
    /* Nothing has run yet: as if started with it. */
    t = next;
    now.warmup = 0;
    bst_schedule_take_over(&t, &now, 0, 100);
    assert_memory_equal(&t, &next, sizeof t);
}

static void check_refused(struct bst_schedule_spec spec, const char *words)
{
    struct bst_scale scale = {60000, 128, 600000};
    struct bst_schedule sch;
    assert_int_equal(bst_schedule_make(&spec, &scale, &sch), BST_E_RANGE);
    if (!strstr(bst_err_text(), words))
        fail_msg("'%s' has no '%s'", bst_err_text(), words);
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    struct bst_interval ep = {1, BST_UNIT_EPOCHS};
    check_refused((struct bst_schedule_spec){.peak = 0}, "not above 0");
    check_refused((struct bst_schedule_spec){.peak = NAN}, "not above 0");
    check_refused((struct bst_schedule_spec){.peak = INFINITY}, "not above 0");
    check_refused((struct bst_schedule_spec){.peak = 1, .start_lr = -1}, "no rate");
    check_refused((struct bst_schedule_spec){.peak = 1, .min_lr_ratio = 1.5}, "min_lr_ratio");
    check_refused(
        (struct bst_schedule_spec){.peak = 1, .curve = BST_WARMUP_EXPONENTIAL, .warmup = ep},
        "warmup_start_lr");
    check_refused((struct bst_schedule_spec){.peak = 1, .kind = BST_SCHEDULE_INVERSE_SQRT},
                  "needs a warm-up");
    check_refused((struct bst_schedule_spec){.peak = 1, .kind = BST_SCHEDULE_NOAM},
                  "needs a warm-up");
    check_refused(
        (struct bst_schedule_spec){.peak = 1, .kind = BST_SCHEDULE_MULTISTEP, .gamma = 0.1},
        "lr_milestones");
    check_refused((struct bst_schedule_spec){.peak = 1,
                                             .kind = BST_SCHEDULE_MULTISTEP,
                                             .gamma = 0.1,
                                             .n_milestones = 2,
                                             .milestones = {2, 2}},
                  "must rise");
    check_refused((struct bst_schedule_spec){.peak = 1, .kind = BST_SCHEDULE_ONE_CYCLE, .pct = 1.5},
                  "pct");
    check_refused((struct bst_schedule_spec){.peak = 1, .warmup = {1e30, BST_UNIT_SAMPLES}},
                  "length");
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < BST_N_SCHEDULES; i++) {
        enum bst_schedule_kind kind;
        assert_true(bst_schedule_by_name(bst_schedule_name((enum bst_schedule_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < BST_N_WARMUPS; i++) {
        enum bst_warmup_curve curve;
        assert_true(bst_warmup_by_name(bst_warmup_name((enum bst_warmup_curve)i), &curve));
        assert_int_equal(curve, i);
    }
    enum bst_schedule_kind kind;
    assert_false(bst_schedule_by_name("cosin", &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_pytorch_at_every_update),
        cmocka_unit_test(noam_known_answers),
        cmocka_unit_test(one_cycle_known_answers),
        cmocka_unit_test(goyal_warmup),
        cmocka_unit_test(curves_at_half_way),
        cmocka_unit_test(is_a_function_of_samples),
        cmocka_unit_test(stays_at_the_end_and_in_bounds),
        cmocka_unit_test(a_longer_warmup_stretches_without_a_jump),
        cmocka_unit_test(a_shorter_warmup_stretches_too),
        cmocka_unit_test(a_warmup_at_or_before_now_ends),
        cmocka_unit_test(jump_keeps_the_formula),
        cmocka_unit_test(after_its_end_a_change_is_refused),
        cmocka_unit_test(own_warmups_stretch_as_well),
        cmocka_unit_test(undo_goes_back_without_a_jump),
        cmocka_unit_test(undo_of_something_else_restores_to_the_bit),
        cmocka_unit_test(scaling_scales_the_whole_curve),
        cmocka_unit_test(a_preset_taken_over),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
