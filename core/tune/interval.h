/* A length of a run with its unit, as people write it ("1ep", "500st", "10000sa", "10%"), and the
 * samples it stands for. Plain values; any thread. */
#ifndef BST_TUNE_INTERVAL_H
#define BST_TUNE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

enum bst_unit {
    BST_UNIT_EPOCHS,  /* "ep" */
    BST_UNIT_STEPS,   /* "st": updates at the batch in force when it is converted */
    BST_UNIT_SAMPLES, /* "sa" */
    BST_UNIT_RATIO,   /* "%" in text, 0.1 here for 10 %: of the run, unless a command says else */
};

struct bst_interval {
    double value; /* never negative */
    enum bst_unit unit;
};

/* What a conversion depends on; total is used for ratios only. */
struct bst_scale {
    uint64_t dataset; /* samples an epoch */
    uint64_t batch;
    uint64_t total; /* samples of the whole run */
};

/* "1.5ep", "500st", "10000sa", "10%", no blanks. BST_E_PARSE or BST_E_RANGE. */
BST_MUST_USE enum bst_err bst_interval_parse(const char *text, struct bst_interval *out);
void bst_interval_format(struct bst_interval iv, char out[32]);

/* Nearest whole number of samples, halves up. BST_E_RANGE past 2^53, where doubles grow holes. */
BST_MUST_USE enum bst_err bst_interval_samples(struct bst_interval iv,
                                               const struct bst_scale *scale, uint64_t *out);

#endif
