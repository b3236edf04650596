#include "tui/series.h"

#include <math.h>
#include <string.h>

/* Index of the first update with at least that many samples; n_updates when there is none. */
static int update_at(const struct tui_model *m, double samples)
{
    int lo = 0, hi = m->n_updates;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (m->history->updates[mid].samples < samples)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int eval_at(const struct tui_model *m, double samples)
{
    int i = 0;
    while (i < m->n_evals && m->history->evals[i].samples < samples)
        i++;
    return i;
}

static double update_value(const struct bst_history_update *u, enum tui_field field)
{
    switch (field) {
    case TUI_FIELD_LOSS:
        return u->loss;
    case TUI_FIELD_SPEED:
        return u->samples_per_sec;
    case TUI_FIELD_NORM:
        return u->grad_norm;
    case TUI_FIELD_RATE:
        return u->learning_rate;
    }
    return NAN;
}

static double x_in(const struct tui_model *m, enum tui_x kind, int i)
{
    const struct bst_history_update *u = &m->history->updates[i];
    switch (kind) {
    case TUI_X_UPDATE:
        return (double)u->update;
    case TUI_X_TIME:
        return u->seconds;
    default:
        return u->epoch;
    }
}

static double update_x(const struct tui_model *m, int i)
{
    return x_in(m, m->view.x, i);
}

double tui_x_of(const struct tui_model *m, enum tui_x kind, double samples)
{
    const struct bst_status *s = &m->status;
    double ahead = samples - (double)s->samples;
    if (kind == TUI_X_EPOCH)
        return samples / (s->samples_per_epoch > 0 ? (double)s->samples_per_epoch : 1);
    if (ahead < 0 && m->n_updates) {
        int at = update_at(m, samples);
        return x_in(m, kind, at < m->n_updates ? at : m->n_updates - 1);
    }
    if (kind == TUI_X_UPDATE)
        return (double)s->update + (s->global_batch > 0 ? ahead / (double)s->global_batch : 0);
    if (!s->samples_per_sec.valid || !(s->samples_per_sec.value > 0))
        return NAN;
    return (m->n_updates ? m->history->updates[m->n_updates - 1].seconds : 0) +
           ahead / s->samples_per_sec.value;
}

void tui_window_samples(const struct tui_model *m, double *from, double *to)
{
    double first = m->n_updates ? m->history->updates[0].samples : 0;
    double last = m->n_updates ? m->history->updates[m->n_updates - 1].samples : 0;
    *to = m->view.end > 0 && m->view.end < last ? m->view.end : last;
    *from = m->view.span > 0 && *to - m->view.span > first ? *to - m->view.span : first;
    /* At the run's start a window keeps its width and shows what there is. */
    if (m->view.span > 0 && *to < first + m->view.span)
        *to = fmin(last, first + m->view.span);
}

/* What the run gets through in twenty seconds: a young run is drawn into that much room, so that
 * its chart does not shrink with every update. 0 when its speed is not known. */
static double least_width(const struct tui_model *m, enum tui_axis_unit unit)
{
    const struct bst_status *s = &m->status;
    const double seconds = 20;
    double samples = s->samples_per_sec.valid ? s->samples_per_sec.value * seconds : 0;
    double width = seconds;
    if (s->samples_total)
        samples = fmin(samples, (double)s->samples_total);
    if (m->view.x == TUI_X_EPOCH)
        width = s->samples_per_epoch > 0 ? samples / (double)s->samples_per_epoch : 0;
    else if (m->view.x == TUI_X_UPDATE)
        width = s->global_batch > 0 ? samples / (double)s->global_batch : 0;
    return width > 0 ? tui_axis_step(width, unit) : 0;
}

/* A window that follows the run moves in steps, not with every update: only what is new is drawn.
 */
static void stand_still(const struct tui_model *m, struct tui_window *w)
{
    bool running = m->link_state == TUI_LINK_LIVE && m->view.span <= 0;
    double width = fmax(w->x1 - w->x0, running ? least_width(m, w->x_unit) : 0);
    if (!(width > 0))
        return;
    double step = tui_axis_step(width / 12, w->x_unit);
    w->x1 = ceil((w->x0 + width) / step) * step;
    if (!w->first)
        return;
    w->x0 = floor(w->x0 / step) * step;
    while (w->first > 0 && update_x(m, w->first - 1) >= w->x0) {
        w->first--;
        w->n++;
    }
    w->first_eval = eval_at(m, m->history->updates[w->first].samples);
    w->n_evals = m->n_evals - w->first_eval;
}

void tui_window_make(const struct tui_model *m, struct tui_window *w)
{
    static const char *const names[] = {"epoch", "update", ""};
    static const enum tui_axis_unit units[] = {TUI_AXIS_NUMBER, TUI_AXIS_COUNT, TUI_AXIS_TIME};
    double from, to;
    memset(w, 0, sizeof *w);
    w->x_name = names[m->view.x];
    w->x_unit = units[m->view.x];
    w->x1 = 1;
    tui_window_samples(m, &from, &to);
    w->first = update_at(m, from);
    w->n = update_at(m, to + 0.5) - w->first;
    w->first_eval = eval_at(m, from);
    w->n_evals = eval_at(m, to + 0.5) - w->first_eval;
    if (!w->n)
        return;
    w->x0 = update_x(m, w->first);
    w->x1 = update_x(m, w->first + w->n - 1);
    /* The run's first update ends after its samples; the axis starts where the run did. */
    if (!w->first && w->n > 1 && m->view.x != TUI_X_UPDATE)
        w->x0 = fmin(w->x0, 0);
    if (m->view.end <= 0)
        stand_still(m, w);
}

int tui_smooth_span(const struct tui_model *m, const struct tui_window *w)
{
    /* A round number, so that the past is not smoothed anew with every update. */
    return m->view.smooth && w->n >= 100 ? (int)tui_axis_step(w->n / 100.0, TUI_AXIS_COUNT) : 1;
}

/* Starts with points from before the window, so that scrolling does not bend the curve's start. */
static void warm(struct tui_updates *u)
{
    int back = u->keep > 0 ? (int)(5 / (1 - u->keep)) : 0;
    int i = u->win.first > back ? u->win.first - back : 0;
    u->mean = u->weight = 0;
    for (; u->keep > 0 && i < u->win.first; i++) {
        double v = update_value(&u->m->history->updates[i], u->field);
        if (isfinite(v)) {
            u->mean = u->keep * u->mean + (1 - u->keep) * v;
            u->weight = u->keep * u->weight + (1 - u->keep);
        }
    }
}

static void update_point(void *arg, int i, double *x, double *y)
{
    struct tui_updates *u = arg;
    if (i == 0)
        warm(u);
    *x = update_x(u->m, u->win.first + i);
    *y = update_value(&u->m->history->updates[u->win.first + i], u->field);
    if (u->keep > 0 && isfinite(*y)) {
        u->mean = u->keep * u->mean + (1 - u->keep) * *y;
        u->weight = u->keep * u->weight + (1 - u->keep);
        *y = u->mean / u->weight;
    }
}

struct tui_series tui_series_updates(struct tui_updates *u, const struct tui_model *m,
                                     const struct tui_window *w, enum tui_field field,
                                     enum tui_style style)
{
    int span = tui_smooth_span(m, w);
    *u = (struct tui_updates){
        .m = m, .win = *w, .field = field, .keep = span > 1 ? 1 - 2.0 / (span + 1) : 0};
    return (struct tui_series){.at = update_point,
                               .arg = u,
                               .n = w->n,
                               .style = style,
                               .every = 1,
                               .show_gaps = field == TUI_FIELD_LOSS || field == TUI_FIELD_NORM};
}

static void eval_point(void *arg, int i, double *x, double *y)
{
    struct tui_evals *e = arg;
    const struct bst_history_eval *v = &e->m->history->evals[e->win.first_eval + i];
    int at = update_at(e->m, v->samples);
    if (at == e->m->n_updates)
        at--;
    *x = at >= 0 ? update_x(e->m, at) : 0;
    *y = v->loss;
}

struct tui_series tui_series_evals(struct tui_evals *e, const struct tui_model *m,
                                   const struct tui_window *w, enum tui_style style)
{
    *e = (struct tui_evals){.m = m, .win = *w};
    return (struct tui_series){
        .at = eval_point, .arg = e, .n = w->n_evals, .style = style, .mark = L'◆'};
}

static void noise_point(void *arg, int i, double *x, double *y)
{
    struct tui_noise *n = arg;
    const struct bst_history_noise *v = &n->m->history->noise[n->first + i];
    int at = update_at(n->m, v->samples);
    if (at == n->m->n_updates)
        at--;
    *x = at >= 0 ? update_x(n->m, at) : 0;
    *y = n->field == TUI_NOISE_SCALE ? v->scale : n->field == TUI_NOISE_LOW ? v->low : v->high;
}

struct tui_series tui_series_noise(struct tui_noise *v, const struct tui_model *m,
                                   const struct tui_window *w, enum tui_noise_field field,
                                   enum tui_style style)
{
    const struct bst_history_noise *list = m->history->noise;
    double from = w->n ? m->history->updates[w->first].samples : 0;
    double to = w->n ? m->history->updates[w->first + w->n - 1].samples : 0;
    int first = 0, n = 0;
    while (first < m->n_noise && list[first].samples < from)
        first++;
    while (first + n < m->n_noise && list[first + n].samples <= to)
        n++;
    *v = (struct tui_noise){m, first, field};
    return (struct tui_series){.at = noise_point,
                               .arg = v,
                               .n = n,
                               .style = style,
                               .every = field == TUI_NOISE_SCALE ? 1 : 3};
}

/* Where the event that is looked at took effect. */
static void mark_event(struct tui_chart *c, const struct tui_model *m)
{
    if (!m->view.event || m->view.event > m->n_events || !m->n_updates)
        return;
    int at = update_at(m, m->history->events[m->view.event - 1].samples);
    at = at < m->n_updates ? at : m->n_updates - 1;
    c->upright[c->n_uprights++] = (struct tui_chart_line){update_x(m, at), TUI_PENDING, L'┊', 1};
}

void tui_chart_over(struct tui_chart *c, const struct tui_model *m, struct tui_window *w, int pane)
{
    tui_window_make(m, w);
    memset(c, 0, sizeof *c);
    c->x0 = w->x0;
    c->x1 = w->x1;
    c->x_unit = w->x_unit;
    c->x_name = w->x_name;
    c->log = m->view.log & 1u << pane;
    mark_event(c, m);
    bool over = m->has_status && bst_phase_is_over(m->status.phase);
    c->empty = m->n_updates ? "nothing finite in this window"
               : over       ? "no update is recorded"
                            : "waiting for the first update";
}
