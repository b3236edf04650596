#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tui/format.h"
#include "tui/pane.h"

static int lines(const struct tui_model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_events; i++)
        n += tui_event_hits(m, &m->history->events[i]);
    return n;
}

static void wall_time(double wall, char out[16])
{
    struct tm tm;
    time_t t = (time_t)wall;
    out[0] = '\0';
    if (isfinite(wall) && wall > 0 && localtime_r(&t, &tm))
        strftime(out, 16, "%H:%M:%S", &tm);
    else
        snprintf(out, 16, "%8s", "n/a");
}

static wchar_t mark_of(const struct bst_history_event *e, enum tui_style *style)
{
    /* A change may be remarked on behind its values. */
    bool remark = e->code[0] || strstr(e->text, "BST-");
    *style = e->refused ? TUI_BAD : remark ? TUI_WARN : TUI_GOOD;
    return e->refused ? L'!' : remark ? L'▲' : L'●';
}

/* In a single row the split gives way to what was asked for: it follows from it. */
static void without_split(char *text)
{
    char *from = strstr(text, ", micro-batch ");
    size_t n = from ? 2 + strcspn(from + 2, ",;") : 0;
    if (from)
        memmove(from, from + n, strlen(from + n) + 1);
}

/* Where a row's text starts, and who caused it at its end. */
struct row {
    char text[TUI_TEXT], clock[16], update[32];
    int x, source, rows;
};

static void make_row(const struct tui_model *m, const struct bst_history_event *e,
                     struct tui_area a, struct row *r)
{
    int last, digits = snprintf(NULL, 0, "%llu", (unsigned long long)m->status.update);
    wall_time(e->wall, r->clock);
    snprintf(r->update, sizeof r->update, "update %-*llu  ", digits, (unsigned long long)e->update);
    r->x = 2 + (a.w >= 60 ? 9 : 0) + (a.w >= 50 ? (int)strlen(r->update) : 0);
    r->source = e->source[0] && a.w >= 60 ? tui_columns(a.f, e->source) + 2 : 0;
    tui_coded(e->code, e->text, r->text);
    if (!m->view.maximised)
        without_split(r->text);
    /* Alone on the screen the pane has room for all of it. */
    r->rows = m->view.maximised ? tui_rows(a.f, a.w - r->x - r->source, r->text, &last) : 1;
    r->rows = r->rows < 1 ? 1 : r->rows;
}

static void draw_row(const struct bst_history_event *e, const struct row *r, struct tui_area a,
                     int y)
{
    enum tui_style style;
    wchar_t mark = mark_of(e, &style);
    int room = a.w - r->x - r->source, used = room;
    tui_cell_put(a, 0, y, style, mark);
    if (a.w >= 60)
        tui_putf(a, 2, y, TUI_DIM, "%s ", r->clock);
    if (a.w >= 50)
        tui_put(a, a.w >= 60 ? 11 : 2, y, TUI_DIM, r->update);
    if (r->rows == 1)
        used = tui_put_cut(a, r->x, y, room, TUI_NORMAL, r->text);
    else
        tui_put_wrapped(tui_area_sub(a, r->x, y, room, r->rows), 0, TUI_NORMAL, r->text);
    if (r->source)
        tui_put(a, r->x + used + 2, y, TUI_DIM, e->source);
}

/* The events that fit when the newest `skip` are left out: newest first; false when the oldest is
 * not among them. */
struct fit {
    int event[TUI_MAX_H], n, rows;
};

static bool find_fit(const struct tui_model *m, struct tui_area a, int skip, struct fit *f)
{
    struct row r;
    f->n = f->rows = 0;
    for (int i = m->n_events - 1; i >= 0; i--) {
        if (!tui_event_hits(m, &m->history->events[i]) || skip-- > 0)
            continue;
        make_row(m, &m->history->events[i], a, &r);
        if (f->n && f->rows + r.rows > a.h)
            return false;
        f->event[f->n++] = i;
        f->rows += r.rows;
    }
    return true;
}

/* The newest at the bottom, as in a log. */
static void draw(const struct tui_model *m, struct tui_area a)
{
    int n = lines(m), skip = m->view.scroll[TUI_PANE_EVENTS];
    struct fit fit, more;
    struct row r;
    if (!n) {
        tui_put_cut(a, 0, 0, a.w, TUI_DIM,
                    m->view.filter[0] ? "no event has this text" : "nothing has been changed yet");
        return;
    }
    skip = skip > n - 1 ? n - 1 : skip;
    bool oldest = find_fit(m, a, skip, &fit);
    /* No room is left free below the newest that is shown while there are newer ones. */
    while (oldest && skip > 0 && find_fit(m, a, --skip, &more))
        fit = more;
    for (int i = fit.n - 1, y = 0; i >= 0; y += r.rows, i--) {
        make_row(m, &m->history->events[fit.event[i]], a, &r);
        draw_row(&m->history->events[fit.event[i]], &r, a, y);
        if (m->view.event == fit.event[i] + 1)
            tui_cell_put(a, 1, y, TUI_FOCUS, L'▸');
    }
}

static void title(const struct tui_model *m, struct tui_area a)
{
    char text[TUI_NUM];
    snprintf(text, sizeof text, "%d", m->n_events);
    int x = m->n_events ? tui_title_item(a, 0, TUI_NORMAL, "", text) : 0;
    if (m->view.filter[0])
        x = tui_title_item(a, x, TUI_PENDING, "/", m->view.filter);
    if (m->view.scroll[TUI_PANE_EVENTS])
        x = tui_title_item(a, x, TUI_PENDING, "scrolled, End for the newest", "");
    (void)x;
}

static void csv_text(struct bst_sb *out, const char *s)
{
    bst_sb_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            bst_sb_addc(out, '"');
        bst_sb_addc(out, *s);
    }
    bst_sb_addc(out, '"');
}

static void csv(const struct tui_model *m, struct bst_sb *out)
{
    bst_sb_add(out, "seq,update,samples,code,source,refused,text\n");
    for (int i = 0; i < m->n_events; i++) {
        const struct bst_history_event *e = &m->history->events[i];
        bst_sb_addf(out, "%llu,%llu,%.0f,%s,", (unsigned long long)e->seq,
                    (unsigned long long)e->update, e->samples, e->code);
        csv_text(out, e->source);
        bst_sb_addf(out, ",%d,", e->refused);
        csv_text(out, e->text);
        bst_sb_addc(out, '\n');
    }
}

const struct tui_pane tui_pane_events = {
    .name = "events",
    .title = title,
    .draw = draw,
    .lines = lines,
    .csv = csv,
};
