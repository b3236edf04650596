#include <math.h>
#include <stdio.h>

#include "core/base/json.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

/* Points of a curve in epochs; without a data set's size, in samples. */
struct curve {
    const double *samples, *rate;
    int first, n;
    double per_epoch;
};

static void curve_point(void *arg, int i, double *x, double *y)
{
    const struct curve *c = arg;
    *x = c->samples[c->first + i] / c->per_epoch;
    *y = c->rate[c->first + i];
}

struct past {
    const struct tui_model *m;
    double per_epoch;
};

static void past_point(void *arg, int i, double *x, double *y)
{
    const struct past *p = arg;
    *x = p->m->history->updates[i].samples / p->per_epoch;
    *y = p->m->history->updates[i].learning_rate;
}

/* Skips what is before `now`: the past is what happened, not what the rule in force would have
 * given. */
static struct curve curve_from(const double *samples, const double *rate, int n, double now,
                               double per_epoch)
{
    struct curve c = {samples, rate, 0, n, per_epoch};
    while (c.first + 1 < n && samples[c.first + 1] <= now)
        c.first++;
    c.n = n - c.first;
    return c;
}

static double per_epoch(const struct tui_model *m)
{
    return m->status.samples_per_epoch > 0 ? (double)m->status.samples_per_epoch : 1;
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

static void draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    const struct bst_reply *r = &m->armed.reply;
    double per = per_epoch(m), now = (double)s->samples;
    struct past past = {m, per};
    struct curve future = curve_from(s->curve_samples, s->curve_rate, s->n_curve, now, per);
    struct curve other = curve_from(r->curve_samples, r->curve_rate, r->n_curve, now, per);
    struct tui_chart c = {.x1 = end_of(m) / per,
                          .x_name = per > 1 ? "epoch" : "samples",
                          .log = m->view.log & 1u << TUI_PANE_SCHEDULE,
                          .from_zero = true,
                          .empty = "no schedule known yet"};
    c.series[c.n_series++] =
        (struct tui_series){past_point, &past, m->n_updates, TUI_RATE, 1, 0, false};
    c.series[c.n_series++] = (struct tui_series){
        curve_point, &future, future.n, pending(m) ? TUI_DIM : TUI_RATE, 1, 0, false};
    if (pending(m))
        c.series[c.n_series++] =
            (struct tui_series){curve_point, &other, other.n, TUI_PENDING, 2, 0, false};
    if (s->warmup_samples)
        c.upright[c.n_uprights++] =
            (struct tui_chart_line){(double)s->warmup_samples / per, TUI_DIM, L'┊', 1};
    c.upright[c.n_uprights++] = (struct tui_chart_line){now / per, TUI_STRONG, L'│', 1};
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
        tui_num((double)s->warmup_samples / (double)s->samples_per_epoch, 2, text);
        snprintf(length, sizeof length, "%s ep", text);
        tui_title_item(a, x, TUI_NORMAL,
                       s->samples < s->warmup_samples ? "warming up" : "┊ warm-up", length);
    }
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
