#include "tui/study_screen.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "tui/guard.h"
#include "tui/screen.h"
#include "tui/study.h"
#include "tui/terminal.h"

/* Polls without a trainer before it is said that there is none: the next run takes a moment. */
enum { QUIET_POLLS = 4 };

struct loop {
    const struct tui_console_cfg *cfg;
    const struct tui_study_call *call;
    struct tui_study view;
    struct tui_frame frame;
    int signals;
    double refresh, polled;
    int quiet, frames;
    unsigned todo;
    int ended_by; /* signal; 0: none */
    bool leaving;
};

static bool anybody_trains(const struct bst_study *s)
{
    for (int i = 0; i < s->n_runs; i++)
        if (s->runs[i].state == BST_STUDY_LIVE)
            return true;
    return false;
}

static void look(struct loop *l, double now)
{
    if (now - l->polled < l->refresh)
        return;
    l->polled = now;
    if (bst_study_poll(l->call->study))
        l->todo |= TUI_DO_DRAW;
    l->quiet = anybody_trains(l->call->study) ? 0 : l->quiet + 1;
    bool at_rest = l->quiet >= QUIET_POLLS;
    if (at_rest != l->view.at_rest)
        l->todo |= TUI_DO_DRAW;
    l->view.at_rest = at_rest;
}

static void draw(struct loop *l)
{
    int w, h;
    if (!(l->todo & TUI_DO_DRAW))
        return;
    tui_screen_size(&w, &h);
    if (w != l->frame.w || h != l->frame.h) {
        tui_frame_resize(&l->frame, w, h);
        tui_screen_redraw();
    }
    tui_study_draw(&l->view, &l->frame);
    if (!tui_screen_flush(&l->frame))
        return;
    l->todo = 0;
    l->frames++;
    if (l->cfg->frames && l->frames >= l->cfg->frames)
        l->leaving = true;
}

static void suspend(struct loop *l)
{
    tui_stop_here();
    l->todo |= TUI_DO_DRAW;
    l->polled = -INFINITY;
}

/* `child`: a console that has the terminal; what ends this program ends it first. */
static void take_signals(struct loop *l, pid_t child)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        switch (info.ssi_signo) {
        case SIGCHLD:
            break;
        case SIGWINCH:
            l->todo |= TUI_DO_DRAW;
            break;
        case SIGTSTP:
            if (!child)
                suspend(l);
            break;
        default:
            if (child)
                kill(child, (int)info.ssi_signo);
            l->ended_by = (int)info.ssi_signo;
            l->leaving = true;
        }
    }
}

static bool open_screen(struct loop *l)
{
    const char *warning;
    if (tui_screen_open(l->cfg, &warning))
        return false;
    tui_screen_setup(&l->frame);
    bst_panic_hook(tui_screen_close);
    if (warning) {
        snprintf(l->view.message, sizeof l->view.message, "%s", warning);
        l->view.message_style = TUI_WARN;
    }
    return true;
}

/* The terminal is lent to a console on that run. */
static void lend(struct loop *l, const struct bst_study_run *run)
{
    pid_t pid;
    tui_screen_close();
    int err = l->call->attach(l->call->arg, run->dir, &pid);
    while (!err && waitpid(pid, NULL, WNOHANG) != pid) {
        struct pollfd p = {l->signals, POLLIN, 0};
        poll(&p, 1, -1);
        take_signals(l, pid);
    }
    if (l->leaving)
        return;
    l->leaving = !open_screen(l);
    if (err) {
        snprintf(l->view.message, sizeof l->view.message, "the console cannot be started: %s",
                 strerror(err));
        l->view.message_style = TUI_BAD;
    }
    tui_screen_redraw();
    l->polled = -INFINITY;
}

static void obey(struct loop *l, unsigned todo)
{
    if (todo & TUI_DO_LEAVE)
        l->leaving = true;
    if (todo & TUI_DO_SUSPEND)
        suspend(l);
    if (todo & TUI_DO_REFRESH)
        l->polled = -INFINITY;
    if (todo & TUI_DO_CLEAR)
        tui_screen_redraw();
    if (todo & TUI_DO_STOP)
        kill(l->call->sweep, SIGTERM);
    if (todo & TUI_DO_OPEN)
        lend(l, tui_study_chosen(&l->view));
    l->todo |= todo & TUI_DO_DRAW;
}

static void take_keys(struct loop *l)
{
    int key, n = 0;
    while (!l->leaving && (key = tui_screen_key()) >= 0) {
        n++;
        if (key == '\\' - '@') {
            l->ended_by = SIGQUIT;
            l->leaving = true;
        } else if (key > 0) {
            obey(l, tui_study_press(&l->view, key));
        }
    }
    if (!n && tui_input_gone()) {
        l->ended_by = SIGHUP;
        l->leaving = true;
    }
}

static void turn(struct loop *l)
{
    look(l, bst_clock_now());
    draw(l);
    double wait = fmax(0, l->polled + l->refresh - bst_clock_now());
    if (l->todo & TUI_DO_DRAW) /* the terminal did not take the last one */
        wait = fmin(wait, 0.25);
    struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {l->signals, POLLIN, 0}};
    if (l->leaving || (poll(p, 2, (int)ceil(wait * 1000)) < 0 && errno != EINTR))
        return;
    if (p[1].revents)
        take_signals(l, 0);
    if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
        l->ended_by = SIGHUP;
        l->leaving = true;
    } else if (p[0].revents & POLLIN) {
        take_keys(l);
    }
}

static int run_view(struct loop *l)
{
    l->signals = tui_signals_open(true);
    while (!l->leaving)
        turn(l);
    tui_screen_close();
    bst_panic_hook(NULL);
    close(l->signals);
    return l->ended_by ? 128 + l->ended_by : 0;
}

int tui_study_screen(const struct tui_console_cfg *cfg, const struct tui_study_call *call)
{
    struct loop l = {.cfg = cfg, .call = call, .polled = -INFINITY, .todo = TUI_DO_DRAW};
    setlocale(LC_CTYPE, "");
    int code = tui_guard();
    if (code >= 0)
        return code;
    tui_frame_init(&l.frame, 80, 24);
    l.frame.ascii = cfg->ascii;
    l.refresh = cfg->refresh > 0 ? fmin(fmax(cfg->refresh, 0.25), 60) : 1;
    tui_study_init(&l.view, call->study);
    l.view.stoppable = call->sweep != 0;
    l.quiet = call->sweep ? 0 : QUIET_POLLS - 1;
    code = open_screen(&l) ? run_view(&l) : TUI_STUDY_NOT_DRAWN;
    tui_frame_fini(&l.frame);
    return tui_guard_leave(code);
}
