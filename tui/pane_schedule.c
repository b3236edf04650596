#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

/* In the units of the command, 1ep or 4000st: updates where the rate itself follows them. */
static bool counts_updates(const struct tui_model *m)
{
    const struct bst_status *s = &m->status;
    bool follows = !strcmp(s->lr_scheduler, "noam") || !strcmp(s->lr_scheduler, "inverse-sqrt");
    return s->global_batch > 0 && (follows || m->view.x == TUI_X_UPDATE);
}

struct curve {
    const struct tui_model *m;
    const double *samples, *rate;
    int first, n;
};

static void curve_point(void *arg, int i, double *x, double *y)
{
    const struct curve *c = arg;
    *x = tui_x_of(c->m, c->m->view.x, c->samples[c->first + i]);
    *y = c->rate[c->first + i];
}

/* Skips what is before `now`: the past is what happened, not what the rule in force would have
 * given. */
static struct curve curve_from(const struct tui_model *m, const double *samples, const double *rate,
                               int n)
{
    struct curve c = {m, samples, rate, 0, n};
    while (c.first + 1 < n && samples[c.first + 1] <= (double)m->status.samples)
        c.first++;
    c.n = n - c.first;
    return c;
}

static bool pending(const struct tui_model *m)
{
    return (m->armed.state == TUI_ARMED_PROPOSED || m->armed.state == TUI_ARMED_APPLYING) &&
           m->armed.reply.n_curve > 1;
}

static double end_of(const struct tui_model *m)
{
    const struct bst_status *s = &m->status;
    double end = (double)s->samples_total;
    if (s->n_curve > 0)
        end = fmax(end, s->curve_samples[s->n_curve - 1]);
    if (pending(m))
        end = fmax(end, m->armed.reply.curve_samples[m->armed.reply.n_curve - 1]);
    return fmax(end, (double)s->samples);
}

/* Past and window are those of the other charts, at their scale; what lies ahead has its own,
 * behind a double line. Alone on the screen, and before there is a past, it is the whole run at
 * one. */
static void make_chart(struct tui_chart *c, const struct tui_model *m, struct tui_window *w)
{
    tui_chart_over(c, m, w, TUI_PANE_SCHEDULE);
    double end = tui_x_of(m, m->view.x, end_of(m));
    c->x2 = isfinite(end) ? end : 0;
    c->ahead = true;
    if (m->n_updates && !(m->view.maximised && m->view.span <= 0))
        return;
    c->x0 = m->view.x == TUI_X_UPDATE && m->n_updates ? 1 : 0;
    c->x1 = c->x2 > c->x0 ? c->x2 : c->x1;
    c->ahead = false;
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    const struct bst_reply *r = &m->armed.reply;
    struct curve future = curve_from(m, s->curve_samples, s->curve_rate, s->n_curve);
    struct curve other = curve_from(m, r->curve_samples, r->curve_rate, r->n_curve);
    struct tui_window w;
    struct tui_updates past;
    struct tui_chart c;
    enum tui_x kind = m->view.x;
    make_chart(&c, m, &w);
    c.from_zero = true;
    c.empty = "no schedule known yet";
    c.series[c.n_series] = tui_series_updates(&past, m, &w, TUI_FIELD_RATE, TUI_RATE);
    past.keep = 0; /* a rate is what it was */
    c.n_series++;
    c.series[c.n_series++] = (struct tui_series){
        curve_point, &future, future.n, pending(m) ? TUI_DIM : TUI_RATE, 1, 0, false};
    if (pending(m))
        c.series[c.n_series++] =
            (struct tui_series){curve_point, &other, other.n, TUI_PENDING, 2, 0, false};
    if (s->warmup_samples)
        c.upright[c.n_uprights++] =
            (struct tui_chart_line){tui_x_of(m, kind, (double)s->warmup_samples), TUI_DIM, L'┊', 1};
    c.upright[c.n_uprights++] =
        (struct tui_chart_line){tui_x_of(m, kind, (double)s->samples), TUI_STRONG, L'│', 1};
    tui_chart_draw(&c, a);
}

static void title(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[TUI_NUM];
    tui_metric(s->learning_rate, 3, text);
    int x = tui_title_item(a, 0, TUI_RATE, "rate", text);
    if (pending(m))
        x = tui_title_item(a, x, TUI_PENDING, "", "pending dotted");
    x = tui_title_item(a, x, TUI_NORMAL, s->lr_scheduler, "");
    if (s->warmup_samples && s->samples_per_epoch > 0) {
        char length[TUI_NUM + 4];
        bool updates = counts_updates(m);
        double warmup =
            tui_x_of(m, updates ? TUI_X_UPDATE : TUI_X_EPOCH, (double)s->warmup_samples);
        if (updates)
            tui_count(ceil(warmup), text);
        else
            snprintf(text, sizeof text, "%.3g", warmup);
        snprintf(length, sizeof length, "%s %s", text, updates ? "st" : "ep");
        x = tui_title_item(a, x, TUI_NORMAL,
                           s->samples < s->warmup_samples ? "warming up" : "┊ warm-up", length);
    }
    struct tui_window w;
    struct tui_chart c;
    make_chart(&c, m, &w);
    if (tui_chart_breaks(&c))
        tui_title_item(a, x, TUI_DIM, "║ ahead", "");
}

static void csv(const struct tui_model *m, struct bst_sb *out)
{
    const struct bst_status *s = &m->status;
    bst_sb_add(out, "samples,learning_rate,kind\n");
    for (int i = 0; i < m->n_updates; i++) {
        char a[32], b[32];
        bst_num_text(m->history->updates[i].samples, a);
        bst_num_text(m->history->updates[i].learning_rate, b);
        bst_sb_addf(out, "%s,%s,past\n", a, b);
    }
    for (int i = 0; i < s->n_curve; i++) {
        char a[32], b[32];
        bst_num_text(s->curve_samples[i], a);
        bst_num_text(s->curve_rate[i], b);
        bst_sb_addf(out, "%s,%s,schedule\n", a, b);
    }
}

const struct tui_pane tui_pane_schedule = {
    .name = "schedule",
    .chart = true,
    .title = title,
    .draw = draw,
    .csv = csv,
};
