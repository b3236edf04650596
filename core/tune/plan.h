/* "A change is a transaction", the arithmetic of it: settings in force and a command give the next
 * settings, the list of what differs, or a refusal with its code. Pure; plain values; any thread.
 * Whether the new plan fits in memory is asked by whoever owns the memory; `cap` brings the answer.
 */
#ifndef BST_TUNE_PLAN_H
#define BST_TUNE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/tune/command.h"
#include "core/tune/diagnostics.h"
#include "core/tune/lr_rule.h"
#include "core/tune/momentum.h"
#include "core/tune/schedule.h"
#include "core/tune/split.h"

/* Everything of a run that can change while it runs. */
struct bst_live {
    uint64_t batch;               /* samples of an update, over all ranks */
    uint64_t batch_tokens;        /* the same as it was asked for; 0: it is counted in samples */
    uint64_t cap;                 /* micro_batch_size asked for; 0: what fits */
    uint64_t accumulate;          /* gradient_accumulation_steps asked for; 0: derived */
    struct bst_split split;       /* worked out from the three above, by bst_plan_split */
    struct bst_schedule schedule; /* rates as they are at `batch` */
    enum bst_lr_rule rule;
    double max_grad_norm; /* 0: no clipping */
    uint64_t clip_interval;
    double weight_decay, momentum, label_smoothing;
    char preset[BST_NAME_ROOM]; /* where the live keys came from; "" when from no named preset */
};

/* Where the run stands. */
struct bst_plan_env {
    uint64_t dataset; /* samples an epoch */
    uint64_t samples; /* seen before the update that the change will take effect at */
    uint64_t ranks;
    uint64_t fit; /* largest micro-batch that fits the devices; 0: not known, no bound */
    enum bst_momentum_form form;
    uint64_t least_accumulate; /* k at least, where none is asked for; 0: no bound */
    uint64_t tokens;           /* of an epoch; 0: the batch is counted in samples */
    bool no_momentum; /* the optimizer has none: it cannot be changed, and counts nowhere */
};

struct bst_change {
    const char *key; /* preset key, static text */
    char before[48], after[48];
};

enum { BST_CHANGES_MAX = 24, BST_NOTES_MAX = 8 };

struct bst_plan {
    struct bst_live before, after;
    struct bst_change changes[BST_CHANGES_MAX];
    int n_changes;              /* 0: the command changes nothing, which is not an error */
    double lr_before, lr_after; /* of the update at env.samples */
    double momentum_factor;     /* to multiply velocities by; 1 when there is nothing to do */
    enum bst_diag notes[BST_NOTES_MAX]; /* remarks to show with the proposal */
    int n_notes;
    enum bst_diag refused; /* BST_DIAG_NONE unless an error came back */
};

/* Sets live->split from batch, cap, accumulate and env (ranks, fit). */
BST_MUST_USE enum bst_err bst_plan_split(struct bst_live *live, const struct bst_plan_env *env);

/* Checks every value of `live`; refused gets the code. */
BST_MUST_USE enum bst_err bst_plan_check(const struct bst_live *live, enum bst_diag *refused);

/* Whether the run has room for one batch, and, while its warm-up lasts at `samples`, for something
 * behind that. The rule of a start and of every change. */
BST_MUST_USE enum bst_err bst_plan_check_room(const struct bst_live *live, uint64_t samples,
                                              enum bst_diag *refused);

/* A peak above it is not what adamw and lamb take: it was likely meant for sgd. */
#define BST_ADAPTIVE_RATE_USUAL 0.03

/* A command that is not a preset, undo or redo (those need settings that only the run holds; see
 * below): BST_E_STATE or BST_E_RANGE with text and out->refused. On error `after` is `before`. */
BST_MUST_USE enum bst_err bst_plan_command(const struct bst_live *now,
                                           const struct bst_command *cmd,
                                           const struct bst_plan_env *env, struct bst_plan *out);

/* What of a preset is taken up, and how. */
struct bst_take {
    bool length;       /* its own; else the run's stays */
    bool warmup_share; /* its warm-up is a part of the run, whatever the run's length */
    bool keep_rate;    /* its rate and weight decay are another optimizer's: the run's stay, and
                          follow the batch by the run's rule */
};

/* The live keys of a preset, resolved as if it had been started (rates at its own batch), taken up
 * by this run. Its gradient_accumulation_steps give way where they would not fit: the batch is what
 * counts. A warm-up for which the run is too short becomes the part of it that it was of its own.
 */
BST_MUST_USE enum bst_err bst_plan_preset(const struct bst_live *now, const struct bst_live *preset,
                                          const struct bst_take *take,
                                          const struct bst_plan_env *env, struct bst_plan *out);

/* Back to settings held from before a change (undo), or forward to them again (redo). */
BST_MUST_USE enum bst_err bst_plan_return(const struct bst_live *now, const struct bst_live *held,
                                          const struct bst_plan_env *env, struct bst_plan *out);

#endif
