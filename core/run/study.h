/* The folder of a batch sweep: sweep.json (what is asked), preset.yaml (of every run, but for batch
 * and seed) and a run's folder for each batch and seed, which is the whole of its state: whoever
 * opens it goes on where the last one was killed. Plain files; any process may read. */
#ifndef BST_RUN_STUDY_H
#define BST_RUN_STUDY_H

#include "core/run/preset.h"
#include "core/tune/sweep.h"

struct bst_study_plan {
    char dir[512];   /* in full */
    char preset[80]; /* name, for people */
    uint64_t batches[BST_SWEEP_BATCHES];
    int n_batches, repeats;
    uint64_t seed;        /* of the first repeat; the others count on */
    double delta, target; /* as in struct bst_sweep */
    double epochs;        /* of every run; NaN when its length is in other units */
};

enum bst_study_state {
    BST_STUDY_TODO,
    BST_STUDY_LIVE,   /* somebody trains it */
    BST_STUDY_PARTLY, /* begun, and to be resumed */
    BST_STUDY_DONE,
    BST_STUDY_FAILED, /* cannot be trained: `why` */
};

/* Training loss, as the mean over a fortieth of an epoch or over one update where that is more; NaN
 * when one of them was not finite. */
struct bst_study_point {
    double samples, seconds; /* of training alone, up to here */
    double loss;
};

struct bst_study_run {
    char dir[560];
    uint64_t batch, seed;
    enum bst_study_state state;
    char why[300];
    double epoch, epochs;     /* so far, of so many; NaN before the start */
    double left;              /* seconds until its end, under LIVE; NaN: not known yet */
    double samples_per_epoch; /* once there are points */
    struct bst_study_point *points;
    struct bst_sweep_eval *evals;
    int n_points, n_evals;
    struct bst_sweep_run result;     /* under DONE; with these evaluations */
    struct bst_study_reader *reader; /* of the study's own; NULL once the run is over */
};

struct bst_study {
    struct bst_study_plan plan;
    struct bst_study_run *runs; /* every batch with the first seed, then the second, … */
    int n_runs, n_done, n_failed;
    struct bst_sweep sweep; /* of those done */
};

/* Makes the folder's two files. The preset has its length and all but batch and seed. */
BST_MUST_USE enum bst_err bst_study_create(const struct bst_study_plan *plan,
                                           const struct bst_preset *preset);
bool bst_study_is(const char *dir);
/* Reads how far every run is; BST_E_NOTFOUND when `dir` has no sweep. */
BST_MUST_USE enum bst_err bst_study_read(const char *dir, struct bst_study **out);
/* Takes in what has come since: of a run that is over nothing is read again, of others what their
 * files grew by. True when something did. */
bool bst_study_poll(struct bst_study *s);
void bst_study_free(struct bst_study *s);
/* Writes down that a run cannot be trained, for one whose start left nothing behind. */
BST_MUST_USE enum bst_err bst_study_fail(const struct bst_study_run *run, const char *why);

#endif
