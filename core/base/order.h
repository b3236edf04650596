/* Doubles in order. Plain values; any thread. */
#ifndef BST_BASE_ORDER_H
#define BST_BASE_ORDER_H

#include <stddef.h>

/* Rising; none of them NaN. */
void bst_order(double *x, size_t n);
/* Puts them in order; of an even number, the middle of the middle two; NaN when there are none. */
double bst_median(double *x, size_t n);

#endif
