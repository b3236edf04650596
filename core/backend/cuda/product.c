#include <string.h>

#include "core/backend/cuda/be.h"

static enum bst_err lt_fail(cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return BST_OK;
    return bst_fail(s == CUBLAS_STATUS_NOT_SUPPORTED  ? BST_E_UNSUPPORTED
                    : s == CUBLAS_STATUS_ALLOC_FAILED ? BST_E_NOMEM
                                                      : BST_E_LIBRARY,
                    "cuBLASLt: %s: %s", what, cublasLtGetStatusString(s));
}

void cuda_product_fini(struct cuda_product *p)
{
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->d)
        cublasLtMatrixLayoutDestroy(p->d);
    if (p->how)
        cublasLtMatmulDescDestroy(p->how);
    *p = (struct cuda_product){0};
}

static enum bst_err set_how(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t name,
                            const void *value, size_t bytes)
{
    return lt_fail(cublasLtMatmulDescSetAttribute(how, name, value, bytes), "description");
}

/* Several products at once, each matrix a step behind the one before. */
static enum bst_err set_batch(cublasLtMatrixLayout_t l, int64_t batch, int64_t step)
{
    const int32_t n = (int32_t)batch;
    cublasStatus_t s =
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);

    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                             sizeof step);
    return lt_fail(s, "batch");
}

static enum bst_err set_batches(const struct cuda_product_ask *ask, const struct cuda_product *p)
{
    if (ask->batch < 2)
        return BST_OK;
    BST_TRY(set_batch(p->a, ask->batch, ask->step_a));
    BST_TRY(set_batch(p->b, ask->batch, ask->step_b));
    return set_batch(p->d, ask->batch, ask->step_d);
}

static enum bst_err describe(const struct bst_be *be, const struct cuda_product_ask *ask,
                             struct cuda_product *p)
{
    static const cudaDataType types[] = {
        [KERN_F32] = CUDA_R_32F, [KERN_F16] = CUDA_R_16F, [KERN_BF16] = CUDA_R_16BF};
    const cudaDataType type = types[be->type], result = types[ask->result];
    const cublasComputeType_t compute =
        be->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t a = ask->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t b = ask->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        ask->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const uint64_t m = (uint64_t)ask->m, n = (uint64_t)ask->n, k = (uint64_t)ask->k;

    BST_TRY(lt_fail(cublasLtMatmulDescCreate(&p->how, compute, CUDA_R_32F), "product"));
    BST_TRY(set_how(p->how, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
    BST_TRY(set_how(p->how, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
    BST_TRY(set_how(p->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    BST_TRY(lt_fail(cublasLtMatrixLayoutCreate(&p->a, type, ask->transpose_a ? k : m,
                                               ask->transpose_a ? m : k,
                                               (int64_t)(ask->transpose_a ? k : m)),
                    "matrix A"));
    BST_TRY(lt_fail(
        cublasLtMatrixLayoutCreate(&p->b, type, ask->transpose_b ? n : k, ask->transpose_b ? k : n,
                                   ask->ld_b ? ask->ld_b : (int64_t)(ask->transpose_b ? n : k)),
        "matrix B"));
    BST_TRY(lt_fail(cublasLtMatrixLayoutCreate(&p->d, result, m, n, (int64_t)m), "matrix D"));
    return set_batches(ask, p);
}

/* As much for any algorithm: which one it is only a device tells, and a plan is to be exact without
 * one. Room for partial results of a product whose inner dimension is split. */
static size_t workspace_of(const struct cuda_product_ask *ask)
{
    const size_t splits = 32, result = (size_t)ask->m * (size_t)ask->n * sizeof(float);

    return result < CUDA_LT_WORKSPACE_MOST / splits ? cuda_round_up(splits * result)
                                                    : (size_t)CUDA_LT_WORKSPACE_MOST;
}

/* Buffers begin at multiples of CUDA_ALIGNMENT; what lies `skip` floats behind may not. */
static uint32_t alignment_behind(int64_t skip)
{
    const uint64_t bytes = (uint64_t)skip * sizeof(float), lowest = bytes & (~bytes + 1);

    return lowest && lowest < CUDA_ALIGNMENT ? (uint32_t)lowest : CUDA_ALIGNMENT;
}

static cublasStatus_t set_preferences(cublasLtMatmulPreference_t preference,
                                      const struct cuda_product_ask *ask,
                                      const struct cuda_product *p)
{
    const uint32_t a = alignment_behind(ask->skip_a), d = alignment_behind(ask->skip_d);
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } list[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->workspace, sizeof p->workspace},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof d},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d},
    };
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;

    for (size_t i = 0; i < sizeof list / sizeof *list && s == CUBLAS_STATUS_SUCCESS; i++)
        s = cublasLtMatmulPreferenceSetAttribute(preference, list[i].name, list[i].value,
                                                 list[i].bytes);
    return s;
}

static enum bst_err choose(struct bst_be *be, const struct cuda_product_ask *ask,
                           struct cuda_product *p)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;

    memset(&found, 0, sizeof found);
    BST_TRY(lt_fail(cublasLtMatmulPreferenceCreate(&preference), "preference"));
    cublasStatus_t s = set_preferences(preference, ask, p);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic(be->lt, p->how, p->a, p->b, p->d, p->d, preference, 1,
                                           &found, &n);
    cublasLtMatmulPreferenceDestroy(preference);
    BST_TRY(lt_fail(s, "heuristics"));
    if (n < 1 || found.state != CUBLAS_STATUS_SUCCESS)
        return bst_fail(BST_E_UNSUPPORTED, "cuBLASLt: no algorithm for this product");
    p->algo = found.algo;
    return BST_OK;
}

enum bst_err cuda_product_init(struct bst_be *be, const struct cuda_product_ask *ask,
                               struct cuda_product *out)
{
    out->workspace = workspace_of(ask);
    if (be->answers)
        return BST_OK;
    enum bst_err err = describe(be, ask, out);

    if (!err)
        err = choose(be, ask, out);
    if (err)
        cuda_product_fini(out);
    return err;
}

enum bst_err cuda_product_run(struct bst_be *be, const struct cuda_product *p, const void *a,
                              const void *b, void *d, const void *bias, bool add, void *workspace)
{
    const float alpha = 1, beta = add ? 1 : 0;

    if (bias)
        BST_TRY(set_how(p->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    return lt_fail(cublasLtMatmul(be->lt, p->how, &alpha, a, p->a, b, p->b, &beta, d, p->d, d, p->d,
                                  &p->algo, workspace, p->workspace, be->stream),
                   "product");
}
