#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"

/* A batch set to so many times another is remarked on. */
#define BATCH_TIMES_PLAIN 4.0

static struct bst_plan_env env_now(const struct bst_session *s, uint64_t fit)
{
    struct bst_plan_env env = s->env;
    env.samples = s->at.samples;
    env.fit = fit;
    return env;
}

static bool other_optimizer(const struct bst_session *s, const struct bst_proposal *p)
{
    return p->preset.optimizer != s->preset.optimizer;
}

static enum bst_err plan_preset(struct bst_session *s, struct bst_proposal *p,
                                const struct bst_plan_env *env)
{
    struct bst_live target;
    struct bst_plan_env elsewhere = *env; /* what fits here is asked when the plan is made */
    elsewhere.fit = 0;
    const struct bst_take take = {
        .length = p->cmd.with_length,
        .warmup_share = bst_preset_warmup(&p->preset).unit == BST_UNIT_RATIO ||
                        p->preset.lr_scheduler == BST_SCHEDULE_ONE_CYCLE,
        .keep_rate = other_optimizer(s, p),
    };
    BST_TRY(bst_start_live(&p->preset, &elsewhere, &target));
    BST_TRY(bst_plan_preset(&s->live, &target, &take, env, &p->plan));
    if (p->n_kept && p->plan.n_notes < BST_NOTES_MAX)
        p->plan.notes[p->plan.n_notes++] = BST_DIAG_FIXED_KEYS_KEPT;
    return BST_OK;
}

static enum bst_err plan_once(struct bst_session *s, struct bst_proposal *p, uint64_t fit)
{
    struct bst_plan_env env = env_now(s, fit);
    enum bst_err err;
    if (p->cmd.kind == BST_COMMAND_PRESET)
        err = plan_preset(s, p, &env);
    else if (p->cmd.kind == BST_COMMAND_UNDO || p->cmd.kind == BST_COMMAND_REDO)
        err = bst_session_plan_back(s, p, &env);
    else
        err = bst_plan_command(&s->live, &p->cmd, &env, &p->plan);
    if (err && !p->refused)
        p->refused = p->plan.refused;
    return err;
}

/* Which of the trainer's refusals it is. */
static enum bst_diag memory_code(enum bst_err err)
{
    if (err == BST_E_NOMEM)
        return BST_DIAG_PLAN_OVER_MEMORY;
    return err == BST_E_SHAPE ? BST_DIAG_BN_ONE_VALUE : BST_DIAG_CHANGE_ROLLED_BACK;
}

static void recompute_text(const struct bst_rank_memory *m, char *out, size_t room)
{
    if (m->n_again)
        snprintf(out, room, "%d instructions, +%.1f%% work", m->n_again, 100 * m->again_share);
    else
        snprintf(out, room, "none");
}

/* What the new split recomputes, where that is not what the old one does. */
static void note_recompute(const struct bst_session *s, struct bst_proposal *p)
{
    struct bst_rank_memory now;
    struct bst_change c = {.key = "recompute"};
    bst_trainer_memory(s->trainer, 0, &now);
    recompute_text(&now, c.before, sizeof c.before);
    recompute_text(&p->memory, c.after, sizeof c.after);
    if (p->plan.n_changes && p->plan.n_changes < BST_CHANGES_MAX && strcmp(c.before, c.after) != 0)
        p->plan.changes[p->plan.n_changes++] = c;
}

static enum bst_err ask_memory(struct bst_session *s, struct bst_proposal *p)
{
    const struct bst_live *after = &p->plan.after;
    enum bst_err err = bst_trainer_plan(s->trainer, (int64_t)after->batch,
                                        (int)after->split.accumulate, &p->memory);
    /* A number of micro-batches that this run fixed is kept to; else smaller ones may fit. */
    bool fixed = after->accumulate && p->cmd.kind != BST_COMMAND_PRESET;
    if (err == BST_E_NOMEM && !fixed && after->split.micro > 1) {
        int fit;
        err = bst_trainer_largest_micro(s->trainer, (int)after->split.micro, &fit);
        if (!err)
            err = plan_once(s, p, (uint64_t)fit);
        if (!err)
            err = bst_trainer_plan(s->trainer, (int64_t)after->batch, (int)after->split.accumulate,
                                   &p->memory);
    }
    if (err && !p->refused)
        p->refused = memory_code(err);
    if (!err)
        note_recompute(s, p);
    return err;
}

static enum bst_err load_preset(struct bst_session *s, struct bst_proposal *p)
{
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    enum bst_err err = bst_preset_load(s->cfg.presets, p->cmd.preset, NULL, 0, &p->preset, &errs);
    bst_preset_errors_fini(&errs);
    if (err) {
        p->refused = err == BST_E_NOTFOUND ? BST_DIAG_PRESET_UNKNOWN : BST_DIAG_PRESET_INVALID;
        return err;
    }
    int n = bst_preset_diff(&s->preset, &p->preset, p->kept);
    for (int i = 0; i < n; i++) {
        enum bst_live_kind live = bst_param_at(p->kept[i].id)->live;
        if (live == BST_PARAM_FIXED || (live == BST_PARAM_LENGTH && !p->cmd.with_length) ||
            (other_optimizer(s, p) && bst_param_of_optimizer(p->kept[i].id)))
            p->kept[p->n_kept++] = p->kept[i];
    }
    return BST_OK;
}

enum bst_err bst_session_propose(struct bst_session *s, struct bst_proposal *p)
{
    if (s->next_replay < s->n_replay) {
        p->refused = BST_DIAG_CHANGE_ROLLED_BACK;
        return bst_fail(BST_E_STATE,
                        "the resumed run still puts back changes made up to sample %" PRIu64,
                        bst_journal_at(s->journal, s->replay[s->n_replay - 1])->samples);
    }
    if (p->cmd.kind == BST_COMMAND_PRESET)
        BST_TRY(load_preset(s, p));
    BST_TRY(plan_once(s, p, 0));
    BST_TRY(ask_memory(s, p));
    bst_session_foresee(s, &p->plan);
    return BST_OK;
}

enum bst_err bst_session_fit(struct bst_session *s, struct bst_live *live)
{
    struct bst_plan_env env = env_now(s, 0);
    return bst_start_fit(s->trainer, &env, live);
}

/* "batch 20" is a batch of 20; whoever meant 20 % sees it before it is done. */
static void add_batch_remark(const struct bst_proposal *p, struct bst_sb *out)
{
    const struct bst_live *b = &p->plan.before, *a = &p->plan.after;
    bool tokens = b->batch_tokens && a->batch_tokens; /* what the operand counts */
    uint64_t was = tokens ? b->batch_tokens : b->batch, is = tokens ? a->batch_tokens : a->batch;
    if (p->cmd.kind != BST_COMMAND_BATCH || p->cmd.op != BST_OPERAND_SET || !was || !is)
        return;
    bool less = is < was;
    double times = less ? (double)was / (double)is : (double)is / (double)was;
    if (times <= BATCH_TIMES_PLAIN)
        return;
    bst_sb_addf(out, "; from %" PRIu64 " to %" PRIu64 " is %.0f times %s", was, is, times,
                less ? "smaller" : "larger");
    if (is <= 100)
        bst_sb_addf(out, ", for %" PRIu64 " %% more write batch +%" PRIu64 "%%", is, is);
}

static void add_plan(const struct bst_proposal *p, struct bst_sb *out)
{
    bst_outcome_describe(&p->plan, out);
    add_batch_remark(p, out);
}

void bst_session_describe(const struct bst_session *s, const struct bst_proposal *p,
                          struct bst_sb *out)
{
    uint64_t since = s->at.update - s->held_at.update;
    if (p->cmd.rewind)
        bst_sb_addf(out,
                    "back to update %" PRIu64 ": weights and metrics of the %" PRIu64
                    " update%s since are dropped; ",
                    s->held_at.update, since, since == 1 ? "" : "s");
    add_plan(p, out);
    if (p != s->pending)
        bst_session_hint_rewind(s, p, out);
}

static struct bst_journal_entry make_entry(const struct bst_session *s,
                                           const struct bst_proposal *p, uint64_t update,
                                           uint64_t samples)
{
    struct bst_journal_entry e = {
        .wall = bst_clock_wall(),
        .samples = samples,
        .update = update,
        .n_changes = p->plan.n_changes,
        .has_live = true,
        .live = s->live,
        .rewind = p->cmd.rewind,
    };
    struct bst_sb text;
    bst_sb_init(&text, sizeof e.text);
    bst_session_describe(s, p, &text);
    bst_copy_text(e.text, sizeof e.text, text.data);
    bst_sb_fini(&text);
    bst_copy_text(e.command, sizeof e.command, p->in.text);
    bst_copy_text(e.source, sizeof e.source, p->in.source);
    bst_copy_text(e.outcome, sizeof e.outcome, "applied");
    memcpy(e.changes, p->plan.changes, sizeof e.changes);
    return e;
}

enum bst_err bst_session_write_entry(struct bst_session *s, uint64_t update, uint64_t samples)
{
    struct bst_journal_entry *e = bst_xalloc(sizeof *e);
    *e = make_entry(s, s->pending, update, samples);
    enum bst_err err = bst_journal_append(s->journal, e);
    bst_free(e);
    return err;
}

/* The state that an undone change was made from is not given up for the one that it led to: the
 * weights may be wanted back as well. With no state of its own to be taken back to, such an undo is
 * written down first, as a rewind is. */
static enum bst_err put_keeping(struct bst_session *s, struct bst_proposal *p)
{
    struct bst_live before = s->live;
    BST_TRY(bst_trainer_set_split(s->trainer, (int64_t)p->plan.after.batch,
                                  (int)p->plan.after.split.accumulate, NULL));
    s->live = p->plan.after;
    enum bst_err err = bst_session_write_entry(s, s->at.update + 1, s->at.samples);
    p->journalled = !err;
    if (!err)
        return BST_OK;
    const struct bst_failure why = bst_err_keep(err);
    s->live = before;
    if (bst_trainer_set_split(s->trainer, (int64_t)before.batch, (int)before.split.accumulate,
                              NULL))
        bst_session_note(s, BST_DIAG_CHANGE_ROLLED_BACK, "%s", bst_err_text());
    return bst_err_restore(&why);
}

static enum bst_err put_holding(struct bst_session *s, struct bst_proposal *p)
{
    BST_TRY(bst_session_hold(s, p->cmd.kind));
    BST_TRY(bst_trainer_set_split(s->trainer, (int64_t)p->plan.after.batch,
                                  (int)p->plan.after.split.accumulate, NULL));
    s->live = p->plan.after;
    return BST_OK;
}

enum bst_err bst_session_put(struct bst_session *s, struct bst_proposal *p)
{
    enum bst_err err;
    s->pending = p;
    if (p->cmd.rewind) {
        err = bst_session_rewind(s);
    } else {
        err = bst_session_keeps_hold(s, p) ? put_keeping(s, p) : put_holding(s, p);
        if (!err)
            s->at.momentum_factor *= p->plan.momentum_factor;
    }
    if (err) {
        s->pending = NULL;
        s->lost = p->journalled;
        p->refused = err == BST_E_NOMEM ? BST_DIAG_OUT_OF_MEMORY : BST_DIAG_CHANGE_ROLLED_BACK;
    }
    return err;
}

static void answer_pending(struct bst_session *s, const char *outcome, enum bst_diag code,
                           const char *text, uint64_t update, uint64_t samples)
{
    struct bst_proposal *p = s->pending;
    struct bst_outcome o = {
        .id = p->in.id,
        .outcome = outcome,
        .code = code,
        .update = update,
        .samples = samples,
        .plan = !strcmp(outcome, "applied") ? &p->plan : NULL,
        .kept = p->kept,
        .n_kept = p->n_kept,
        .memory_planned = {(double)p->memory.total, p->memory.total > 0},
        .memory_limit = {(double)p->memory.limit, p->memory.limit > 0},
    };
    bst_copy_text(o.text, sizeof o.text, text);
    s->pending = NULL;
    bst_session_answer(s, &p->in, &o);
    bst_free(p);
}

static void count_in_force(struct bst_session *s, const struct bst_proposal *p)
{
    bool undo = p->cmd.kind == BST_COMMAND_UNDO;
    bst_session_foretold(s, &p->plan);
    bst_session_count_change(s, p->cmd.kind, &p->plan.before);
    if (undo && p->journalled)
        s->held_undone = true;
    /* What is held is from before an undo, which is not what the next --rewind would mean. */
    else if (undo)
        s->have_hold = false;
}

/* The first command of a resume comes when all that is planned up to its sample has been made. */
static void keep_length(struct bst_session *s, const struct bst_proposal *p, uint64_t samples)
{
    int n = s->preset.changes.n;
    if (strcmp(p->in.source, BST_SOURCE_RESUME) || p->cmd.kind != BST_COMMAND_LENGTH)
        return;
    bst_session_plan_length(s, p->in.text, samples);
    s->at.next_planned += (uint64_t)(s->preset.changes.n - n);
}

static void applied(struct bst_session *s, uint64_t update, uint64_t samples, const char *when)
{
    struct bst_proposal *p = s->pending;
    struct bst_sb text;
    keep_length(s, p, samples);
    bst_sb_init(&text, 500);
    if (p->cmd.rewind)
        bst_sb_addf(&text, "back to update %" PRIu64 "; ", update - 1);
    add_plan(p, &text);
    if (!p->cmd.rewind)
        count_in_force(s, p);
    if (s->server)
        bst_server_event(s->server, "journal", NULL, text.data);
    bst_session_tell_change(s, &p->in, "applied", BST_DIAG_NONE, update, text.data);
    bst_sb_add(&text, when);
    bst_session_hint_rewind(s, p, &text);
    answer_pending(s, "applied", *when ? BST_DIAG_EFFECTIVE_ON_RESUME : BST_DIAG_NONE, text.data,
                   update, samples);
    bst_sb_fini(&text);
    bst_session_publish(s, true);
}

/* A rate that was read back through a group's factor has been rounded twice. */
static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Where every group has a decay of its own, none used the run's. */
static double used_decay(const struct bst_update_result *res, const struct bst_live *l)
{
    return res->weight_decay_used > 0 ? res->weight_decay_used : l->weight_decay;
}

/* What the update says it used against what was proposed; "" when it is the same. */
static void compare(const struct bst_session *s, const struct bst_update_req *req,
                    const struct bst_split *split, const struct bst_update_result *res, char *why,
                    size_t room)
{
    const struct bst_live *l = &s->live;
    why[0] = '\0';
    if ((uint64_t)res->samples_used != split->batch)
        snprintf(why, room, "the update used %" PRId64 " samples, not %" PRIu64, res->samples_used,
                 split->batch);
    else if ((uint64_t)res->micro_largest != split->micro ||
             (uint64_t)res->micro_used != split->accumulate)
        snprintf(why, room,
                 "the update ran %d micro-batches of up to %d, not %" PRIu64 " of %" PRIu64,
                 res->micro_used, res->micro_largest, split->accumulate, split->micro);
    else if (!res->skipped && (!same(res->lr_used, req->lr) ||
                               (!s->env.no_momentum && !same(res->momentum_used, l->momentum)) ||
                               !same(used_decay(res, l), l->weight_decay)))
        snprintf(why, room, "the update used a rate of %g, not %g", res->lr_used, req->lr);
}

void bst_session_confirm(struct bst_session *s, const struct bst_update_req *req,
                         const struct bst_split *split, const struct bst_update_result *res)
{
    char why[400];
    compare(s, req, split, res, why, sizeof why);
    if (!why[0] && !s->pending->journalled && bst_session_write_entry(s, req->update, req->first))
        bst_copy_text(why, sizeof why, bst_err_text());
    if (why[0])
        bst_session_take_back(s, "refused", BST_DIAG_CHANGE_ROLLED_BACK, why);
    else
        applied(s, req->update, req->first, "");
}

void bst_session_confirm_paused(struct bst_session *s)
{
    if (!s->pending->journalled && bst_session_write_entry(s, s->at.update + 1, s->at.samples)) {
        char why[400];
        bst_copy_text(why, sizeof why, bst_err_text());
        bst_session_take_back(s, "refused", BST_DIAG_CHANGE_ROLLED_BACK, why);
        return;
    }
    applied(s, s->at.update + 1, s->at.samples, ", effective on resume");
}

/* Everything as it was before the change. */
static void take_settings_back(struct bst_session *s)
{
    s->live = s->pending->plan.before;
    if (s->at.update != s->held_at.update && bst_trainer_rewind(s->trainer))
        bst_session_note(s, BST_DIAG_CHANGE_ROLLED_BACK, "%s", bst_err_text());
    bst_session_back_to_hold(s);
    if (bst_trainer_set_split(s->trainer, (int64_t)s->live.batch, (int)s->live.split.accumulate,
                              NULL))
        bst_session_note(s, BST_DIAG_CHANGE_ROLLED_BACK, "%s", bst_err_text());
    s->have_hold = false;
}

void bst_session_take_back(struct bst_session *s, const char *outcome, enum bst_diag code,
                           const char *why)
{
    struct bst_proposal *p = s->pending;
    bool undo = p->journalled && !p->cmd.rewind;
    /* It is in the journal, so a resume goes by it. */
    if (undo && !strcmp(outcome, "dropped")) {
        bst_session_confirm_paused(s);
        return;
    }
    /* What was written down first and could not be seen in an update is said, and stays. */
    if (undo)
        count_in_force(s, p);
    else if (!p->journalled)
        take_settings_back(s);
    char text[450];
    snprintf(text, sizeof text, "%s%s", why,
             p->journalled ? "; but it had been written down, and stays" : "");
    bst_session_journal(s, &p->in, outcome, code, text);
    bst_session_tell_change(s, &p->in, outcome, code, s->at.update, text);
    answer_pending(s, outcome, code, text, s->at.update, s->at.samples);
    bst_session_publish(s, true);
}
