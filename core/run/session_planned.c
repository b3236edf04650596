/* The preset's own changes, made when their time has come. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/run/field.h"
#include "core/run/session_inner.h"
#include "core/tune/command.h"

static enum bst_err due_at(const struct bst_session *s, int i, uint64_t *out)
{
    struct bst_scale scale = {s->env.dataset, s->live_start.batch, s->live_start.schedule.total};
    return bst_interval_samples(s->preset.changes.v[i].at, &scale, out);
}

enum bst_err bst_session_plan_changes(struct bst_session *s)
{
    int n = s->preset.changes.n;
    for (int i = 0; i < n; i++) {
        uint64_t at;
        int to = i;
        BST_TRY(due_at(s, i, &at));
        /* By time; those of one time in the order of the file. */
        for (; to && s->planned[to - 1].at > at; to--)
            s->planned[to] = s->planned[to - 1];
        s->planned[to] = (struct bst_planned){at, i};
    }
    return BST_OK;
}

static const char *command_of(const struct bst_session *s, uint64_t i)
{
    return s->preset.changes.v[s->planned[i].change].command;
}

static bool sets_length(const char *command)
{
    struct bst_command cmd;
    return !bst_command_parse(command, &cmd) && cmd.kind == BST_COMMAND_LENGTH;
}

static bool is_due(const struct bst_session *s, uint64_t i, uint64_t samples)
{
    return i < (uint64_t)s->preset.changes.n && s->planned[i].at <= samples;
}

/* The run is at its end, and something that is due by now moves that. */
static bool goes_on(const struct bst_session *s)
{
    for (uint64_t i = s->at.next_planned; is_due(s, i, s->at.samples); i++)
        if (sets_length(command_of(s, i)))
            return true;
    return s->cfg.first_command && !s->first_given;
}

static void say_past_end(struct bst_session *s, uint64_t i)
{
    bst_session_note(s, BST_DIAG_PLANNED_PAST_END,
                     "`%s` at sample %" PRIu64 " lies past the last update, and was not made",
                     command_of(s, i), s->planned[i].at);
}

void bst_session_planned(struct bst_session *s, bool replaying)
{
    while (is_due(s, s->at.next_planned, s->at.samples) && !s->pending) {
        uint64_t next = s->at.next_planned;
        struct bst_inbound in = {.source = "preset"};
        /* Behind the last update there is none that could use it; but a length makes more. */
        bool late = s->at.samples >= s->live.schedule.total && !sets_length(command_of(s, next));
        if (late && !goes_on(s))
            return;
        s->at.next_planned++;
        if (late)
            say_past_end(s, next);
        /* The process before came past it: what came of it then is in the journal. */
        if (late || replaying)
            continue;
        bst_copy_text(in.text, sizeof in.text, command_of(s, next));
        bst_session_take(s, &in);
    }
}

bool bst_session_planned_due(const struct bst_session *s, uint64_t samples)
{
    return is_due(s, s->at.next_planned, samples);
}

void bst_session_planned_end(struct bst_session *s)
{
    for (uint64_t i = s->at.next_planned; i < (uint64_t)s->preset.changes.n; i++) {
        say_past_end(s, i);
        /* Settled: a run that is made longer does not come back to it. */
        if (is_due(s, i, s->at.samples))
            s->at.next_planned = i + 1;
    }
}

static bool is_planned(const struct bst_session *s, uint64_t at, const char *command)
{
    for (int i = 0; i < s->preset.changes.n; i++)
        if (s->planned[i].at == at && !strcmp(command_of(s, (uint64_t)i), command))
            return true;
    return false;
}

void bst_session_plan_length(struct bst_session *s, const char *command, uint64_t at)
{
    struct bst_preset_changes *all = &s->preset.changes;
    int to = all->n;
    if (is_planned(s, at, command))
        return;
    if (all->n == BST_PRESET_CHANGES) {
        bst_session_note(s, BST_DIAG_NONE, "preset.yaml has room for %d changes, and none for `%s`",
                         BST_PRESET_CHANGES, command);
        return;
    }
    for (; to && s->planned[to - 1].at > at; to--)
        s->planned[to] = s->planned[to - 1];
    s->planned[to] = (struct bst_planned){at, all->n};
    all->v[all->n].at = (struct bst_interval){(double)at, BST_UNIT_SAMPLES};
    bst_copy_text(all->v[all->n++].command, sizeof all->v->command, command);
    s->preset.origin[BST_PARAM_changes] = BST_ORIGIN_FILE;
    if (bst_session_replace_preset(s))
        bst_session_note(s, BST_DIAG_NONE, "preset.yaml has the old length still: %s",
                         bst_err_text());
}
