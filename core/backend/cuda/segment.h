/* Stretches of a program as CUDA graphs, see segment.c. Owner: the handle of the instruction that a
 * stretch begins with; the context's thread alone. */
#ifndef BST_BACKEND_CUDA_SEGMENT_H
#define BST_BACKEND_CUDA_SEGMENT_H

#include "core/backend/cuda/be.h"
#include "core/backend/cuda/cuda.h"

/* struct bst_backend's run_some. */
enum bst_err cuda_run_some(struct bst_be *be, const struct bst_program *p,
                           const struct bst_bindings *m, const struct bst_step *step, int from,
                           int to, int *next);
/* Before the plans that were captured go; NULL is fine. */
void cuda_segments_free(struct bst_be *be, struct cuda_segment *first);

#endif
