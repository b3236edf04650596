/* The curves of one run of a study, read from its files as they grow. Owned by the study; one
 * thread. */
#ifndef BST_RUN_STUDY_CURVE_H
#define BST_RUN_STUDY_CURVE_H

#include "core/run/study.h"

struct bst_study_reader; /* the files of a run that is not over, and how far they were walked */

/* Takes what the run's files grew by into its points, evaluations and progress; opens the reader
 * where there is none yet. True when something came. */
bool bst_study_follow(struct bst_study_run *run);
/* Reads the rest, fills the run's result and closes its reader. */
BST_MUST_USE enum bst_err bst_study_conclude(struct bst_study_run *run);
void bst_study_unfollow(struct bst_study_run *run);

#endif
