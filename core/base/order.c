#include "core/base/order.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bst_order(double *x, size_t n)
{
    qsort(x, n, sizeof *x, compare);
}

double bst_median(double *x, size_t n)
{
    if (!n)
        return NAN;
    bst_order(x, n);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
