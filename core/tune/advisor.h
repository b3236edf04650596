/* Rules over what a run shows: each has a statistic, a threshold, how long it must last, a change
 * that it proposes, what that should bring, and a rest after it has spoken. What core/tune/watch.h
 * remarks on is taken from there and only given a change. Pure; plain values in the caller's
 * storage; one thread. */
#ifndef BST_TUNE_ADVISOR_H
#define BST_TUNE_ADVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tune/diagnostics.h"
#include "core/tune/noise.h"
#include "core/tune/watch.h"

/* In order of what is worst: of several in one update the first is for the autopilot. */
#define BST_ADVICE_RULES(X)                                                                        \
    X(NONFINITE_REPEATED)                                                                          \
    X(LOSS_ABOVE_START)                                                                            \
    X(EARLY_OSCILLATION)                                                                           \
    X(SLOW_FALL)                                                                                   \
    X(STEP_LARGE)                                                                                  \
    X(EVAL_STALLS)                                                                                 \
    X(LAYER_VANISHES)                                                                              \
    X(LAYER_EXPLODES)                                                                              \
    X(BATCH_ABOVE_2048)                                                                            \
    X(WARMUP_SHARE)                                                                                \
    X(BN_MICRO_SMALL)                                                                              \
    X(BATCH_FAR_FROM_NOISE)                                                                        \
    X(DEVICES_UNEQUAL)                                                                             \
    X(GRADIENT_SPIKE)                                                                              \
    X(GRADIENT_HIGH)                                                                               \
    X(GRADIENT_LOW)                                                                                \
    X(LAYER_WITHOUT_GRADIENT)                                                                      \
    X(LOADER_SLOW)

enum bst_advice_rule {
#define X(name) BST_ADVICE_##name,
    BST_ADVICE_RULES(X)
#undef X
        BST_N_ADVICE_RULES
};

struct bst_advice_settings { /* in force */
    double batch, base_batch;
    bool unscaled; /* lr_scaling: none */
    double micro;  /* the largest micro-batch; 0 in a net without batch norm */
    int ranks, accumulate;
    double epochs, warmup_epochs; /* of the run, and of its warm-up */
    double dataset;               /* samples an epoch */
    double tokens_a_sample;       /* in which the command batch counts; 0: it counts samples */
    double peak;                  /* of the rate */
    struct bst_band band;
};

struct bst_advice_update {
    uint64_t update;
    double epoch; /* after it */
    double samples, loss, grad_norm;
    double grad_ratio; /* the norm to what was usual before; 0: not known */
    bool nonfinite;
    const char *first_nonfinite; /* or NULL; copied */
    double busy_mean, busy_most; /* seconds that ranks spent on their parts; 0: not known */
};

struct bst_advice {
    enum bst_advice_rule rule;
    enum bst_diag code;
    uint64_t update;
    double epoch;
    double statistic, threshold;
    char why[160];   /* the statistic in words */
    char change[48]; /* a command; "": nothing a live change could do */
    const char *effect;
    bool saves_time; /* and risks more than it does: for a person to weigh, not for the autopilot */
    double due;      /* epoch at which it is looked at again */
    bool scored;
    double after; /* the statistic then; NaN when there was none */
    bool improved;
};

enum {
    BST_ADVICE_MOST = 64,   /* kept; a run that earns more is past advice */
    BST_ADVICE_LOSSES = 12, /* blocks of the loss that are looked at */
    BST_ADVICE_EVALS = 3,   /* without a new best */
    BST_ADVICE_RECENT = 100 /* updates, for what should be rare */
};

struct bst_advisor {
    struct bst_advice_settings set;
    struct bst_advice_update last;
    char first_nonfinite[64];
    /* Losses in blocks of a twentieth of an epoch, at least 1024 samples. */
    double block_sum, block_samples, block_n;
    double blocks[BST_ADVICE_LOSSES];
    int n_blocks;
    double start_sum, start_samples;       /* of the run's first few updates */
    double first_loss, worst_loss;         /* of the whole run */
    uint64_t nonfinite[BST_ADVICE_RECENT]; /* the updates that were, a ring */
    uint64_t n_nonfinite;
    int evals_without_best, n_evals;
    double best_accuracy;
    double step; /* rate × gradient norm / weight norm of the whole net, smoothed; 0: unknown */
    double layer_small, layer_large; /* least and greatest gradient / weight of one; 0: unknown */
    uint64_t layers_update;          /* that they are of */
    char layer_small_name[64], layer_large_name[64];
    double unequal; /* slowest rank over the mean, smoothed; 0: unknown */
    struct bst_noise_answer noise;
    bool remarked[BST_N_ADVICE_RULES]; /* by the watch, since the last update */
    char remark[BST_N_ADVICE_RULES][128];
    double spoke[BST_N_ADVICE_RULES]; /* epoch */
    int said[BST_N_ADVICE_RULES];     /* times under these settings; each doubles the rest */
    int row[BST_N_ADVICE_RULES];
    struct bst_advice given[BST_ADVICE_MOST];
    int n_given, n_taken;
};

void bst_advisor_init(struct bst_advisor *a);
/* Asked before every update; what was seen under other settings is forgotten. */
void bst_advisor_settings(struct bst_advisor *a, const struct bst_advice_settings *set);
/* Codes of the advice that `next` by itself would bring, where the settings in force do not or do
 * so less: what is said before a change is made. Returns how many of at most BST_N_ADVICE_RULES. */
int bst_advisor_foresee(const struct bst_advisor *a, const struct bst_advice_settings *next,
                        enum bst_diag *out);
/* Whoever made the change was told so: the rule is silent about it. */
void bst_advisor_told(struct bst_advisor *a, enum bst_diag code);
void bst_advisor_eval(struct bst_advisor *a, double accuracy);
void bst_advisor_noise(struct bst_advisor *a, const struct bst_noise_answer *noise);
/* Gradient over weight norms of the layers, now and then. */
void bst_advisor_layer(struct bst_advisor *a, const char *name, double grad, double weight);
/* What plain descent moves the net by, as a share of its weights: lr · |g| / |w|. */
void bst_advisor_step(struct bst_advisor *a, double share);
void bst_advisor_remark(struct bst_advisor *a, enum bst_diag code, const char *text);
/* Takes in an update and asks every rule; last of what an update brings. */
void bst_advisor_update(struct bst_advisor *a, const struct bst_advice_update *u);
/* The next piece of advice not taken yet, NULL when there is none. Borrowed. */
const struct bst_advice *bst_advisor_take(struct bst_advisor *a);

#endif
