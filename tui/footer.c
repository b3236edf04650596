#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/armed.h"
#include "tui/format.h"
#include "tui/keys.h"
#include "tui/pane.h"
#include "tui/render.h"

enum { ARMED_ROOM = 400 };

static void add_change(struct bst_sb *out, const struct bst_reply_change *c)
{
    double before, after;
    char was[TUI_VALUE], is[TUI_VALUE];
    tui_short_value(c->old_value, was);
    tui_short_value(c->new_value, is);
    bst_sb_addf(out, "%s%s %s → %s", out->len ? "  " : "", tui_short_name(c->key), was, is);
    if (!strcmp(c->key, "global_batch_size") && bst_num_parse(c->old_value, &before) &&
        bst_num_parse(c->new_value, &after) && before > 0)
        bst_sb_addf(out, " (%+.0f %%)", (after / before - 1) * 100);
}

static void armed_text(const struct tui_model *m, struct bst_sb *out)
{
    const struct tui_armed *a = &m->armed;
    const struct bst_reply *r = &a->reply;
    char memory[2 * TUI_NUM];
    if (a->state == TUI_ARMED_ASKING) {
        bst_sb_addf(out, "%s …", a->text);
        return;
    }
    if (a->state == TUI_ARMED_REFUSED) {
        bst_sb_addf(out, "%s%srefused: %s", r->code, r->code[0] ? " " : "", r->text);
        return;
    }
    int n = tui_change_count(r);
    if (n > 3)
        bst_sb_addf(out, "%s: %d changes, %d kept", a->text, r->n_changes, r->n_kept);
    for (int i = 0; i < r->n_changes && n <= 3; i++)
        if (!tui_change_is_detail(r, i))
            add_change(out, &r->changes[i]);
    if (!r->n_changes)
        bst_sb_addf(out, "%s: %s", a->text, r->text[0] ? r->text : "changes nothing");
    if (r->memory_planned.valid) {
        tui_of_bytes(r->memory_planned, r->memory_limit, memory);
        bst_sb_addf(out, "  memory %s", memory);
    }
}

static const char *armed_keys(const struct tui_model *m)
{
    switch (m->armed.state) {
    case TUI_ARMED_PROPOSED:
        return "y apply  Esc drop";
    case TUI_ARMED_APPLYING:
        return "applying …";
    case TUI_ARMED_REFUSED:
        return "Esc";
    default:
        return "Esc drop";
    }
}

static void draw_armed(const struct tui_model *m, struct tui_area a)
{
    struct bst_sb text;
    char keys[64];
    enum tui_style style = m->armed.state == TUI_ARMED_REFUSED ? TUI_BAD : TUI_ARMED;
    bst_sb_init(&text, ARMED_ROOM);
    armed_text(m, &text);
    double left = tui_armed_left(m);
    snprintf(keys, sizeof keys, "%s", armed_keys(m));
    int free = a.w - tui_columns(a.f, text.data) - tui_columns(a.f, keys) - 2;
    if (left > 0 && left <= 5.5 && (free >= 5 || a.h > 1))
        snprintf(keys, sizeof keys, "%s  %.0f s", armed_keys(m), ceil(left));
    int n_keys = tui_columns(a.f, keys), last = a.h - 1;
    tui_area_fill(a, style == TUI_ARMED ? TUI_ARMED : TUI_NORMAL);
    if (a.h > 1) {
        tui_put_wrapped(a, 0, style, text.data);
    } else {
        int room = a.w - n_keys - 2;
        tui_put_cut(a, 0, 0, room < a.w / 3 ? a.w : room, style, text.data);
    }
    /* The keys stand whatever the text is; on the last row it gives way to them. */
    if (a.h > 1 || a.w - n_keys - 2 >= a.w / 3) {
        tui_area_fill(tui_area_sub(a, a.w - n_keys - 2, last, n_keys + 2, 1),
                      style == TUI_ARMED ? TUI_ARMED : TUI_NORMAL);
        tui_put_right(a, a.w, last, style, keys);
    }
    bst_sb_fini(&text);
}

int tui_footer_rows(const struct tui_model *m, const struct tui_frame *f)
{
    struct bst_sb text;
    if (m->armed.state == TUI_ARMED_NONE || m->prompt.mark)
        return 1;
    bst_sb_init(&text, ARMED_ROOM);
    armed_text(m, &text);
    int need = tui_columns(f, text.data) + 2 + tui_columns(f, armed_keys(m));
    bst_sb_fini(&text);
    return need > (f->w >= 40 ? f->w - 2 : f->w) ? 2 : 1;
}

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
    if (m->view.maximised && tui_panes[m->view.focus]->chart)
        return k->group == TUI_GROUP_CHART ||
               (k->group == TUI_GROUP_VIEW && !strcmp(k->name, "MAXIMISE"));
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
    static const char *const read[][2] = {
        {"Esc", "close"}, {"Up Down", "line"}, {"Space", "page"}, {"Home End", "first, last"}};
    static const char *const pick[][2] = {
        {"Esc", "close"}, {"Enter", "arm"}, {"Up Down", "select"}};
    static const char *const stop[][2] = {{"y", "stop"}, {"Esc", "cancel"}};
    if (m->view.overlay == TUI_OVERLAY_STOP)
        put_pairs(a, stop, 2);
    else if (m->view.overlay == TUI_OVERLAY_PRESETS)
        put_pairs(a, pick, 3);
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
    if (!m->has_status || s->phase != BST_PHASE_FAILED || !s->note[0])
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
        draw_armed(m, in);
    else if (m->message[0])
        tui_put_cut(in, 0, 0, in.w, m->message_style, m->message);
    else if (m->view.overlay != TUI_OVERLAY_NONE)
        draw_overlay_keys(m, in);
    else if (!draw_note(m, in))
        draw_keys(m, in);
}
