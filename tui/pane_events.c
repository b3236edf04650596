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

/* Where a row's text starts, and who caused it at its end. What does not go into one row goes on
 * below from column `hang` on. */
struct row {
    char text[TUI_TEXT], clock[16], update[32];
    int x, source, rows, hang;
};

/* The text's first row ends with r->text[n]. */
static size_t first_bytes(const struct tui_area *a, const struct row *r)
{
    size_t n = tui_row_bytes(a->f, a->w - r->x - r->source, r->text);
    return n ? n : strlen(r->text);
}

static int count_rows(struct tui_area a, const struct row *r)
{
    int last;
    const char *rest = r->text + first_bytes(&a, r);
    return 1 + tui_rows(a.f, a.w - r->hang, rest + strspn(rest, " "), &last);
}

/* In `most` rows; 0: in as many as it takes. */
static void make_row(const struct tui_model *m, const struct bst_history_event *e,
                     struct tui_area a, int most, struct row *r)
{
    int digits = snprintf(NULL, 0, "%llu", (unsigned long long)m->status.update);
    wall_time(e->wall, r->clock);
    snprintf(r->update, sizeof r->update, "update %-*llu  ", digits, (unsigned long long)e->update);
    r->x = 2 + (a.w >= 60 ? 9 : 0) + (a.w >= 50 ? (int)strlen(r->update) : 0);
    r->source = e->source[0] && a.w >= 60 ? tui_columns(a.f, e->source) + 2 : 0;
    tui_coded(e->code, e->text, r->text);
    if (!m->view.maximised)
        without_split(r->text);
    /* The text's end tells more than who caused it. */
    int n = tui_columns(a.f, r->text), room = a.w - r->x;
    if (!m->view.maximised && n <= room && n > room - r->source)
        r->source = 0;
    /* Alone on the screen there is room to stay behind the clock. */
    r->hang = m->view.maximised ? r->x : 2;
    r->rows = most == 1 ? 1 : count_rows(a, r);
    if (most && r->rows > most)
        r->rows = most;
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
    if (r->rows == 1) {
        used = tui_put_cut(a, r->x, y, room, TUI_NORMAL, r->text);
    } else {
        size_t n = first_bytes(&a, r);
        char first[TUI_TEXT];
        const char *rest = r->text + n + strspn(r->text + n, " ");
        snprintf(first, sizeof first, "%.*s", (int)n, r->text);
        tui_put(a, r->x, y, TUI_NORMAL, first);
        tui_put_wrapped(tui_area_sub(a, r->hang, y + 1, a.w - r->hang, r->rows - 1), 0, TUI_NORMAL,
                        rest);
    }
    if (r->source)
        tui_put(a, r->x + used + 2, y, TUI_DIM, e->source);
}

/* The events that fit when the newest `skip` are left out: newest first; false when the oldest is
 * not among them. What stands at the end of a text, and that is often the remedy, is seen of the
 * newest one at least: it may take all rows. */
struct fit {
    int event[TUI_MAX_H], n, rows;
};

static int most_rows(const struct tui_model *m, struct tui_area a, int nth)
{
    return m->view.maximised ? 0 : nth ? 1 : a.h;
}

static bool find_fit(const struct tui_model *m, struct tui_area a, int skip, struct fit *f)
{
    struct row r;
    f->n = f->rows = 0;
    for (int i = m->n_events - 1; i >= 0; i--) {
        if (!tui_event_hits(m, &m->history->events[i]) || skip-- > 0)
            continue;
        make_row(m, &m->history->events[i], a, most_rows(m, a, f->n), &r);
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
        make_row(m, &m->history->events[fit.event[i]], a, most_rows(m, a, i), &r);
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
