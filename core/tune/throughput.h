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
/* The first row before `knee` whose next one gave less than 5 % more a doubling, though a larger
 * one made up for it: such a row was held up by something, or is a slow size. -1: there is none.
 * *next is that next row. */
int bst_throughput_dip(const struct bst_throughput *rows, int n, int knee, int *next);

#endif
