/* A device: its context, its memory, its errors in words. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/backend/cuda/be.h"
#include "core/backend/cuda/plan.h"
#include "core/backend/cuda/tune.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define WAIT_SECONDS 60.0
enum {
    QUICK_LOOKS = 200,
    PAUSE_NS = 50000,
};

/* What an error says of the device. CUDA's header says of the first kind that "the process must be
 * terminated and relaunched"; by number, since 226 and 721 are younger than CUDA 12. Of the second
 * 214 and 220 are the hardware's, and 999 is what a device gives that has left the bus. */
static enum bst_err kind_of(cudaError_t e)
{
    static const short context[] = {226, 700, 702, 710, 714, 715, 716,
                                    717, 718, 719, 721, 810, 911};
    static const short device[] = {46, 100, 101, 214, 220, 999};

    if (e == cudaErrorMemoryAllocation)
        return BST_E_NOMEM;
    for (size_t i = 0; i < sizeof context / sizeof *context; i++)
        if ((int)e == context[i])
            return BST_E_CONTEXT;
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        if ((int)e == device[i])
            return BST_E_DEVICE;
    return BST_E_LIBRARY;
}

enum bst_err cuda_fail(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return BST_OK;
    /* What is not the device's own state stays behind as the thread's last error: taken away here.
     */
    cudaGetLastError();
    if (e == cudaErrorMemoryAllocation)
        return bst_fail(BST_E_NOMEM, "%s: out of device memory", what);
    return bst_fail(kind_of(e), "%s: CUDA error %d, %s: %s", what, (int)e, cudaGetErrorName(e),
                    cudaGetErrorString(e));
}

void cuda_pause(unsigned *looks)
{
    static const struct timespec pause = {0, PAUSE_NS};

    if (++*looks < QUICK_LOOKS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static enum bst_err hung(struct bst_be *be)
{
    be->is_hung = true;
    return bst_fail(BST_E_CONTEXT, "GPU %d has not answered for %.0f s", be->device,
                    be->wait_seconds);
}

/* No call that blocks: a device, or another rank, that never answers must not take the host with
 * it. While the others are waited for, their time is counted, not this device's. */
static enum bst_err wait_for(struct bst_be *be, cudaStream_t stream, cudaEvent_t event)
{
    double until = bst_clock_now() + be->wait_seconds;
    unsigned looks = 0;

    for (;;) {
        bool others = false;

        if (be->is_hung)
            return hung(be);
        const cudaError_t e = event ? cudaEventQuery(event) : cudaStreamQuery(stream);
        if (e != cudaErrorNotReady)
            return cuda_fail(e, "the device");
        cudaGetLastError(); /* "not ready" stays behind as one */
        BST_TRY(cuda_link_look(be, &others));
        const double now = bst_clock_now();
        if (others)
            until = now + be->wait_seconds;
        else if (now > until)
            return hung(be);
        cuda_pause(&looks);
    }
}

enum bst_err cuda_wait_event(struct bst_be *be, cudaEvent_t event)
{
    return wait_for(be, NULL, event);
}

enum bst_err cuda_wait(struct bst_be *be)
{
    BST_TRY(cuda_steps_left(be, 0));
    BST_TRY(wait_for(be, be->stream, NULL));
    cuda_link_is_over(be, cuda_link_calls(be));
    if (be->steps.is_copying)
        BST_TRY(wait_for(be, be->steps.copy, NULL));
    be->steps.is_copying = false;
    return BST_OK;
}

/* As the driver writes it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. */
static void write_uuid(const cudaUUID_t *id, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "GPU");

    for (int i = 0; i < 16 && n < room; i++) {
        const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

        n += (size_t)snprintf(out + n, room - n, "%s%02x", dash ? "-" : "",
                              (unsigned)(unsigned char)id->bytes[i]);
    }
}

/* 35 is also what the runtime says where there is no driver at all. */
static enum bst_err count_devices(int *n)
{
    cudaError_t e = cudaGetDeviceCount(n);

    if (e == cudaErrorInsufficientDriver) {
        cudaGetLastError();
        return bst_fail(BST_E_NOTFOUND,
                        "cuda: no NVIDIA driver on this machine, or one too old for CUDA %d.%d",
                        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    if (e == cudaErrorNoDevice || (e == cudaSuccess && *n == 0)) {
        cudaGetLastError();
        return bst_fail(BST_E_NOTFOUND, "cuda: the NVIDIA driver sees no GPU (is one hidden by "
                                        "CUDA_VISIBLE_DEVICES?)");
    }
    return cuda_fail(e, "cuda: counting devices");
}

/* By its UUID, or as much of it as tells it from the others. */
static enum bst_err device_of_uuid(const char *uuid, int n, int *device)
{
    const size_t length = strlen(uuid);
    int n_found = 0;

    for (int i = 0; i < n; i++) {
        struct cudaDeviceProp prop;
        char text[48];

        BST_TRY(cuda_fail(cudaGetDeviceProperties(&prop, i), "cuda: a device's properties"));
        write_uuid(&prop.uuid, text, sizeof text);
        if (strncmp(text, uuid, length) != 0)
            continue;
        *device = i;
        n_found++;
    }
    if (n_found == 1)
        return BST_OK;
    return bst_fail(BST_E_NOTFOUND, "cuda: %s GPU is called %s", n_found ? "more than one" : "no",
                    uuid);
}

static enum bst_err choose_device(const struct bst_be_cfg *cfg, int *device)
{
    int n = 0;
    char *end = NULL;

    BST_TRY(count_devices(&n));
    if (!cfg->device) {
        *device = cfg->rank;
        if (cfg->rank < n)
            return BST_OK;
        return bst_fail(BST_E_RANGE, "cuda: rank %d needs a GPU of its own, but %d %s visible",
                        cfg->rank, n, n == 1 ? "is" : "are");
    }
    const long number = strtol(cfg->device, &end, 10);
    if (end == cfg->device || *end)
        return device_of_uuid(cfg->device, n, device);
    if (number < 0 || number >= n)
        return bst_fail(BST_E_RANGE, "cuda: rank %d is to have GPU %s, but %d %s visible",
                        cfg->rank, cfg->device, n, n == 1 ? "is" : "are");
    *device = (int)number;
    return BST_OK;
}

static enum bst_err open_libraries(struct bst_be *be, const struct bst_be_cfg *be_cfg)
{
    BST_TRY(cuda_dnn_fail(cudnnCreate(&be->dnn), "opening cuDNN"));
    BST_TRY(cuda_dnn_fail(cudnnSetStream(be->dnn, be->stream), "giving cuDNN its stream"));
    BST_TRY(cuda_dnn_device_of(be->dnn, &be->device_props));
    if (be_cfg->autotune)
        BST_TRY(cuda_tuned_open(be->device_props, NULL, &be->tuned));
    cublasStatus_t s = cublasLtCreate(&be->lt);
    if (s != CUBLAS_STATUS_SUCCESS)
        return bst_fail(BST_E_LIBRARY, "opening cuBLASLt: %s", cublasLtGetStatusString(s));
    return BST_OK;
}

static enum bst_err open_scaler(struct bst_be *be)
{
    const struct bst_commit_state start = {.loss_scale = 1};

    BST_TRY(cuda_fail(cudaMalloc((void **)&be->scaler, sizeof *be->scaler), "cuda"));
    return cuda_set_commit_state(be, &start);
}

static enum bst_err open_small(struct bst_be *be)
{
    BST_TRY(open_scaler(be));
    BST_TRY(cuda_steps_open(be));
    BST_TRY(cuda_commits_open(be));
    BST_TRY(cuda_fail(cudaMalloc((void **)&be->loss, CUDA_LOSSES * sizeof *be->loss), "cuda"));
    BST_TRY(cuda_fail(cudaHostAlloc((void **)&be->loss_host, CUDA_LOSSES * sizeof *be->loss_host,
                                    cudaHostAllocDefault),
                      "cuda: pinned memory"));
    /* What a net does not have stays 0. */
    BST_TRY(cuda_fail(cudaMemsetAsync(be->loss, 0, CUDA_LOSSES * sizeof *be->loss, be->stream),
                      "cuda"));
    BST_TRY(cuda_fail(cudaMalloc((void **)&be->draw, sizeof *be->draw), "cuda"));
    BST_TRY(cuda_fail(cudaMalloc((void **)&be->sums, (KERN_SQUARES_BLOCKS + 1) *
                                                         KERN_SQUARES_TENSORS * sizeof *be->sums),
                      "cuda"));
    return cuda_fail(cudaHostAlloc((void **)&be->sums_host,
                                   KERN_SQUARES_TENSORS * sizeof *be->sums_host,
                                   cudaHostAllocDefault),
                     "cuda: pinned memory");
}

enum bst_err cuda_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    int device = 0;
    struct bst_be *be;

    if (cfg->plan_for)
        return cuda_plan_open(cfg, out);
    BST_TRY(choose_device(cfg, &device));
    BST_TRY(cuda_fail(cudaSetDevice(device), "cuda: choosing the device"));
    be = bst_xalloc(sizeof *be);
    be->device = device;
    be->wait_seconds = cfg->wait_seconds > 0 ? cfg->wait_seconds : WAIT_SECONDS;
    cuda_set_precision(be, cfg->precision);
    be->is_steady = !cfg->autotune;
    be->captures = cfg->capture;
    enum bst_err err =
        cuda_fail(cudaStreamCreateWithFlags(&be->stream, cudaStreamNonBlocking), "cuda: a stream");
    if (!err)
        err = open_libraries(be, cfg);
    if (!err)
        err = open_small(be);
    if (err)
        cuda_close(be);
    else
        *out = be;
    return err;
}

void cuda_close(struct bst_be *be)
{
    if (!be)
        return;
    if (be->answers) {
        cuda_plan_close(be);
        return;
    }
    cuda_link_ops.leave(be, false);
    /* Freeing waits for the device. One that hangs keeps what it has until the process ends. */
    if (be->is_hung || (be->stream && cuda_wait(be) && be->is_hung))
        return;
    cudaFree(be->loss);
    cudaFreeHost(be->loss_host);
    cudaFree(be->draw);
    cudaFree(be->sums);
    cudaFreeHost(be->sums_host);
    cudaFree(be->sum_chunk);
    cudaFree(be->scaler);
    cuda_update_free(be->update);
    cuda_commits_close(be);
    cuda_steps_close(be);
    if (be->lt)
        cublasLtDestroy(be->lt);
    cuda_shared_free(be);
    cuda_tuned_close(be->tuned);
    cuda_dnn_device_free(be->device_props);
    if (be->dnn)
        cudnnDestroy(be->dnn);
    if (be->stream)
        cudaStreamDestroy(be->stream);
    bst_free(be);
}

void cuda_info(struct bst_be *be, struct bst_device_info *out)
{
    struct cudaDeviceProp prop;
    char dnn[32];

    memset(out, 0, sizeof *out);
    out->threads = 1;
    cuda_dnn_version(dnn);
    snprintf(out->library, sizeof out->library, "cuDNN %s, CUDA %d.%d", dnn, CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10);
    if (be->answers) {
        snprintf(out->name, sizeof out->name, "a GPU that is not here");
        return;
    }
    memset(&prop, 0, sizeof prop);
    if (cudaGetDeviceProperties(&prop, be->device) != cudaSuccess)
        cudaGetLastError();
    snprintf(out->name, sizeof out->name, "%.95s", prop.name);
    write_uuid(&prop.uuid, out->uuid, sizeof out->uuid);
    snprintf(out->isa, sizeof out->isa, "sm_%d%d", prop.major, prop.minor);
}

enum bst_err cuda_alloc(struct bst_be *be, size_t bytes, void **out)
{
    char text[32];

    *out = NULL;
    if (!bytes)
        return BST_OK;
    if (be->is_hung)
        return hung(be);
    cudaError_t e = cudaMalloc(out, bytes);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        bst_text_bytes(bytes, text);
        return bst_fail(BST_E_NOMEM, "out of memory on GPU %d: %s wanted", be->device, text);
    }
    BST_TRY(cuda_fail(e, "device memory"));
    enum bst_err err =
        cuda_fail(cudaMemsetAsync(*out, 0, bytes, be->stream), "clearing device memory");
    if (!err)
        err = cuda_wait(be);
    be->held += bytes;
    if (err) {
        cuda_free(be, *out, bytes);
        *out = NULL;
    }
    return err;
}

void cuda_free(struct bst_be *be, void *p, size_t bytes)
{
    if (!p)
        return;
    be->held -= bytes;
    if (!be->is_hung)
        cudaFree(p); /* waits for the device; a device that failed has said so elsewhere */
}

uint64_t cuda_held(const struct bst_be *be)
{
    return be->held;
}

enum bst_err cuda_upload(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    BST_TRY(cuda_fail(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, be->stream),
                      "copy to the device"));
    return cuda_wait(be);
}

enum bst_err cuda_download(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    BST_TRY(cuda_fail(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, be->stream),
                      "copy from the device"));
    return cuda_wait(be);
}

enum bst_err cuda_memory(struct bst_be *be, uint64_t *bytes)
{
    size_t unused = 0, all = 0;

    if (be->answers) {
        *bytes = be->plan_for.memory;
        return BST_OK;
    }
    BST_TRY(cuda_fail(cudaMemGetInfo(&unused, &all), "free device memory"));
    *bytes = unused;
    return BST_OK;
}
