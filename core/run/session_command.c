#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"

enum { REPLY_CAP = 64 << 10 };

void bst_session_answer(struct bst_session *s, const struct bst_inbound *in,
                        const struct bst_outcome *o)
{
    struct bst_sb line;
    if (!s->server || !in->client)
        return;
    bst_sb_init(&line, REPLY_CAP);
    bst_outcome_print(o, &line);
    bst_server_answer(s->server, in->client, line.data);
    bst_sb_fini(&line);
}

void bst_session_answer_text(struct bst_session *s, const struct bst_inbound *in,
                             const char *outcome, enum bst_diag code, const char *text)
{
    struct bst_outcome o = {
        .id = in->id,
        .outcome = outcome,
        .code = code,
        .update = s->at.update,
        .samples = s->at.samples,
    };
    bst_copy_clean(o.text, sizeof o.text, text);
    bst_session_answer(s, in, &o);
}

void bst_session_journal(struct bst_session *s, const struct bst_inbound *in, const char *outcome,
                         enum bst_diag code, const char *text)
{
    char word[16] = "";
    struct bst_journal_entry *e = bst_xalloc(sizeof *e);
    e->wall = bst_clock_wall();
    e->samples = s->at.samples;
    e->update = s->at.update;
    if (code)
        bst_diag_code(code, word);
    bst_copy_clean(e->command, sizeof e->command, in->text);
    bst_copy_text(e->source, sizeof e->source, in->source);
    bst_copy_text(e->outcome, sizeof e->outcome, outcome);
    bst_copy_text(e->code, sizeof e->code, word);
    bst_copy_clean(e->text, sizeof e->text, text);
    /* Changes no setting, so nothing depends on its being there. */
    if (bst_journal_append(s->journal, e) && !s->folder.lost)
        bst_session_note(s, BST_DIAG_METRICS_FAILING, "%s", bst_err_text());
    bst_free(e);
}

static void refuse(struct bst_session *s, const struct bst_inbound *in, enum bst_diag code,
                   const char *text)
{
    if (!in->dry) {
        bst_session_journal(s, in, "refused", code, text);
        bst_session_tell_change(s, in, "refused", code, s->at.update, text);
    }
    bst_session_answer_text(s, in, "refused", code, text);
}

static void answer_proposal(struct bst_session *s, struct bst_proposal *p, const char *outcome)
{
    struct bst_sb text;
    struct bst_outcome o = {
        .id = p->in.id,
        .outcome = outcome,
        .update = s->at.update + 1,
        .samples = s->at.samples,
        .plan = &p->plan,
        .kept = p->kept,
        .n_kept = p->n_kept,
        .memory_planned = {(double)p->memory.total, true},
        .memory_limit = {(double)p->memory.limit, true},
    };
    bst_sb_init(&text, sizeof o.text);
    bst_session_describe(s, p, &text);
    bst_copy_text(o.text, sizeof o.text, text.data);
    bst_sb_fini(&text);
    bst_session_answer(s, &p->in, &o);
}

/* "accumulate auto" may lead to the split that is there, and still means another thing next time.
 */
static bool changes_nothing(const struct bst_plan *plan)
{
    return !plan->n_changes && plan->before.accumulate == plan->after.accumulate &&
           plan->before.cap == plan->after.cap;
}

static void change(struct bst_session *s, const struct bst_inbound *in,
                   const struct bst_command *cmd)
{
    char why[400];
    struct bst_proposal *p = bst_xalloc(sizeof *p);
    p->in = *in;
    p->cmd = *cmd;
    /* A change is written down, and a rewind cuts the metrics: not in files that are gone. */
    enum bst_err err = in->dry ? BST_OK : bst_session_folder_look(s, true);
    if (err)
        p->refused = BST_DIAG_FOLDER_TAKEN;
    else
        err = bst_session_propose(s, p);
    if (!err && in->dry) {
        answer_proposal(s, p, "proposed");
    } else if (!err && changes_nothing(&p->plan) && !cmd->rewind) {
        answer_proposal(s, p, "done");
    } else if (!err) {
        err = bst_session_put(s, p);
        if (!err && s->paused)
            bst_session_confirm_paused(s);
        if (!err)
            return; /* whoever confirms frees it */
    }
    if (err) {
        const char *text = why;
        bst_copy_text(why, sizeof why, bst_err_text());
        enum bst_diag code = bst_session_code_of(p->refused, &text);
        refuse(s, in, code, text);
    }
    bst_free(p);
}

static void done(struct bst_session *s, const struct bst_inbound *in, const char *text)
{
    bst_session_journal(s, in, "done", BST_DIAG_NONE, text);
    bst_session_answer_text(s, in, "done", BST_DIAG_NONE, text);
}

/* Settled once the evaluation or the checkpoint is there. */
static void wait_for(struct bst_session *s, const struct bst_inbound *in, struct bst_inbound *list,
                     int *n)
{
    if (*n == BST_WAITERS_MAX)
        refuse(s, in, BST_DIAG_NONE, "too many wait for this already");
    else
        list[(*n)++] = *in;
}

static void cancel(struct bst_session *s, const struct bst_inbound *in)
{
    /* One that was on has ended by now: this command has interrupted it. */
    bool was = s->find_waiting || s->find_cut;
    s->find_cut = false;
    bst_session_find_drop(s, "search cancelled before it began");
    done(s, in, was ? "search cancelled" : "no search is on");
}

static void act(struct bst_session *s, const struct bst_inbound *in, const struct bst_command *cmd)
{
    switch (cmd->kind) {
    case BST_COMMAND_PAUSE:
        if (s->pending)
            bst_session_confirm_paused(s);
        s->paused = true;
        done(s, in, "paused");
        return;
    case BST_COMMAND_RESUME:
        done(s, in, s->paused ? "goes on" : "was not paused");
        s->paused = false;
        return;
    case BST_COMMAND_EVAL:
        wait_for(s, in, s->eval_for, &s->n_eval_for);
        return;
    case BST_COMMAND_CHECKPOINT:
        wait_for(s, in, s->checkpoint_for, &s->n_checkpoint_for);
        return;
    case BST_COMMAND_FIT:
    case BST_COMMAND_LRFIND:
    case BST_COMMAND_TRIAL:
        bst_session_find_ask(s, in, cmd);
        return;
    case BST_COMMAND_CANCEL:
        cancel(s, in);
        return;
    case BST_COMMAND_STOP:
        s->stopping = true;
        s->stop_for = *in;
        return;
    default:
        refuse(s, in, BST_DIAG_NONE, "not a command of a run");
        return;
    }
}

/* Nobody waits for it any more, and whoever gave it takes it for not done. */
static void drop_unasked(struct bst_session *s, const struct bst_inbound *in)
{
    static const char why[] = "whoever asked for it left before it could be looked at";
    if (in->dry)
        return;
    bst_session_journal(s, in, "dropped", BST_DIAG_NONE, why);
    bst_session_tell_change(s, in, "dropped", BST_DIAG_NONE, s->at.update, why);
}

void bst_session_take(struct bst_session *s, const struct bst_inbound *in)
{
    struct bst_command cmd;
    char text[200];
    if (bst_command_parse(in->text, &cmd)) {
        bst_copy_text(text, sizeof text, bst_err_text());
        bst_session_answer_text(s, in, "refused", BST_DIAG_NONE, text);
    } else if (in->gone && !in->urgent) {
        drop_unasked(s, in);
    } else if (bst_command_is_change(cmd.kind)) {
        change(s, in, &cmd);
    } else if (in->dry) {
        snprintf(text, sizeof text, "%s: %s", bst_command_word(cmd.kind),
                 bst_command_help(cmd.kind));
        bst_session_answer_text(s, in, "proposed", BST_DIAG_NONE, text);
    } else {
        act(s, in, &cmd);
    }
}

enum bst_err bst_session_commands(struct bst_session *s, bool urgent_only)
{
    struct bst_inbound in;
    /* One change an update: a second one waits until the first was seen in force. */
    while (s->server && !s->stopping && !s->lost &&
           bst_server_next(s->server, urgent_only || s->pending, &in)) {
        enum bst_err err = bst_session_settle(s);
        if (err) {
            const struct bst_failure why = bst_err_keep(err);
            bst_session_answer_text(s, &in, "dropped", BST_DIAG_NONE, why.text);
            return bst_err_restore(&why);
        }
        bst_session_take(s, &in);
    }
    return BST_OK;
}

void bst_session_first_command(struct bst_session *s)
{
    struct bst_inbound in = {.source = BST_SOURCE_RESUME};
    if (!s->cfg.first_command || s->first_given || s->next_replay < s->n_replay || s->pending ||
        bst_session_planned_due(s, s->at.samples))
        return;
    s->first_given = true;
    bst_copy_text(in.text, sizeof in.text, s->cfg.first_command);
    bst_session_take(s, &in);
}
