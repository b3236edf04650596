#include "tui/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/tune/command.h"
#include "core/tune/trial.h"
#include "tui/format.h"

/* Seconds behind the status that is shown until the trainer has the command. */
static const double way_seconds = 0.5;

static int64_t updates_left(const struct tui_model *m)
{
    const struct bst_status *s = &m->status;
    if (s->global_batch <= 0 || s->samples >= s->samples_total)
        return 0;
    return (int64_t)((s->samples_total - s->samples) / (uint64_t)s->global_batch);
}

/* The run goes on until the command is there, and the update in flight is made first. */
static int64_t made_meanwhile(const struct tui_model *m)
{
    const struct bst_status *s = &m->status;
    if (s->phase != BST_PHASE_TRAINING || !s->samples_per_sec.valid || s->global_batch <= 0)
        return s->phase == BST_PHASE_PAUSED ? 0 : 1;
    double rate = s->samples_per_sec.value / (double)s->global_batch;
    return 1 + (int64_t)ceil(rate * (m->options.refresh + way_seconds));
}

/* The same samples hold fewer updates of a larger batch, and need enough of those, too. */
static int64_t updates_needed(const struct bst_reply *r)
{
    double before, after, least = BST_TRIAL_LEAST;
    for (int i = 0; i < r->n_changes; i++)
        if (!strcmp(r->changes[i].key, "global_batch_size") &&
            tui_batch_of(r->changes[i].old_value, &before) &&
            tui_batch_of(r->changes[i].new_value, &after) && before > 0)
            least = fmax(least, floor(BST_TRIAL_PARTS * after / before) + 1);
    return (int64_t)least;
}

static bool can_be_tried(const char *change)
{
    char text[sizeof((struct tui_wish *)0)->text + 32];
    struct bst_command cmd;
    snprintf(text, sizeof text, "trial %d %s", BST_TRIAL_LEAST, change);
    return !bst_command_parse(text, &cmd);
}

int tui_trial_updates(const struct tui_model *m, char *why, size_t room)
{
    const struct tui_armed *a = &m->armed;
    why[0] = '\0';
    if (a->state != TUI_ARMED_PROPOSED || a->n_next || !can_be_tried(a->wish.text))
        return 0;
    int64_t need = updates_needed(&a->reply), left = updates_left(m);
    int64_t fit = left - made_meanwhile(m), most = need > TUI_TRIAL_USUAL ? need : TUI_TRIAL_USUAL;
    if (need > BST_TRIAL_MOST || fit < need) {
        snprintf(why, room, "%lld update%s left, too few for a trial of %lld", (long long)left,
                 bst_text_plural((uint64_t)left), (long long)need);
        return 0;
    }
    return (int)(fit < most ? fit : most);
}
