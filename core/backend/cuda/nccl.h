/* NCCL's functions, found when several GPUs are asked for: the module loads without it. Any
 * thread. */
#ifndef BST_BACKEND_CUDA_NCCL_H
#define BST_BACKEND_CUDA_NCCL_H

#include <nccl.h>

#include "core/base/err.h"

#define CUDA_NCCL_CALLS(X)                                                                         \
    X(GetVersion)                                                                                  \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(GetUniqueId)                                                                                 \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(AllReduce)                                                                                   \
    X(Broadcast)

struct cuda_nccl {
#define X(name) __typeof__(nccl##name) *name;
    CUDA_NCCL_CALLS(X)
#undef X
};

/* The same every time, from any thread. BST_E_NOTFOUND: no NCCL on this machine, or one too old. */
BST_MUST_USE enum bst_err cuda_nccl_get(const struct cuda_nccl **out);

#endif
