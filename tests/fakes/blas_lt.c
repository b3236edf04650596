/* cublasLt's API. Descriptors are the library's own opaque structs, so that callers may also keep
 * them on their stack. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/blas_gemm.h"

_Static_assert(sizeof(struct matrix_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout");
_Static_assert(sizeof(struct matmul_desc) <= sizeof(cublasLtMatmulDescOpaque_t), "description");

struct preference {
    size_t most_workspace;
};
_Static_assert(sizeof(struct preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "preference");

/* What an algorithm wants; the heuristics give them in this order. */
static const struct {
    size_t workspace;
    uint64_t cost_ns;
} algos[] = {{1u << 20, 9000}, {64u << 10, 7000}, {0, 12000}};
enum { N_ALGOS = (int)(sizeof algos / sizeof *algos) };

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = NULL;
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return (cublasStatus_t)refused;
    *handle = calloc(1, 8);
    fake_count(FAKE_CUBLAS_HANDLE, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    fake_count(FAKE_CUBLAS_HANDLE, -1);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- descriptors --- */

static void *new_descriptor(size_t bytes)
{
    fake_count(FAKE_CUBLAS_DESCRIPTOR, 1);
    return calloc(1, bytes);
}

static cublasStatus_t free_descriptor(void *d)
{
    if (d)
        fake_count(FAKE_CUBLAS_DESCRIPTOR, -1);
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    if (bytes < sizeof(struct matmul_desc))
        return CUBLAS_STATUS_INVALID_VALUE;
    *(struct matmul_desc *)(void *)d = (struct matmul_desc){.compute = compute,
                                                            .scale_type = scale,
                                                            .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                                            .bias_type = -1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *d = new_descriptor(sizeof **d);
    return cublasLtMatmulDescInit_internal(*d, sizeof **d, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    return free_descriptor(d);
}

/* Where an attribute lies and how long it is; 0: not faked. */
static size_t desc_field(struct matmul_desc *m, cublasLtMatmulDescAttributes_t a, void **field)
{
    switch (a) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
        *field = &m->compute;
        return sizeof m->compute;
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
        *field = &m->scale_type;
        return sizeof m->scale_type;
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        *field = &m->pointer_mode;
        return sizeof m->pointer_mode;
    case CUBLASLT_MATMUL_DESC_TRANSA:
        *field = &m->op_a;
        return sizeof m->op_a;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        *field = &m->op_b;
        return sizeof m->op_b;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        *field = &m->epilogue;
        return sizeof m->epilogue;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        *field = &m->bias;
        return sizeof m->bias;
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
        *field = &m->bias_stride;
        return sizeof m->bias_stride;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        *field = &m->bias_type;
        return sizeof m->bias_type;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        *field = &m->aux;
        return sizeof m->aux;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        *field = &m->aux_ld;
        return sizeof m->aux_ld;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
        *field = &m->aux_stride;
        return sizeof m->aux_stride;
    default:
        return 0;
    }
}

static cublasStatus_t set_field(size_t size, void *field, const void *from, size_t bytes)
{
    if (!size)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!from || bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_field(size_t size, const void *field, void *to, size_t bytes,
                                size_t *written)
{
    if (!size)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (written)
        *written = size;
    if (!bytes && written)
        return CUBLAS_STATUS_SUCCESS;
    if (!to || bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, field, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *from,
                                              size_t bytes)
{
    void *field = NULL;
    size_t size = desc_field((void *)d, a, &field);
    return set_field(size, field, from, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, void *to,
                                              size_t bytes, size_t *written)
{
    void *field = NULL;
    size_t size = desc_field((void *)d, a, &field);
    return get_field(size, field, to, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld)
{
    if (bytes < sizeof(struct matrix_layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    *(struct matrix_layout *)(void *)l = (struct matrix_layout){.type = type,
                                                                .order = CUBLASLT_ORDER_COL,
                                                                .rows = rows,
                                                                .cols = cols,
                                                                .ld = ld,
                                                                .n_batches = 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *l = new_descriptor(sizeof **l);
    return cublasLtMatrixLayoutInit_internal(*l, sizeof **l, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return free_descriptor(l);
}

static size_t layout_field(struct matrix_layout *l, cublasLtMatrixLayoutAttribute_t a, void **field)
{
    switch (a) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
        *field = &l->type;
        return sizeof l->type;
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        *field = &l->order;
        return sizeof l->order;
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        *field = &l->rows;
        return sizeof l->rows;
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        *field = &l->cols;
        return sizeof l->cols;
    case CUBLASLT_MATRIX_LAYOUT_LD:
        *field = &l->ld;
        return sizeof l->ld;
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        *field = &l->n_batches;
        return sizeof l->n_batches;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        *field = &l->batch_stride;
        return sizeof l->batch_stride;
    default:
        return 0;
    }
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void *from,
                                                size_t bytes)
{
    void *field = NULL;
    size_t size = layout_field((void *)l, a, &field);
    return set_field(size, field, from, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, void *to,
                                                size_t bytes, size_t *written)
{
    void *field = NULL;
    size_t size = layout_field((void *)l, a, &field);
    return get_field(size, field, to, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t bytes)
{
    memset(p, 0, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = new_descriptor(sizeof **p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return free_descriptor(p);
}

/* Alignments and the like are taken and change nothing. */
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *from, size_t bytes)
{
    if (a != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return from ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    struct preference *pref = (void *)p;
    return set_field(sizeof pref->most_workspace, &pref->most_workspace, from, bytes);
}

/* --- algorithms --- */

static struct gemm gemm_of(cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d)
{
    return (struct gemm){.desc = *(struct matmul_desc *)(void *)m,
                         .a = *(struct matrix_layout *)(void *)a,
                         .b = *(struct matrix_layout *)(void *)b,
                         .c = *(struct matrix_layout *)(void *)c,
                         .d = *(struct matrix_layout *)(void *)d};
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t m,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int *n)
{
    *n = 0;
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return (cublasStatus_t)refused;
    if (!handle || !m || !a || !b || !c || !d || most < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct gemm g = gemm_of(m, a, b, c, d);
    /* Pointers may still be missing here. */
    g.desc.bias = g.desc.bias ? g.desc.bias : (void *)&g;
    g.desc.aux = g.desc.aux ? g.desc.aux : (void *)&g;
    if (!gemm_fits(&g))
        return CUBLAS_STATUS_INVALID_VALUE;
    size_t most_workspace = p ? ((struct preference *)(void *)p)->most_workspace : 0;
    for (int i = 0; i < N_ALGOS && *n < most; i++) {
        if (algos[i].workspace > most_workspace)
            continue;
        cublasLtMatmulHeuristicResult_t *r = &results[(*n)++];
        memset(r, 0, sizeof *r);
        r->algo.data[0] = (uint64_t)i + 1;
        r->workspaceSize = algos[i].workspace;
        r->wavesCount = 1;
    }
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t m,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    struct gemm g = gemm_of(m, a, b, c, d);
    if (!handle || !algo || algo->data[0] < 1 || algo->data[0] > N_ALGOS || !gemm_fits(&g))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(result, 0, sizeof *result);
    result->algo = *algo;
    result->workspaceSize = algos[algo->data[0] - 1].workspace;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t m, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (!handle || !m || !a || !b || !c || !d || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_lock();
    struct gemm g = gemm_of(m, a, b, c, d);
    g.pa = A, g.pb = B, g.pc = C, g.pd = D;
    g.device = fake_stream_device(stream);
    if (g.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        g.dev_alpha = alpha;
        g.dev_beta = beta;
    } else {
        g.alpha = *(const float *)alpha;
        g.beta = *(const float *)beta;
    }
    int which = algo ? (int)algo->data[0] - 1 : N_ALGOS - 1;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    struct fake_verdict verdict = fake_judge(__func__, g.device);
    if (verdict.what == FAKE_LOST)
        fake_lose(g.device);
    if (verdict.what == FAKE_RETURN)
        s = (cublasStatus_t)verdict.code;
    else if (g.device < 0 || which < 0 || which >= N_ALGOS || !gemm_fits(&g) ||
             algos[which].workspace > workspace_bytes)
        s = CUBLAS_STATUS_INVALID_VALUE;
    if (!s) {
        g.workspace = workspace;
        g.workspace_bytes = algos[which].workspace;
        if (gemm_enqueue(&g, __func__, algos[which].cost_ns, verdict, stream))
            s = CUBLAS_STATUS_EXECUTION_FAILED;
    }
    fake_unlock();
    return s;
}
