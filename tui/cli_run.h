/* The parts of `bstune run`: the trainer in this process, or spawned with a console on it. One
 * thread. */
#ifndef TUI_CLI_RUN_H
#define TUI_CLI_RUN_H

#include <sys/types.h>

#include "core/run/preset.h"
#include "tui/config.h"
#include "tui/console.h"
#include "tui/verbs.h"

struct bst_cluster;

struct tui_run {
    struct bst_preset_env *env;
    struct bst_preset preset;
    char dir[512]; /* claimed: `lock` is its owner's */
    int lock;
    int made;         /* folders made for it, and which of a run's files were there before: */
    unsigned had;     /* a start that comes to nothing leaves nothing */
    bool claimed;     /* the folder is this run's */
    bool finished;    /* a resume of a run that has nothing left to do, which was said */
    bool handed_over; /* a console came; it is for its process to clear up, once it has been read */
    const char *sets[TUI_ARGS_MAX + 4]; /* --set, and --init, --advise, … as some */
    int n_sets;
    const char *own_set,
        *own_said; /* one that an option stands for, and what to call it; or NULL */
    char init[BST_PRESET_PATH + 8];
    const char *journal;      /* of the run that this one repeats; NULL: none */
    char first[64];           /* command that a resume starts with; "" none */
    struct bst_cluster *crew; /* the run's processes, of which a launcher started several; NULL */
};

/* The PRESET operand with --set and --init, and with `last` (NULL: none) as a --set behind them,
 * which r->own_said, if it is set, is the name of in errors; for a verb that makes no run of it;
 * gives an exit code. r->env is the caller's to free, also after an error. */
int tui_run_preset(const struct tui_call *c, struct tui_run *r, const char *last);
/* --headless: trains in the foreground; gives the run's exit code. */
int tui_run_here(const struct tui_call *c, struct tui_run *r);
/* Starts the same in a session of its own, then a console on it. */
int tui_run_spawn(const struct tui_call *c, struct tui_run *r);

/* A console on `dir` with the options of the call; `env` for the preset picker. */
int tui_open_console(const struct tui_call *c, const struct bst_preset_env *env, const char *dir,
                     bool started_here, const struct tui_replay *replay);

/* What config.yaml says, its keys bound; TUI_EXIT_USAGE, said, when something in it is wrong. */
int tui_read_config(const struct tui_call *c, struct tui_config *out);
/* How to draw, as the call's options say, and config.yaml where they say nothing; TUI_EXIT_USAGE,
 * said, when one is wrong. */
int tui_read_options(const struct tui_call *c, struct tui_console_cfg *cfg);

/* The folder of the sweep that the call's operand names, by path or as NAME under runs/. */
bool tui_find_study(const struct tui_call *c, char dir[512]);
bool tui_has_terminal(void);
/* A sweep's view; TUI_STUDY_NOT_DRAWN, with nothing said, where there can be none. `sweep`: a child
 * that goes on with it, or 0. */
int tui_open_study(const struct tui_call *c, const char *dir, pid_t sweep);

/* Options that are numbers, before anything is made: TUI_EXIT_USAGE says which is wrong. */
int tui_check_numbers(const struct tui_call *c);
/* Of a run that ended with `code`: when nothing had been trained, its folder goes, and that is
 * said. */
void tui_run_clear_up(const struct tui_call *c, const struct tui_run *r, int code);

/* The descriptor on which a spawned trainer says that it is there. */
#define TUI_READY_ENV "BSTUNE_READY_FD"

#endif
