#include "tui/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tui/screen.h"

int tui_signals_open(bool with_children)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTSTP);
    if (with_children)
        sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void tui_stop_here(void)
{
    sigset_t stop;
    tui_screen_suspend();
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(0, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stopped here */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    tui_screen_resume();
}

bool tui_input_gone(void)
{
    int waiting = 0;
    struct pollfd p = {STDIN_FILENO, POLLIN, 0};
    if (!ioctl(STDIN_FILENO, FIONREAD, &waiting) && waiting)
        return false;
    return poll(&p, 1, 0) == 1;
}
