/* The small parts of core/tune: intervals, learning-rate rules, momentum, health, diagnostics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "core/tune/diagnostics.h"
#include "core/tune/health.h"
#include "core/tune/interval.h"
#include "core/tune/lr_rule.h"
#include "core/tune/momentum.h"
#include "core/tune/watch.h"

static void near_rel(double got, double want, double tolerance)
{
    if (fabs(got - want) > tolerance * fabs(want))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void intervals_become_samples(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t samples;
    } known[] = {
        {"1ep", 60000}, {"0.5ep", 30000}, {"500st", 64000}, {"10000sa", 10000},   {"10%", 60000},
        {"0ep", 0},     {"0.3sa", 0},     {"0.5sa", 1},     {"1.00001ep", 60001},
    };
    struct bst_scale scale = {60000, 128, 600000};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bst_interval iv;
        uint64_t samples;
        assert_int_equal(bst_interval_parse(known[i].text, &iv), BST_OK);
        assert_int_equal(bst_interval_samples(iv, &scale, &samples), BST_OK);
        assert_int_equal(samples, known[i].samples);
        char text[32];
        bst_interval_format(iv, text);
        assert_string_equal(text, known[i].text);
    }
    uint64_t samples;
    struct bst_interval far = {1e12, BST_UNIT_EPOCHS};
    assert_int_equal(bst_interval_samples(far, &scale, &samples), BST_E_RANGE);
    struct bst_interval backwards = {-1, BST_UNIT_EPOCHS};
    assert_int_equal(bst_interval_samples(backwards, &scale, &samples), BST_E_RANGE);
    struct bst_interval no_number = {NAN, BST_UNIT_EPOCHS};
    assert_int_equal(bst_interval_samples(no_number, &scale, &samples), BST_E_RANGE);
}

static void what_is_no_interval_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",      "ep",   "1",      "1 ep",   "1e",
        "1e3st", "-1ep", "+1ep",   "1..5ep", ".",
        ".ep",   "1epx", "0x10st", "nanep",  "11111111111111111111111111111111111ep"};
    struct bst_interval iv;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!bst_interval_parse(texts[i], &iv))
            fail_msg("'%s' was accepted", texts[i]);
}

static void rules_known_answers(void **state)
{
    (void)state;
    near_rel(0.1 * bst_lr_rule_factor(BST_LR_RULE_LINEAR, 1024, 256), 0.4, 1e-15);
    near_rel(0.1 * bst_lr_rule_factor(BST_LR_RULE_LINEAR, 8192, 256), 3.2, 1e-15);
    near_rel(bst_lr_rule_change(BST_LR_RULE_LINEAR, 2048, 2458), 1.2001953125, 1e-15);
    near_rel(bst_lr_rule_change(BST_LR_RULE_SQRT, 2048, 2458), 1.0955343, 1e-7);
    /* accumulation ×4: base is the preset's micro-batch × devices */
    near_rel(0.1 * bst_lr_rule_factor(BST_LR_RULE_SQRT_ACCUMULATE, 4 * 128, 128), 0.2, 1e-15);
    assert_true(bst_lr_rule_factor(BST_LR_RULE_NONE, 8192, 256) == 1);
    assert_int_equal(bst_lr_rule_default(false), BST_LR_RULE_LINEAR);
    assert_int_equal(bst_lr_rule_default(true), BST_LR_RULE_SQRT);
    enum bst_lr_rule rule;
    assert_true(bst_lr_rule_by_name("sqrt-accumulate", &rule));
    assert_int_equal(rule, BST_LR_RULE_SQRT_ACCUMULATE);
    assert_false(bst_lr_rule_by_name("sqrt_accumulate", &rule));
}

/* Both update forms end at the same weights across a change of rate, and only with the correction.
 */
static void momentum_forms_agree_after_a_change(void **state)
{
    (void)state;
    double w_in = 1, v_in = 0, w_out = 1, v_out = 0, w_bare = 1, v_bare = 0;
    double lr = 0.1, mu = 0.9;
    for (int i = 0; i < 20; i++) {
        if (i == 10) {
            v_in *= bst_momentum_correction(BST_MOMENTUM_RATE_INSIDE, lr, 0.3);
            v_out *= bst_momentum_correction(BST_MOMENTUM_RATE_OUTSIDE, lr, 0.3);
            lr = 0.3;
        }
        double g = sin(i + 1.0); /* the same gradients for all three */
        v_in = mu * v_in + lr * g;
        w_in -= v_in;
        v_out = mu * v_out + g;
        w_out -= lr * v_out;
        v_bare = mu * v_bare + lr * g;
        w_bare -= v_bare;
    }
    near_rel(w_in, w_out, 1e-13);
    assert_true(fabs(w_bare - w_out) > 1e-3);
    assert_true(bst_momentum_correction(BST_MOMENTUM_RATE_INSIDE, 0, 0.1) == 1);
}

static void norms_are_judged_by_their_band(void **state)
{
    (void)state;
    struct bst_band band = bst_health_resnet_band(), none = {0, 0};
    assert_int_equal(bst_health_judge(band, 9.99), BST_HEALTH_LOW);
    assert_int_equal(bst_health_judge(band, 10), BST_HEALTH_OK);
    assert_int_equal(bst_health_judge(band, 100), BST_HEALTH_OK);
    assert_int_equal(bst_health_judge(band, 100.1), BST_HEALTH_HIGH);
    assert_int_equal(bst_health_judge(band, NAN), BST_HEALTH_NONFINITE);
    assert_int_equal(bst_health_judge(none, INFINITY), BST_HEALTH_NONFINITE);
    assert_int_equal(bst_health_judge(none, 3), BST_HEALTH_UNKNOWN);
}

static void a_track_knows_what_is_usual(void **state)
{
    (void)state;
    struct bst_health_track t = {0};
    assert_true(bst_health_usual(&t) == 0);
    bst_health_add(&t, 1);
    bst_health_add(&t, 4);
    near_rel(bst_health_usual(&t), 2, 1e-15); /* geometric */
    near_rel(t.ratio, 4, 1e-15);
    near_rel(t.var_log, log(2) * log(2), 1e-14);
    bst_health_add(&t, NAN);
    bst_health_add(&t, 0);
    near_rel(bst_health_usual(&t), 2, 1e-15);
    assert_int_equal(t.n_nonfinite, 1);
    assert_int_equal(t.n_zero, 1);
    /* After many windows the start is forgotten. */
    for (int i = 0; i < 20 * BST_HEALTH_WINDOW; i++)
        bst_health_add(&t, 50);
    near_rel(bst_health_usual(&t), 50, 1e-6);
}

static void a_spike_is_ten_times_the_usual(void **state)
{
    (void)state;
    struct bst_health_track t = {0};
    for (int i = 0; i < 19; i++)
        bst_health_add(&t, 2);
    bst_health_add(&t, 1000);
    assert_false(bst_health_is_spike(&t)); /* too early to say */
    t = (struct bst_health_track){0};
    for (int i = 0; i < 20; i++)
        bst_health_add(&t, 2);
    bst_health_add(&t, 19.9);
    assert_false(bst_health_is_spike(&t));
    t = (struct bst_health_track){0};
    for (int i = 0; i < 20; i++)
        bst_health_add(&t, 2);
    bst_health_add(&t, 20.1);
    assert_true(bst_health_is_spike(&t));
    bst_health_add(&t, 2);
    assert_false(bst_health_is_spike(&t));
}

static void worst_layers_come_first(void **state)
{
    (void)state;
    struct bst_health_track t[6] = {0};
    static const double last[6] = {1, 0, 3, NAN, 0.2, 1};
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 30; k++)
            bst_health_add(&t[i], 1);
        bst_health_add(&t[i], last[i]);
    }
    int order[6];
    bst_health_order(t, 6, order);
    static const int want[6] = {3, 1, 4, 2, 0, 5}; /* NaN, zero, ÷5, ×3, then as in the net */
    for (int i = 0; i < 6; i++)
        assert_int_equal(order[i], want[i]);
    struct bst_health_track fresh[3] = {0};
    bst_health_order(fresh, 3, order);
    for (int i = 0; i < 3; i++)
        assert_int_equal(order[i], i);
}

static int add(struct bst_watch *w, struct bst_watch_update u, enum bst_diag out[BST_N_WATCH_RULES])
{
    return bst_watch_add(w, &u, out);
}

static const struct bst_watch_update quiet = {.grad_norm = 5, .seconds = 1};

static void a_remark_is_made_once_and_again_after_a_calm(void **state)
{
    (void)state;
    struct bst_watch w;
    enum bst_diag out[BST_N_WATCH_RULES];
    struct bst_watch_update high = quiet;
    high.grad_norm = 11;
    bst_watch_init(&w, (struct bst_band){1, 10});
    for (int i = 1; i < BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, high, out), 0);
    assert_int_equal(add(&w, high, out), 1);
    assert_int_equal(out[0], BST_DIAG_GRADIENT_HIGH);
    char text[128];
    bst_watch_text(&w, out[0], text);
    assert_string_equal(text, "gradient norm 11, over 10 for 20 updates");
    for (int i = 0; i < 100; i++)
        assert_int_equal(add(&w, high, out), 0);
    /* a short calm does not end it, a long one does */
    for (int i = 1; i < BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, quiet, out), 0);
    for (int i = 0; i < 2 * BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, high, out), 0);
    for (int i = 0; i < BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, quiet, out), 0);
    for (int i = 1; i < BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, high, out), 0);
    assert_int_equal(add(&w, high, out), 1);
}

static void one_in_band_starts_the_count_anew(void **state)
{
    (void)state;
    struct bst_watch w;
    enum bst_diag out[BST_N_WATCH_RULES];
    struct bst_watch_update low = quiet;
    low.grad_norm = 0.5;
    bst_watch_init(&w, (struct bst_band){1, 10});
    for (int i = 0; i < 200; i++)
        assert_int_equal(add(&w, i % BST_WATCH_LASTS ? low : quiet, out), 0);
    assert_int_equal(add(&w, low, out), 1);
    assert_int_equal(out[0], BST_DIAG_GRADIENT_LOW);
}

static void spikes_and_stalls_are_said_at_once(void **state)
{
    (void)state;
    struct bst_watch w;
    enum bst_diag out[BST_N_WATCH_RULES];
    char text[128];
    bst_watch_init(&w, (struct bst_band){0, 0});
    for (int i = 0; i < 30; i++)
        assert_int_equal(add(&w, quiet, out), 0);
    struct bst_watch_update spike = {.grad_norm = 60, .seconds = 1};
    assert_int_equal(add(&w, spike, out), 1);
    assert_int_equal(out[0], BST_DIAG_GRADIENT_SPIKE);
    bst_watch_text(&w, out[0], text);
    assert_string_equal(text, "gradient norm 60, 12 times the usual");
    assert_int_equal(add(&w, spike, out), 0);
    struct bst_watch_update stall = {.grad_norm = 5, .seconds = 25};
    assert_int_equal(add(&w, stall, out), 1);
    assert_int_equal(out[0], BST_DIAG_UPDATE_STALLED);
    bst_watch_text(&w, out[0], text);
    assert_string_equal(text, "an update took 25.0 s, 25 times the usual");
    /* 30 times the usual, but soon over */
    bst_watch_init(&w, (struct bst_band){0, 0});
    struct bst_watch_update fast = {.grad_norm = 5, .seconds = 0.01};
    for (int i = 0; i < 30; i++)
        assert_int_equal(add(&w, fast, out), 0);
    fast.seconds = 0.3;
    assert_int_equal(add(&w, fast, out), 0);
}

static void waiting_and_dead_layers_must_last(void **state)
{
    (void)state;
    struct bst_watch w;
    enum bst_diag out[BST_N_WATCH_RULES];
    struct bst_watch_update waits = {.grad_norm = 5, .seconds = 1, .data_wait_seconds = 0.5};
    bst_watch_init(&w, (struct bst_band){0, 0});
    int n = 0, first = 0;
    for (int i = 1; i <= 100; i++) {
        n += add(&w, waits, out);
        if (n && !first)
            first = i;
    }
    assert_int_equal(n, 1);
    assert_int_equal(out[0], BST_DIAG_LOADER_SLOW);
    assert_true(first > BST_WATCH_LASTS);
    char text[128];
    bst_watch_text(&w, out[0], text);
    assert_string_equal(text, "50 % of the time goes into waiting for data");
    struct bst_watch_update dead = quiet;
    dead.n_zero_layers = 2;
    bst_watch_init(&w, (struct bst_band){0, 0});
    for (int i = 1; i < BST_WATCH_LASTS; i++)
        assert_int_equal(add(&w, dead, out), 0);
    assert_int_equal(add(&w, dead, out), 1);
    assert_int_equal(out[0], BST_DIAG_LAYER_WITHOUT_GRADIENT);
    /* values that are not finite have their own code elsewhere, and break nothing here */
    struct bst_watch_update bad = {.grad_norm = NAN, .seconds = 1};
    for (int i = 0; i < 50; i++)
        assert_int_equal(add(&w, bad, out), 0);
}

static void codes_are_unique_and_said_in_full(void **state)
{
    (void)state;
    int before = 0;
    for (int i = 0; i < bst_diag_count(); i++) {
        const struct bst_diag_info *d = bst_diag_at(i);
        assert_true((int)d->id > before && d->id < 1000);
        before = (int)d->id;
        assert_ptr_equal(bst_diag_find((int)d->id), d);
        const char *sentences[] = {d->cause, d->remedy};
        for (int k = 0; k < 2; k++) {
            size_t n = strlen(sentences[k]);
            if (n < 8 || sentences[k][n - 1] != '.' || strstr(sentences[k], "  "))
                fail_msg("BST-%d: '%s'", (int)d->id, sentences[k]);
        }
        size_t n = strlen(d->title);
        if (n < 8 || n > 60 || d->title[n - 1] == '.')
            fail_msg("BST-%d: '%s'", (int)d->id, d->title);
    }
    assert_null(bst_diag_find(0));
    assert_null(bst_diag_find(999));
    char code[16];
    bst_diag_code(BST_DIAG_NONFINITE_GRADIENT, code);
    assert_string_equal(code, "BST-101");
    char brief[BST_DIAG_BRIEF];
    for (int k = 0; k < bst_diag_count(); k++) {
        const struct bst_diag_info *info = bst_diag_at(k);
        bst_diag_brief(info->id, brief);
        assert_int_equal(bst_diag_number(brief), info->id);
        assert_string_equal(brief + 8, info->title);
    }
    static const char *const none[] = {"",        "BST-",     "BST-10", "BST-1010",
                                       "bst-101", " BST-101", "BST-x01"};
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        assert_int_equal(bst_diag_number(none[k]), 0);
    assert_int_equal(bst_diag_number("BST-101: ten"), 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_become_samples),
        cmocka_unit_test(what_is_no_interval_is_refused),
        cmocka_unit_test(rules_known_answers),
        cmocka_unit_test(momentum_forms_agree_after_a_change),
        cmocka_unit_test(norms_are_judged_by_their_band),
        cmocka_unit_test(a_track_knows_what_is_usual),
        cmocka_unit_test(a_spike_is_ten_times_the_usual),
        cmocka_unit_test(worst_layers_come_first),
        cmocka_unit_test(a_remark_is_made_once_and_again_after_a_calm),
        cmocka_unit_test(one_in_band_starts_the_count_anew),
        cmocka_unit_test(spikes_and_stalls_are_said_at_once),
        cmocka_unit_test(waiting_and_dead_layers_must_last),
        cmocka_unit_test(codes_are_unique_and_said_in_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
