/* Numbers of 16 bits as doubles: to nearest even, by the definition of the formats. */
#ifndef TESTS_ROUNDING_H
#define TESTS_ROUNDING_H

#include <math.h>

#include "core/backend/precision.h"

/* Bits of mantissa behind the point; 0: not a precision of 16 bits. */
static inline int rounding_bits(enum bst_precision p)
{
    return p == BST_PRECISION_FP16 ? 10 : p == BST_PRECISION_BF16 ? 7 : 0;
}

/* The nearest number that the precision holds; of those of 32 bits a float. */
static inline double rounding_to(enum bst_precision p, double v)
{
    const int bits = rounding_bits(p), least = p == BST_PRECISION_FP16 ? -24 : -133;
    int exponent;

    if (!bits || !isfinite(v))
        return (double)(float)v;
    frexp(v, &exponent); /* of a number from a half to 1 */
    const int unit = exponent - 1 - bits < least ? least : exponent - 1 - bits;
    const double r = ldexp(rint(ldexp(v, -unit)), unit);
    return p == BST_PRECISION_FP16 && fabs(r) > 65504 ? copysign(INFINITY, v) : r;
}

#endif
