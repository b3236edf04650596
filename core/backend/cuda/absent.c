/* plan_cuda.so is the backend's own code without the libraries that only running takes, so that it
 * loads where there is none of them. What it would call of them is here, by name; a context that
 * plans comes to none of it. A call that is missing here is an undefined symbol when the module is
 * linked. No header of CUDA's is included: the types are not these. */
#include "core/base/err.h"

/* clang-format off */
#define ABSENT(X) \
    X(cudaDeviceGetStreamPriorityRange) X(cudaEventCreate) X(cudaEventCreateWithFlags) \
    X(cudaEventDestroy) X(cudaEventElapsedTime) X(cudaEventQuery) X(cudaEventRecord) \
    X(cudaFree) X(cudaFreeHost) \
    X(cudaGetDeviceCount) X(cudaGetDeviceProperties) X(cudaGetErrorName) X(cudaGetErrorString) \
    X(cudaGetLastError) X(cudaGraphDestroy) X(cudaGraphExecDestroy) X(cudaGraphInstantiate) \
    X(cudaGraphLaunch) X(cudaHostAlloc) X(cudaMalloc) X(cudaMemGetInfo) X(cudaMemcpyAsync) \
    X(cudaMemsetAsync) X(cudaSetDevice) X(cudaStreamBeginCapture) X(cudaStreamCreateWithFlags) \
    X(cudaStreamCreateWithPriority) X(cudaStreamDestroy) X(cudaStreamEndCapture) \
    X(cudaStreamQuery) X(cudaStreamSynchronize) X(cudaStreamWaitEvent) \
    X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetStatusString) X(cublasLtMatmul) \
    X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) \
    X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulPreferenceCreate) \
    X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) \
    X(cublasLtMatrixLayoutSetAttribute) \
    X(cuda_nccl_get) X(kern_start)
/* clang-format on */

#define X(name)                                                                                    \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        bst_panic(__FILE__, __LINE__, "a plan called " #name "()");                                \
    }
ABSENT(X)
#undef X
