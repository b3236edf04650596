/* A backend's work over blocks: import and export, sums, scaling, the optimizer. */
#ifndef TESTS_OPS_FLAT_H
#define TESTS_OPS_FLAT_H

#include "core/backend/backend.h"

/* Failures, each printed. */
int check_flat(const struct bst_backend *b);

#endif
