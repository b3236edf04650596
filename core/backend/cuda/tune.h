/* Which of cuDNN's plans is the fastest for a convolution: measured when it first runs, in its
 * place and with its own tensors, within the workspace that it was given when it was planned, so
 * that neither takes memory. What was chosen holds for all contexts of the process on devices with
 * the same properties, for later ones from disk, and for a run that is resumed from its checkpoint.
 */
#ifndef BST_BACKEND_CUDA_TUNE_H
#define BST_BACKEND_CUDA_TUNE_H

#include "core/backend/cuda/be.h"
#include "core/base/sb.h"

struct cuda_tuned;

/* The choices for a device; any thread. `folder` as in keep.h. */
BST_MUST_USE enum bst_err cuda_tuned_open(cudnnBackendDescriptor_t device, const char *folder,
                                          struct cuda_tuned **out);
void cuda_tuned_close(struct cuda_tuned *t); /* NULL is fine */
void cuda_tuned_write(struct cuda_tuned *t); /* what is new, to disk */

/* What this process has used, as text; and back, before what is on disk. Of another cuDNN or
 * another device nothing is taken. */
void cuda_tuned_print(struct cuda_tuned *t, struct bst_sb *out);
void cuda_tuned_take(struct cuda_tuned *t, const char *text);

/* An instruction's tensors, by their numbers in its graph, and its workspace. */
struct cuda_conv_places {
    void *at[5];
    int n;
    void *workspace;
    size_t room;
};

BST_MUST_USE enum bst_err cuda_conv_run(struct bst_be *be, const struct cuda_dnn_plan *plan,
                                        const struct cuda_conv_places *places);

/* Of a convolution that overwrites its result. Puts the plan that was chosen in the place of *plan;
 * the first time ever it is measured, on the context's stream, which is waited for. What cannot be
 * measured stays as it is. */
BST_MUST_USE enum bst_err cuda_tune(struct bst_be *be, const struct cuda_conv_ask *ask,
                                    const struct cuda_conv_places *places,
                                    struct cuda_dnn_plan *plan);

#endif
