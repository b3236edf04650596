/* A sweep's view on the terminal. It owns the terminal until its return, but for the time of a
 * console that it opens. Call it before any thread is started, as tui_console(). */
#ifndef TUI_STUDY_SCREEN_H
#define TUI_STUDY_SCREEN_H

#include <sys/types.h>

#include "core/run/study.h"
#include "tui/console.h"

struct tui_study_call {
    struct bst_study *study;
    pid_t sweep; /* a child that goes on with it; 0: none of this command's */
    /* Starts a console on a run's folder, on this terminal; 0, or an errno. */
    int (*attach)(void *arg, const char *dir, pid_t *pid);
    void *arg;
};

enum { TUI_STUDY_NOT_DRAWN = 125 };

/* How cfg says, of which run_dir, script and replay are not looked at. Exit codes as of
 * tui_console(); TUI_STUDY_NOT_DRAWN where nothing can be drawn, and nothing was said. */
int tui_study_screen(const struct tui_console_cfg *cfg, const struct tui_study_call *call);

#endif
