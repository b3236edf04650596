/* cublas: a handle and the plain products. */
#include <stdlib.h>

#include <cublas_v2.h>

#include "tests/fakes/blas_gemm.h"

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
    cublasPointerMode_t mode;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = NULL;
    int refused = fake_refuse("cublasCreate", -1);
    if (refused)
        return (cublasStatus_t)refused;
    *handle = calloc(1, sizeof **handle);
    fake_count(FAKE_CUBLAS_HANDLE, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    fake_count(FAKE_CUBLAS_HANDLE, -1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

/* As the real one does, a new stream takes the user's workspace away. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    handle->workspace = NULL;
    handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (!handle || (uintptr_t)workspace % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)mode;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

static struct matrix_layout layout(cudaDataType t, int rows, int cols, int ld, long long stride,
                                   int n)
{
    return (struct matrix_layout){.type = t,
                                  .order = CUBLASLT_ORDER_COL,
                                  .rows = (uint64_t)rows,
                                  .cols = (uint64_t)cols,
                                  .ld = ld,
                                  .batch_stride = stride,
                                  .n_batches = n};
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const void *alpha, const void *A, cudaDataType at, int lda, long long stride_a, const void *B,
    cudaDataType bt, int ldb, long long stride_b, const void *beta, void *C, cudaDataType ct,
    int ldc, long long stride_c, int n_batches, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)algo;
    if (!handle || !alpha || !beta || m < 1 || n < 1 || k < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_lock();
    bool is_a = op_a == CUBLAS_OP_N;
    bool is_b = op_b == CUBLAS_OP_N;
    bool on_device = handle->mode == CUBLAS_POINTER_MODE_DEVICE;
    struct gemm g = {.desc = {.compute = compute,
                              .op_a = (int)op_a,
                              .op_b = (int)op_b,
                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                              .bias_type = -1},
                     .a = layout(at, is_a ? m : k, is_a ? k : m, lda, stride_a, n_batches),
                     .b = layout(bt, is_b ? k : n, is_b ? n : k, ldb, stride_b, n_batches),
                     .c = layout(ct, m, n, ldc, stride_c, n_batches),
                     .d = layout(ct, m, n, ldc, stride_c, n_batches),
                     .pa = A,
                     .pb = B,
                     .pc = C,
                     .pd = C,
                     .alpha = on_device ? 0 : *(const float *)alpha,
                     .beta = on_device ? 0 : *(const float *)beta,
                     .dev_alpha = on_device ? alpha : NULL,
                     .dev_beta = on_device ? beta : NULL,
                     .workspace = handle->workspace,
                     .workspace_bytes = handle->workspace_bytes,
                     .device = fake_stream_device(handle->stream)};
    struct fake_verdict verdict = fake_judge("cublasGemmEx", g.device);
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (verdict.what == FAKE_RETURN)
        s = (cublasStatus_t)verdict.code;
    else if (!gemm_fits(&g))
        s = CUBLAS_STATUS_INVALID_VALUE;
    else if (gemm_enqueue(&g, "cublasGemmEx", 8000, verdict, handle->stream))
        s = CUBLAS_STATUS_EXECUTION_FAILED;
    fake_unlock();
    return s;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void *alpha, const void *A, cudaDataType at,
                            int lda, const void *B, cudaDataType bt, int ldb, const void *beta,
                            void *C, cudaDataType ct, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo)
{
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, A, at, lda, 0, B, bt, ldb,
                                      0, beta, C, ct, ldc, 0, 1, compute, algo);
}
