#include <stdio.h>
#include <string.h>

#include "tui/keys.h"
#include "tui/pane.h"
#include "tui/render.h"

static void draw_prompt(const struct tui_model *m, struct tui_area a)
{
    const struct tui_prompt *p = &m->prompt;
    char before[TUI_LINE];
    snprintf(before, sizeof before, "%.*s", p->at, p->line);
    int at = 1 + tui_columns(a.f, before);
    /* Long lines slide so that the cursor stays in sight. */
    int shift = at >= a.w - 1 ? at - (a.w - 2) : 0;
    const char *rest = p->line;
    while (shift > 0 && *rest) {
        rest++;
        while ((*rest & 0xC0) == 0x80)
            rest++;
        shift--;
        at--;
    }
    tui_putf(a, 0, 0, TUI_KEY, "%c", p->mark);
    int end = 1 + tui_put(a, 1, 0, TUI_NORMAL, rest);
    if (p->hint[0] && end + 3 < a.w)
        tui_put_cut(a, end + 3, 0, a.w - end - 3, TUI_DIM, p->hint);
    a.f->cursor_x = a.x + at;
    a.f->cursor_y = a.y;
}

static bool in_footer(const struct tui_model *m, const struct tui_key_info *k)
{
    char why[300];
    if (!*tui_keys_of((enum tui_request)(k - tui_keys)))
        return false;
    if (m->view.maximised && tui_panes[m->view.focus]->chart)
        return k->group == TUI_GROUP_CHART ||
               (k->group == TUI_GROUP_VIEW && !strcmp(k->name, "MAXIMISE"));
    /* Where nothing can be changed, the keys that look take the room of those that change. */
    if (!tui_model_may_change(m, why, sizeof why))
        return !(k->flags & TUI_KEY_MUTATES) &&
               (k->flags & TUI_KEY_FOOTER || k->group == TUI_GROUP_CHART ||
                (k->group == TUI_GROUP_VIEW && k->label[0]));
    return k->flags & TUI_KEY_FOOTER;
}

/* A row's share: its keys, then the label that they have in common. */
static int group_text(const struct tui_model *m, int i, char *keys, size_t room)
{
    size_t n = 0;
    int j = i;
    do {
        char first[16];
        tui_key_first((enum tui_request)j, first, sizeof first);
        n += (size_t)snprintf(keys + n, n < room ? room - n : 0, "%s%s", n ? " " : "", first);
        j++;
    } while (j < TUI_N_REQUESTS && !tui_keys[j].label[0] && in_footer(m, &tui_keys[j]));
    return j;
}

static const char *label_of(const struct tui_model *m, int i)
{
    if (i == TUI_REQ_MAXIMISE && m->view.maximised)
        return "all panes";
    return tui_keys[i].label;
}

static void put_pairs(struct tui_area a, const char *const (*pair)[2], int n)
{
    for (int i = 0, x = 0; i < n; i++) {
        if (x + tui_columns(a.f, pair[i][0]) + 1 + tui_columns(a.f, pair[i][1]) > a.w)
            return;
        x += tui_put(a, x, 0, TUI_KEY, pair[i][0]) + 1;
        x += tui_put(a, x, 0, TUI_DIM, pair[i][1]) + 2;
    }
}

static void draw_overlay_keys(const struct tui_model *m, struct tui_area a)
{
    char why[300];
    static const char *const read[][2] = {
        {"Esc", "close"}, {"Up Down", "line"}, {"Space", "page"}, {"Home End", "first, last"}};
    static const char *const pick[][2] = {
        {"Esc", "close"}, {"Up Down", "select"}, {"Enter", "arm"}};
    static const char *const stop[][2] = {{"y", "stop"}, {"n Esc", "cancel"}};
    static const char *const test[][2] = {{"y", "start"}, {"n Esc", "cancel"}, {"Enter", "arm"}};
    static const char *const set[][2] = {
        {"Esc", "close"}, {"Up Down", "select"}, {"Left Right Enter", "change"}};
    if (m->view.overlay == TUI_OVERLAY_STOP)
        put_pairs(a, stop, 2);
    else if (m->view.overlay == TUI_OVERLAY_LRFIND)
        put_pairs(a, test, m->status.found_rate.valid ? 3 : 2);
    else if (m->view.overlay == TUI_OVERLAY_OPTIONS)
        put_pairs(a, set, 3);
    else if (m->view.overlay == TUI_OVERLAY_PRESETS || m->view.overlay == TUI_OVERLAY_ADVICE)
        put_pairs(a, pick,
                  m->view.overlay == TUI_OVERLAY_ADVICE && !m->status.n_advice ? 1
                  : tui_model_may_change(m, why, sizeof why)                   ? 3
                                                                               : 2);
    else
        put_pairs(a, read, 4);
}

static void draw_keys(const struct tui_model *m, struct tui_area a)
{
    /* Help and the way out keep their places whatever else has room. */
    static const enum tui_request last[] = {TUI_REQ_HELP, TUI_REQ_LEAVE};
    int reserve = 0, x = 0;
    char keys[64];
    for (int k = 0; k < 2; k++) {
        group_text(m, last[k], keys, sizeof keys);
        reserve += tui_columns(a.f, keys) + 1 + tui_columns(a.f, tui_keys[last[k]].label) + 2;
    }
    for (int i = 0; i < TUI_N_REQUESTS;) {
        if (i == TUI_REQ_HELP || i == TUI_REQ_LEAVE || !in_footer(m, &tui_keys[i]) ||
            !tui_keys[i].label[0]) {
            i++;
            continue;
        }
        int here = i;
        i = group_text(m, i, keys, sizeof keys);
        int n = tui_columns(a.f, keys) + 1 + tui_columns(a.f, label_of(m, here));
        if (x + n + reserve > a.w)
            continue;
        x += tui_put(a, x, 0, TUI_KEY, keys) + 1;
        x += tui_put(a, x, 0, TUI_DIM, label_of(m, here)) + 2;
    }
    for (int k = 0; k < 2; k++) {
        group_text(m, last[k], keys, sizeof keys);
        x += tui_put(a, x, 0, TUI_KEY, keys) + 1;
        x += tui_put(a, x, 0, TUI_DIM, tui_keys[last[k]].label) + 2;
    }
}

static bool draw_note(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    if (m->link_state == TUI_LINK_LOST) {
        tui_put_cut(a, 0, 0, a.w, TUI_BAD, m->link_why);
        return m->link_why[0];
    }
    if (m->behind) {
        tui_putf(a, 0, 0, TUI_DIM, "reading the run's history: %d updates so far …", m->n_updates);
        return true;
    }
    if (!m->has_status || !bst_phase_is_failure(s->phase) || !s->note[0])
        return false;
    int x = s->note_code[0] ? tui_putf(a, 0, 0, TUI_BAD, "%s ", s->note_code) : 0;
    tui_put_cut(a, x, 0, a.w - x, TUI_BAD, s->note);
    return true;
}

void tui_footer_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in = a.w >= 40 ? tui_area_sub(a, 1, 0, a.w - 2, a.h) : a;
    if (m->prompt.mark)
        draw_prompt(m, in);
    else if (m->armed.state != TUI_ARMED_NONE)
        tui_armed_draw(m, in);
    else if (m->message[0])
        tui_put_cut(in, 0, 0, in.w, m->message_style, m->message);
    else if (m->view.overlay != TUI_OVERLAY_NONE)
        draw_overlay_keys(m, in);
    else if (!draw_note(m, in))
        draw_keys(m, in);
}
