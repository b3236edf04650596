/* A backend that plans for a GPU that is not here and runs nothing: the CUDA backend's layouts and
 * sizes, with cuDNN's own workspace for every convolution (conv_plan.h). A trainer opened with
 * plan_only and this backend says what a run there would ask for. */
#ifndef BST_BACKEND_GPU_PLAN_H
#define BST_BACKEND_GPU_PLAN_H

#include "core/backend/backend.h"
#include "core/backend/conv_plan.h"

struct bst_plan_for {       /* borrowed while the backend is open */
    const char *properties; /* the device's, JSON as cuDNN writes it */
    size_t n_properties;
    const char *cache;       /* as for bst_conv_planner_open() */
    enum bst_conv_type type; /* of activations, their gradients and what convolutions work with */
};

extern const struct bst_backend bst_backend_gpu_plan; /* not in bst_backends: it cannot run */

#endif
