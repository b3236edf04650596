#include "tui/app.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/armed.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/render.h"

void tui_app_init(struct tui_app *app, const struct tui_console_cfg *cfg, struct tui_link *link)
{
    memset(app, 0, sizeof *app);
    app->cfg = cfg;
    app->link = link;
    tui_model_init(&app->model);
    app->model.readonly = cfg->readonly;
    app->model.presets = cfg->presets;
    app->model.n_presets = cfg->n_presets;
    app->model.options = (struct tui_options){
        .refresh = cfg->refresh > 0 ? cfg->refresh : TUI_REFRESH_USUAL, .bell = !cfg->no_bell};
    app->model.now = bst_clock_now();
    tui_frame_init(&app->frame, 80, 24);
}

void tui_app_fini(struct tui_app *app)
{
    tui_armed_drop(&app->model, app->link, NULL);
    tui_model_fini(&app->model);
    tui_frame_fini(&app->frame);
}

/* What a direct command (checkpoint, eval, pause, …) came to. */
static void show_direct(struct tui_app *app, const struct bst_reply *r)
{
    char text[TUI_TEXT];
    app->direct_id = 0;
    tui_refusal(r, text);
    if (r->ok)
        tui_say(&app->model, TUI_GOOD, "%s", r->text[0] ? r->text : r->outcome);
    else
        tui_say(&app->model, TUI_BAD, "%s", text);
}

/* What was tried is armed again: y keeps it, Esc does not. So is what could not be tried, but not
 * where somebody has cancelled it. */
static void show_trial(struct tui_app *app, const struct bst_reply *r)
{
    struct tui_model *m = &app->model;
    char text[TUI_TEXT], why[300];
    bool refused = !r->ok && !strcmp(r->outcome, "refused");
    app->trial_id = 0;
    if (r->ok)
        snprintf(text, sizeof text, "%s", r->text);
    else
        tui_refusal(r, text);
    if ((r->ok || refused) && m->armed.state == TUI_ARMED_NONE &&
        tui_model_may_change(m, why, sizeof why))
        tui_armed_again(m, app->link, &app->tried);
    tui_say(m, r->ok ? TUI_GOOD : TUI_BAD, "%s", text);
}

/* Another connection counts its requests anew. */
static void forget_requests(struct tui_app *app)
{
    if (app->trial_id)
        tui_say(&app->model, TUI_BAD, "the trainer went away during the trial of %s",
                app->tried.text);
    app->trial_id = app->direct_id = app->model.preset_answer.id = 0;
}

static unsigned take_reply(struct tui_app *app)
{
    const struct bst_reply *r = app->link->ops->reply(app->link);
    struct tui_preset_answer *p = &app->model.preset_answer;
    if (!r || tui_armed_reply(&app->model, app->link, r))
        return TUI_DO_DRAW | TUI_DO_REFRESH;
    if (p->asked && r->id == p->id) {
        p->reply = *r;
        p->come = true;
    } else if (app->trial_id && r->id == app->trial_id) {
        show_trial(app, r);
    } else if (app->direct_id && r->id == app->direct_id) {
        show_direct(app, r);
    }
    return TUI_DO_DRAW;
}

/* Bell and footer for what should be seen now: a value that is not finite, a new notice. */
static unsigned alarms(struct tui_app *app)
{
    struct tui_model *m = &app->model;
    const struct bst_status *s = &m->status;
    unsigned todo = 0;
    if (!m->has_status || m->view.frozen)
        return 0;
    if (s->nonfinite > app->nonfinite_seen)
        todo |= TUI_DO_BELL;
    app->nonfinite_seen = s->nonfinite;
    /* A notice waits until the answer to a key has been read, and until the footer is free of a
     * proposal; a failure waits for neither. */
    bool free = !tui_said_lately(m) && m->armed.state == TUI_ARMED_NONE;
    /* What was said before somebody came is no news; the events have it. */
    if (!app->note_begun && !app->cfg->started_here && !bst_phase_is_failure(s->phase))
        snprintf(app->note_seen, sizeof app->note_seen, "%s", s->note);
    app->note_begun = true;
    if (strcmp(s->note, app->note_seen) && (bst_phase_is_failure(s->phase) || free)) {
        char text[TUI_TEXT];
        snprintf(app->note_seen, sizeof app->note_seen, "%s", s->note);
        tui_coded(s->note_code, s->note, text);
        if (s->note[0])
            tui_notice(m, bst_phase_is_failure(s->phase) ? TUI_BAD : TUI_WARN, "%s", text);
        if (bst_phase_is_failure(s->phase))
            todo |= TUI_DO_BELL;
    }
    return todo;
}

/* The lease has gone to somebody else: nothing that was prepared here can be applied any more. */
static unsigned watch_lease(struct tui_app *app)
{
    struct tui_model *m = &app->model;
    bool taken = app->had_lease && !m->has_lease && m->holder[0];
    app->had_lease = m->has_lease;
    if (!taken)
        return 0;
    tui_armed_taken(m);
    if (m->view.overlay == TUI_OVERLAY_STOP || m->view.overlay == TUI_OVERLAY_LRFIND)
        m->view.overlay = TUI_OVERLAY_NONE;
    return TUI_DO_DRAW;
}

unsigned tui_app_events(struct tui_app *app)
{
    struct tui_model *m = &app->model;
    unsigned todo = 0;
    m->now = bst_clock_now();
    for (;;) {
        enum bst_client_event e = app->link->ops->next(app->link);
        if (e == BST_CLIENT_NOTHING)
            break;
        tui_model_follow(m, app->link);
        if (e == BST_CLIENT_REPLY)
            todo |= take_reply(app);
        if (e == BST_CLIENT_CLOSED)
            forget_requests(app);
        /* While a proposal stands in the footer, or an answer: the status brings it again. */
        if (e == BST_CLIENT_NOTE && !tui_said_lately(m) && m->armed.state == TUI_ARMED_NONE)
            tui_notice(m, TUI_WARN, "%s", app->link->ops->note(app->link));
        if (e == BST_CLIENT_LEASE || e == BST_CLIENT_CLOSED || e == BST_CLIENT_NOTE)
            todo |= TUI_DO_DRAW;
    }
    tui_model_follow(m, app->link);
    todo |= watch_lease(app);
    return todo | alarms(app);
}

unsigned tui_app_tick(struct tui_app *app)
{
    struct tui_model *m = &app->model;
    unsigned todo = 0;
    m->now = bst_clock_now();
    if (tui_armed_tick(m, app->link))
        todo |= TUI_DO_DRAW;
    if (m->message[0] && m->now >= m->message_until) {
        m->message[0] = '\0';
        todo |= TUI_DO_DRAW;
    }
    return todo;
}

double tui_app_next(const struct tui_app *app)
{
    const struct tui_model *m = &app->model;
    double next = -1, left = tui_armed_left(m);
    if (left > 0) /* the last seconds are counted down */
        next = left > 5.5 ? left - 5.5 : left - floor(left) + 0.01;
    if (m->message[0]) {
        double gone = m->message_until - m->now;
        gone = gone > 0 ? gone : 0;
        next = next < 0 || gone < next ? gone : next;
    }
    return next;
}

static unsigned paste(struct tui_app *app, int key)
{
    if (key == TUI_KEY_PASTE_END)
        app->pasting = false;
    else if (app->model.prompt.mark)
        tui_prompt_paste(app, key);
    return TUI_DO_DRAW;
}

static unsigned overlay_move(struct tui_app *app, int step)
{
    struct tui_view *v = &app->model.view;
    if (v->overlay == TUI_OVERLAY_ADVICE) {
        int most = app->model.status.n_advice - 1, at = v->overlay_select + step;
        at = at > most ? most : at;
        v->overlay_select = at < 0 ? 0 : at;
        return TUI_DO_DRAW;
    }
    if (v->overlay != TUI_OVERLAY_PRESETS) {
        v->overlay_scroll = v->overlay_scroll + step > 0 ? v->overlay_scroll + step : 0;
        return TUI_DO_DRAW;
    }
    int to = v->overlay_select + step;
    to = to > app->model.n_presets - 1 ? app->model.n_presets - 1 : to;
    to = to < 0 ? 0 : to;
    if (to != v->overlay_select) {
        v->overlay_select = to;
        tui_preset_ask(app);
    }
    return TUI_DO_DRAW;
}

/* Those that ask have y, n and Esc of their own, whatever the keys are bound to. */
static const char *question(enum tui_overlay overlay)
{
    return overlay == TUI_OVERLAY_STOP ? "stop" : overlay == TUI_OVERLAY_LRFIND ? "lrfind" : NULL;
}

/* The change that Enter arms; "" where the overlay has none there. */
static void overlay_change(const struct tui_app *app, char text[160])
{
    const struct tui_model *m = &app->model;
    int i = m->view.overlay_select;
    text[0] = '\0';
    if (m->view.overlay == TUI_OVERLAY_PRESETS && i < m->n_presets)
        snprintf(text, 160, "preset %s", m->presets[i].name);
    else if (m->view.overlay == TUI_OVERLAY_ADVICE && i < m->status.n_advice)
        snprintf(text, 160, "%s", m->status.advice[i].change);
    else if (m->view.overlay == TUI_OVERLAY_LRFIND && m->status.found_rate.valid)
        snprintf(text, 160, "lr =%.3g", m->status.found_rate.value);
}

static unsigned overlay_enter(struct tui_app *app)
{
    struct tui_view *v = &app->model.view;
    enum tui_overlay was = v->overlay;
    char text[160], why[300];
    overlay_change(app, text);
    v->overlay = question(was) && !text[0] ? was : TUI_OVERLAY_NONE;
    if (text[0]) {
        if (!tui_model_may_change(&app->model, why, sizeof why)) {
            tui_say(&app->model, TUI_WARN, "%s", why);
            return TUI_DO_DRAW;
        }
        tui_armed_command(&app->model, app->link, text);
    }
    return TUI_DO_DRAW;
}

static enum tui_request overlay_request(int key)
{
    static const struct {
        int key;
        enum tui_request req;
    } own[] = {{TUI_KEY_ESC, TUI_REQ_DROP},
               {TUI_KEY_ENTER, TUI_REQ_MAXIMISE},
               {'\n', TUI_REQ_MAXIMISE},
               {TUI_KEY_UP, TUI_REQ_UP},
               {TUI_KEY_DOWN, TUI_REQ_DOWN},
               {TUI_KEY_LEFT, TUI_REQ_LEFT},
               {TUI_KEY_RIGHT, TUI_REQ_RIGHT},
               {TUI_KEY_PAGE_UP, TUI_REQ_PAGE_UP},
               {TUI_KEY_PAGE_DOWN, TUI_REQ_PAGE_DOWN},
               {TUI_KEY_HOME, TUI_REQ_OLDEST},
               {TUI_KEY_END, TUI_REQ_LIVE},
               {' ', TUI_REQ_FREEZE}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i].key == key)
            return own[i].req;
    return tui_key_request(TUI_KEYS_CONSOLE, key);
}

static unsigned overlay_key(struct tui_app *app, int key)
{
    struct tui_view *v = &app->model.view;
    const char *asked = question(v->overlay);
    if (asked && key == 'y') {
        if (app->model.now - app->opened < TUI_ARMED_DEAF)
            return 0;
        v->overlay = TUI_OVERLAY_NONE;
        return TUI_DO_DRAW | tui_direct(app, asked);
    }
    if (asked && (key == 'n' || key == 'N'))
        key = TUI_KEY_ESC;
    enum tui_request req = overlay_request(key);
    if (v->overlay == TUI_OVERLAY_OPTIONS && tui_options_key(app, req))
        return TUI_DO_DRAW;
    switch (req) {
    case TUI_REQ_UP:
        return overlay_move(app, -1);
    case TUI_REQ_DOWN:
        return overlay_move(app, 1);
    case TUI_REQ_PAGE_UP:
        return overlay_move(app, -10);
    case TUI_REQ_PAGE_DOWN:
    case TUI_REQ_FREEZE:
        return overlay_move(app, 10);
    case TUI_REQ_OLDEST:
        return overlay_move(app, -10000);
    case TUI_REQ_LIVE:
        return overlay_move(app, 10000);
    case TUI_REQ_MAXIMISE:
        return overlay_enter(app);
    case TUI_REQ_REDRAW:
        return TUI_DO_CLEAR | TUI_DO_DRAW;
    case TUI_REQ_SUSPEND:
        return TUI_DO_SUSPEND;
    case TUI_REQ_HELP:
    case TUI_REQ_DROP:
    case TUI_REQ_LEAVE:
    case TUI_REQ_PRESET:
    case TUI_REQ_ADVICE:
    case TUI_REQ_LRFIND:
    case TUI_REQ_OPTIONS:
    case TUI_REQ_STOP:
        v->overlay = TUI_OVERLAY_NONE;
        return TUI_DO_DRAW;
    default:
        return 0;
    }
}

unsigned tui_app_key(struct tui_app *app, int key)
{
    struct tui_model *m = &app->model;
    char why[300];
    m->now = bst_clock_now();
    if (app->pasting)
        return paste(app, key);
    if (key == TUI_KEY_PASTE) {
        app->pasting = true;
        return 0;
    }
    if (key == TUI_KEY_RESIZE)
        return TUI_DO_DRAW;
    if (m->prompt.mark)
        return tui_prompt_key(app, key);
    if (m->view.overlay != TUI_OVERLAY_NONE)
        return overlay_key(app, key);
    enum tui_request req = tui_key_request(TUI_KEYS_CONSOLE, key == '\n' ? TUI_KEY_ENTER : key);
    if (req == TUI_REQ_NONE)
        return 0;
    if ((tui_keys[req].flags & TUI_KEY_ARMED) && m->armed.state == TUI_ARMED_NONE)
        return 0;
    if ((tui_keys[req].flags & TUI_KEY_MUTATES) && !tui_model_may_change(m, why, sizeof why)) {
        tui_say(m, TUI_WARN, "%s", why);
        return TUI_DO_DRAW;
    }
    /* A refusal has been read by whoever goes on. */
    if (req != TUI_REQ_DROP && !(tui_keys[req].flags & TUI_KEY_ARMED))
        tui_armed_go_on(m, app->link);
    return tui_request_run(app, req);
}

static int pane_under(const struct tui_model *m, int x, int y)
{
    for (int i = 0; i < TUI_N_PANES; i++) {
        const struct tui_rect *r = &m->layout.pane[i];
        if (x >= r->x && x < r->x + r->w && y >= r->y && y < r->y + r->h)
            return i;
    }
    return -1;
}

unsigned tui_app_mouse(struct tui_app *app, int x, int y, int button)
{
    struct tui_model *m = &app->model;
    m->now = bst_clock_now();
    if (m->view.overlay != TUI_OVERLAY_NONE)
        return button == 4 ? overlay_move(app, -3) : button == 5 ? overlay_move(app, 3) : 0;
    int pane = pane_under(m, x, y);
    if (pane < 0 || m->prompt.mark)
        return 0;
    m->view.focus = pane;
    if (button == 1)
        return TUI_DO_DRAW;
    if (tui_panes[pane]->chart)
        return tui_request_run(app, button == 4 ? TUI_REQ_ZOOM_IN : TUI_REQ_ZOOM_OUT);
    return tui_request_run(app, button == 4 ? TUI_REQ_UP : TUI_REQ_DOWN);
}

void tui_app_draw(struct tui_app *app)
{
    app->model.now = bst_clock_now();
    tui_render(&app->model, &app->frame);
}
