/* A context that only plans, for a device that is not here (core/backend/plan_for.h): the same
 * describe() as of one that runs, with nothing behind it but cuDNN. Belongs to one thread. */
#ifndef BST_BACKEND_CUDA_PLAN_H
#define BST_BACKEND_CUDA_PLAN_H

#include "core/backend/cuda/attention_ask.h"
#include "core/backend/cuda/be.h"
#include "core/backend/cuda/conv_ask.h"

BST_MUST_USE enum bst_err cuda_plan_open(const struct bst_be_cfg *cfg, struct bst_be **out);
void cuda_plan_close(struct bst_be *be);

/* The plan of a convolution; in a context that only plans, its numbers without the plan itself.
 * BST_E_UNSUPPORTED: cuDNN has none. */
BST_MUST_USE enum bst_err cuda_conv_find(struct bst_be *be, const struct cuda_conv_ask *ask,
                                         struct cuda_dnn_plan *out);

/* The same of attention. cuDNN compiles such a plan for a second or two, so that instructions of
 * the same sizes share one; given back, it stays with its context for a while. */
BST_MUST_USE enum bst_err cuda_attn_find(struct bst_be *be, const struct cuda_attn_ask *ask,
                                         const struct cuda_dnn_plan **out);
void cuda_shared_give(struct bst_be *be, const struct cuda_dnn_plan *plan);
void cuda_shared_free(struct bst_be *be); /* all, none of them in use */

#endif
