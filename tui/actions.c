#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tui/actions.h"
#include "tui/armed.h"
#include "tui/format.h"
#include "tui/trial.h"

enum { SETTINGS_CAP = 256 * 1024 };

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
    /* Whoever opens it has read what was said; its own keys take that place. */
    app->model.message[0] = '\0';
}

static unsigned open_presets(struct tui_app *app, int arg)
{
    (void)arg;
    if (!app->model.n_presets) {
        tui_say(&app->model, TUI_WARN, "no preset was found; `:preset PATH` takes a file");
        return TUI_DO_DRAW;
    }
    if (tui_armed_stands(&app->model))
        return TUI_DO_DRAW;
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

static unsigned open_advice(struct tui_app *app, int arg)
{
    (void)arg;
    if (tui_armed_stands(&app->model))
        return TUI_DO_DRAW;
    open_overlay(app, TUI_OVERLAY_ADVICE);
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
    open_overlay(app, TUI_OVERLAY_STOP);
    tui_armed_drop(&app->model, app->link, "the run is about to be stopped");
    return TUI_DO_DRAW;
}

static unsigned open_lrfind(struct tui_app *app, int arg)
{
    (void)arg;
    if (app->model.has_status && app->model.status.phase == BST_PHASE_SEARCHING) {
        tui_say(&app->model, TUI_WARN, "a search is on: %s", app->model.status.search);
        return TUI_DO_DRAW;
    }
    if (tui_armed_stands(&app->model))
        return TUI_DO_DRAW;
    open_overlay(app, TUI_OVERLAY_LRFIND);
    return TUI_DO_DRAW;
}

static unsigned open_options(struct tui_app *app, int arg)
{
    (void)arg;
    open_overlay(app, TUI_OVERLAY_OPTIONS);
    return TUI_DO_DRAW;
}

static unsigned apply(struct tui_app *app, int arg)
{
    (void)arg;
    tui_armed_apply(&app->model, app->link);
    return TUI_DO_DRAW;
}

/* The change goes only once its trial is on its way, and comes back with the answer. */
static unsigned try_armed(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    char command[sizeof app->tried.text + 32], why[TUI_TEXT];
    (void)arg;
    if (m->armed.state != TUI_ARMED_PROPOSED)
        return TUI_DO_DRAW;
    int n = tui_trial_updates(m, why, sizeof why);
    if (!n) {
        m->armed.pressed = m->now;
        tui_say(m, TUI_WARN, "%s:",
                m->armed.n_next ? "one change is tried at a time"
                : why[0]        ? why
                                : "this is nothing that can be tried");
        return TUI_DO_DRAW;
    }
    snprintf(command, sizeof command, "trial %d %s", n, m->armed.wish.text);
    uint64_t id = app->link->ops->command(app->link, command, false);
    if (!id) {
        tui_say(m, TUI_BAD, "%s not sent: the trainer does not answer", command);
        return TUI_DO_DRAW;
    }
    app->trial_id = id;
    app->tried = m->armed.wish;
    tui_armed_drop(m, app->link, NULL);
    tui_say(m, TUI_NORMAL, "%s …", command);
    return TUI_DO_DRAW | TUI_DO_REFRESH;
}

/* Escape takes back one thing, the most pressing first. */
static unsigned drop(struct tui_app *app, int arg)
{
    struct tui_model *m = &app->model;
    (void)arg;
    if (m->armed.state != TUI_ARMED_NONE)
        tui_armed_back(m, app->link);
    else if (m->has_status && m->status.phase == BST_PHASE_SEARCHING && !m->readonly)
        return tui_direct(app, "cancel");
    else if (m->message[0])
        m->message[0] = '\0';
    else if (m->view.event)
        m->view.event = 0;
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
    [TUI_REQ_ADVICE] = {open_advice, 0},
    [TUI_REQ_LRFIND] = {open_lrfind, 0},
    [TUI_REQ_OPTIONS] = {open_options, 0},
    [TUI_REQ_UNDO] = {arm_undo, -1},
    [TUI_REQ_REDO] = {arm_undo, 1},
    [TUI_REQ_APPLY] = {apply, 0},
    [TUI_REQ_TRY] = {try_armed, 0},
    [TUI_REQ_DROP] = {drop, 0},
    [TUI_REQ_CHECKPOINT] = {checkpoint, 0},
    [TUI_REQ_EVALUATE] = {evaluate, 0},
    [TUI_REQ_STOP] = {open_stop, 0},
    [TUI_REQ_PROMPT] = {open_prompt, ':'},
    [TUI_REQ_SHOW_PRESET] = {open_settings, 0},
    [TUI_REQ_PANE_1] = {tui_do_toggle_pane, 0},
    [TUI_REQ_PANE_2] = {tui_do_toggle_pane, 1},
    [TUI_REQ_PANE_3] = {tui_do_toggle_pane, 2},
    [TUI_REQ_PANE_4] = {tui_do_toggle_pane, 3},
    [TUI_REQ_PANE_5] = {tui_do_toggle_pane, 4},
    [TUI_REQ_PANE_6] = {tui_do_toggle_pane, 5},
    [TUI_REQ_PANE_7] = {tui_do_toggle_pane, 6},
    [TUI_REQ_PANE_RESET] = {tui_do_reset_panes, 0},
    [TUI_REQ_PANE_NEXT] = {tui_do_move_focus, 1},
    [TUI_REQ_PANE_PREVIOUS] = {tui_do_move_focus, -1},
    [TUI_REQ_MAXIMISE] = {tui_do_maximise, 0},
    [TUI_REQ_FREEZE] = {tui_do_freeze, 0},
    [TUI_REQ_GRADIENT] = {tui_do_toggle_layers, 0},
    [TUI_REQ_FILTER] = {open_prompt, '/'},
    [TUI_REQ_EVENT_NEXT] = {tui_do_step_event, 1},
    [TUI_REQ_EVENT_PREVIOUS] = {tui_do_step_event, -1},
    [TUI_REQ_LEFT] = {tui_do_scroll_time, -1},
    [TUI_REQ_RIGHT] = {tui_do_scroll_time, 1},
    [TUI_REQ_OLDEST] = {tui_do_to_end, -1},
    [TUI_REQ_LIVE] = {tui_do_to_end, 1},
    [TUI_REQ_ZOOM_OUT] = {tui_do_zoom, -1},
    [TUI_REQ_ZOOM_IN] = {tui_do_zoom, 1},
    [TUI_REQ_LOG] = {tui_do_toggle_log, 0},
    [TUI_REQ_XAXIS] = {tui_do_next_axis, 0},
    [TUI_REQ_AUTOSCALE] = {tui_do_toggle_autoscale, 0},
    [TUI_REQ_SMOOTH] = {tui_do_toggle_smooth, 0},
    [TUI_REQ_UP] = {tui_do_scroll_list, -1},
    [TUI_REQ_DOWN] = {tui_do_scroll_list, 1},
    [TUI_REQ_PAGE_UP] = {tui_do_scroll_list, -TUI_PAGE},
    [TUI_REQ_PAGE_DOWN] = {tui_do_scroll_list, TUI_PAGE},
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
