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
    uint64_t batch, seed;
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
    double efficiency;        /* of a sample: least samples_to_target of all rows / this one's */
    /* An epoch's time over the fastest row's, less one: the mean of the logarithm over the seeds
     * that both have, for what else a machine does changes more between seeds than within one. */
    double slower;
    bool as_fast; /* `slower` is at most the larger of BST_SWEEP_SLOWER and two standard errors */
    bool whole;
    bool fastest;  /* shortest epoch */
    bool accurate; /* highest mean accuracy */
    bool choice;   /* see bst_sweep_table() */
    bool largest;  /* of those tried, the largest that needs no accumulation */
};

/* As in bst_throughput_knee(): less than this is not worth a larger batch. */
#define BST_SWEEP_SLOWER 0.05
/* Without a delta given: a row of which two standard errors leave more accuracy open than this is
 * no choice, for a batch that failed to train with one seed of three would be as good as the best.
 */
#define BST_SWEEP_DOUBT_MOST 0.02

struct bst_sweep {
    double delta;  /* < 0: the larger of 0.3 points and two standard errors of the difference */
    double target; /* accuracy; NaN: one point under the most accurate row */
    double delta_used, target_used; /* results; delta_used: the widest of a row within its own */
    bool told_apart;                /* some row's epoch is longer than the fastest's */
    bool vague; /* neither choice nor most accurate: too much is open of it; delta_used is NaN */
    struct bst_sweep_row rows[BST_SWEEP_BATCHES];
    int n_rows;
};

/* Fills the rows, by rising batch. The choice: of the rows within delta of the most accurate, those
 * as fast as the fastest of them, and of these the most accurate. The standard error is that of the
 * mean over seeds; of one run it is what the number of evaluation samples alone leaves open,
 * sqrt(p(1-p)/N), p with one right and one wrong sample more (Laplace). At most BST_SWEEP_BATCHES
 * different batches and BST_SWEEP_REPEATS runs of one. */
void bst_sweep_table(struct bst_sweep *s, const struct bst_sweep_run *runs, int n);

/* "32,64,128" → batches in the order given. False: not numbers from 1, one twice, or too many. */
bool bst_sweep_parse(const char *text, uint64_t *out, int *n);

#endif
