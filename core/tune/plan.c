#include "core/tune/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/tune/plan_changes.h"

static const double rate_max = 1000;

static void note(struct bst_plan *plan, enum bst_diag id)
{
    if (plan->n_notes < BST_NOTES_MAX)
        plan->notes[plan->n_notes++] = id;
}

static enum bst_err refuse(struct bst_plan *plan, enum bst_diag id, enum bst_err err)
{
    plan->refused = id;
    plan->after = plan->before;
    plan->n_changes = plan->n_notes = 0;
    return err;
}

enum bst_err bst_plan_split(struct bst_live *live, const struct bst_plan_env *env)
{
    uint64_t cap = live->cap;
    if (env->fit && (!cap || env->fit < cap))
        cap = env->fit;
    struct bst_split_ask ask = {
        .batch = live->batch,
        .ranks = env->ranks,
        .cap = cap,
        .accumulate = live->accumulate,
    };
    BST_TRY(bst_split_make(&ask, &live->split));
    if (live->accumulate || live->split.accumulate >= env->least_accumulate)
        return BST_OK;
    ask.accumulate = env->least_accumulate;
    return bst_split_make(&ask, &live->split);
}

static bool is_part(double v)
{
    return v >= 0 && v < 1;
}

static enum bst_err check_rates(const struct bst_live *live)
{
    if (!(live->schedule.peak > 0 && live->schedule.peak <= rate_max))
        return bst_fail(BST_E_RANGE, "a learning rate of %g is not above 0 and at most %g",
                        live->schedule.peak, rate_max);
    if (!(live->schedule.start_lr >= 0 && live->schedule.start_lr <= rate_max))
        return bst_fail(BST_E_RANGE, "a warm-up from %g is not 0 to %g", live->schedule.start_lr,
                        rate_max);
    return BST_OK;
}

static enum bst_err check_values(const struct bst_live *live)
{
    if (!is_part(live->momentum))
        return bst_fail(BST_E_RANGE, "a momentum of %g is not 0 to below 1", live->momentum);
    if (!is_part(live->label_smoothing))
        return bst_fail(BST_E_RANGE, "a label smoothing of %g is not 0 to below 1",
                        live->label_smoothing);
    if (!(live->weight_decay >= 0 && live->weight_decay <= 1))
        return bst_fail(BST_E_RANGE, "a weight decay of %g is not 0 to 1", live->weight_decay);
    if (!(live->max_grad_norm >= 0 && isfinite(live->max_grad_norm)))
        return bst_fail(BST_E_RANGE, "a clip norm of %g is not above 0", live->max_grad_norm);
    if (live->max_grad_norm > 0 && !live->clip_interval)
        return bst_fail(BST_E_RANGE, "clip_interval is 0");
    return BST_OK;
}

enum bst_err bst_plan_check(const struct bst_live *live, enum bst_diag *refused)
{
    enum bst_err err = check_rates(live);
    *refused = err ? BST_DIAG_RATE_RANGE : BST_DIAG_NONE;
    if (!err) {
        err = bst_schedule_check(&live->schedule);
        *refused = err ? BST_DIAG_SCHEDULE_INVALID : BST_DIAG_NONE;
    }
    if (!err) {
        err = check_values(live);
        *refused = err ? BST_DIAG_VALUE_RANGE : BST_DIAG_NONE;
    }
    return err;
}

enum bst_err bst_plan_check_room(const struct bst_live *live, uint64_t samples,
                                 enum bst_diag *refused)
{
    const struct bst_schedule *sch = &live->schedule;
    *refused = BST_DIAG_NONE;
    if (live->batch > sch->total) {
        *refused = BST_DIAG_BATCH_RANGE;
        return bst_fail(BST_E_RANGE,
                        "a batch of %" PRIu64 " samples is more than the whole run's %" PRIu64,
                        live->batch, sch->total);
    }
    if (sch->warmup < (double)sch->total ||
        bst_schedule_warmup_done(sch, samples, live->batch) >= 1)
        return BST_OK;
    *refused = BST_DIAG_SCHEDULE_INVALID;
    return bst_fail(BST_E_RANGE,
                    "a warm-up of %.0f samples in a run of %" PRIu64
                    " leaves nothing behind it: shorten it (warmup), or lengthen the run (length)",
                    sch->warmup, sch->total);
}

static void begin(struct bst_plan *plan, const struct bst_live *now)
{
    *plan = (struct bst_plan){.before = *now, .after = *now, .momentum_factor = 1};
}

/* Splits the new batch. A fixed number of micro-batches is kept to, but one that came with a preset
 * (meant for other devices) or from before gives way when its parts would not fit. */
static enum bst_err split_after(struct bst_plan *plan, const struct bst_plan_env *env, bool fixed)
{
    struct bst_live *after = &plan->after;
    enum bst_err err = bst_plan_split(after, env);
    if (err == BST_E_SHAPE && !fixed) {
        after->accumulate = 0;
        err = bst_plan_split(after, env);
    }
    if (err)
        return refuse(
            plan, err == BST_E_SHAPE ? BST_DIAG_ACCUMULATION_OVER_CAP : BST_DIAG_BATCH_RANGE, err);
    if (after->accumulate > after->split.accumulate)
        note(plan, BST_DIAG_ACCUMULATION_LOWERED);
    const struct bst_split *is = &after->split, *was = &plan->before.split;
    if ((is->batch != was->batch || is->accumulate != was->accumulate) &&
        is->batch % (is->ranks * is->accumulate))
        note(plan, BST_DIAG_SPLIT_RAGGED);
    if (is->batch > 2048 && is->batch > was->batch && after->rule == BST_LR_RULE_NONE)
        note(plan, BST_DIAG_BATCH_ABOVE_2048);
    return BST_OK;
}

/* A run that was started without room for more than its warm-up may be changed all the same, if
 * not for the worse. */
static enum bst_err leads_to_no_room(const struct bst_plan *plan, const struct bst_plan_env *env,
                                     enum bst_diag *why)
{
    const struct bst_schedule *was = &plan->before.schedule, *is = &plan->after.schedule;
    enum bst_err err = bst_plan_check_room(&plan->after, env->samples, why);
    bool same = is->warmup <= was->warmup && is->total >= was->total;
    return *why == BST_DIAG_SCHEDULE_INVALID && same ? BST_OK : err;
}

/* The last step of every plan: checks, list of changes, rates before and after. */
static enum bst_err finish(struct bst_plan *plan, const struct bst_plan_env *env, bool fixed)
{
    BST_TRY(split_after(plan, env, fixed));
    enum bst_diag why = BST_DIAG_NONE;
    enum bst_err err = bst_plan_check(&plan->after, &why);
    if (err)
        return refuse(plan, why, err);
    const struct bst_live *b = &plan->before, *a = &plan->after;
    plan->lr_before = bst_schedule_lr(&b->schedule, env->samples, b->batch);
    plan->lr_after = bst_schedule_lr(&a->schedule, env->samples, a->batch);
    if (env->samples && bst_schedule_warmup_done(&b->schedule, env->samples, b->batch) < 1 &&
        bst_schedule_warmup_done(&a->schedule, env->samples, a->batch) >= 1)
        note(plan, BST_DIAG_WARMUP_ENDED);
    plan->momentum_factor = bst_momentum_correction(env->form, plan->lr_before, plan->lr_after);
    if (env->samples && plan->lr_after > 1.5 * plan->lr_before)
        note(plan, BST_DIAG_RATE_JUMP);
    if (env->no_momentum && a->schedule.peak > BST_ADAPTIVE_RATE_USUAL &&
        a->schedule.peak > b->schedule.peak)
        note(plan, BST_DIAG_RATE_ADAPTIVE);
    bst_plan_list_changes(plan, env->dataset);
    return BST_OK;
}

/* Of what was not in force before; the way back is open whatever it leads to. */
static enum bst_err finish_new(struct bst_plan *plan, const struct bst_plan_env *env, bool fixed)
{
    enum bst_diag why = BST_DIAG_NONE;
    enum bst_err err = leads_to_no_room(plan, env, &why);
    return err ? refuse(plan, why, err) : finish(plan, env, fixed);
}

/* A batch counted in tokens is that of so many samples, to the nearest. */
static void settle_batch(struct bst_live *live, const struct bst_plan_env *env)
{
    if (env->tokens && live->batch_tokens)
        live->batch = bst_split_samples_of_tokens(live->batch_tokens, env->tokens, env->dataset);
}

static enum bst_err change_batch(struct bst_plan *plan, const struct bst_command *cmd,
                                 const struct bst_plan_env *env)
{
    struct bst_live *live = &plan->after;
    uint64_t *counted = env->tokens ? &live->batch_tokens : &live->batch, was = *counted;
    if (cmd->op == BST_OPERAND_PERCENT) {
        enum bst_err err = bst_split_press(was, cmd->value, cmd->presses, counted);
        if (err)
            return refuse(plan, BST_DIAG_BATCH_RANGE, err);
    } else {
        double value = cmd->value;
        if (cmd->op == BST_OPERAND_TIMES)
            value = floor((double)was * pow(cmd->value, cmd->presses) + 0.5);
        if (!(value >= 0 && value <= (double)BST_BATCH_MAX))
            return refuse(
                plan, BST_DIAG_BATCH_RANGE,
                bst_fail(BST_E_RANGE, "a batch of %g is not 1 to %" PRIu64, value, BST_BATCH_MAX));
        *counted = value < 1 ? 1 : (uint64_t)value;
    }
    settle_batch(live, env);
    bst_schedule_scale_peak(&live->schedule, bst_lr_rule_change(live->rule, was, *counted));
    return BST_OK;
}

/* A number after `cmd`: times, percent or set. */
static double scaled(const struct bst_command *cmd, double was)
{
    if (cmd->op == BST_OPERAND_TIMES)
        return was * pow(cmd->value, cmd->presses);
    if (cmd->op == BST_OPERAND_PERCENT)
        return cmd->presses > 0 ? was * pow(1 + cmd->value / 100, cmd->presses)
                                : was * pow(1 - cmd->value / 100, -cmd->presses);
    return cmd->value;
}

/* The length in samples that `cmd` makes of `was`; at least one update longer or shorter, so that a
 * key press always does something. */
static enum bst_err new_length(const struct bst_command *cmd, const struct bst_live *live,
                               const struct bst_plan_env *env, double was, double *out)
{
    uint64_t given = 0;
    double batch = (double)live->batch, by;
    struct bst_scale scale = {env->dataset, live->batch, live->schedule.total};
    switch (cmd->op) {
    case BST_OPERAND_TIMES:
        *out = rint(scaled(cmd, was));
        break;
    case BST_OPERAND_PERCENT:
        by = scaled(cmd, was) - was;
        if (fabs(by) < batch)
            by = copysign(batch, cmd->presses);
        *out = rint(was + by);
        break;
    default:
        BST_TRY(bst_interval_samples(cmd->interval, &scale, &given));
        *out = cmd->op == BST_OPERAND_SET
                   ? (double)given
                   : was + (cmd->op == BST_OPERAND_ADD ? 1 : -1) * (double)given;
    }
    if (*out < 0)
        *out = 0;
    if (!(*out < 0x1p53))
        return bst_fail(BST_E_RANGE, "%.3g samples are more than a run can have, 9.007e15", *out);
    return BST_OK;
}

static enum bst_err change_warmup(struct bst_plan *plan, const struct bst_command *cmd,
                                  const struct bst_plan_env *env)
{
    struct bst_live *live = &plan->after;
    double length = 0;
    enum bst_err err = new_length(cmd, live, env, live->schedule.warmup, &length);
    if (err)
        return refuse(plan, BST_DIAG_VALUE_RANGE, err);
    err = bst_schedule_set_warmup(&live->schedule, length, env->samples, live->batch, cmd->jump);
    if (err)
        return refuse(plan, BST_DIAG_WARMUP_OVER, err);
    return BST_OK;
}

static enum bst_err change_length(struct bst_plan *plan, const struct bst_command *cmd,
                                  const struct bst_plan_env *env)
{
    struct bst_live *live = &plan->after;
    double length = 0;
    enum bst_err err = new_length(cmd, live, env, (double)live->schedule.total, &length);
    if (err)
        return refuse(plan, BST_DIAG_VALUE_RANGE, err);
    if (length <= (double)env->samples)
        return refuse(plan, BST_DIAG_LENGTH_PASSED,
                      bst_fail(BST_E_STATE, "the run has seen %" PRIu64 " samples, more than %.0f",
                               env->samples, length));
    live->schedule.total = (uint64_t)length;
    return BST_OK;
}

static void change_lr(struct bst_live *live, const struct bst_command *cmd)
{
    double peak = scaled(cmd, live->schedule.peak);
    bst_schedule_scale_peak(&live->schedule, peak / live->schedule.peak);
    live->schedule.peak = peak; /* exactly what was asked for */
}

static void change_decay(struct bst_live *live, const struct bst_command *cmd)
{
    live->schedule.kind = cmd->decay;
    if (cmd->has_value)
        live->schedule.min_lr_ratio = cmd->value;
}

static enum bst_err apply(struct bst_plan *plan, const struct bst_command *cmd,
                          const struct bst_plan_env *env)
{
    struct bst_live *live = &plan->after;
    switch (cmd->kind) {
    case BST_COMMAND_BATCH:
        return change_batch(plan, cmd, env);
    case BST_COMMAND_WARMUP:
        return change_warmup(plan, cmd, env);
    case BST_COMMAND_LENGTH:
        return change_length(plan, cmd, env);
    case BST_COMMAND_LR:
        change_lr(live, cmd);
        return BST_OK;
    case BST_COMMAND_DECAY:
        change_decay(live, cmd);
        return BST_OK;
    case BST_COMMAND_ACCUMULATE:
        live->accumulate = (uint64_t)cmd->value;
        return BST_OK;
    case BST_COMMAND_CLIP:
        live->max_grad_norm = cmd->value;
        if (!live->clip_interval)
            live->clip_interval = 1;
        return BST_OK;
    case BST_COMMAND_WEIGHT_DECAY:
        live->weight_decay = scaled(cmd, live->weight_decay);
        return BST_OK;
    case BST_COMMAND_MOMENTUM:
        if (env->no_momentum)
            return refuse(plan, BST_DIAG_NO_MOMENTUM,
                          bst_fail(BST_E_STATE, "this run's optimizer has no momentum"));
        live->momentum = cmd->value;
        return BST_OK;
    case BST_COMMAND_SMOOTHING:
        live->label_smoothing = cmd->value;
        return BST_OK;
    default:
        return bst_fail(BST_E_ARG, "%s changes no setting", bst_command_word(cmd->kind));
    }
}

enum bst_err bst_plan_command(const struct bst_live *now, const struct bst_command *cmd,
                              const struct bst_plan_env *env, struct bst_plan *out)
{
    begin(out, now);
    BST_TRY(apply(out, cmd, env));
    return finish_new(out, env, true);
}

/* What preset, undo and redo have in common once `after` is filled in. */
static enum bst_err take_length(struct bst_plan *plan, const struct bst_plan_env *env)
{
    if (plan->after.schedule.total > env->samples)
        return BST_OK;
    return refuse(plan, BST_DIAG_LENGTH_PASSED,
                  bst_fail(BST_E_STATE, "the run has seen %" PRIu64 " samples, more than %" PRIu64,
                           env->samples, plan->after.schedule.total));
}

/* The run's length in place of the preset's own. A warm-up that is over by now gives the new one
 * its length, see bst_schedule_take_over(). */
static void keep_length(struct bst_plan *plan, bool share, const struct bst_plan_env *env)
{
    const struct bst_live *now = &plan->before;
    struct bst_schedule *sch = &plan->after.schedule;
    uint64_t own = sch->total, total = now->schedule.total, s = env->samples;
    if (own == total)
        return;
    note(plan, BST_DIAG_LENGTH_KEPT);
    sch->total = total;
    bool done = s && bst_schedule_warmup_done(&now->schedule, s, now->batch) >= 1;
    if (!share && (done || sch->warmup < (double)total))
        return;
    sch->warmup = rint(sch->warmup / (double)own * (double)total);
    sch->log_n = sch->warmup / (double)plan->after.batch;
    if (!share)
        note(plan, BST_DIAG_WARMUP_SHARE_KEPT);
}

/* The run's rate at the preset's batch, in the preset's shape: what that starts from is the same
 * part of its peak. */
static void keep_rate(struct bst_plan *plan, const struct bst_plan_env *env)
{
    const struct bst_live *now = &plan->before;
    struct bst_live *live = &plan->after;
    uint64_t was = env->tokens ? now->batch_tokens : now->batch;
    uint64_t is = env->tokens ? live->batch_tokens : live->batch;
    double peak = now->schedule.peak * bst_lr_rule_change(now->rule, was, is);
    bst_schedule_scale_peak(&live->schedule, peak / live->schedule.peak);
    live->schedule.peak = peak; /* not rounded twice */
    live->rule = now->rule;
    live->weight_decay = now->weight_decay;
    note(plan, BST_DIAG_RATE_KEPT);
}

enum bst_err bst_plan_preset(const struct bst_live *now, const struct bst_live *preset,
                             const struct bst_take *take, const struct bst_plan_env *env,
                             struct bst_plan *out)
{
    begin(out, now);
    out->after = *preset;
    if (!take->length)
        keep_length(out, take->warmup_share, env);
    if (env->no_momentum)
        out->after.momentum = now->momentum;
    if (!env->tokens)
        out->after.batch_tokens = 0;
    else if (!out->after.batch_tokens)
        out->after.batch_tokens =
            bst_split_samples_of_tokens(preset->batch, env->dataset, env->tokens);
    if (take->keep_rate)
        keep_rate(out, env);
    BST_TRY(take_length(out, env));
    bst_schedule_take_over(&out->after.schedule, &now->schedule, env->samples, preset->batch);
    return finish_new(out, env, false);
}

enum bst_err bst_plan_return(const struct bst_live *now, const struct bst_live *held,
                             const struct bst_plan_env *env, struct bst_plan *out)
{
    begin(out, now);
    out->after = *held;
    BST_TRY(take_length(out, env));
    bst_schedule_go_back(&out->after.schedule, &now->schedule, env->samples, held->batch);
    return finish(out, env, false);
}
