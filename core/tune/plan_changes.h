/* The list of what a plan changes, for people: one line a preset key that differs. */
#ifndef BST_TUNE_PLAN_CHANGES_H
#define BST_TUNE_PLAN_CHANGES_H

#include <stdint.h>

#include "core/tune/plan.h"

/* Fills plan->changes from before and after; dataset turns samples into epochs. */
void bst_plan_list_changes(struct bst_plan *plan, uint64_t dataset);

#endif
