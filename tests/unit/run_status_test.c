#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/run/curve.h"
#include "core/run/status.h"

/* Every field its own value, so that none can stand in for another. */
static struct bst_status *filled(void)
{
    struct bst_status *s = bst_xalloc(sizeof *s);
    strcpy(s->run, "quick-1");
    strcpy(s->preset, "A100×4 DDP 2048");
    strcpy(s->note, "\"quoted\" \\ text");
    strcpy(s->lease, "ann@gpu7");
    s->phase = BST_PHASE_PAUSED;
    s->pid = 4711;
    s->update = 1ull << 52;
    s->samples = 12;
    s->samples_total = 600000;
    s->samples_per_epoch = 60000;
    s->epoch = 1.0 / 3;
    s->global_batch = 307;
    s->micro_batch = 154;
    s->accumulation = 2;
    s->n_devices = 2;
    s->learning_rate = (struct bst_metric){0.119921875, true};
    s->best_accuracy = (struct bst_metric){0, true};
    s->momentum = 0.9;
    s->you_hold_lease = true;
    s->journal_seq = 9;
    s->devices[1].memory_limit = (struct bst_metric){21458482785.0, true};
    strcpy(s->devices[1].name, "Some CPU");
    s->devices[1].threads = 3;
    s->n_layers = 2;
    strcpy(s->layers[1].name, "layer1.0.conv1.weight");
    s->layers[1].grad_norm = (struct bst_metric){1e-30, true};
    s->n_curve = 2;
    s->curve_samples[1] = 600000;
    s->curve_rate[0] = 0.1;
    return s;
}

static void comes_back_as_it_was(void **state)
{
    struct bst_status *s = filled(), *back = bst_xalloc(sizeof *back);
    struct bst_sb sb;
    (void)state;
    bst_sb_init(&sb, 1 << 20);
    bst_status_print(s, &sb, true);
    assert_int_equal(bst_status_parse(sb.data, back), BST_OK);
    assert_memory_equal(s, back, sizeof *s);
    bst_sb_clear(&sb);
    bst_status_print(s, &sb, false);
    assert_int_equal(bst_status_parse(sb.data, back), BST_OK);
    assert_int_equal(back->n_layers, 0);
    bst_sb_fini(&sb);
    bst_free(s);
    bst_free(back);
}

static void what_is_not_valid_stays_so(void **state)
{
    struct bst_status *s = filled();
    (void)state;
    assert_int_equal(
        bst_status_parse("{\"phase\":\"training\",\"loss\":null,\"eval_loss\":1,\"pid\":1e99,"
                         "\"update\":-4,\"run\":7,\"devices\":[{\"threads\":\"x\"}],"
                         "\"curve\":[[1,2],[3],[4,5]]}",
                         s),
        BST_OK);
    assert_int_equal(s->phase, BST_PHASE_TRAINING);
    assert_false(s->loss.valid);
    assert_true(s->eval_loss.valid);
    assert_int_equal(s->pid, 0);
    assert_int_equal(s->update, 0);
    assert_string_equal(s->run, "");
    assert_int_equal(s->n_devices, 1);
    assert_int_equal(s->n_curve, 1);
    bst_free(s);
}

static void other_text_is_refused(void **state)
{
    static const char *const texts[] = {"", "{", "[]", "7", "{}", "{\"phase\":1}", "null"};
    struct bst_status *s = filled();
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(bst_status_parse(texts[i], s), BST_E_PARSE);
    bst_free(s);
}

static void escapes_do_not_reach_a_terminal(void **state)
{
    struct bst_status *s = filled();
    (void)state;
    assert_int_equal(
        bst_status_parse("{\"phase\":\"done\",\"note\":\"\\u001b]52;c;eA==\\u0007\\u009b2J\"}", s),
        BST_OK);
    assert_null(strchr(s->note, '\x1b'));
    assert_null(strchr(s->note, '\x07'));
    assert_null(strstr(s->note, "\xc2\x9b"));
    bst_free(s);
}

/* Rising samples, within the bound, the ends and both sides of a step among them. */
static void a_curve_has_its_corners(void **state)
{
    struct bst_schedule sch = {.kind = BST_SCHEDULE_MULTISTEP,
                               .peak = 0.1,
                               .warmup = 500,
                               .total = 10000,
                               .gamma = 0.1,
                               .n_milestones = BST_MILESTONES_MAX};
    double samples[BST_MAX_CURVE], rate[BST_MAX_CURVE];
    (void)state;
    for (int i = 0; i < BST_MILESTONES_MAX; i++)
        sch.milestones[i] = 1000 + 13 * (uint64_t)i;
    int n = bst_curve_make(&sch, 32, samples, rate);
    assert_true(n > 2 && n <= BST_MAX_CURVE);
    assert_true(samples[0] == 0 && samples[n - 1] == 10000);
    bool edge = false, before = false, after = false;
    for (int i = 0; i < n; i++) {
        assert_true(!i || samples[i] > samples[i - 1]);
        assert_true(rate[i] == bst_schedule_lr(&sch, (uint64_t)samples[i], 32));
        edge = edge || samples[i] == 500;
        before = before || samples[i] == 999;
        after = after || samples[i] == 1000;
    }
    assert_true(edge && before && after);
    sch = (struct bst_schedule){.kind = BST_SCHEDULE_CONSTANT, .peak = 1, .total = 3};
    n = bst_curve_make(&sch, 1, samples, rate);
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(what_is_not_valid_stays_so),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(escapes_do_not_reach_a_terminal),
        cmocka_unit_test(a_curve_has_its_corners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
