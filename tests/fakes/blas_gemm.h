/* One matrix product with its epilogue, as cublasLt and cublas hand it to the queue. */
#ifndef FAKE_BLAS_GEMM_H
#define FAKE_BLAS_GEMM_H

#include <cublasLt.h>

#include "tests/fakes/core.h"

struct matrix_layout { /* has to fit cublasLtMatrixLayoutOpaque_t */
    cudaDataType type;
    cublasLtOrder_t order;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
    int32_t n_batches;
};

struct matmul_desc { /* has to fit cublasLtMatmulDescOpaque_t */
    cublasComputeType_t compute;
    cudaDataType scale_type;
    int32_t op_a, op_b;
    int32_t epilogue;
    int32_t pointer_mode;
    void *bias, *aux;
    int64_t aux_ld, bias_stride, aux_stride;
    int32_t bias_type; /* -1: that of D */
};

struct gemm {
    struct matmul_desc desc;
    struct matrix_layout a, b, c, d;
    const void *pa, *pb, *pc;
    void *pd;
    void *workspace;
    size_t workspace_bytes;
    float alpha, beta;
    const float *dev_alpha, *dev_beta; /* in device memory: read when it runs; NULL: the above */
    int device;
};

/* The shapes fit each other and the types are faked. */
bool gemm_fits(const struct gemm *g);
cudaError_t gemm_enqueue(const struct gemm *g, const char *name, uint64_t cost_ns,
                         struct fake_verdict verdict, cudaStream_t stream);

#endif
