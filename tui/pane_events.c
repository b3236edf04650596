#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tui/format.h"
#include "tui/pane.h"

static bool hits(const struct tui_model *m, const struct bst_history_event *e)
{
    return tui_filter_hits(m, e->text) || (e->code[0] && tui_filter_hits(m, e->code));
}

static int lines(const struct tui_model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_events; i++)
        n += hits(m, &m->history->events[i]);
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

static void draw_event(const struct tui_model *m, const struct bst_history_event *e,
                       struct tui_area a, int y)
{
    char clock[16];
    (void)m;
    wall_time(e->wall, clock);
    int x = 0;
    tui_cell_put(a, x, y,
                 e->refused   ? TUI_BAD
                 : e->code[0] ? TUI_WARN
                              : TUI_GOOD,
                 e->refused   ? L'!'
                 : e->code[0] ? L'▲'
                              : L'●');
    x += 2;
    if (a.w >= 60)
        x += tui_putf(a, x, y, TUI_DIM, "%s ", clock);
    if (a.w >= 50)
        x += tui_putf(a, x, y, TUI_DIM, "update %-6llu ", (unsigned long long)e->update);
    if (e->code[0])
        x += tui_putf(a, x, y, e->refused ? TUI_BAD : TUI_WARN, "%s ", e->code);
    int source = e->source[0] && a.w >= 60 ? tui_columns(a.f, e->source) + 2 : 0;
    int used = tui_put_cut(a, x, y, a.w - x - source, TUI_NORMAL, e->text);
    if (source)
        tui_put(a, x + used + 2, y, TUI_DIM, e->source);
}

/* The newest at the bottom, as in a log. */
static void draw(const struct tui_model *m, struct tui_area a)
{
    int n = lines(m), skip = m->view.scroll[TUI_PANE_EVENTS];
    skip = skip > n - a.h ? n - a.h : skip;
    skip = skip < 0 ? 0 : skip;
    if (!n) {
        tui_put_cut(a, 0, 0, a.w, TUI_DIM,
                    m->view.filter[0] ? "no event has this text" : "nothing has been changed yet");
        return;
    }
    int y = (n < a.h ? n : a.h) - 1;
    for (int i = m->n_events - 1; i >= 0 && y >= 0; i--) {
        const struct bst_history_event *e = &m->history->events[i];
        if (!hits(m, e))
            continue;
        if (skip-- > 0)
            continue;
        draw_event(m, e, a, y--);
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
