/* The console: live panes over a run. It owns the terminal from tui_console() to its return, and
 * nothing else: the run goes on whatever happens here. Call it before any thread is started, since
 * a small parent process is made that restores the terminal however the console ends. */
#ifndef TUI_CONSOLE_H
#define TUI_CONSOLE_H

#include <stdbool.h>

#define TUI_REFRESH_LEAST 0.25 /* seconds between two frames */
#define TUI_REFRESH_USUAL 1.0
#define TUI_REFRESH_MOST 60.0

enum tui_color { TUI_COLOR_AUTO, TUI_COLOR_ALWAYS, TUI_COLOR_NEVER };
enum tui_symbols { TUI_SYMBOLS_AUTO, TUI_SYMBOLS_BRAILLE, TUI_SYMBOLS_BLOCK, TUI_SYMBOLS_ASCII };

/* What the preset picker offers; from core/run's list. */
struct tui_preset {
    const char *name;  /* what the command `preset NAME` takes */
    const char *title; /* its display name, NULL when it has none */
    const char *about; /* one sentence or more, NULL when it says nothing */
};

struct tui_replay {
    double speed; /* seconds of the run a second */
    double from;  /* 0…1: share of the run's time at which it starts */
};

struct tui_console_cfg {
    const char *run_dir;  /* the run's folder; its trainer may be live, gone or done */
    bool readonly;        /* --readonly: never asks for the lease */
    bool started_here;    /* `bstune run`: this command started the trainer; worded so on leaving */
    bool ascii;           /* --ascii, -U: no character above 126 */
    enum tui_color color; /* --color=auto|always|never; auto heeds NO_COLOR and TERM */
    enum tui_symbols symbols; /* --symbols=braille|block|ascii; auto: block on the Linux console */
    double refresh;           /* --refresh SECONDS between frames; 0: TUI_REFRESH_USUAL */
    bool mouse;            /* --mouse; off by default so that the terminal's own selection works */
    bool no_bell;          /* --bell=off */
    const char *script;    /* --script FILE: keys instead of a keyboard; see tui/script.h */
    int frames;            /* --frames N: leave after N frames; 0: no limit */
    const char *fake_time; /* BSTUNE_FAKE_TIME: a clock that stands, s since 1970; NULL: none */
    const struct tui_preset *presets;
    int n_presets;
    const struct tui_replay *replay; /* of the run's recording, instead of the run; NULL: none */
};

/* Draws until the person leaves. Returns the exit code: 0 left; 1 the terminal or the run's files
 * failed; 128+n ended by signal n. Without a terminal that can be drawn on (TERM=dumb, a pipe) it
 * writes a line every few seconds instead, until the run ends. */
int tui_console(const struct tui_console_cfg *cfg);

/* Puts the terminal back the way it was, if a console holds it; for bst_panic_hook. */
void tui_console_restore(void);

#endif
