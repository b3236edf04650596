#include "tui/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/format.h"

const struct tui_study_key tui_study_keys[] = {
#define X(name, label, help) {TUI_REQ_##name, label, help},
#include "tui/study_keys.def"
#undef X
};
const int tui_n_study_keys = sizeof tui_study_keys / sizeof tui_study_keys[0];

void tui_study_init(struct tui_study *v, const struct bst_study *study)
{
    const struct bst_study_plan *p = &study->plan;
    memset(v, 0, sizeof *v);
    v->study = study;
    v->selected = -1;
    for (int i = 0; i < p->n_batches; i++) {
        int at = i;
        for (; at && p->batches[v->batch[at - 1]] > p->batches[i]; at--)
            v->batch[at] = v->batch[at - 1];
        v->batch[at] = i;
    }
}

const struct bst_study_run *tui_study_run(const struct tui_study *v, int row, int i)
{
    return &v->study->runs[i * v->study->plan.n_batches + v->batch[row]];
}

const struct bst_study_run *tui_study_live(const struct tui_study *v, int row)
{
    for (int i = 0; i < v->study->plan.repeats; i++)
        if (tui_study_run(v, row, i)->state == BST_STUDY_LIVE)
            return tui_study_run(v, row, i);
    return NULL;
}

/* One whose start failed left no folder behind. */
static bool was_begun(const struct bst_study_run *run)
{
    return run->state == BST_STUDY_LIVE || run->n_points;
}

const struct bst_study_run *tui_study_chosen(const struct tui_study *v)
{
    const struct bst_study *s = v->study;
    const struct bst_study_run *best = NULL;
    for (int i = 0; i < s->n_runs; i++) {
        const struct bst_study_run *run = &s->runs[i];
        if (v->selected >= 0 && i % s->plan.n_batches != v->batch[v->selected])
            continue;
        if (was_begun(run) && !(best && best->state == BST_STUDY_LIVE))
            best = run;
    }
    return best;
}

static void say(struct tui_study *v, enum tui_style style, const char *fmt, ...) BST_PRINTF(3, 4);

static void say(struct tui_study *v, enum tui_style style, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->message, sizeof v->message, fmt, ap);
    va_end(ap);
    v->message_style = style;
}

/* Why a batch has nothing to open. */
static unsigned say_nothing_there(struct tui_study *v)
{
    for (int i = 0; v->selected >= 0 && i < v->study->plan.repeats; i++) {
        const struct bst_study_run *run = tui_study_run(v, v->selected, i);
        if (run->state != BST_STUDY_FAILED)
            continue;
        say(v, TUI_BAD, "batch %" PRIu64 ": %s", run->batch, run->why);
        return TUI_DO_DRAW;
    }
    say(v, TUI_WARN, "no run of it has begun yet");
    return TUI_DO_DRAW;
}

static unsigned move(struct tui_study *v, int by)
{
    int n = v->study->plan.n_batches;
    if (v->help)
        v->help_scroll = v->help_scroll + by < 0 ? 0 : v->help_scroll + by;
    else if (v->selected < 0)
        v->selected = by > 0 ? 0 : n - 1;
    else
        v->selected = (v->selected + by + n) % n;
    return TUI_DO_DRAW;
}

static unsigned ask_stop(struct tui_study *v)
{
    if (v->stoppable) {
        v->asking = true;
        say(v, TUI_ARMED, "End the sweep? y ends it, with a checkpoint; any other key does not");
    } else if (!v->at_rest) {
        say(v, TUI_WARN, "this sweep was started elsewhere: ^C there ends it");
    } else if (v->study->n_done + v->study->n_failed == v->study->n_runs) {
        say(v, TUI_WARN, "the sweep is over");
    } else {
        say(v, TUI_WARN, "nobody trains: `bstune sweep %s` goes on with it", v->study->plan.dir);
    }
    return TUI_DO_DRAW;
}

static unsigned answer(struct tui_study *v, int key)
{
    v->asking = false;
    if (key != 'y')
        return TUI_DO_DRAW;
    say(v, TUI_WARN, "the sweep ends once a checkpoint is saved");
    return TUI_DO_STOP | TUI_DO_DRAW;
}

static unsigned close_one(struct tui_study *v)
{
    if (v->help)
        v->help = false;
    else
        v->selected = -1;
    return TUI_DO_DRAW;
}

static unsigned obey(struct tui_study *v, enum tui_request req)
{
    switch (req) {
    case TUI_REQ_UP:
        return move(v, -1);
    case TUI_REQ_DOWN:
        return move(v, 1);
    case TUI_REQ_DROP:
        return close_one(v);
    case TUI_REQ_OPEN:
        return tui_study_chosen(v) ? TUI_DO_OPEN | TUI_DO_DRAW : say_nothing_there(v);
    case TUI_REQ_CURVE:
        v->y = (enum tui_study_y)((v->y + 1) % TUI_STUDY_N_Y);
        return TUI_DO_DRAW;
    case TUI_REQ_XAXIS:
        v->x = (enum tui_study_x)((v->x + 1) % TUI_STUDY_N_X);
        return TUI_DO_DRAW;
    case TUI_REQ_LOG:
        v->log = !v->log;
        return TUI_DO_DRAW;
    case TUI_REQ_STOP:
        return ask_stop(v);
    case TUI_REQ_HELP:
        v->help = !v->help;
        v->help_scroll = 0;
        return TUI_DO_DRAW;
    case TUI_REQ_REDRAW:
        return TUI_DO_CLEAR | TUI_DO_DRAW;
    case TUI_REQ_RELOAD:
        return TUI_DO_REFRESH | TUI_DO_DRAW;
    case TUI_REQ_SUSPEND:
        return TUI_DO_SUSPEND;
    case TUI_REQ_LEAVE:
        if (!v->help)
            return TUI_DO_LEAVE;
        return close_one(v);
    default:
        return 0;
    }
}

/* What lies over the view has these of its own, whatever else they are bound to. */
static enum tui_request request_of(const struct tui_study *v, int key)
{
    static const struct {
        int key;
        enum tui_request req;
    } of_list[] = {
        {TUI_KEY_ESC, TUI_REQ_DROP}, {TUI_KEY_UP, TUI_REQ_UP}, {TUI_KEY_DOWN, TUI_REQ_DOWN}};
    for (size_t i = 0; v->help && i < sizeof of_list / sizeof of_list[0]; i++)
        if (of_list[i].key == key)
            return of_list[i].req;
    return tui_key_request(TUI_KEYS_SWEEP, key == '\n' ? TUI_KEY_ENTER : key);
}

unsigned tui_study_press(struct tui_study *v, int key)
{
    bool said = v->message[0];
    if (key == TUI_KEY_PASTE || key == TUI_KEY_PASTE_END)
        v->pasting = key == TUI_KEY_PASTE;
    if (v->pasting || key == TUI_KEY_PASTE_END)
        return 0;
    if (key == 'C' - '@') /* whatever is open: the way out always works */
        return TUI_DO_LEAVE;
    v->message[0] = '\0';
    if (v->asking)
        return answer(v, key);
    return obey(v, request_of(v, key)) | (said ? TUI_DO_DRAW : 0);
}

wchar_t tui_study_letter(int row)
{
    return row < 26 ? L'a' + row : L'A' + row - 26;
}

enum tui_style tui_study_style(int row)
{
    return (enum tui_style)(TUI_LINE_1 + row % 6);
}
