#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tui/app.h"
#include "tui/armed.h"
#include "tui/pane.h"
#include "tui/series.h"

enum { SETTINGS_CAP = 256 * 1024, PAGE = 2 /* scroll_list: a page, not a line */ };

static unsigned press_batch(struct tui_app *app, int arg)
{
    tui_armed_press(&app->model, app->link, TUI_ARMED_BATCH, arg);
    return TUI_DO_DRAW;
}

static unsigned press_warmup(struct tui_app *app, int arg)
{
    tui_armed_press(&app->model, app->link, TUI_ARMED_WARMUP, arg);
    return TUI_DO_DRAW;
}

static unsigned press_lr(struct tui_app *app, int arg)
{
    tui_armed_press(&app->model, app->link, TUI_ARMED_LR, arg);
    return TUI_DO_DRAW;
}

static unsigned arm_undo(struct tui_app *app, int arg)
{
    tui_armed_command(&app->model, app->link, arg > 0 ? "redo" : "undo");
    return TUI_DO_DRAW;
}

void tui_preset_ask(struct tui_app *app)
{
    struct tui_model *m = &app->model;
    struct tui_preset_answer *p = &m->preset_answer;
    char text[160];
    memset(p, 0, sizeof *p);
    if (m->view.overlay_select >= m->n_presets)
        return;
    snprintf(text, sizeof text, "preset %s", m->presets[m->view.overlay_select].name);
    p->id = app->link->ops->command(app->link, text, true);
    p->asked = p->id != 0;
}

static void open_overlay(struct tui_app *app, enum tui_overlay overlay)
{
    struct tui_view *v = &app->model.view;
    v->overlay = overlay;
    v->overlay_scroll = v->overlay_select = 0;
    app->opened = app->model.now;
}

static unsigned open_presets(struct tui_app *app, int arg)
{
    (void)arg;
    if (!app->model.n_presets) {
        tui_say(&app->model, TUI_WARN, "no preset was found; `:preset PATH` takes a file");
        return TUI_DO_DRAW;
    }
    tui_armed_drop(&app->model, app->link);
    open_overlay(app, TUI_OVERLAY_PRESETS);
    tui_preset_ask(app);
    return TUI_DO_DRAW;
}

static unsigned open_settings(struct tui_app *app, int arg)
{
    char path[1024];
    size_t n;
    (void)arg;
    struct tui_model *m = &app->model;
    snprintf(path, sizeof path, "%s/preset.yaml", app->cfg->run_dir);
    bst_free(m->settings);
    m->settings = NULL;
    if (bst_io_read_file(path, SETTINGS_CAP, &m->settings, &n)) {
        tui_say(m, TUI_BAD, "%s", bst_err_text());
        return TUI_DO_DRAW;
    }
    open_overlay(app, TUI_OVERLAY_SETTINGS);
    return TUI_DO_DRAW;
}

static unsigned open_help(struct tui_app *app, int arg)
{
    (void)arg;
    open_overlay(app, TUI_OVERLAY_HELP);
    return TUI_DO_DRAW;
}

static unsigned open_stop(struct tui_app *app, int arg)
{
    (void)arg;
    tui_armed_drop(&app->model, app->link);
    open_overlay(app, TUI_OVERLAY_STOP);
    return TUI_DO_DRAW;
}

static unsigned apply(struct tui_app *app, int arg)
{
    (void)arg;
    tui_armed_apply(&app->model, app->link);
    return TUI_DO_DRAW;
}

/* Escape takes back one thing, the most pressing first. */
static unsigned drop(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    (void)arg;
    if (m->armed.state != TUI_ARMED_NONE)
        tui_armed_drop(m, app->link);
    else if (m->message[0])
        m->message[0] = '\0';
    else if (m->view.maximised)
        m->view.maximised = false;
    else
        m->view.filter[0] = '\0';
    return TUI_DO_DRAW;
}

unsigned tui_direct(struct tui_app *app, const char *command)
{
    app->direct_id = app->link->ops->command(app->link, command, false);
    if (app->direct_id)
        tui_say(&app->model, TUI_NORMAL, "%s …", command);
    else
        tui_say(&app->model, TUI_BAD, "%s not sent: the trainer does not answer", command);
    return TUI_DO_DRAW | TUI_DO_REFRESH;
}

static unsigned checkpoint(struct tui_app *app, int arg)
{
    (void)arg;
    return tui_direct(app, "checkpoint");
}

static unsigned evaluate(struct tui_app *app, int arg)
{
    (void)arg;
    return tui_direct(app, "eval");
}

static unsigned open_prompt(struct tui_app *app, int arg)
{
    tui_prompt_open(app, (char)arg);
    return TUI_DO_DRAW;
}

static void keep_focus(struct tui_view *v)
{
    for (int i = 0; i < TUI_N_PANES && !(v->shown & 1u << v->focus); i++)
        v->focus = (v->focus + 1) % TUI_N_PANES;
}

static unsigned toggle_pane(struct tui_app *app, int arg)
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
        tui_say(&app->model, TUI_DIM, "the last pane stays; 0 shows all");
    else
        v->shown ^= bit;
    if (v->shown & bit)
        v->focus = arg;
    keep_focus(v);
    return TUI_DO_DRAW;
}

static unsigned reset_panes(struct tui_app *app, int arg)
{
    struct tui_view *v = &app->model.view;
    (void)arg;
    v->shown = (1u << TUI_N_PANES) - 1;
    v->maximised = v->layers = false;
    v->focus = TUI_PANE_LOSS;
    v->span = v->end = 0;
    memset(v->scroll, 0, sizeof v->scroll);
    return TUI_DO_DRAW;
}

static unsigned move_focus(struct tui_app *app, int arg)
{
    struct tui_view *v = &app->model.view;
    for (int i = 0; i < TUI_N_PANES; i++) {
        v->focus = (v->focus + arg + TUI_N_PANES) % TUI_N_PANES;
        if (v->shown & 1u << v->focus)
            break;
    }
    return TUI_DO_DRAW;
}

static unsigned maximise(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.maximised = !app->model.view.maximised;
    return TUI_DO_DRAW;
}

static unsigned freeze(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.frozen = !app->model.view.frozen;
    tui_model_follow(&app->model, app->link);
    return TUI_DO_DRAW;
}

static unsigned toggle_layers(struct tui_app *app, int arg)
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

static unsigned scroll_time(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    double first, last, from, to;
    run_ends(m, &first, &last);
    if (m->view.span <= 0) {
        tui_say(m, TUI_DIM, "the whole run is in view; } zooms in");
        return TUI_DO_DRAW;
    }
    tui_window_samples(m, &from, &to);
    to += arg * m->view.span / 4;
    to = fmax(to, first + m->view.span);
    m->view.end = to >= last ? 0 : to;
    return TUI_DO_DRAW;
}

static unsigned to_end(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    double first, last;
    run_ends(m, &first, &last);
    m->view.end = arg > 0 || m->view.span <= 0 ? 0 : fmin(last, first + m->view.span);
    m->view.scroll[m->view.focus] = arg > 0 ? 0 : 1000000;
    return TUI_DO_DRAW;
}

static unsigned zoom(struct tui_app *app, int arg)
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

static unsigned toggle_log(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.log ^= 1u << app->model.view.focus;
    return TUI_DO_DRAW;
}

static unsigned next_axis(struct tui_app *app, int arg)
{
    (void)arg;
    app->model.view.x = (enum tui_x)((app->model.view.x + 1) % TUI_N_X);
    return TUI_DO_DRAW;
}

static unsigned toggle_autoscale(struct tui_app *app, int arg)
{
    (void)arg;
    struct tui_view *v = &app->model.view;
    v->autoscale = !v->autoscale;
    tui_say(&app->model, TUI_DIM, v->autoscale ? "scaled to the window" : "scaled to the whole run");
    return TUI_DO_DRAW;
}

static unsigned toggle_smooth(struct tui_app *app, int arg)
{
    (void)arg;
    struct tui_view *v = &app->model.view;
    v->smooth = !v->smooth;
    tui_say(&app->model, TUI_DIM, v->smooth ? "curves smoothed" : "each value shown");
    return TUI_DO_DRAW;
}

static unsigned scroll_list(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    int pane = m->view.focus, rows = m->layout.inner[pane].h;
    if (!tui_panes[pane]->lines)
        return 0;
    /* Events grow downwards and are counted from the newest; the others from the top. */
    bool page = arg == PAGE || arg == -PAGE;
    int step = (arg > 0) == (pane != TUI_PANE_EVENTS) ? 1 : -1;
    step *= page && rows > 1 ? rows - 1 : 1;
    int most = tui_panes[pane]->lines(m) - (rows > 1 ? rows : 1);
    int to = m->view.scroll[pane] > most ? most : m->view.scroll[pane];
    to += step;
    to = to > most ? most : to;
    m->view.scroll[pane] = to < 0 ? 0 : to;
    return TUI_DO_DRAW;
}

static unsigned save(struct tui_app *app, int arg)
{
    (void)arg;
    tui_save(app, "");
    return TUI_DO_DRAW;
}

static unsigned todo(struct tui_app *app, int arg)
{
    (void)app;
    return (unsigned)arg;
}

static const struct {
    unsigned (*run)(struct tui_app *app, int arg);
    int arg;
} actions[TUI_N_REQUESTS] = {
    [TUI_REQ_BATCH_UP] = {press_batch, 1},
    [TUI_REQ_BATCH_DOWN] = {press_batch, -1},
    [TUI_REQ_WARMUP_UP] = {press_warmup, 1},
    [TUI_REQ_WARMUP_DOWN] = {press_warmup, -1},
    [TUI_REQ_LR_UP] = {press_lr, 1},
    [TUI_REQ_LR_DOWN] = {press_lr, -1},
    [TUI_REQ_PRESET] = {open_presets, 0},
    [TUI_REQ_UNDO] = {arm_undo, -1},
    [TUI_REQ_REDO] = {arm_undo, 1},
    [TUI_REQ_APPLY] = {apply, 0},
    [TUI_REQ_DROP] = {drop, 0},
    [TUI_REQ_CHECKPOINT] = {checkpoint, 0},
    [TUI_REQ_EVALUATE] = {evaluate, 0},
    [TUI_REQ_STOP] = {open_stop, 0},
    [TUI_REQ_PROMPT] = {open_prompt, ':'},
    [TUI_REQ_SHOW_PRESET] = {open_settings, 0},
    [TUI_REQ_PANE_1] = {toggle_pane, 0},
    [TUI_REQ_PANE_2] = {toggle_pane, 1},
    [TUI_REQ_PANE_3] = {toggle_pane, 2},
    [TUI_REQ_PANE_4] = {toggle_pane, 3},
    [TUI_REQ_PANE_5] = {toggle_pane, 4},
    [TUI_REQ_PANE_6] = {toggle_pane, 5},
    [TUI_REQ_PANE_RESET] = {reset_panes, 0},
    [TUI_REQ_PANE_NEXT] = {move_focus, 1},
    [TUI_REQ_PANE_PREVIOUS] = {move_focus, -1},
    [TUI_REQ_MAXIMISE] = {maximise, 0},
    [TUI_REQ_FREEZE] = {freeze, 0},
    [TUI_REQ_GRADIENT] = {toggle_layers, 0},
    [TUI_REQ_FILTER] = {open_prompt, '/'},
    [TUI_REQ_LEFT] = {scroll_time, -1},
    [TUI_REQ_RIGHT] = {scroll_time, 1},
    [TUI_REQ_OLDEST] = {to_end, -1},
    [TUI_REQ_LIVE] = {to_end, 1},
    [TUI_REQ_ZOOM_OUT] = {zoom, -1},
    [TUI_REQ_ZOOM_IN] = {zoom, 1},
    [TUI_REQ_LOG] = {toggle_log, 0},
    [TUI_REQ_XAXIS] = {next_axis, 0},
    [TUI_REQ_AUTOSCALE] = {toggle_autoscale, 0},
    [TUI_REQ_SMOOTH] = {toggle_smooth, 0},
    [TUI_REQ_UP] = {scroll_list, -1},
    [TUI_REQ_DOWN] = {scroll_list, 1},
    [TUI_REQ_PAGE_UP] = {scroll_list, -PAGE},
    [TUI_REQ_PAGE_DOWN] = {scroll_list, PAGE},
    [TUI_REQ_HELP] = {open_help, 0},
    [TUI_REQ_SAVE] = {save, 0},
    [TUI_REQ_REDRAW] = {todo, TUI_DO_CLEAR | TUI_DO_DRAW},
    [TUI_REQ_RELOAD] = {todo, TUI_DO_REFRESH | TUI_DO_DRAW},
    [TUI_REQ_SUSPEND] = {todo, TUI_DO_SUSPEND},
    [TUI_REQ_LEAVE] = {todo, TUI_DO_LEAVE},
};

unsigned tui_request_run(struct tui_app *app, enum tui_request req)
{
    BST_ASSERT(req >= 0 && req < TUI_N_REQUESTS && actions[req].run);
    return actions[req].run(app, actions[req].arg);
}
