/* Devices and plans as text, and running a plan. */
#include "core/backend/cuda/dnn_graph.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "core/base/alloc.h"

void cuda_dnn_version(char out[32])
{
    const size_t v = cudnnGetVersion(); /* 91900 is 9.19.0 */

    snprintf(out, 32, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

static void *nvrtc;

static void load_nvrtc(void)
{
    char name[32];

    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    nvrtc = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

bool cuda_dnn_hold_nvrtc(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_nvrtc);
    return nvrtc;
}

static enum bst_err device(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t n, const void *values, cudnnBackendDescriptor_t *out)
{
    cudnnBackendDescriptor_t d = NULL;

    *out = NULL;
    cuda_dnn_hold_nvrtc();
    cudnnStatus_t s = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(d, name, type, n, values);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendFinalize(d);
    if (s != CUDNN_STATUS_SUCCESS) {
        enum bst_err err = cuda_dnn_fail(s, "device properties");
        cuda_dnn_device_free(d);
        return err;
    }
    *out = d;
    return BST_OK;
}

enum bst_err cuda_dnn_device_of(cudnnHandle_t handle, cudnnBackendDescriptor_t *out)
{
    return device(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, out);
}

enum bst_err cuda_dnn_device_parse(const char *json, size_t bytes, cudnnBackendDescriptor_t *out)
{
    return device(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)bytes, json,
                  out);
}

void cuda_dnn_device_free(cudnnBackendDescriptor_t d)
{
    if (d)
        cudnnBackendDestroyDescriptor(d);
}

/* An attribute that is text: its length is asked for first. */
static enum bst_err text_of(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                            const char *what, char **out, size_t *bytes)
{
    int64_t n = 0, got = 0;
    char *text;

    *out = NULL;
    BST_TRY(cuda_dnn_fail(cudnnBackendGetAttribute(d, name, CUDNN_TYPE_CHAR, 0, &n, NULL), what));
    text = bst_xalloc((size_t)n + 1);
    enum bst_err err =
        cuda_dnn_fail(cudnnBackendGetAttribute(d, name, CUDNN_TYPE_CHAR, n, &got, text), what);
    if (err) {
        bst_free(text);
        return err;
    }
    *out = text;
    *bytes = (size_t)(got < n ? got : n);
    return BST_OK;
}

enum bst_err cuda_dnn_device_json(cudnnBackendDescriptor_t d, char **out)
{
    size_t bytes;

    return text_of(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, "device properties as text", out,
                   &bytes);
}

enum bst_err cuda_dnn_plan_json(const struct cuda_dnn_plan *p, char **out, size_t *bytes)
{
    return text_of(p->desc, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, "plan as text", out,
                   bytes);
}

enum bst_err cuda_dnn_plan_parse(const char *json, size_t bytes, cudnnBackendDescriptor_t device,
                                 struct cuda_dnn_plan *out)
{
    struct cuda_dnn_plan p = {0};
    int64_t n = 0;
    cudnnStatus_t s =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p.desc);

    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(p.desc, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(p.desc, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, (int64_t)bytes, json);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendFinalize(p.desc);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendGetAttribute(p.desc, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &n, &p.workspace);
    if (s != CUDNN_STATUS_SUCCESS) {
        enum bst_err err = cuda_dnn_fail(s, "plan from text");
        cuda_dnn_plan_fini(&p);
        return err;
    }
    *out = p;
    return BST_OK;
}

enum bst_err cuda_dnn_run(cudnnHandle_t handle, const struct cuda_dnn_plan *p, int n,
                          const int64_t *id, void *const *address, void *workspace)
{
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t s = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                                     id);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                     CUDNN_TYPE_VOID_PTR, n, address);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &workspace);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendFinalize(pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendExecute(handle, p->desc, pack);
    enum bst_err err = cuda_dnn_fail(s, "execution");
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return err;
}
