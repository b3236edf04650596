/* The list of backends. */
#include <string.h>

#include "core/backend/module.h"
#include "core/backend/plan_for.h"

extern const struct bst_backend bst_backend_cpu, bst_backend_ref, bst_backend_ref64;

static enum bst_err load_cuda(const struct bst_backend **out)
{
    const struct bst_module *m;

    BST_TRY(bst_module_load("backend_cuda",
                            "the CUDA 13 runtime and cuBLASLt, cuDNN 9 and an NVIDIA driver", &m));
    *out = m->backend;
    return BST_OK;
}

static enum bst_err load_planner(const struct bst_module **out)
{
    if (bst_module_load("plan_cuda", "cuDNN 9", out))
        return bst_fail_in(BST_E_LIBRARY, "planning for a GPU takes cuDNN");
    return BST_OK;
}

enum bst_err bst_backend_get_planner(const struct bst_backend **out)
{
    const struct bst_module *m;

    *out = NULL;
    BST_TRY(load_planner(&m));
    *out = m->backend;
    return BST_OK;
}

enum bst_err bst_backend_cudnn_version(char out[32])
{
    const struct bst_module *m;

    BST_TRY(load_planner(&m));
    m->cudnn_version(out);
    return BST_OK;
}

static const struct bst_backend cuda_entry = {
    .name = "cuda",
    .about = "cuDNN, cuBLASLt and own kernels on NVIDIA GPUs (a module)",
    .precisions = 1u << BST_PRECISION_TF32 | 1u << BST_PRECISION_FP16 | 1u << BST_PRECISION_BF16,
    .load = load_cuda,
};

const struct bst_backend *const bst_backends[] = {
    &bst_backend_cpu, &bst_backend_ref, &bst_backend_ref64, &cuda_entry, NULL,
};

enum bst_err bst_backend_get(const char *name, const struct bst_backend **out)
{
    *out = NULL;
    for (int i = 0; bst_backends[i]; i++) {
        if (strcmp(bst_backends[i]->name, name))
            continue;
        if (bst_backends[i]->load) {
            enum bst_err err = bst_backends[i]->load(out);
            return err ? bst_fail_in(err, "the %s backend", name) : BST_OK;
        }
        *out = bst_backends[i];
        return BST_OK;
    }
    return bst_fail(BST_E_NOTFOUND, "no backend is called %s", name);
}

const struct bst_backend *bst_backend_find(const char *name)
{
    const struct bst_backend *b;

    return bst_backend_get(name, &b) ? NULL : b;
}
