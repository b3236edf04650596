/* What commits look at, where the device can see it: a word of page-locked memory that the ranks of
 * one process share. Once a rank leaves a collective what NCCL writes is anything, on the others
 * too: before that the gate is shut, and none of them moves any more. Any thread. */
#ifndef BST_BACKEND_CUDA_GATE_H
#define BST_BACKEND_CUDA_GATE_H

#include "core/backend/cuda/be.h"

struct cuda_gate;

/* The gate of the group whose flag this is; open where no other rank has it yet. */
BST_MUST_USE enum bst_err cuda_gate_take(const atomic_bool *of, struct cuda_gate **out);
/* NULL is fine. `hung`: a device may look at it as long as the process lives. */
void cuda_gate_give_back(struct cuda_gate *g, bool hung);
void cuda_gate_shut(struct cuda_gate *g); /* NULL is fine */
const int32_t *cuda_gate_word(const struct cuda_gate *g);

#endif
