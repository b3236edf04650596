/* A run from its start or resume to its end: the trainer advanced update by update by the schedule,
 * evaluation and checkpoints at their marks, commands applied between updates. One a process; the
 * calling thread is the run's. */
#ifndef BST_RUN_SESSION_H
#define BST_RUN_SESSION_H

#include <stdbool.h>

#include "core/graph/net.h"
#include "core/run/preset.h"
#include "core/run/status.h"

enum bst_session_news {
    BST_NEWS_PHASE,
    BST_NEWS_UPDATE,
    BST_NEWS_EVAL,
    BST_NEWS_CHANGE, /* one was made, refused or dropped; its status may be of just before */
    BST_NEWS_NOTE,
};

struct bst_cluster;

struct bst_session_cfg {
    const struct bst_preset *preset;
    const struct bst_preset_env *presets; /* for the command `preset NAME` */
    const struct bst_net_table *nets;
    const char *dir;           /* the run's folder, in full; exists and is locked by the caller */
    int lock;                  /* of that */
    struct bst_cluster *crew;  /* the run's other processes, met; NULL: none */
    const char *trace_path;    /* --trace-samples; NULL: none */
    const char *first_command; /* given by the start itself, as by `ctl`; NULL: none */
    bool resume, readonly;
    bool repeat; /* with resume: a new run, in whose folder another's journal was put */
    /* The socket is there and commands are taken; before the data are read. May be NULL. */
    void (*ready)(void *arg);
    /* The folder was removed while the run went on and is made again: the caller owns this lock
     * from now on and unlocks the one before, and opens anew what it has open in the folder. */
    void (*relocked)(void *arg, int lock);
    /* From the session's thread; text is the change's or the note's, "" otherwise, and may hold
     * anything that is in a name. May be NULL. */
    void (*news)(void *arg, enum bst_session_news what, const struct bst_status *s,
                 const char *text);
    void *arg;
};

/* The process's exit code: 0 done or stopped, 1 failed, 2 the preset does not fit the net or the
 * data, 75 asked to end by a signal and saved. bst_err_text() says why for 1 and 2. */
int bst_session_run(const struct bst_session_cfg *cfg);

#endif
