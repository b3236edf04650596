/* ref64 with the roundings of a backend of 16 bits, and no others: activations and their gradients
 * where they are written, the factors of convolutions and matrix products, a filter's gradient
 * before it is added up. What such a backend computes differs from it by sums that come to the
 * other side of a rounding, not by all that a rounding does to a net. One thread. */
#ifndef TESTS_NET_ROUNDED_H
#define TESTS_NET_ROUNDED_H

#include "core/backend/backend.h"

const struct bst_backend *rounded_ref64(enum bst_precision p); /* ref64 itself for 32 bits */

#endif
