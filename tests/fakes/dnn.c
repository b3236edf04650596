/* cuDNN's handle, and the execution of a plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

struct cudnnContext {
    cudaStream_t stream;
    int device;
};

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t cudnnGetMaxDeviceVersion(void)
{
    return 1210;
}

size_t cudnnGetCudartVersion(void)
{
    return CUDART_VERSION;
}

cudnnStatus_t cudnnGraphVersionCheck(void)
{
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value)
{
    *value = type == MAJOR_VERSION   ? CUDNN_MAJOR
             : type == MINOR_VERSION ? CUDNN_MINOR
                                     : CUDNN_PATCHLEVEL;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    static const struct {
        int from;
        const char *text;
    } texts[] = {{5000, "CUDNN_STATUS_EXECUTION_FAILED"}, {4000, "CUDNN_STATUS_INTERNAL_ERROR"},
                 {3000, "CUDNN_STATUS_NOT_SUPPORTED"},    {2000, "CUDNN_STATUS_BAD_PARAM"},
                 {1001, "CUDNN_STATUS_NOT_INITIALIZED"},  {0, "CUDNN_STATUS_SUCCESS"}};
    size_t i = 0;
    while (texts[i].from > (int)status)
        i++;
    return texts[i].text;
}

cudnnStatus_t cudnnSetCallback(unsigned mask, void *data, cudnnCallback_t fn)
{
    (void)mask, (void)data, (void)fn;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = NULL;
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return dnn_fail((cudnnStatus_t)refused, "injected");
    fake_lock();
    cudnnHandle_t h = NULL;
    int device = fake_current_device();
    if (fake_set.devices && !fake_sticky(device)) {
        h = calloc(1, sizeof *h);
        h->device = device;
        fake_use_device(device);
        fake_count(FAKE_CUDNN_HANDLE, 1);
    }
    fake_unlock();
    *handle = h;
    return h ? CUDNN_STATUS_SUCCESS : dnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "no device to use");
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    if (handle)
        fake_count(FAKE_CUDNN_HANDLE, -1);
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    fake_lock();
    int device = fake_stream_device(stream);
    fake_unlock();
    if (!handle || (stream && device != handle->device))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
                        "the stream is not of the handle's device");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* --- execution --- */

struct job {
    struct desc *plan; /* referenced */
    void *workspace;
    int device;
    int n;
    struct binding bindings[];
};

static void run_job(void *args)
{
    struct job *j = args;
    const struct desc *graph = dnn_plan_graph(j->plan);
    size_t bytes = (size_t)dnn_workspace(graph, dnn_plan_engine(j->plan));
    if (bytes && !fake_inside(j->workspace, bytes)) {
        fake_fault(j->device, cudaErrorIllegalAddress,
                   "cuDNN: the workspace of %zu bytes leaves its block", bytes);
        return;
    }
    if (bytes)
        memset(j->workspace, 0xee, bytes);
    struct run r = {.bindings = j->bindings, .n_bindings = j->n, .device = j->device};
    dnn_run_graph(&r, graph);
    if (r.error[0])
        fake_fault(j->device, cudaErrorIllegalAddress, "cuDNN: %s", r.error);
}

static void fini_job(void *args)
{
    desc_unref(((struct job *)args)->plan);
}

/* What a tensor is to be found at. By value: read now, so that a captured graph keeps it. */
static cudnnStatus_t bind_tensor(struct job *j, const struct desc *t, const struct desc *pack)
{
    int64_t uid = desc_i64(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    for (int i = 0; i < j->n; i++) {
        if (j->bindings[i].uid == uid)
            return CUDNN_STATUS_SUCCESS;
    }
    const struct attr *uids = desc_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attr *pointers = desc_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    int64_t at = 0;
    while (uids && at < uids->n && ((int64_t *)uids->v)[at] != uid)
        at++;
    if (!uids || at == uids->n)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld is not in the pack", (long long)uid);
    void *p = ((void **)pointers->v)[at];
    if (!p)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %lld is at NULL",
                        (long long)uid);
    struct binding *b = &j->bindings[j->n++];
    *b = (struct binding){.uid = uid};
    int device = fake_device_of(p);
    if (desc_bool(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
        if (device >= 0)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld by value is in device memory",
                            (long long)uid);
        memcpy(b->value, p, dnn_data_bytes(desc_int(t, CUDNN_ATTR_TENSOR_DATA_TYPE, 0)));
        return CUDNN_STATUS_SUCCESS;
    }
    if (device != j->device)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld is not in device %d's memory",
                        (long long)uid, j->device);
    if ((uintptr_t)p % (uintptr_t)desc_i64(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %lld is misaligned",
                        (long long)uid);
    b->p = p;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bind_graph(struct job *j, const struct desc *graph, const struct desc *pack)
{
    for (int i = 0; i < desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++) {
        const struct desc *op = desc_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        const struct operation *kind = dnn_operation(op->type);
        for (int k = 0; k < kind->n_operands; k++) {
            const struct desc *t = desc_child(op, kind->operands[k].name, 0);
            if (!t || desc_bool(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
                continue;
            cudnnStatus_t s = bind_tensor(j, t, pack);
            if (s)
                return s;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t execute(cudnnHandle_t handle, struct desc *plan, const struct desc *pack,
                             struct fake_verdict verdict)
{
    const struct desc *graph = dnn_plan_graph(plan);
    int engine = dnn_plan_engine(plan);
    size_t most = (size_t)desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS) * 16;
    struct job *j = calloc(1, sizeof *j + most * sizeof j->bindings[0]);
    j->device = handle->device;
    const struct attr *ws = desc_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    j->workspace = ws && ws->n ? *(void **)ws->v : NULL;
    cudnnStatus_t s = bind_graph(j, graph, pack);
    if (!s && dnn_workspace(graph, engine) && !j->workspace)
        s = dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan wants a workspace");
    if (!s) {
        j->plan = desc_ref(plan);
        struct fake_call call = {.name = "cudnnBackendExecute",
                                 .run = run_job,
                                 .fini = fini_job,
                                 .cost_ns = dnn_cost_ns(graph, engine),
                                 .verdict = verdict};
        cudaError_t e = fake_enqueue(handle->stream, &call, j,
                                     sizeof *j + (size_t)j->n * sizeof j->bindings[0]);
        if (e)
            s = dnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "%s", cudaGetErrorString(e));
    }
    free(j);
    return s;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    struct desc *p = plan;
    struct desc *v = pack;
    if (!handle || !p || !v)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle, plan or pack");
    if (!p->is_final || !v->is_final)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pack is not finalized");
    if (p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no plan, or no pack");
    fake_lock();
    struct fake_verdict verdict = fake_judge(__func__, handle->device);
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    if (verdict.what == FAKE_LOST)
        fake_lose(handle->device);
    if (verdict.what == FAKE_RETURN)
        s = dnn_fail((cudnnStatus_t)verdict.code, "injected");
    else
        s = execute(handle, p, v, verdict);
    fake_unlock();
    return s;
}
