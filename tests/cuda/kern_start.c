/* In the place of kern.cu: a kernel is started by its name. */
#include "core/backend/cuda/kern.h"
#include "tests/fakes/fake.h"

cudaError_t kern_start(enum kern_id id, enum kern_type type, dim3 grid, dim3 block, const void *a,
                       cudaStream_t stream)
{
#define NAMES_1(name) {"bst_" #name "_f32", "bst_" #name "_f16", "bst_" #name "_bf16"},
#define NAMES_0(name) {"bst_" #name, "bst_" #name, "bst_" #name},
#define X(name, typed) NAMES_##typed(name)
    static const char *const names[KERN_N][KERN_N_TYPES] = {KERN_LIST(X)};
#undef X
    void *args[] = {(void *)a};

    return fake_kernel_launch(names[id][type], grid, block, args, 0, stream);
}
