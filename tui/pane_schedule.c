#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

/* What samples are counted in along the axis: epochs, or updates where the rate itself follows
 * them or the view does; without a data set's size, nothing else. */
struct ruler {
    const struct tui_model *m;
    bool updates;
    double per_epoch;
};

static struct ruler ruler_of(const struct tui_model *m)
{
    const struct bst_status *s = &m->status;
    bool follows = !strcmp(s->lr_scheduler, "noam") || !strcmp(s->lr_scheduler, "inverse-sqrt");
    return (struct ruler){m, s->global_batch > 0 && (follows || m->view.x == TUI_X_UPDATE),
                          s->samples_per_epoch > 0 ? (double)s->samples_per_epoch : 1};
}

/* Updates made when so many samples had been seen; of the future, at the batch in force. */
static double updates_at(const struct tui_model *m, double samples)
{
    const struct bst_status *s = &m->status;
    const struct bst_history_update *u = m->history->updates;
    int low = 0, high = m->n_updates;
    if (samples >= (double)s->samples || !high)
        return (double)s->update + (samples - (double)s->samples) / (double)s->global_batch;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (u[mid].samples < samples)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->n_updates ? (double)u[low].update : (double)s->update;
}

static double measure(const struct ruler *r, double samples)
{
    return r->updates ? updates_at(r->m, samples) : samples / r->per_epoch;
}

struct curve {
    const double *samples, *rate;
    int first, n;
    const struct ruler *ruler;
};

static void curve_point(void *arg, int i, double *x, double *y)
{
    const struct curve *c = arg;
    *x = measure(c->ruler, c->samples[c->first + i]);
    *y = c->rate[c->first + i];
}

static void past_point(void *arg, int i, double *x, double *y)
{
    const struct ruler *r = arg;
    const struct bst_history_update *u = &r->m->history->updates[i];
    *x = r->updates ? (double)u->update : u->samples / r->per_epoch;
    *y = u->learning_rate;
}

/* Skips what is before `now`: the past is what happened, not what the rule in force would have
 * given. */
static struct curve curve_from(const double *samples, const double *rate, int n, double now,
                               const struct ruler *ruler)
{
    struct curve c = {samples, rate, 0, n, ruler};
    while (c.first + 1 < n && samples[c.first + 1] <= now)
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

static void draw(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    const struct bst_reply *r = &m->armed.reply;
    double now = (double)s->samples;
    struct ruler ruler = ruler_of(m);
    struct curve future = curve_from(s->curve_samples, s->curve_rate, s->n_curve, now, &ruler);
    struct curve other = curve_from(r->curve_samples, r->curve_rate, r->n_curve, now, &ruler);
    struct tui_chart c = {.x1 = measure(&ruler, end_of(m)),
                          .x_unit = ruler.updates ? TUI_AXIS_COUNT : TUI_AXIS_NUMBER,
                          .x_name = ruler.updates         ? "update"
                                    : ruler.per_epoch > 1 ? "epoch"
                                                          : "samples",
                          .log = m->view.log & 1u << TUI_PANE_SCHEDULE,
                          .from_zero = true,
                          .empty = "no schedule known yet"};
    c.series[c.n_series++] =
        (struct tui_series){past_point, &ruler, m->n_updates, TUI_RATE, 1, 0, false};
    c.series[c.n_series++] = (struct tui_series){
        curve_point, &future, future.n, pending(m) ? TUI_DIM : TUI_RATE, 1, 0, false};
    if (pending(m))
        c.series[c.n_series++] =
            (struct tui_series){curve_point, &other, other.n, TUI_PENDING, 2, 0, false};
    if (s->warmup_samples)
        c.upright[c.n_uprights++] =
            (struct tui_chart_line){measure(&ruler, (double)s->warmup_samples), TUI_DIM, L'┊', 1};
    c.upright[c.n_uprights++] = (struct tui_chart_line){measure(&ruler, now), TUI_STRONG, L'│', 1};
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
        struct ruler ruler = ruler_of(m);
        double warmup = measure(&ruler, (double)s->warmup_samples);
        /* In the units of the command: 1ep, 4000st. */
        if (ruler.updates)
            tui_count(ceil(warmup), text);
        else
            tui_num(warmup, 2, text);
        snprintf(length, sizeof length, "%s %s", text, ruler.updates ? "st" : "ep");
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
