#include <stdio.h>
#include <string.h>

#include "core/tune/diagnostics.h"
#include "core/tune/plan_changes.h"
#include "tui/format.h"
#include "tui/render.h"

enum { KEPT_ROOM = 1000 };
static const char memory_planned[] = "memory planned";

static int draw_about(const struct tui_preset *p, struct tui_area a)
{
    int y = 0;
    tui_put_cut(a, 0, y++, a.w, TUI_STRONG, p->title && p->title[0] ? p->title : p->name);
    if (p->about && p->about[0])
        y = tui_put_wrapped(tui_area_sub(a, 0, 0, a.w, a.h / 2 > 3 ? a.h / 2 : a.h), y, TUI_DIM,
                            p->about);
    return y + 1;
}

static int key_width(const struct bst_reply *r, struct tui_area a)
{
    int most = tui_columns(a.f, memory_planned);
    for (int i = 0; i < r->n_changes; i++) {
        int n = tui_columns(a.f, r->changes[i].key);
        most = n > most ? n : most;
    }
    return most < a.w / 2 ? most : a.w / 2;
}

static int draw_changes(const struct bst_reply *r, struct tui_area a, int y)
{
    int tab = key_width(r, a) + 2;
    char memory[2 * TUI_NUM], text[2 * BST_BRIEF + 8];
    struct tui_area values = tui_area_sub(a, tab, 0, a.w - tab, a.h);
    for (int i = 0; i < r->n_changes && y < a.h; i++) {
        char was[BST_BRIEF], is[BST_BRIEF];
        bst_change_brief(r->changes[i].old_value, r->changes[i].new_value, was, is);
        snprintf(text, sizeof text, "%s → %s", was, is);
        tui_put_cut(a, 0, y, tab - 2, TUI_NORMAL, r->changes[i].key);
        y = tui_put_wrapped(values, y, TUI_PENDING, text);
    }
    if (!r->memory_planned.valid || y >= a.h)
        return y;
    tui_of_bytes(r->memory_planned, r->memory_limit, memory);
    tui_put_cut(a, 0, y, tab - 2, TUI_NORMAL, memory_planned);
    return tui_put_wrapped(values, y, TUI_PENDING, memory);
}

/* What stays, under the reason that it shares: the names of a preset's fixed keys are many. */
static void draw_kept(const struct bst_reply *r, struct tui_area a, int y)
{
    struct bst_sb names;
    for (int i = 0; i < r->n_kept && y < a.h; i++) {
        const char *why = r->kept[i].new_value;
        bool said = false;
        for (int j = 0; j < i; j++)
            said = said || !strcmp(r->kept[j].new_value, why);
        if (said)
            continue;
        bst_sb_init(&names, KEPT_ROOM);
        bst_sb_addf(&names, "kept, %s:", why);
        for (int j = i; j < r->n_kept; j++)
            if (!strcmp(r->kept[j].new_value, why))
                bst_sb_addf(&names, "%s %s", j == i ? "" : ",", r->kept[j].key);
        y = tui_put_wrapped(a, y, TUI_DIM, names.data);
        bst_sb_fini(&names);
    }
}

static int draw_notes(const struct bst_reply *r, struct tui_area a, int y)
{
    char text[BST_DIAG_BRIEF];
    for (int i = 0; i < r->n_notes && y < a.h; i++) {
        /* The keys themselves follow. */
        if (r->notes[i] == BST_DIAG_FIXED_KEYS_KEPT)
            continue;
        bst_diag_brief((enum bst_diag)r->notes[i], text);
        y = tui_put_wrapped(a, y, TUI_WARN, text);
    }
    return y;
}

static void draw_diff(const struct tui_preset_answer *p, struct tui_area a, int y)
{
    const struct bst_reply *r = &p->reply;
    char refusal[TUI_TEXT];
    if (!p->asked || !p->come) {
        tui_put(a, 0, y, TUI_DIM,
                p->asked ? "asking the trainer …" : "the trainer does not answer");
        return;
    }
    if (!r->ok) {
        tui_refusal(r, refusal);
        tui_put_wrapped(a, y, TUI_BAD, refusal);
        return;
    }
    if (!r->n_changes)
        tui_put(a, 0, y++, TUI_DIM, "changes nothing that can change while it runs");
    draw_kept(r, a, draw_notes(r, a, draw_changes(r, a, y)));
}

void tui_picker_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in =
        tui_dialog(a, 110, a.h > 30 ? 30 : a.h, " Presets: Enter arms its live keys, Esc closes ");
    int select = m->view.overlay_select, list = in.w >= 90 ? 28 : in.w >= 70 ? 24 : in.w;
    int rows = list == in.w ? (in.h + 1) / 2 : in.h;
    int first = select >= rows ? select - rows + 1 : 0;
    for (int y = 0; y < rows && first + y < m->n_presets; y++) {
        int i = first + y;
        struct tui_area row = tui_area_sub(in, 0, y, list, 1);
        enum tui_style style = i == select ? TUI_SELECT : TUI_NORMAL;
        if (i == select)
            tui_area_fill(row, TUI_SELECT);
        tui_cell_put(row, 0, 0, style, i == select ? L'▸' : L' ');
        tui_put_cut(row, 2, 0, list - 3, style, m->presets[i].name);
    }
    struct tui_area right = list == in.w ? tui_area_sub(in, 0, rows, in.w, in.h - rows)
                                         : tui_area_sub(in, list + 2, 0, in.w - list - 2, in.h);
    if (select < 0 || select >= m->n_presets)
        return;
    if (list != in.w)
        tui_vline(in, list, 0, in.h, TUI_RULE);
    int y = list == in.w ? 0 : draw_about(&m->presets[select], right);
    draw_diff(&m->preset_answer, right, y);
}

void tui_settings_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in = tui_dialog(a, 90, a.h, " Settings this run was started with: Esc closes ");
    const char *s = m->settings ? m->settings : "";
    int n = 0;
    for (const char *p = s; *p; p++)
        n += *p == '\n';
    int first = m->view.overlay_scroll > n - in.h ? n - in.h : m->view.overlay_scroll;
    for (int skip = first; skip > 0 && *s; s++)
        skip -= *s == '\n';
    for (int y = 0; y < in.h && *s; y++) {
        char line[300];
        size_t len = strcspn(s, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(len < 299 ? len : 299), s);
        tui_put_cut(in, 0, y, in.w, line[0] == '#' ? TUI_DIM : TUI_NORMAL, line);
        s += len + (s[len] == '\n');
    }
}

/* What `y` does, and where the keys of a question stand. */
static void draw_question(struct tui_area in, const char *text, const char *does)
{
    int y = in.h > 4;
    if (in.h > 2)
        y = tui_put_wrapped(tui_area_sub(in, 0, 0, in.w, in.h - 1), y, TUI_NORMAL, text) +
            (in.h > 5);
    y = y < in.h ? y : in.h - 1;
    int x = tui_put(in, 0, y, TUI_KEY, "y") + 1;
    x += tui_put(in, x, y, TUI_NORMAL, does) + 3;
    x += tui_put(in, x, y, TUI_KEY, "n Esc") + 1;
    tui_put(in, x, y, TUI_NORMAL, "cancel");
}

void tui_stop_draw(const struct tui_model *m, struct tui_area a)
{
    char text[260];
    snprintf(text, sizeof text,
             "%s ends. The update it is in is dropped, a checkpoint of the last "
             "whole one is saved, and the run can be resumed from there.",
             m->status.run[0] ? m->status.run : "The run");
    draw_question(tui_dialog(a, 64, 8, " Stop the run? "), text, "stop");
}

void tui_lrfind_draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[400], found[100] = "";
    if (s->found_rate.valid)
        snprintf(found, sizeof found, " The last one found %.3g: Enter arms `lr =%.3g`.",
                 s->found_rate.value, s->found_rate.value);
    snprintf(
        text, sizeof text,
        "A hundred updates at rising rates, to see at which the loss falls fastest. The run waits "
        "meanwhile and goes on from the state it is in, bit for bit; its result is an event, and "
        "changes nothing.%s",
        found);
    draw_question(tui_dialog(a, 64, found[0] ? 11 : 10, " LR range test? "), text, "start");
}

void tui_advice_draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char why[300];
    int rows = 4 * s->n_advice + 2;
    rows = rows < 5 ? 5 : rows > 26 ? 26 : rows;
    struct tui_area in = tui_dialog(a, 100, a.h > rows ? rows : a.h,
                                    s->n_advice && tui_model_may_change(m, why, sizeof why)
                                        ? " Advice: Enter arms its change, Esc closes "
                                        : " Advice: Esc closes ");
    if (!s->n_advice) {
        tui_put_wrapped(in, 0, TUI_DIM, "no advice so far; a run with `advise: none` gets none");
        return;
    }
    int select = m->view.overlay_select < s->n_advice ? m->view.overlay_select : 0;
    int y = 0;
    /* The one selected first on the screen, so that it is always there in full. */
    for (int i = in.h < 3 * s->n_advice ? select : 0; i < s->n_advice && y < in.h; i++) {
        const struct bst_status_advice *v = &s->advice[i];
        char text[320];
        tui_cell_put(in, 0, y, TUI_KEY, i == select ? L'▸' : L' ');
        int x = 2 + tui_putf(in, 2, y, TUI_WARN, "%s ", v->code);
        x += tui_putf(in, x, y, TUI_DIM, "update %llu  ", (unsigned long long)v->update);
        tui_put_cut(in, x, y++, in.w - x, i == select ? TUI_STRONG : TUI_NORMAL,
                    v->change[0] ? v->change : "nothing a live change could do");
        snprintf(text, sizeof text, "%s; it should bring %s", v->why, v->effect);
        y = tui_put_wrapped(tui_area_sub(in, 2, 0, in.w - 2, in.h), y, TUI_DIM, text);
    }
}
