#include "core/backend/cuda/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#define LIBRARY "libnccl.so.2"
#define VERSION_LEAST 21800 /* 2.18: what a communicator that does not block relies on */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_nccl found;
static bool is_found;

static enum bst_err find_all(void *library)
{
    int version = 0;
#define X(call)                                                                                    \
    *(void **)&found.call = dlsym(library, "nccl" #call);                                          \
    if (!found.call)                                                                               \
        return bst_fail(BST_E_NOTFOUND, LIBRARY " has no nccl" #call);
    CUDA_NCCL_CALLS(X)
#undef X
    if (found.GetVersion(&version) != ncclSuccess || version < VERSION_LEAST)
        return bst_fail(BST_E_NOTFOUND, LIBRARY " is NCCL %d.%d, several GPUs need 2.18 or later",
                        version / 10000, version / 100 % 100);
    return BST_OK;
}

static enum bst_err load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return bst_fail(BST_E_NOTFOUND,
                        "several GPUs need NCCL, which is not on this machine: install it (" LIBRARY
                        ") or take one GPU");
    enum bst_err err = find_all(library);
    if (err)
        dlclose(library);
    is_found = !err;
    return err;
}

enum bst_err cuda_nccl_get(const struct cuda_nccl **out)
{
    pthread_mutex_lock(&lock);
    enum bst_err err = is_found ? BST_OK : load();
    pthread_mutex_unlock(&lock);
    *out = &found;
    return err;
}
