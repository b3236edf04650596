#include "tui/console.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "tui/app.h"
#include "tui/over.h"
#include "tui/guard.h"
#include "tui/lines.h"
#include "tui/print.h"
#include "tui/screen.h"
#include "tui/script.h"
#include "tui/terminal.h"

struct loop {
    struct tui_app *app;
    int signals; /* signalfd */
    double asked;
    double cost; /* seconds of CPU that drawing takes */
    unsigned todo;
    int frames;   /* drawn so far */
    int ended_by; /* signal; 0: none */
    bool leaving;
};

static void suspend(struct loop *l)
{
    tui_stop_here();
    l->todo |= TUI_DO_DRAW;
    l->asked = 0;
}

static void take_signals(struct loop *l)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        switch (info.ssi_signo) {
        case SIGWINCH:
            l->todo |= TUI_DO_DRAW;
            break;
        case SIGTSTP:
            suspend(l);
            break;
        default:
            l->ended_by = (int)info.ssi_signo;
            l->leaving = true;
        }
    }
}

static void obey(struct loop *l, unsigned todo)
{
    if (todo & TUI_DO_LEAVE)
        l->leaving = true;
    if (todo & TUI_DO_SUSPEND)
        suspend(l);
    if (todo & TUI_DO_REFRESH)
        l->asked = 0;
    if ((todo & TUI_DO_BELL) && l->app->model.options.bell)
        tui_screen_bell();
    if (todo & TUI_DO_CLEAR)
        tui_screen_redraw();
    l->todo |= todo & TUI_DO_DRAW;
}

static void take_keys(struct loop *l)
{
    int key, n = 0;
    while (!l->leaving && (key = tui_screen_key()) >= 0) {
        int x, y, button;
        n++;
        if (key == 'C' - '@' && !l->app->model.prompt.mark) {
            l->leaving = true; /* whatever is open: the way out always works */
        } else if (key == '\\' - '@') {
            l->ended_by = SIGQUIT;
            l->leaving = true;
        } else if (key == TUI_KEY_MOUSE) {
            tui_screen_mouse(&x, &y, &button);
            obey(l, tui_app_mouse(l->app, x, y, button));
        } else if (key > 0) {
            obey(l, tui_app_key(l->app, key));
        }
    }
    if (!n && tui_input_gone()) {
        l->ended_by = SIGHUP;
        l->leaving = true;
    }
}

/* A run of a million updates takes a while to draw: a twentieth of the time at most goes into it.
 * Keys are answered at once all the same. */
static double period(const struct loop *l)
{
    return fmax(l->app->model.options.refresh, fmin(20 * l->cost, 10));
}

static void ask(struct loop *l, double now)
{
    const struct tui_model *m = &l->app->model;
    if (now - l->asked < period(l))
        return;
    l->asked = now;
    l->app->link->ops->refresh(l->app->link, m->layout.pane[TUI_PANE_GRADIENT].w > 0);
    l->todo |= TUI_DO_DRAW;
}

static void draw(struct loop *l)
{
    int w, h;
    if (!(l->todo & TUI_DO_DRAW))
        return;
    tui_screen_size(&w, &h);
    if (w != l->app->frame.w || h != l->app->frame.h) {
        tui_frame_resize(&l->app->frame, w, h);
        tui_screen_redraw();
    }
    clock_t began = clock();
    tui_app_draw(l->app);
    l->cost = (double)(clock() - began) / CLOCKS_PER_SEC;
    /* A terminal that does not take more gets the frame after next. */
    if (!tui_screen_flush(&l->app->frame))
        return;
    l->todo = 0;
    l->frames++;
    if (l->app->cfg->frames && l->frames >= l->app->cfg->frames)
        l->leaving = true;
}

static double until_next(const struct loop *l, double now)
{
    double wait = l->asked + period(l) - now, next = tui_app_next(l->app);
    if (l->app->model.link_state != TUI_LINK_LIVE)
        wait = fmin(wait, 0.25);
    if (l->app->model.behind)
        wait = 0;
    if (next >= 0)
        wait = fmin(wait, next);
    if (l->todo & TUI_DO_DRAW) /* it did not take the last one */
        wait = fmin(wait, 0.25);
    return wait > 0 ? wait : 0;
}

static void turn(struct loop *l)
{
    double now = bst_clock_now();
    /* While a trainer is being waited for, it is looked for more often than the screen is drawn. */
    if (l->app->model.link_state != TUI_LINK_LIVE || l->app->model.behind)
        l->app->link->ops->refresh(l->app->link, true);
    ask(l, now);
    obey(l, tui_app_events(l->app));
    obey(l, tui_app_tick(l->app));
    draw(l);
    struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0},
                         {l->signals, POLLIN, 0},
                         {l->app->link->ops->fd(l->app->link), POLLIN, 0}};
    if (poll(p, 3, (int)ceil(until_next(l, bst_clock_now()) * 1000)) < 0 && errno != EINTR)
        l->leaving = true;
    if (p[1].revents)
        take_signals(l);
    if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
        l->ended_by = SIGHUP;
        l->leaving = true;
    } else if (p[0].revents & POLLIN) {
        take_keys(l);
    }
    /* What came is shown when it is due; an answer to a key at once (tui_app_events). */
}

/* One line on what becomes of the run, for whoever has just left. */
static void farewell(const struct tui_app *app)
{
    const struct tui_model *m = &app->model;
    const struct bst_status *s = &m->status;
    const char *run = m->has_status && s->run[0] ? s->run : app->cfg->run_dir;
    char line[900];
    if (app->cfg->replay)
        return;
    if (m->link_state == TUI_LINK_OVER && bst_phase_is_failure(s->phase))
        snprintf(line, sizeof line, "run %s failed: %s%s%s%s%s%s", run, s->note_code,
                 s->note_code[0] ? " " : "", s->note, s->update ? "; its log: " : "",
                 s->update ? app->cfg->run_dir : "", s->update ? "/log" : "");
    else if (m->link_state == TUI_LINK_OVER)
        snprintf(line, sizeof line, "run %s has ended (%s): epoch %.2f, update %llu", run,
                 m->link_why, s->epoch, (unsigned long long)s->update);
    else if (m->link_state == TUI_LINK_LOST)
        snprintf(line, sizeof line, "run %s: its trainer does not answer; bstune status %s", run,
                 app->cfg->run_dir);
    else if (m->has_status && bst_phase_is_over(s->phase))
        snprintf(line, sizeof line, "run %s has ended (%s): epoch %.2f, update %llu", run,
                 bst_phase_name(s->phase), s->epoch, (unsigned long long)s->update);
    else if (s->phase == BST_PHASE_STOPPING)
        snprintf(line, sizeof line, "run %s is ending, its checkpoint is being saved", run);
    else
        snprintf(line, sizeof line, "run %s goes on: bstune attach %s", run, run);
    tui_write_line(STDOUT_FILENO, line); /* where the terminal has gone, nobody reads this */
}

static int exit_code(const struct loop *l)
{
    const struct tui_model *m = &l->app->model;
    if (l->ended_by)
        return 128 + l->ended_by;
    return l->app->cfg->started_here && m->link_state == TUI_LINK_OVER &&
           bst_phase_is_failure(m->status.phase);
}

static int run_screen(struct tui_app *app, const char *warning)
{
    struct loop l = {.app = app, .todo = TUI_DO_DRAW};
    l.signals = tui_signals_open(false);
    tui_screen_setup(&app->frame);
    bst_panic_hook(tui_console_restore);
    if (warning)
        tui_say(&app->model, TUI_WARN, "%s", warning);
    while (!l.leaving)
        turn(&l);
    tui_screen_close();
    bst_panic_hook(NULL);
    close(l.signals);
    farewell(app);
    return exit_code(&l);
}

static int run_script(struct tui_app *app)
{
    if (!tui_script_run(app, app->cfg->script))
        return 0;
    char line[700];
    snprintf(line, sizeof line, "bstune: %s", bst_err_text());
    tui_write_line(STDERR_FILENO, line);
    return 1;
}

static int run_console(const struct tui_console_cfg *cfg, struct tui_link *link)
{
    const char *warning = NULL;
    struct tui_app *app = bst_xalloc(sizeof *app);
    int code;
    double fake;
    tui_app_init(app, cfg, link);
    app->frame.ascii = cfg->ascii;
    if (cfg->fake_time && bst_num_parse(cfg->fake_time, &fake))
        bst_clock_fake(true, fake);
    if (cfg->script)
        code = run_script(app);
    else if (!tui_screen_open(cfg, &warning))
        code = run_screen(app, warning);
    else
        code = tui_lines(cfg, link, warning);
    tui_app_fini(app);
    bst_free(app);
    return code;
}

int tui_console_over(const struct tui_console_cfg *cfg, tui_open *open)
{
    struct tui_link *link;
    bool draws = !cfg->script && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    setlocale(LC_CTYPE, "");
    if (draws) {
        int code = tui_guard();
        if (code >= 0)
            return code;
    }
    if (open(cfg, &link)) {
        char line[700];
        snprintf(line, sizeof line, "bstune: %s", bst_err_text());
        return tui_guard_leave(tui_write_line(STDERR_FILENO, line) ? 4 : 1);
    }
    int code = run_console(cfg, link);
    link->ops->close(link);
    return tui_guard_leave(code);
}

void tui_console_restore(void)
{
    tui_screen_close();
}
