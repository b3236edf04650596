/* A GPU that is not here: the cuda backend opened with one plans as it would there, with cuDNN's
 * own workspace for every convolution, and allocates and runs nothing. It takes cuDNN, but neither
 * a driver nor a device nor the rest of CUDA: bst_backend_get_planner(). */
#ifndef BST_BACKEND_PLAN_FOR_H
#define BST_BACKEND_PLAN_FOR_H

#include "core/backend/backend.h"

struct bst_plan_for {       /* borrowed while the backend is open */
    const char *properties; /* the device's, JSON as cuDNN writes it */
    size_t n_properties;
    uint64_t memory;   /* of the device, bytes */
    const char *cache; /* folder of cuDNN's answers; NULL: $XDG_CACHE_HOME/bstune, or
                          ~/.cache/bstune; "": none are kept */
};

/* The cuda backend as far as planning goes. BST_E_LIBRARY: cuDNN, or the module that knows it, is
 * not here. */
BST_MUST_USE enum bst_err bst_backend_get_planner(const struct bst_backend **out);
/* Of the cuDNN that it asks, "9.19.0"; errors as above. */
BST_MUST_USE enum bst_err bst_backend_cudnn_version(char out[32]);

#endif
