#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "tui/format.h"
#include "tui/keys.h"
#include "tui/render.h"

void tui_batch_text(const struct bst_status *s, bool brief, char *out, size_t room)
{
    long long parts = (long long)s->micro_batch * s->accumulation * s->n_devices;
    char tokens[48] = "";
    /* The unit that changes are made in comes first. */
    if (s->batch_tokens)
        snprintf(tokens, sizeof tokens, "%llu tokens%s", (unsigned long long)s->batch_tokens,
                 brief ? "" : ", ");
    if (s->global_batch <= 0)
        snprintf(out, room, "n/a");
    else if (brief && tokens[0])
        snprintf(out, room, "%s", tokens);
    else if (s->micro_batch <= 0 || s->accumulation <= 0 || s->n_devices <= 0)
        snprintf(out, room, "%s%lld", tokens, (long long)s->global_batch);
    else
        snprintf(out, room, "%s%lld %s %d × %d × %d", tokens, (long long)s->global_batch,
                 parts == s->global_batch ? "=" : "≤", s->micro_batch, s->accumulation,
                 s->n_devices);
}

/* Mark and style of a phase: what is seen without reading. */
static wchar_t phase_mark(const struct tui_model *m, enum tui_style *style, const char **words)
{
    static const struct {
        wchar_t mark;
        enum tui_style style;
    } marks[] = {
        [BST_PHASE_STARTING] = {L'○', TUI_WARN},   [BST_PHASE_TRAINING] = {L'●', TUI_GOOD},
        [BST_PHASE_EVALUATING] = {L'◆', TUI_EVAL}, [BST_PHASE_SAVING] = {L'●', TUI_EVAL},
        [BST_PHASE_PAUSED] = {L'‖', TUI_WARN},     [BST_PHASE_DONE] = {L'✓', TUI_GOOD},
        [BST_PHASE_FAILED] = {L'!', TUI_BAD},      [BST_PHASE_STOPPING] = {L'▼', TUI_WARN},
        [BST_PHASE_STOPPED] = {L'▼', TUI_WARN},    [BST_PHASE_PREEMPTED] = {L'▼', TUI_WARN},
        [BST_PHASE_SEARCHING] = {L'◇', TUI_EVAL},  [BST_PHASE_KILLED] = {L'!', TUI_BAD},
    };
    *style = TUI_WARN;
    *words = "connecting";
    if (m->link_state == TUI_LINK_LOST) {
        *style = TUI_BAD;
        *words = "no answer";
        return L'!';
    }
    if (!m->has_status)
        return L'○';
    *words = bst_phase_name(m->status.phase);
    /* Over is over: "stopped", where the last phase was "stopping". */
    if (m->link_state == TUI_LINK_OVER && m->link_why[0])
        *words = m->link_why;
    *style = marks[m->status.phase].style;
    return marks[m->status.phase].mark;
}

static int item(struct tui_area a, int x, int y, const char *label, const char *value,
                enum tui_style style)
{
    int n = tui_columns(a.f, label) + tui_columns(a.f, value) + (*label && *value);
    if (x + n > a.w)
        return x;
    if (*label)
        x += tui_put(a, x, y, TUI_DIM, label) + 1;
    return x + tui_put(a, x, y, style, value) + 2;
}

/* With the day where it was not today. */
static void ended_text(double wall, bool brief, char *out, size_t room)
{
    time_t then = (time_t)wall, now = (time_t)bst_clock_wall();
    struct tm at, today;
    char when[32] = "";
    if (wall > 0 && localtime_r(&then, &at) && localtime_r(&now, &today)) {
        bool same = at.tm_year == today.tm_year && at.tm_yday == today.tm_yday;
        const char *form = brief ? (same ? " %H:%M" : " %m-%d")
                                 : (same ? " at %H:%M:%S" : " on %Y-%m-%d at %H:%M");
        strftime(when, sizeof when, form, &at);
    }
    snprintf(out, room, "ended%s", when);
}

static void right_flags(const struct tui_model *m, bool brief, char *out, size_t room)
{
    char why[160] = "", drop[16];
    tui_key_first(TUI_REQ_DROP, drop, sizeof drop);
    if (m->view.frozen)
        snprintf(out, room, "frozen");
    else if (m->link_state == TUI_LINK_OVER)
        ended_text(m->ended, brief, out, room);
    else if (m->link_state == TUI_LINK_LOST)
        snprintf(out, room, "trainer gone?");
    else if (m->link_why[0])
        snprintf(out, room, "%.40s", m->link_why);
    else if (m->readonly)
        snprintf(out, room, "read-only");
    else if (!tui_model_may_change(m, why, sizeof why))
        snprintf(out, room, "read-only: %s drives", m->holder);
    else if (m->has_status && m->status.phase == BST_PHASE_SEARCHING)
        snprintf(out, room, "%s cancels", drop);
    else
        snprintf(out, room, "%s", m->status.n_clients > 1 ? "you drive" : "");
}

static void draw_first(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    enum tui_style style;
    const char *words;
    char flags[160], text[160];
    wchar_t mark = phase_mark(m, &style, &words);
    right_flags(m, a.w < 60, flags, sizeof flags);
    int room = a.w - (flags[0] ? tui_columns(a.f, flags) + 2 : 0);
    if (flags[0])
        tui_put_right(a, a.w, 0, TUI_WARN, flags);
    int phase = 2 + tui_columns(a.f, words);
    int x = tui_put_cut(a, 0, 0, room - phase - 2, TUI_HEADER, s->run[0] ? s->run : "bstune") + 2;
    struct tui_area rest = tui_area_sub(a, 0, 0, room, 1);
    tui_cell_put(rest, x, 0, style, mark);
    x += 2;
    x += tui_put(rest, x, 0, style, words) + 2;
    if (m->has_status && s->phase == BST_PHASE_SEARCHING) {
        tui_put_cut(rest, x, 0, rest.w - x, TUI_NORMAL, s->search);
        return;
    }
    if (s->preset[0] && strcmp(s->preset, s->run))
        x = item(rest, x, 0, "preset", s->preset, TUI_NORMAL);
    snprintf(text, sizeof text, "%s on %s", s->net, s->data);
    if (s->net[0] && s->data[0])
        x = item(rest, x, 0, "", text, TUI_NORMAL);
    if (a.w >= 120 && s->host[0])
        item(rest, x, 0, "on", s->host, TUI_NORMAL);
}

static void draw_second(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    bool brief = a.w < 76;
    char text[160], end[TUI_NUM];
    int x = 0;
    if (!m->has_status) {
        tui_put_cut(a, 0, 0, a.w, TUI_DIM,
                    m->link_why[0] ? m->link_why : "waiting for the trainer");
        return;
    }
    snprintf(end, sizeof end, "%.4g", s->epochs_total);
    snprintf(text, sizeof text, "%.2f%s%s", s->epoch, s->epochs_total > 0 ? "/" : "",
             s->epochs_total > 0 ? end : "");
    x = item(a, x, 0, brief ? "ep" : "epoch", text, TUI_STRONG);
    snprintf(text, sizeof text, "%llu", (unsigned long long)s->update);
    if (!brief || a.w >= 60)
        x = item(a, x, 0, "update", text, TUI_NORMAL);
    tui_batch_text(s, a.w < 100, text, sizeof text);
    if (brief)
        snprintf(text, sizeof text, "%lld", (long long)s->global_batch);
    x = item(a, x, 0, brief ? "b" : "batch", text, TUI_STRONG);
    tui_metric(s->learning_rate, 3, text);
    x = item(a, x, 0, brief ? "lr" : "rate", text, TUI_STRONG);
    tui_span(s->eta_seconds, text);
    if (!bst_phase_is_over(s->phase))
        x = item(a, x, 0, "left", text, TUI_NORMAL);
    if (s->last_checkpoint_samples.valid && s->samples_per_epoch > 0) {
        snprintf(text, sizeof text, "epoch %.2f",
                 s->last_checkpoint_samples.value / (double)s->samples_per_epoch);
        if (a.w >= 100)
            item(a, x, 0, "saved at", text, TUI_NORMAL);
    }
}

void tui_header_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in = tui_area_sub(a, 1, 0, a.w - 2, a.h);
    draw_first(m, in);
    draw_second(m, tui_area_sub(in, 0, 1, in.w, 1));
}

static void add(struct tui_area a, int *x, int *y, enum tui_style style, const char *text)
{
    int n = tui_columns(a.f, text);
    if (*x && *x + n > a.w) {
        *x = 0;
        (*y)++;
    }
    if (*y >= a.h)
        return;
    *x += tui_put_cut(a, *x, *y, a.w - *x, style, text) + 1;
}

void tui_line_draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    enum tui_style style;
    const char *words;
    char text[200], number[TUI_NUM];
    int x = 0, y = 0;
    bool footer = m->prompt.mark || m->armed.state != TUI_ARMED_NONE || m->message[0];
    /* With a single row the answer that is waited for comes first. */
    if (footer && a.h >= 1) {
        tui_footer_draw(m, tui_area_sub(a, 0, a.h - 1, a.w, 1));
        a = tui_area_sub(a, 0, 0, a.w, a.h - 1);
    }
    wchar_t mark = phase_mark(m, &style, &words);
    tui_cell_put(a, 0, 0, style, mark);
    x = 2;
    if (!m->has_status) {
        add(a, &x, &y, style, words);
        return;
    }
    snprintf(text, sizeof text, "ep %.2f", s->epoch);
    add(a, &x, &y, TUI_STRONG, text);
    tui_metric(s->loss, 3, number);
    snprintf(text, sizeof text, "loss %s", number);
    add(a, &x, &y, TUI_TRAIN, text);
    snprintf(text, sizeof text, "b%lld", (long long)s->global_batch);
    add(a, &x, &y, TUI_NORMAL, text);
    tui_metric(s->learning_rate, 2, number);
    snprintf(text, sizeof text, "lr %s", number);
    add(a, &x, &y, TUI_NORMAL, text);
    if (s->samples_per_sec.valid) {
        tui_count(s->samples_per_sec.value, number);
        snprintf(text, sizeof text, "%s/s", number);
        add(a, &x, &y, TUI_SPEED, text);
    }
    tui_span(s->eta_seconds, number);
    snprintf(text, sizeof text, "%s left", number);
    add(a, &x, &y, TUI_NORMAL, text);
    add(a, &x, &y, TUI_DIM, s->run);
}
