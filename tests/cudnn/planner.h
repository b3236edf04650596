/* What the tests of cudnn.* share: the planner of the CUDA backend and a device that is not here.
 */
#ifndef BST_TESTS_CUDNN_PLANNER_H
#define BST_TESTS_CUDNN_PLANNER_H

#include "core/backend/backend.h"
#include "core/run/gpu.h"

extern const char *device, *folder; /* by name; where answers are kept */
extern bool all;                    /* not only what a run of the suite has time for */
extern struct bst_gpu gpu;
extern const struct bst_backend *planner;

/* PROGRAM DEVICE FOLDER [all]: sets these, and gives what `tests` does; 77, with a word, where
 * there is no cuDNN. */
int with_planner(int argc, char **argv, int (*tests)(void));

#endif
