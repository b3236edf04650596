/* A batch sweep: the same training at several batches with several seeds, and what that says about
 * the batch to use. What was not measured is NaN, never a guess. Pure; any thread. */
#ifndef BST_TUNE_SWEEP_H
#define BST_TUNE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

enum { BST_SWEEP_BATCHES = 32, BST_SWEEP_REPEATS = 16 };

struct bst_sweep_eval {      /* at the end of an epoch, say */
    double samples, seconds; /* of training alone, up to here */
    double accuracy;         /* 0…1 */
};

struct bst_sweep_run { /* one batch with one seed, trained to its end */
    uint64_t batch;
    double epoch_seconds; /* median, of training alone */
    double samples_per_sec;
    double memory_planned, memory_peak; /* bytes a device */
    double accuracy, best_accuracy;     /* final and best, 0…1 */
    double loss;                        /* of the final evaluation */
    double eval_samples;                /* of the evaluation part */
    bool whole;                         /* no accumulation: a device took its part in one pass */
    const struct bst_sweep_eval *evals;
    int n_evals;
};

/* The runs of one batch. What a run came to is the mean over them, and what it took is the median:
 * seeds differ by chance alone, times by what else the machine was doing. */
struct bst_sweep_row {
    uint64_t batch;
    int runs;
    double epoch_seconds, samples_per_sec; /* medians */
    double memory_planned, memory_peak;    /* the most of any */
    double accuracy, best_accuracy, loss;
    double error;             /* standard error of `accuracy`, see bst_sweep_table() */
    double samples_to_target; /* where the evaluations cross the target, in a straight line between
                                 two; NaN unless every run came to it */
    double seconds_to_target; /* there; the median */
    double
        efficiency; /* least samples_to_target of all rows / this row's: what a sample is worth */
    bool whole;
    bool fastest;  /* shortest epoch */
    bool accurate; /* highest mean accuracy */
    bool choice;   /* the fastest of those within delta of the most accurate */
    bool largest;  /* largest that needs no accumulation */
};

struct bst_sweep {
    double delta;  /* < 0: the larger of 0.3 points and two standard errors of the difference */
    double target; /* accuracy; NaN: one point under the most accurate row */
    double delta_used, target_used; /* results */
    struct bst_sweep_row rows[BST_SWEEP_BATCHES];
    int n_rows;
};

/* Fills the rows, by rising batch. The standard error is that of the mean over seeds; of one run it
 * is what the number of evaluation samples alone leaves open, sqrt(p(1-p)/N). At most
 * BST_SWEEP_BATCHES different batches and BST_SWEEP_REPEATS runs of one. */
void bst_sweep_table(struct bst_sweep *s, const struct bst_sweep_run *runs, int n);

/* "32,64,128" → batches in the order given. False: not numbers from 1, one twice, or too many. */
bool bst_sweep_parse(const char *text, uint64_t *out, int *n);

#endif
