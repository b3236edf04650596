#include "tui/actions.h"

#include <math.h>
#include <string.h>

#include "tui/pane.h"
#include "tui/series.h"

static void say_key(struct tui_model *m, const char *what, enum tui_request req, const char *does)
{
    char key[16];
    tui_key_first(req, key, sizeof key);
    if (key[0])
        tui_say(m, TUI_DIM, "%s; %s %s", what, key, does);
    else
        tui_say(m, TUI_DIM, "%s", what);
}

static void keep_focus(struct tui_view *v)
{
    for (int i = 0; i < TUI_N_PANES && !(v->shown & 1u << v->focus); i++)
        v->focus = (v->focus + 1) % TUI_N_PANES;
}

unsigned tui_do_toggle_pane(struct tui_app *app, int arg)
{
    struct tui_view *v = &app->model.view;
    unsigned bit = 1u << arg;
    /* Where a pane is hidden for want of room, its number brings it. */
    bool seen = app->model.layout.pane[arg].w > 0;
    if (v->maximised || (!seen && v->shown & bit)) {
        v->focus = arg;
        v->shown |= bit;
        return TUI_DO_DRAW;
    }
    if (v->shown == bit)
        say_key(&app->model, "the last pane stays", TUI_REQ_PANE_RESET, "shows all");
    else
        v->shown ^= bit;
    if (v->shown & bit)
        v->focus = arg;
    keep_focus(v);
    return TUI_DO_DRAW;
}

unsigned tui_do_reset_panes(struct tui_app *app, int arg)
{
    struct tui_view *v = &app->model.view;
    (void)arg;
    v->shown = TUI_PANES_SHOWN;
    v->maximised = v->layers = false;
    v->focus = TUI_PANE_LOSS;
    v->span = v->end = 0;
    memset(v->scroll, 0, sizeof v->scroll);
    return TUI_DO_DRAW;
}

unsigned tui_do_move_focus(struct tui_app *app, int arg)
{
    struct tui_view *v = &app->model.view;
    for (int i = 0; i < TUI_N_PANES; i++) {
        v->focus = (v->focus + arg + TUI_N_PANES) % TUI_N_PANES;
        if (v->shown & 1u << v->focus)
            break;
    }
    return TUI_DO_DRAW;
}

unsigned tui_do_maximise(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.maximised = !app->model.view.maximised;
    return TUI_DO_DRAW;
}

unsigned tui_do_freeze(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.frozen = !app->model.view.frozen;
    tui_model_follow(&app->model, app->link);
    return TUI_DO_DRAW;
}

unsigned tui_do_toggle_layers(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.layers = !app->model.view.layers;
    app->model.view.focus = TUI_PANE_GRADIENT;
    app->model.view.shown |= 1u << TUI_PANE_GRADIENT;
    return TUI_DO_DRAW | TUI_DO_REFRESH;
}

static void run_ends(const struct tui_model *m, double *first, double *last)
{
    *first = m->n_updates ? m->history->updates[0].samples : 0;
    *last = m->n_updates ? m->history->updates[m->n_updates - 1].samples : 0;
}

unsigned tui_do_scroll_time(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    double first, last, from, to;
    run_ends(m, &first, &last);
    if (m->view.span <= 0) {
        say_key(m, "the whole run is in view", TUI_REQ_ZOOM_IN, "zooms in");
        return TUI_DO_DRAW;
    }
    tui_window_samples(m, &from, &to);
    to += arg * m->view.span / 4;
    to = fmax(to, first + m->view.span);
    m->view.end = to >= last ? 0 : to;
    return TUI_DO_DRAW;
}

unsigned tui_do_to_end(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    double first, last;
    run_ends(m, &first, &last);
    m->view.end = arg > 0 || m->view.span <= 0 ? 0 : fmin(last, first + m->view.span);
    m->view.scroll[m->view.focus] = arg > 0 ? 0 : 1000000;
    return TUI_DO_DRAW;
}

unsigned tui_do_zoom(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    double first, last, from, to;
    run_ends(m, &first, &last);
    tui_window_samples(m, &from, &to);
    double span = m->view.span > 0 ? m->view.span : last - first;
    span = arg > 0 ? span / 2 : span * 2;
    /* Eight updates are the least that makes a curve. */
    double least = 8.0 * (double)(m->status.global_batch > 0 ? m->status.global_batch : 1);
    if (arg > 0 && span < least)
        return 0;
    m->view.span = span;
    if (span >= last - first)
        m->view.span = m->view.end = 0;
    return TUI_DO_DRAW;
}

unsigned tui_do_toggle_log(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.log ^= 1u << app->model.view.focus;
    return TUI_DO_DRAW;
}

unsigned tui_do_next_axis(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.x = (enum tui_x)((app->model.view.x + 1) % TUI_N_X);
    return TUI_DO_DRAW;
}

unsigned tui_do_toggle_autoscale(struct tui_app *app, int arg)
{
    (void)arg;
    struct tui_view *v = &app->model.view;
    v->autoscale = !v->autoscale;
    tui_say(&app->model, TUI_DIM,
            v->autoscale ? "scaled to the window" : "scaled to the whole run");
    return TUI_DO_DRAW;
}

unsigned tui_do_toggle_smooth(struct tui_app *app, int arg)
{
    (void)arg;
    struct tui_view *v = &app->model.view;
    v->smooth = !v->smooth;
    tui_say(&app->model, TUI_DIM, v->smooth ? "curves smoothed" : "each value shown");
    return TUI_DO_DRAW;
}

/* The list scrolls so that the event is in it, the charts so that its moment is in their middle. */
static void look_at(struct tui_model *m, int event)
{
    const struct bst_history_event *e = &m->history->events[event];
    double first, last;
    run_ends(m, &first, &last);
    m->view.event = event + 1;
    m->view.scroll[TUI_PANE_EVENTS] = 0;
    for (int i = event + 1; i < m->n_events; i++)
        m->view.scroll[TUI_PANE_EVENTS] += tui_event_hits(m, &m->history->events[i]);
    if (m->view.span > 0 && isfinite(e->samples)) {
        double to = fmax(e->samples + m->view.span / 2, first + m->view.span);
        m->view.end = to >= last ? 0 : to;
    }
    tui_say(m, TUI_NORMAL, "update %llu: %s", (unsigned long long)e->update, e->text);
}

unsigned tui_do_step_event(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    int at = m->view.event > m->n_events ? 0 : m->view.event;
    /* The first press, in either direction, is for the newest. */
    int i = at ? at - 1 + arg : m->n_events - 1, step = at ? arg : -1;
    while (i >= 0 && i < m->n_events && !tui_event_hits(m, &m->history->events[i]))
        i += step;
    if (i >= 0 && i < m->n_events)
        look_at(m, i);
    else
        tui_say(m, TUI_DIM,
                !at       ? "there is no event to go to"
                : arg > 0 ? "this is the newest event"
                          : "this is the first event");
    return TUI_DO_DRAW;
}

unsigned tui_do_scroll_list(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    int pane = m->view.focus, rows = m->layout.inner[pane].h;
    if (!tui_panes[pane]->lines)
        return 0;
    /* Events grow downwards and are counted from the newest; the others from the top. */
    bool page = arg == TUI_PAGE || arg == -TUI_PAGE;
    int step = (arg > 0) == (pane != TUI_PANE_EVENTS) ? 1 : -1;
    step *= page && rows > 1 ? rows - 1 : 1;
    int most = tui_panes[pane]->lines(m) - (rows > 1 ? rows : 1);
    int to = m->view.scroll[pane] > most ? most : m->view.scroll[pane];
    to += step;
    to = to > most ? most : to;
    m->view.scroll[pane] = to < 0 ? 0 : to;
    return TUI_DO_DRAW;
}
