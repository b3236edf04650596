/* The CUDA backend: convolutions by cuDNN, matrix products by cuBLASLt, all between them as own
 * kernels, one context a device. Built as a module (module.c) that bstune loads when a run asks for
 * it. No figure of its speed has been measured yet. */
#ifndef BST_BACKEND_CUDA_CUDA_H
#define BST_BACKEND_CUDA_CUDA_H

#include "core/backend/backend.h"

extern const struct bst_backend bst_backend_cuda;

#endif
