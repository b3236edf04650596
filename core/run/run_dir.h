/* The folder of a run: its name, its one owner (a lock that the kernel drops with the process), and
 * run.json, which says where its trainer is. Any process reads; the owner writes. */
#ifndef BST_RUN_RUN_DIR_H
#define BST_RUN_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/sb.h"

#define BST_RUNS_ROOT "runs"

struct bst_run_info {
    char name[80];
    char dir[512]; /* in full */
    char host[80], preset[80], socket[108];
    char preset_id[65]; /* the name that `preset NAME` takes; "" when it had none */
    char state[16]; /* "running", "done", "failed", "preempted", "stopped"; "killed" once it is none
                       of them; "no folder" of one that lives and has none */
    int pid;
    double started, ended; /* seconds since 1970; 0: not yet, or not known */
    bool live;             /* somebody holds the lock */
};

/* Makes root/PRESET-N for the lowest N above all that are there; gives its full path. *made: how
 * many folders had to be made, from the last upwards; also on failure. */
BST_MUST_USE enum bst_err bst_run_dir_new(const char *root, const char *preset, char dir[512],
                                          int *made);
/* Makes `path` if it is missing; gives its full path. */
BST_MUST_USE enum bst_err bst_run_dir_at(const char *path, char dir[512], int *made);
/* True when files of a run are in it. */
bool bst_run_dir_used(const char *dir);

/* Which of a run's files are in the folder; for bst_run_dir_discard. */
unsigned bst_run_dir_had(const char *dir);
/* The run that ended here has neither an update nor a checkpoint. */
bool bst_run_dir_untrained(const char *dir);
/* By the owner of the lock: takes away the run's files but those that it `had` before, and as many
 * folders as were `made`, each only when it is empty. */
void bst_run_dir_discard(const char *dir, int made, unsigned had);

/* BST_E_EXISTS, with the owner's pid where it is known, when the run has an owner. */
BST_MUST_USE enum bst_err bst_run_lock(const char *dir, int *fd);
/* The lock is the one that is in the folder: whoever has another has lost the run. */
bool bst_run_lock_is_there(const char *dir, int fd);
void bst_run_unlock(int fd);
bool bst_run_is_live(const char *dir);

BST_MUST_USE enum bst_err bst_run_info_write(const struct bst_run_info *info);
/* BST_E_NOTFOUND when there is no run in `dir`; another error when its run.json is damaged. Where
 * that file, or the whole folder, is gone and the trainer lives, what can be known without it. */
BST_MUST_USE enum bst_err bst_run_info_read(const char *dir, struct bst_run_info *out);

/* A link beside the run's socket, by which the runs of this machine are found from any folder. It
 * goes with the socket; what a killed trainer left is taken away once its folder is gone. */
void bst_run_register(const struct bst_run_info *info);
void bst_run_unregister(const struct bst_run_info *info);

/* What a run that was not named is wanted for, which says where it is looked for. */
enum bst_run_use {
    BST_RUN_RECORD, /* its files: the newest of this folder, one that lives before one that ended;
                       where there is none, the only one that lives */
    BST_RUN_STATE,  /* how it stands: the only one of this folder that lives, else the only one that
                       does anywhere, else the only one there is */
    BST_RUN_CHANGE, /* the only one that lives, and only where that is one of this folder */
};
/* The run called `what`: a name under root or of one that lives on this machine, a folder, or, when
 * NULL, by `use`. BST_E_NOTFOUND says which there are. */
BST_MUST_USE enum bst_err bst_run_find(const char *root, const char *what, enum bst_run_use use,
                                       char dir[512]);
/* The run in `dir`, a full path, is one of this folder: somewhere under root, right in the folder
 * where this process is, or around it. */
bool bst_run_is_here(const char *root, const char *dir);
/* Those under root and those that live on this machine, newest first; freed with bst_free. */
BST_MUST_USE enum bst_err bst_run_list(const char *root, struct bst_run_info **out, int *n);

/* dir/file, replaced as a whole. BST_E_RANGE: the text did not fit its buffer, and would be cut. */
BST_MUST_USE enum bst_err bst_run_write(const char *dir, const char *file,
                                        const struct bst_sb *text);
/* dir/file */
void bst_run_path(const char *dir, const char *file, char out[768]);

#endif
