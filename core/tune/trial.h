/* A trial: from one state, training with a change and without it over the same samples; which of
 * the two has the lower loss at its end, as far as that can be told. Pure; any thread. */
#ifndef BST_TUNE_TRIAL_H
#define BST_TUNE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BST_TRIAL_PARTS = 24, /* of the samples; the later half is compared, the earlier leads in */
    BST_TRIAL_LEAST = 48, /* updates */
    BST_TRIAL_MOST = 100000,
};

/* Of the loss without the change: what is told apart, but is less, is no reason to choose. Two
 * arms over the same samples show differences that no run would come to notice. */
#define BST_TRIAL_TRIFLE_SHARE 0.001

#define BST_TRIAL_VERDICTS(X)                                                                      \
    X(EQUAL, "no difference that can be told")                                                     \
    X(BETTER, "the change is better")                                                              \
    X(WORSE, "the change is worse")                                                                \
    X(TRIFLE, "no difference that matters")                                                        \
    X(DIVERGED, "with the change the loss is not finite")                                          \
    X(RESCUED, "without the change the loss is not finite")                                        \
    X(BOTH_DIVERGED, "the loss is not finite, with the change or without it")

enum bst_trial_verdict {
#define X(name, text) BST_TRIAL_##name,
    BST_TRIAL_VERDICTS(X)
#undef X
};
const char *bst_trial_verdict_text(enum bst_trial_verdict v);

struct bst_trial_update {
    uint64_t samples; /* of the trial, up to the end of this update */
    double loss;      /* mean over the update's samples */
};

struct bst_trial_answer {
    enum bst_trial_verdict verdict;
    double loss[2];               /* without and with the change, mean over the later half */
    double difference, low, high; /* with less without, and its 95 % interval */
};

/* a: without the change, b: with it; both cover [0, samples). The parts' mean losses are paired,
 * since they are of the same samples, and their differences' mean has Student's interval. */
void bst_trial_compare(const struct bst_trial_update *a, int n_a, const struct bst_trial_update *b,
                       int n_b, uint64_t samples, struct bst_trial_answer *out);

#endif
