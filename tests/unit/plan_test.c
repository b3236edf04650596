#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/tune/plan.h"
#include "core/tune/plan_changes.h"

static const uint64_t dataset = 60000;
static const struct bst_take as_it_is, with_length = {.length = true};

static void near_rel(double got, double want, double tolerance)
{
    if (fabs(got - want) > tolerance * fabs(want))
        fail_msg("%.17g instead of %.17g", got, want);
}

static struct bst_plan_env at(uint64_t samples)
{
    return (struct bst_plan_env){.dataset = dataset, .samples = samples, .ranks = 1};
}

/* Ten epochs of cosine with one of warm-up, at `batch`. */
static struct bst_live live_of(uint64_t batch, enum bst_lr_rule rule)
{
    struct bst_live live = {.batch = batch, .rule = rule, .momentum = 0.9, .weight_decay = 5e-4};
    struct bst_schedule_spec spec = {
        .kind = BST_SCHEDULE_COSINE,
        .peak = 0.1 * bst_lr_rule_factor(rule, batch, BST_LR_BASE_BATCH),
        .warmup = {1, BST_UNIT_EPOCHS},
    };
    struct bst_scale scale = {dataset, batch, 10 * dataset};
    struct bst_plan_env env = at(0);
    assert_int_equal(bst_schedule_make(&spec, &scale, &live.schedule), BST_OK);
    assert_int_equal(bst_plan_split(&live, &env), BST_OK);
    return live;
}

static struct bst_plan must(const struct bst_live *now, const char *text, struct bst_plan_env env)
{
    struct bst_command cmd;
    struct bst_plan plan;
    if (bst_command_parse(text, &cmd) || bst_plan_command(now, &cmd, &env, &plan))
        fail_msg("%s: %s", text, bst_err_text());
    assert_int_equal(plan.refused, BST_DIAG_NONE);
    return plan;
}

static void must_refuse(const struct bst_live *now, const char *text, struct bst_plan_env env,
                        enum bst_diag why, const char *words)
{
    struct bst_command cmd;
    struct bst_plan plan;
    assert_int_equal(bst_command_parse(text, &cmd), BST_OK);
    if (!bst_plan_command(now, &cmd, &env, &plan))
        fail_msg("'%s' was accepted", text);
    assert_int_equal(plan.refused, why);
    if (!strstr(bst_err_text(), words))
        fail_msg("'%s' has no '%s'", bst_err_text(), words);
    assert_memory_equal(&plan.after, now, sizeof *now);
    assert_int_equal(plan.n_changes, 0);
    assert_int_equal(plan.n_notes, 0);
}

static bool has_note(const struct bst_plan *plan, enum bst_diag id)
{
    for (int i = 0; i < plan->n_notes; i++)
        if (plan->notes[i] == id)
            return true;
    return false;
}

static const struct bst_change *find(const struct bst_plan *plan, const char *key)
{
    for (int i = 0; i < plan->n_changes; i++)
        if (!strcmp(plan->changes[i].key, key))
            return &plan->changes[i];
    return NULL;
}

static void must_show(const struct bst_plan *plan, const char *key, const char *before,
                      const char *after)
{
    const struct bst_change *c = find(plan, key);
    if (!c)
        fail_msg("no line for %s", key);
    assert_string_equal(c->before, before);
    assert_string_equal(c->after, after);
}

static void twenty_percent_from_256(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "batch +20%", at(200000));
    assert_int_equal(plan.after.batch, 307);
    assert_int_equal(plan.after.split.batch, 307);
    near_rel(plan.lr_after / plan.lr_before, 307.0 / 256, 1e-14);
    must_show(&plan, "global_batch_size", "256", "307");
    must_show(&plan, "micro_batch_size", "256", "307");
    must_show(&plan, "learning_rate", "0.1", "0.119921875");
    assert_int_equal(plan.n_changes, 3);
    assert_int_equal(plan.n_notes, 0);
}

static void twenty_percent_from_2048(void **state)
{
    (void)state;
    struct bst_live now = live_of(2048, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "batch +20%", at(200000));
    assert_int_equal(plan.after.batch, 2458);
    near_rel(plan.after.schedule.peak / now.schedule.peak, 1.2001953125, 1e-15);
    now = live_of(2048, BST_LR_RULE_SQRT);
    plan = must(&now, "batch +20%", at(200000));
    near_rel(plan.after.schedule.peak / now.schedule.peak, 1.0955343, 1e-7);
    now = live_of(2048, BST_LR_RULE_NONE);
    plan = must(&now, "batch +20%", at(200000));
    assert_true(plan.after.schedule.peak == now.schedule.peak);
    assert_true(has_note(&plan, BST_DIAG_BATCH_ABOVE_2048));
}

static void presses_are_one_change(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "batch +20%^3", at(0));
    assert_int_equal(plan.after.batch, 442);
    near_rel(plan.after.schedule.peak, 0.1 * 442 / 256, 1e-15);
    plan = must(&now, "batch -20%", at(0));
    assert_int_equal(plan.after.batch, 205);
    plan = must(&now, "batch x2", at(0));
    assert_int_equal(plan.after.batch, 512);
    plan = must(&now, "batch =256", at(0));
    assert_int_equal(plan.n_changes, 0);
}

static void the_split_follows_what_fits(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan_env env = at(0);
    env.ranks = 2;
    env.fit = 64;
    struct bst_plan plan = must(&now, "batch +20%", env);
    assert_int_equal(plan.after.split.accumulate, 3);
    assert_int_equal(plan.after.split.micro, 52);
    assert_true(has_note(&plan, BST_DIAG_SPLIT_RAGGED));
    must_show(&plan, "gradient_accumulation_steps", "1", "3");
    now.cap = 32;
    plan = must(&now, "batch +20%", env);
    assert_int_equal(plan.after.split.accumulate, 5);
    env.ranks = 400;
    must_refuse(&now, "batch +20%", env, BST_DIAG_BATCH_RANGE, "leaves some of 400 ranks");
}

static void a_fixed_accumulation_is_kept_to(void **state)
{
    (void)state;
    struct bst_live now = live_of(1024, BST_LR_RULE_LINEAR);
    struct bst_plan_env env = at(0);
    now.accumulate = 8;
    assert_int_equal(bst_plan_split(&now, &env), BST_OK);
    assert_int_equal(must(&now, "batch +20%", env).after.split.micro, 154);
    env.fit = 128;
    must_refuse(&now, "batch +20%", env, BST_DIAG_ACCUMULATION_OVER_CAP, "largest allowed, 128");
    must_refuse(&now, "accumulate =4", env, BST_DIAG_ACCUMULATION_OVER_CAP, "largest allowed, 128");
    struct bst_plan plan = must(&now, "accumulate =16", env);
    assert_int_equal(plan.after.split.micro, 64);
    assert_true(plan.after.schedule.peak == now.schedule.peak);
    plan = must(&now, "accumulate =2000", at(0));
    assert_int_equal(plan.after.split.accumulate, 1024);
    assert_true(has_note(&plan, BST_DIAG_ACCUMULATION_LOWERED));
    plan = must(&now, "accumulate auto", at(0));
    assert_int_equal(plan.after.split.accumulate, 1);
    plan = must(&plan.after, "batch +20%", env);
    assert_int_equal(plan.after.split.accumulate, 10);
    must_show(&plan, "gradient_accumulation_steps", "1", "10");
}

static void momentum_is_corrected_where_the_form_needs_it(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan_env env = at(200000);
    assert_true(must(&now, "batch x2", env).momentum_factor == 1);
    env.form = BST_MOMENTUM_RATE_INSIDE;
    near_rel(must(&now, "batch x2", env).momentum_factor, 2, 1e-15);
    near_rel(must(&now, "lr *0.5", env).momentum_factor, 0.5, 1e-15);
    assert_true(must(&now, "clip =1", env).momentum_factor == 1);
}

/* What a person reads has few digits and one unit; what is different reads differently. */
static void changes_are_brief(void **state)
{
    static const char *const cases[][4] = {
        {"60000sa (1.000ep)", "66000sa (1.100ep)", "1 ep", "1.1 ep"},
        {"0sa (0.000ep)", "66000sa (1.100ep)", "0 ep", "1.1 ep"},
        {"480sa (0.008ep)", "528sa (0.009ep)", "480 samples", "528 samples"},
        {"60000sa (1.000ep)", "60016sa (1.000ep)", "60000 samples", "60016 samples"},
        {"6006000sa (100.100ep)", "6006600sa (100.110ep)", "6006000 samples", "6006600 samples"},
        {"60000sa (1.000ep)", "480sa (0.008ep)", "60000 samples", "480 samples"},
        {"4000sa", "4400sa", "4000 samples", "4400 samples"},
        {"0.123456789", "0.148148147", "0.1235", "0.1481"},
        {"0.1", "0.100000001", "0.1", "0.100000001"},
        {"12345", "14814", "12345", "14814"},
        {"614 tokens (19 samples)", "737 tokens (23 samples)", "614 tokens", "737 tokens"},
        {"512 tokens (16 samples)", "512 tokens (17 samples)", "512 tokens (16 samples)",
         "512 tokens (17 samples)"},
        {"cosine", "linear", "cosine", "linear"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char was[BST_BRIEF], is[BST_BRIEF];
        bst_change_brief(cases[i][0], cases[i][1], was, is);
        assert_string_equal(was, cases[i][2]);
        assert_string_equal(is, cases[i][3]);
    }
}

static void warmup_changes(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "warmup +1ep", at(30000));
    assert_true(plan.after.schedule.warmup == 120000);
    near_rel(plan.lr_after, plan.lr_before, 1e-15);
    must_show(&plan, "warmup", "60000sa (1.000ep)", "120000sa (2.000ep)");
    assert_true(must(&now, "warmup =500st", at(30000)).after.schedule.warmup == 128000);
    assert_true(must(&now, "warmup =10%", at(0)).after.schedule.warmup == 60000);
    assert_true(must(&now, "warmup =20%", at(0)).after.schedule.warmup == 120000);
    assert_true(must(&now, "warmup +10%", at(0)).after.schedule.warmup == 66000);
    assert_true(must(&now, "warmup -10%^2", at(0)).after.schedule.warmup == 48600);
    assert_true(must(&now, "warmup x1.5", at(0)).after.schedule.warmup == 90000);
    plan = must(&now, "warmup +1ep --jump", at(30000));
    near_rel(plan.lr_after, plan.lr_before / 2, 1e-14);
    plan = must(&now, "warmup -1ep", at(30000));
    assert_true(has_note(&plan, BST_DIAG_WARMUP_ENDED));
    assert_true(has_note(&plan, BST_DIAG_RATE_JUMP));
    must_refuse(&now, "warmup +1ep", at(60000), BST_DIAG_WARMUP_OVER, "ended at sample 60000");
    /* A press always does something: at least one update. */
    now.schedule.warmup = 1024;
    assert_true(must(&now, "warmup +10%", at(0)).after.schedule.warmup == 1280);
    assert_true(must(&now, "warmup -10%", at(0)).after.schedule.warmup == 768);
}

static void rate_changes(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "lr *0.5", at(200000));
    near_rel(plan.lr_after, plan.lr_before / 2, 1e-15);
    assert_true(must(&now, "lr =0.3", at(0)).after.schedule.peak == 0.3);
    near_rel(must(&now, "lr /1.1^2", at(0)).after.schedule.peak, 0.1 / 1.21, 1e-15);
    near_rel(must(&now, "lr -10%", at(0)).after.schedule.peak, 0.09, 1e-15);
    plan = must(&now, "lr x2", at(200000));
    assert_true(has_note(&plan, BST_DIAG_RATE_JUMP));
    must_refuse(&now, "lr *1000000", at(0), BST_DIAG_RATE_RANGE, "at most 1000");
}

static void other_values(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_plan plan = must(&now, "clip =1.5", at(0));
    must_show(&plan, "max_grad_norm", "off", "1.5");
    must_show(&plan, "clip_interval", "0", "1");
    now = plan.after;
    must_show(&(struct bst_plan[]){must(&now, "clip off", at(0))}[0], "max_grad_norm", "1.5",
              "off");
    must_show(&(struct bst_plan[]){must(&now, "weight-decay x2", at(0))}[0], "weight_decay",
              "0.0005", "0.001");
    must_show(&(struct bst_plan[]){must(&now, "label-smoothing 0.1", at(0))}[0], "label_smoothing",
              "0", "0.1");
    must_show(&(struct bst_plan[]){must(&now, "decay linear =0.01", at(0))}[0], "min_lr_ratio", "0",
              "0.01");
    must_refuse(&now, "momentum =1", at(0), BST_DIAG_VALUE_RANGE, "below 1");
    must_refuse(&now, "decay multistep", at(0), BST_DIAG_SCHEDULE_INVALID, "lr_milestones");
    must_refuse(&now, "length =1ep", at(60000), BST_DIAG_LENGTH_PASSED, "60000");
    assert_int_equal(must(&now, "length +2ep", at(60000)).after.schedule.total, 720000);
    must_refuse(&now, "pause", at(0), BST_DIAG_NONE, "changes no setting");
}

/* "A100×4 DDP 2048" tried on one small device: the batch is reached by accumulation. */
static void a_preset_on_a_smaller_machine(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR), preset = now;
    struct bst_schedule_spec spec = {
        .kind = BST_SCHEDULE_LINEAR, .peak = 0.4, .warmup = {10, BST_UNIT_EPOCHS}};
    struct bst_scale scale = {dataset, 2048, 90 * dataset};
    assert_int_equal(bst_schedule_make(&spec, &scale, &preset.schedule), BST_OK);
    preset.batch = 2048;
    preset.weight_decay = 1e-4;
    preset.max_grad_norm = 1;
    preset.clip_interval = 1;
    preset.accumulate = 2;
    strcpy(preset.preset, "a100x4-ddp-2048");
    struct bst_plan_env env = at(30000);
    env.fit = 300;
    struct bst_plan plan;
    assert_int_equal(bst_plan_preset(&now, &preset, &as_it_is, &env, &plan), BST_OK);
    assert_int_equal(plan.after.split.batch, 2048);
    assert_int_equal(plan.after.split.accumulate, 7);
    assert_int_equal(plan.after.split.micro, 293);
    assert_int_equal(plan.after.schedule.total, 10 * dataset);
    assert_true(has_note(&plan, BST_DIAG_LENGTH_KEPT));
    must_show(&plan, "preset", "none", "a100x4-ddp-2048");
    must_show(&plan, "global_batch_size", "256", "2048");
    must_show(&plan, "learning_rate", "0.1", "0.4");
    must_show(&plan, "lr_scheduler", "cosine", "linear");
    must_show(&plan, "weight_decay", "0.0005", "0.0001");
    assert_null(find(&plan, "length"));
    /* Its warm-up of ten epochs would be all of this run: it is a ninth of it, as of its own. Half
     * of the run's was done; the rest is stretched to there. */
    assert_true(has_note(&plan, BST_DIAG_WARMUP_SHARE_KEPT));
    assert_true(plan.after.schedule.warmup == 66667);
    near_rel(plan.lr_after, 0.2, 1e-15);

    assert_int_equal(bst_plan_preset(&now, &preset, &with_length, &env, &plan), BST_OK);
    assert_int_equal(plan.after.schedule.total, 90 * dataset);
    assert_false(has_note(&plan, BST_DIAG_LENGTH_KEPT));
    assert_false(has_note(&plan, BST_DIAG_WARMUP_SHARE_KEPT));
    assert_true(plan.after.schedule.warmup == 600000);
    must_show(&plan, "length", "600000sa (10.000ep)", "5400000sa (90.000ep)");

    env.samples = 300000; /* past its own warm-up: the preset's counts as done */
    assert_int_equal(bst_plan_preset(&now, &preset, &as_it_is, &env, &plan), BST_OK);
    assert_null(find(&plan, "warmup"));
    near_rel(plan.lr_after, 0.4 * (1 - 240000.0 / 540000), 1e-14);
    assert_true(has_note(&plan, BST_DIAG_RATE_JUMP));
    assert_false(has_note(&plan, BST_DIAG_WARMUP_ENDED));

    env.samples = 30000; /* in the midst of its own, the preset has none: it ends */
    preset.schedule.warmup = 0;
    assert_int_equal(bst_plan_preset(&now, &preset, &as_it_is, &env, &plan), BST_OK);
    assert_true(has_note(&plan, BST_DIAG_WARMUP_ENDED));
    assert_true(has_note(&plan, BST_DIAG_RATE_JUMP));

    env.samples = 300000;
    preset.schedule.total = 200000;
    assert_int_equal(bst_plan_preset(&now, &preset, &with_length, &env, &plan), BST_E_STATE);
    assert_int_equal(plan.refused, BST_DIAG_LENGTH_PASSED);
}

/* The rule of a start: a batch and something behind the warm-up have room in the run. */
static void a_run_has_room_for_its_batch_and_its_warmup(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR);
    enum bst_diag why;
    must_refuse(&now, "batch =600001", at(0), BST_DIAG_BATCH_RANGE, "whole run's 600000");
    assert_int_equal(must(&now, "batch =600000", at(0)).after.batch, 600000);
    must_refuse(&now, "warmup =10ep", at(0), BST_DIAG_SCHEDULE_INVALID, "nothing behind it");
    must_refuse(&now, "warmup =100%", at(0), BST_DIAG_SCHEDULE_INVALID, "nothing behind it");
    must_refuse(&now, "warmup +20ep", at(30000), BST_DIAG_SCHEDULE_INVALID, "nothing behind it");
    must_refuse(&now, "length =1ep", at(30000), BST_DIAG_SCHEDULE_INVALID, "nothing behind it");
    assert_true(must(&now, "warmup =599999sa", at(0)).after.schedule.warmup == 599999);
    /* Once it is over, it takes no more of the run. */
    assert_int_equal(must(&now, "length =60001sa", at(60000)).after.schedule.total, 60001);

    now.schedule.warmup = (double)now.schedule.total;
    assert_int_equal(bst_plan_check_room(&now, 0, &why), BST_E_RANGE);
    assert_int_equal(why, BST_DIAG_SCHEDULE_INVALID);
    /* Started so, it may be changed, but not to be worse. */
    assert_int_equal(must(&now, "batch +20%", at(0)).after.batch, 307);
    assert_int_equal(must(&now, "length +1ep", at(0)).after.schedule.total, 660000);
    must_refuse(&now, "warmup +1ep", at(0), BST_DIAG_SCHEDULE_INVALID, "nothing behind it");
    struct bst_live longer = must(&now, "length +1ep", at(0)).after;
    struct bst_plan_env env = at(1000);
    struct bst_plan plan;
    assert_int_equal(bst_plan_return(&longer, &now, &env, &plan), BST_OK);
    assert_int_equal(plan.after.schedule.total, 600000);
    now.schedule.warmup = 0;
    assert_int_equal(bst_plan_check_room(&now, 0, &why), BST_OK);
    now.batch = now.schedule.total + 1;
    assert_int_equal(bst_plan_check_room(&now, 0, &why), BST_E_RANGE);
    assert_int_equal(why, BST_DIAG_BATCH_RANGE);
}

/* A part of the run is one of the run that there is. */
static void a_warmup_given_as_a_part_follows_the_runs_length(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_LINEAR), preset = now;
    struct bst_plan_env env = at(0);
    struct bst_plan plan;
    struct bst_take part = {.warmup_share = true};
    preset.schedule.total = 40 * dataset;
    preset.schedule.warmup = 0.05 * 40 * (double)dataset; /* two epochs, a fifth of this run */
    assert_int_equal(bst_plan_preset(&now, &preset, &as_it_is, &env, &plan), BST_OK);
    assert_true(plan.after.schedule.warmup == 120000);
    assert_int_equal(bst_plan_preset(&now, &preset, &part, &env, &plan), BST_OK);
    assert_true(plan.after.schedule.warmup == 30000);
    assert_false(has_note(&plan, BST_DIAG_WARMUP_SHARE_KEPT));
    part.length = true;
    assert_int_equal(bst_plan_preset(&now, &preset, &part, &env, &plan), BST_OK);
    assert_true(plan.after.schedule.warmup == 120000);
}

/* 0.1 of sgd would be fifty times what this adamw run takes: what is meant for another optimizer
 * stays, and follows the batch by the run's own rule. */
static void a_rate_for_another_optimizer_is_kept(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_SQRT),
                    preset = live_of(1024, BST_LR_RULE_LINEAR);
    struct bst_plan_env env = at(0);
    struct bst_plan plan;
    const struct bst_take other = {.keep_rate = true};
    now.schedule.peak = 0.002;
    preset.schedule.kind = BST_SCHEDULE_LINEAR;
    preset.schedule.start_lr = 0.05;
    preset.weight_decay = 0.01;
    env.no_momentum = true;
    assert_int_equal(bst_plan_preset(&now, &preset, &as_it_is, &env, &plan), BST_OK);
    assert_true(plan.after.schedule.peak == preset.schedule.peak);
    assert_true(has_note(&plan, BST_DIAG_RATE_ADAPTIVE));
    assert_int_equal(bst_plan_preset(&now, &preset, &other, &env, &plan), BST_OK);
    assert_int_equal(plan.after.batch, 1024);
    assert_int_equal(plan.after.schedule.kind, BST_SCHEDULE_LINEAR);
    near_rel(plan.after.schedule.peak, 0.004, 1e-15);
    near_rel(plan.after.schedule.start_lr, 0.004 * 0.05 / 0.4, 1e-14);
    assert_int_equal(plan.after.rule, BST_LR_RULE_SQRT);
    assert_true(plan.after.weight_decay == now.weight_decay);
    assert_true(has_note(&plan, BST_DIAG_RATE_KEPT));
    assert_false(has_note(&plan, BST_DIAG_RATE_ADAPTIVE));
}

static void undo_and_redo(void **state)
{
    (void)state;
    struct bst_live first = live_of(256, BST_LR_RULE_LINEAR);
    struct bst_live second = must(&first, "batch +20%", at(100000)).after;
    struct bst_plan_env env = at(150000);
    struct bst_plan plan;
    assert_int_equal(bst_plan_return(&second, &first, &env, &plan), BST_OK);
    assert_memory_equal(&plan.after, &first, sizeof first);
    must_show(&plan, "global_batch_size", "307", "256");
    assert_int_equal(bst_plan_return(&plan.after, &second, &env, &plan), BST_OK);
    assert_memory_equal(&plan.after, &second, sizeof second);

    struct bst_live longer = must(&first, "warmup +1ep", at(30000)).after;
    env.samples = 45000;
    assert_int_equal(bst_plan_return(&longer, &first, &env, &plan), BST_OK);
    near_rel(plan.lr_after, plan.lr_before, 1e-14);
    assert_true(plan.after.schedule.warmup == 60000);
}

/* Random changes in a row: no change is half done, and the batch used is the batch shown. */
static void random_changes_keep_the_settings_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {"batch +20%",      "batch -20%",      "batch +20%^4",
                                        "batch =100",      "batch x3",        "lr *0.5",
                                        "lr x2",           "lr +10%",         "warmup +1ep",
                                        "warmup -10%",     "warmup =5%",      "decay linear",
                                        "clip =2",         "clip off",        "decay cosine =0.1",
                                        "accumulate =3",   "accumulate auto", "length +1ep",
                                        "decay one-cycle", "decay noam",      "decay inverse-sqrt",
                                        "weight-decay /2", "momentum =0.8"};
    struct bst_rng r;
    bst_rng_init(&r, 5, BST_RNG_TEST, 0);
    struct bst_live now = live_of(128, BST_LR_RULE_LINEAR);
    uint64_t s = 0;
    int n_done = 0, n_refused = 0;
    for (int i = 0; i < 5000; i++) {
        struct bst_plan_env env = {dataset,
                                   s,
                                   1 + bst_rng_below(&r, 4),
                                   1 + bst_rng_below(&r, 900),
                                   BST_MOMENTUM_RATE_INSIDE,
                                   0,
                                   0,
                                   false};
        struct bst_command cmd;
        struct bst_plan plan;
        assert_int_equal(
            bst_command_parse(texts[bst_rng_below(&r, sizeof texts / sizeof texts[0])], &cmd),
            BST_OK);
        if (bst_plan_command(&now, &cmd, &env, &plan)) {
            assert_true(plan.refused != BST_DIAG_NONE);
            assert_memory_equal(&plan.after, &now, sizeof now);
            n_refused++;
        } else {
            enum bst_diag why;
            assert_int_equal(bst_plan_check(&plan.after, &why), BST_OK);
            assert_int_equal(plan.after.split.batch, plan.after.batch);
            assert_true(plan.after.split.micro <= env.fit);
            assert_true(isfinite(plan.lr_after) && plan.lr_after >= 0);
            assert_true(isfinite(plan.momentum_factor) && plan.momentum_factor >= 0);
            now = plan.after;
            n_done++;
        }
        s += now.batch % 1000;
        if (s >= now.schedule.total || now.batch > 100000) {
            now = live_of(128, BST_LR_RULE_LINEAR);
            s = 0;
        }
    }
    assert_true(n_done > 1000 && n_refused > 100);
}

/* A change that would change nothing is not reported as done. */
static void without_momentum_there_is_none_to_change(void **state)
{
    (void)state;
    struct bst_live now = live_of(256, BST_LR_RULE_SQRT), other = now;
    struct bst_plan_env env = at(1000);
    struct bst_plan plan;
    env.no_momentum = true;
    must_refuse(&now, "momentum =0.8", env, BST_DIAG_NO_MOMENTUM, "no momentum");
    other.momentum = 0.5;
    other.weight_decay = now.weight_decay + 0.01;
    assert_int_equal(bst_plan_preset(&now, &other, &as_it_is, &env, &plan), BST_OK);
    assert_true(plan.after.momentum == now.momentum);
    assert_true(plan.after.weight_decay == other.weight_decay);
    assert_int_equal(plan.n_changes, 1);
    assert_string_equal(plan.changes[0].key, "weight_decay");
}

/* Presses are of the tokens, and only what they come to is of whole samples: no rounding is carried
 * from press to press. */
static void a_batch_of_tokens_stays_exact(void **state)
{
    (void)state;
    struct bst_live now = live_of(512, BST_LR_RULE_SQRT), other;
    struct bst_plan_env env = at(0);
    struct bst_plan plan;
    env.tokens = dataset * 1024;
    now.batch_tokens = 524288;
    plan = must(&now, "batch +20%", env);
    assert_int_equal(plan.after.batch_tokens, 629146);
    assert_int_equal(plan.after.batch, 614);
    assert_int_equal(plan.after.split.batch, 614);
    assert_true(fabs(plan.after.schedule.peak / now.schedule.peak - sqrt(629146.0 / 524288)) <
                1e-15);
    assert_string_equal(plan.changes[0].key, "global_batch_size");
    assert_string_equal(plan.changes[0].before, "524288 tokens (512 samples)");
    assert_string_equal(plan.changes[0].after, "629146 tokens (614 samples)");
    other = plan.after;
    plan = must(&other, "batch -20%", env);
    assert_int_equal(plan.after.batch_tokens, 503317);
    assert_int_equal(plan.after.batch, 492);
    plan = must(&now, "batch +20%^2", env);
    assert_int_equal(plan.after.batch_tokens, 754975);
    assert_int_equal(plan.after.batch, 737);
    plan = must(&now, "batch =1000", env);
    assert_int_equal(plan.after.batch, 1);
    plan = must(&now, "batch x2", env);
    assert_int_equal(plan.after.batch, 1024);
    /* Back by undo, as everything that was held. */
    other = plan.after;
    assert_int_equal(bst_plan_return(&other, &now, &env, &plan), BST_OK);
    assert_int_equal(plan.after.batch_tokens, 524288);
    /* A preset that counts in samples, taken up by a run that counts in tokens. */
    other = live_of(100, BST_LR_RULE_SQRT);
    assert_int_equal(bst_plan_preset(&now, &other, &as_it_is, &env, &plan), BST_OK);
    assert_int_equal(plan.after.batch, 100);
    assert_int_equal(plan.after.batch_tokens, 102400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_percent_from_256),
        cmocka_unit_test(twenty_percent_from_2048),
        cmocka_unit_test(presses_are_one_change),
        cmocka_unit_test(the_split_follows_what_fits),
        cmocka_unit_test(a_fixed_accumulation_is_kept_to),
        cmocka_unit_test(momentum_is_corrected_where_the_form_needs_it),
        cmocka_unit_test(changes_are_brief),
        cmocka_unit_test(warmup_changes),
        cmocka_unit_test(a_run_has_room_for_its_batch_and_its_warmup),
        cmocka_unit_test(a_warmup_given_as_a_part_follows_the_runs_length),
        cmocka_unit_test(a_rate_for_another_optimizer_is_kept),
        cmocka_unit_test(rate_changes),
        cmocka_unit_test(other_values),
        cmocka_unit_test(a_preset_on_a_smaller_machine),
        cmocka_unit_test(undo_and_redo),
        cmocka_unit_test(random_changes_keep_the_settings_whole),
        cmocka_unit_test(without_momentum_there_is_none_to_change),
        cmocka_unit_test(a_batch_of_tokens_stays_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
