/* Samples per second over the micro-batch: where more stops paying. Pure; any thread. */
#ifndef BST_TUNE_THROUGHPUT_H
#define BST_TUNE_THROUGHPUT_H

#include <stdint.h>

struct bst_throughput { /* rows of rising size */
    int64_t micro;
    double rate; /* samples per second; not finite or ≤ 0: not known */
};

/* The row with the greatest rate; -1: none is known. */
int bst_throughput_fastest(const struct bst_throughput *rows, int n);
/* The first row from which doubling the batch gives less than 5 % more samples per second, and so
 * does every larger row, a doubling at a time. The last known row when every doubling pays; -1 with
 * fewer than two known rows. */
int bst_throughput_knee(const struct bst_throughput *rows, int n);

#endif
