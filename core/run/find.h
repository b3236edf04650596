/* Searches on an open trainer: what is tried are real updates, and afterwards the trainer is as it
 * was, bit for bit, whatever became of the search. Used on a fresh trainer by the command line and
 * by a live session between two updates. The thread that owns the trainer. */
#ifndef BST_RUN_FIND_H
#define BST_RUN_FIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/sb.h"
#include "core/train/train.h"
#include "core/tune/lr_range.h"
#include "core/tune/plan.h"
#include "core/tune/split.h"
#include "core/tune/trial.h"

struct bst_find { /* what every search needs */
    struct bst_trainer *trainer;
    int ranks;
    struct bst_update_req req; /* position, rate and the rest; batch and micro_batches are those in
                                  force, to be put back, or 0 when there are none */
    const atomic_int *stop;    /* may be NULL */
    /* One line now and then; may be NULL. */
    void (*progress)(void *arg, const char *text);
    void *arg;
};

enum bst_fit_outcome {
    BST_FIT_RAN,
    BST_FIT_NO_MEMORY,
    BST_FIT_REFUSED, /* for another reason, as batch norm over one value */
};
const char *bst_fit_outcome_name(enum bst_fit_outcome o);

struct bst_fit_row {
    int64_t micro;
    enum bst_fit_outcome outcome;
    double rate;      /* samples per second over all ranks, of updates of one micro-batch a rank; 0:
                         not measured */
    uint64_t planned; /* bytes a rank; 0: not known */
    /* Where the rate was measured: one micro-batch, forward and backward; and what an update has
     * once, whatever it accumulates: gradients added up, the optimizer. */
    double micro_seconds, rest_seconds;
};

enum { BST_FIT_ROWS = 64, BST_FIT_MOST = 8192 };

struct bst_fit_cfg {
    int64_t most;         /* largest micro-batch asked about; 0: BST_FIT_MOST */
    int64_t global_batch; /* to be split in the end */
};

struct bst_fit_result {
    int64_t largest; /* micro-batch a rank that ran; 0: nothing fits */
    int64_t most;    /* `largest` is `most`: no larger one was asked about */
    bool uneven;     /* a size between hole_least and hole_greatest failed, a larger one ran */
    int64_t hole_least, hole_greatest;
    struct bst_fit_row rows[BST_FIT_ROWS]; /* of rising size */
    int n_rows;
    int fastest, knee; /* rows; -1: not known */
    int dip, dip_next; /* rows before the knee, the second slower than the knee's rule has it; -1 */
    bool cut;          /* by `stop`: the rows are those measured until then. `largest`, if not 0, is
                          right; what is told of all rows is not known */
    struct bst_split split; /* of global_batch with `largest` as its cap; batch 0: there is none */
    double update_seconds;  /* that an update of it will take, by what `largest` took; 0: unknown */
    uint64_t limit;         /* bytes a rank */
    int updates;            /* that ran */
    bool restored;          /* false, after an error: the trainer could not be put back as it was */
};

/* BST_OK also when nothing fits. BST_E_CANCELLED: `stop` was set; `out` has what was measured. */
BST_MUST_USE enum bst_err bst_find_fit(const struct bst_find *f, const struct bst_fit_cfg *cfg,
                                       struct bst_fit_result *out);

struct bst_lr_cfg {
    struct bst_lr_range range;
    int repeats; /* passes over different samples, 1 … BST_LR_REPEATS_MOST */
};

struct bst_lr_result {
    struct bst_lr_range range;
    struct bst_lr_curve curves[BST_LR_REPEATS_MOST];
    int repeats;
    struct bst_lr_suggestion s;
    int64_t batch;
    int updates; /* that ran */
    bool restored;
    bool cut; /* by `stop`: the curves end where it was, and nothing is suggested */
};

/* Checks what a user gave. */
BST_MUST_USE enum bst_err bst_lr_cfg_check(const struct bst_lr_cfg *cfg);
/* On updates of the batch in force, one rate an update. BST_E_CANCELLED: `stop` was set; `out` has
 * what was measured. */
BST_MUST_USE enum bst_err bst_find_lr(const struct bst_find *f, const struct bst_lr_cfg *cfg,
                                      struct bst_lr_result *out);

struct bst_trial_cfg {
    const struct bst_live *without, *with;
    double momentum_factor; /* of the change's first update, see struct bst_plan */
    uint64_t samples;       /* where the run stands */
    uint64_t total;         /* where it ends: a trial does not go past it */
    uint64_t update;        /* done */
    bool nesterov;
    int updates; /* without the change, BST_TRIAL_LEAST … _MOST; with it, as many as the same
                    samples take */
};

struct bst_trial_result {
    struct bst_trial_answer answer;
    uint64_t samples;
    int updates[2];    /* without and with the change */
    double seconds[2]; /* of the updates alone */
    bool restored;
};

/* Both from the state that is there, over the same samples. BST_E_RANGE when the run is too near
 * its end, or `updates` is out of bounds. */
BST_MUST_USE enum bst_err bst_find_trial(const struct bst_find *f, const struct bst_trial_cfg *cfg,
                                         struct bst_trial_result *out);

/* find_print.c */
/* One line for people: "largest micro-batch 412, …" */
void bst_fit_describe(const struct bst_fit_result *r, struct bst_sb *out);
void bst_lr_describe(const struct bst_lr_result *r, struct bst_sb *out);
void bst_trial_describe(const struct bst_trial_result *r, struct bst_sb *out);
/* One JSON object. */
void bst_fit_print(const struct bst_fit_result *r, struct bst_sb *out);
/* A line of JSON a point, then one of what they say; each with its end. */
void bst_lr_print(const struct bst_lr_result *r, struct bst_sb *out);

#endif
