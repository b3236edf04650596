/* The rate over the whole run as at most 128 points, close together where it bends: what a schedule
 * pane draws. Pure; any thread. */
#ifndef BST_RUN_CURVE_H
#define BST_RUN_CURVE_H

#include <stdint.h>

#include "core/run/status.h"
#include "core/tune/schedule.h"

int bst_curve_make(const struct bst_schedule *sch, uint64_t batch, double samples[BST_MAX_CURVE],
                   double rate[BST_MAX_CURVE]);

#endif
