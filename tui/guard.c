#include "tui/guard.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <term.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* A console that cannot even leave (a terminal that takes no output) is ended after this. */
enum { PATIENCE = 3 };

static bool guarded; /* this process is the console's own, with a guard above it */

struct terminal {
    bool there;
    struct termios settings;
    char reset[256]; /* what makes the screen usable again */
};

static void add_capability(struct terminal *t, const char *name)
{
    /* Capabilities carry padding such as $<5/>, which nothing here interprets. */
    const char *s = tigetstr((NCURSES_CONST char *)name);
    size_t n = strlen(t->reset);
    if (!s || s == (char *)-1)
        return;
    while (*s && n + 1 < sizeof t->reset) {
        if (s[0] == '$' && s[1] == '<') {
            const char *end = strchr(s, '>');
            if (end) {
                s = end + 1;
                continue;
            }
        }
        t->reset[n++] = *s++;
    }
    t->reset[n] = '\0';
}

static void remember(struct terminal *t)
{
    int found;
    memset(t, 0, sizeof *t);
    t->there = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t->settings);
    if (!t->there)
        return;
    if (setupterm(NULL, STDOUT_FILENO, &found) == OK ||
        setupterm("xterm", STDOUT_FILENO, &found) == OK) {
        add_capability(t, "sgr0");
        add_capability(t, "cnorm");
        add_capability(t, "rmcup");
        bool modern = strstr(t->reset, "1049") != NULL;
        del_curterm(cur_term);
        /* No mouse, no paste marks; only where the modes of xterm are known. */
        size_t n = strlen(t->reset);
        if (modern)
            snprintf(t->reset + n, sizeof t->reset - n, "%s",
                     "\033[?1000l\033[?1006l\033[?2004l\r");
    }
}

static void restore(const struct terminal *t)
{
    /* In the background the terminal is the shell's. */
    if (!t->there || tcgetpgrp(STDIN_FILENO) != getpgrp())
        return;
    tcflush(STDOUT_FILENO, TCOFLUSH);
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    ssize_t sent = write(STDOUT_FILENO, t->reset, strlen(t->reset));
    (void)sent; /* a terminal that is gone has nothing to restore */
    fcntl(STDOUT_FILENO, F_SETFL, flags);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->settings);
}

static bool differs(const struct terminal *t)
{
    struct termios now;
    return t->there && !tcgetattr(STDIN_FILENO, &now) &&
           (now.c_lflag != t->settings.c_lflag || now.c_iflag != t->settings.c_iflag ||
            now.c_oflag != t->settings.c_oflag);
}

/* Waits for the child; what asks us to end is for the child to do. */
static int watch(pid_t child, const sigset_t *set)
{
    const struct timespec second = {1, 0};
    int status, left = -1;
    while (waitpid(child, &status, WNOHANG) != child) {
        int sig = sigtimedwait(set, NULL, &second);
        if (sig > 0 && sig != SIGCHLD) {
            kill(child, sig);
            left = left < 0 ? PATIENCE : left;
        } else if (sig < 0 && errno == EAGAIN && left >= 0 && left-- == 0) {
            kill(child, SIGKILL);
        }
    }
    return status;
}

int tui_guard(void)
{
    struct terminal t;
    sigset_t set, before;
    remember(&t);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    pid_t parent = getpid(), child = fork();
    if (child <= 0) {
        guarded = child == 0;
        /* A guard that dies first leaves the restoring to the console. */
        if (guarded)
            prctl(PR_SET_PDEATHSIG, SIGTERM);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (guarded && getppid() != parent)
            raise(SIGTERM);
        return -1;
    }
    int status = watch(child, &set);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    /* A library may end the process by exit: that is no better than a signal. */
    if (!WIFEXITED(status) || differs(&t))
        restore(&t);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

int tui_guard_leave(int code)
{
    if (!guarded)
        return code;
    fflush(NULL);
    _exit(code);
}
