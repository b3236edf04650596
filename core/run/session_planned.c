/* The preset's own changes, made when their time has come. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/run/field.h"
#include "core/run/session_inner.h"

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

void bst_session_planned(struct bst_session *s, bool replaying)
{
    while (s->at.next_planned < (uint64_t)s->preset.changes.n && !s->pending) {
        const struct bst_planned *next = &s->planned[s->at.next_planned];
        struct bst_inbound in = {.source = "preset"};
        /* Behind the last update there is none that could use it. */
        if (next->at > s->at.samples || s->at.samples >= s->live.schedule.total)
            return;
        s->at.next_planned++;
        /* The process before came past it: what came of it then is in the journal. */
        if (replaying)
            continue;
        bst_copy_text(in.text, sizeof in.text, s->preset.changes.v[next->change].command);
        bst_session_take(s, &in);
    }
}

bool bst_session_planned_due(const struct bst_session *s, uint64_t samples)
{
    uint64_t i = s->at.next_planned;
    return i < (uint64_t)s->preset.changes.n && s->planned[i].at <= samples;
}

void bst_session_planned_end(struct bst_session *s)
{
    for (uint64_t i = s->at.next_planned; i < (uint64_t)s->preset.changes.n; i++)
        bst_session_note(s, BST_DIAG_PLANNED_PAST_END,
                         "`%s` at sample %" PRIu64 " lies past the last update, and was not made",
                         s->preset.changes.v[s->planned[i].change].command, s->planned[i].at);
}
