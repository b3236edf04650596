/* The list of what a plan changes, for people: one line a preset key that differs. Pure; any
 * thread. */
#ifndef BST_TUNE_PLAN_CHANGES_H
#define BST_TUNE_PLAN_CHANGES_H

#include <stdint.h>

#include "core/tune/plan.h"

/* Fills plan->changes from before and after; dataset turns samples into epochs. */
void bst_plan_list_changes(struct bst_plan *plan, uint64_t dataset);

enum { BST_BRIEF = 48 };
/* A change's two values as a person reads them: numbers with four digits, a length in epochs or, a
 * short one, in samples, a batch in what it is counted in; both alike, and never the same text for
 * two different values. */
void bst_change_brief(const char *before, const char *after, char was[BST_BRIEF],
                      char is[BST_BRIEF]);

#endif
