#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/blas_gemm.h"
#include "tests/fakes/half.h"

/* cublasLtEpilogue_t is made of bits. */
enum {
    BIT_RELU = 2,
    BIT_BIAS = 4,
    BIT_DRELU = 8,
    BIT_BGRAD = 16,
    BIT_GELU = 32,
    BIT_DGELU = 64,
    BIT_AUX = 128,
    BIT_BGRADA = 256,
    BIT_BGRADB = 512,
};

static size_t type_bytes(cudaDataType t)
{
    return t == CUDA_R_32F ? 4 : t == CUDA_R_16F || t == CUDA_R_16BF ? 2 : 0;
}

static float load(const void *p, cudaDataType t, size_t i)
{
    if (t == CUDA_R_32F)
        return ((const float *)p)[i];
    uint16_t v = ((const uint16_t *)p)[i];
    return t == CUDA_R_16F ? fake_from_half(v) : fake_from_bf16(v);
}

static void store(void *p, cudaDataType t, size_t i, float v)
{
    if (t == CUDA_R_32F)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = t == CUDA_R_16F ? fake_to_half(v) : fake_to_bf16(v);
}

static size_t index_of(const struct matrix_layout *l, int64_t z, size_t row, size_t col)
{
    size_t ld = (size_t)l->ld;
    size_t in = l->order == CUBLASLT_ORDER_ROW ? row * ld + col : row + col * ld;
    return (size_t)(z * l->batch_stride) + in;
}

/* Elements from the first to the last. */
static size_t extent(const struct matrix_layout *l)
{
    return index_of(l, l->n_batches - 1, l->rows - 1, l->cols - 1) + 1;
}

static size_t rows_of(const struct matrix_layout *l, int op)
{
    return op == CUBLAS_OP_N ? l->rows : l->cols;
}

static size_t cols_of(const struct matrix_layout *l, int op)
{
    return op == CUBLAS_OP_N ? l->cols : l->rows;
}

static bool is_sound(const struct matrix_layout *l)
{
    uint64_t least = l->order == CUBLASLT_ORDER_ROW ? l->cols : l->rows;
    return l->rows && l->cols && l->ld >= (int64_t)least && l->n_batches > 0 && type_bytes(l->type);
}

bool gemm_fits(const struct gemm *g)
{
    const struct matmul_desc *m = &g->desc;
    bool sound = is_sound(&g->a) && is_sound(&g->b) && is_sound(&g->c) && is_sound(&g->d);
    bool shapes = rows_of(&g->a, m->op_a) == g->d.rows && cols_of(&g->b, m->op_b) == g->d.cols &&
                  cols_of(&g->a, m->op_a) == rows_of(&g->b, m->op_b) && g->c.rows == g->d.rows &&
                  g->c.cols == g->d.cols;
    bool batches = g->a.n_batches == g->d.n_batches && g->b.n_batches == g->d.n_batches &&
                   g->c.n_batches == g->d.n_batches;
    int e = m->epilogue;
    bool has_bias = !(e & (BIT_BIAS | BIT_BGRAD | BIT_BGRADA | BIT_BGRADB)) || m->bias;
    bool has_aux = !(e & BIT_AUX) || (m->aux && m->aux_ld >= (int64_t)g->d.rows);
    return sound && shapes && batches && g->a.type == g->b.type && has_bias && has_aux;
}

/* --- running --- */

static bool inside(const struct gemm *g, const void *p, size_t elements, cudaDataType t,
                   const char *what)
{
    if (fake_inside(p, elements * type_bytes(t)) && fake_device_of(p) == g->device)
        return true;
    fake_fault(g->device, cudaErrorIllegalAddress, "cuBLAS: %s leaves its block", what);
    return false;
}

static cudaDataType bias_type(const struct gemm *g)
{
    return g->desc.bias_type < 0 ? g->d.type : (cudaDataType)g->desc.bias_type;
}

static size_t bias_length(const struct gemm *g)
{
    return g->desc.epilogue & BIT_BGRADB ? g->d.cols : g->d.rows;
}

static bool all_inside(const struct gemm *g, float beta)
{
    const struct matmul_desc *m = &g->desc;
    if (!inside(g, g->pa, extent(&g->a), g->a.type, "A") ||
        !inside(g, g->pb, extent(&g->b), g->b.type, "B") ||
        !inside(g, g->pd, extent(&g->d), g->d.type, "D"))
        return false;
    if (beta != 0 && !inside(g, g->pc, extent(&g->c), g->c.type, "C"))
        return false;
    if (m->bias && !inside(g, m->bias, bias_length(g), bias_type(g), "the bias"))
        return false;
    return !g->workspace_bytes ||
           inside(g, g->workspace, g->workspace_bytes / 2, CUDA_R_16F, "the workspace");
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x * x);
}

/* ReLU keeps a bit an element, GELU the value before it. */
static bool get_bit(const void *aux, size_t i)
{
    return ((const uint8_t *)aux)[i / 8] >> i % 8 & 1;
}

static void set_bit(void *aux, size_t i, bool on)
{
    uint8_t *byte = &((uint8_t *)aux)[i / 8];
    *byte = (uint8_t)((*byte & ~(1u << i % 8)) | (unsigned)on << i % 8);
}

static float epilogue(const struct gemm *g, int64_t z, size_t row, size_t col, float v)
{
    const struct matmul_desc *m = &g->desc;
    int e = m->epilogue;
    size_t at_aux = (size_t)(z * m->aux_stride) + row + col * (size_t)m->aux_ld;
    if (e & BIT_BIAS)
        v += load(m->bias, bias_type(g), (size_t)(z * m->bias_stride) + row);
    if (e & BIT_RELU) {
        if (e & BIT_AUX)
            set_bit(m->aux, at_aux, v > 0);
        return v > 0 ? v : 0;
    }
    if (e & BIT_GELU) {
        if (e & BIT_AUX)
            store(m->aux, g->d.type, at_aux, v);
        return gelu(v);
    }
    if (e & BIT_DRELU)
        return get_bit(m->aux, at_aux) ? v : 0;
    if (e & BIT_DGELU)
        return v * gelu_slope(load(m->aux, g->d.type, at_aux));
    return v;
}

/* op(A) as columns of K, so that the inner loop runs down a column of the result. */
static float *columns_of_a(const struct gemm *g, int64_t z, size_t n_rows, size_t n_inner)
{
    float *out = malloc(n_rows * n_inner * sizeof *out);
    bool is_n = g->desc.op_a == CUBLAS_OP_N;
    for (size_t k = 0; k < n_inner; k++)
        for (size_t i = 0; i < n_rows; i++)
            out[k * n_rows + i] =
                load(g->pa, g->a.type, index_of(&g->a, z, is_n ? i : k, is_n ? k : i));
    return out;
}

static float element_of_b(const struct gemm *g, int64_t z, size_t k, size_t j)
{
    bool is_n = g->desc.op_b == CUBLAS_OP_N;
    return load(g->pb, g->b.type, index_of(&g->b, z, is_n ? k : j, is_n ? j : k));
}

static void multiply(const struct gemm *g, int64_t z, float alpha, float beta)
{
    size_t n_rows = g->d.rows;
    size_t n_inner = cols_of(&g->a, g->desc.op_a);
    float *a = columns_of_a(g, z, n_rows, n_inner);
    float *sum = malloc(n_rows * sizeof *sum);
    for (size_t j = 0; j < g->d.cols; j++) {
        memset(sum, 0, n_rows * sizeof *sum);
        for (size_t k = 0; k < n_inner; k++) {
            float v = element_of_b(g, z, k, j);
            const float *column = a + k * n_rows;
            for (size_t i = 0; i < n_rows; i++)
                sum[i] += v * column[i];
        }
        for (size_t i = 0; i < n_rows; i++) {
            float v = alpha * sum[i];
            if (beta != 0)
                v += beta * load(g->pc, g->c.type, index_of(&g->c, z, i, j));
            store(g->pd, g->d.type, index_of(&g->d, z, i, j), epilogue(g, z, i, j, v));
        }
    }
    free(sum);
    free(a);
}

/* The bias's gradient: sums of D over its columns, of A over K, or of B over K. */
static void put_bias_gradient(const struct gemm *g)
{
    int e = g->desc.epilogue;
    size_t n_inner = cols_of(&g->a, g->desc.op_a);
    bool is_n = g->desc.op_a == CUBLAS_OP_N;
    for (size_t i = 0; i < bias_length(g); i++) {
        double sum = 0;
        if (e & BIT_BGRAD) {
            for (size_t j = 0; j < g->d.cols; j++)
                sum += (double)load(g->pd, g->d.type, index_of(&g->d, 0, i, j));
        } else {
            for (size_t k = 0; k < n_inner; k++)
                sum +=
                    (double)(e & BIT_BGRADB ? element_of_b(g, 0, k, i)
                                            : load(g->pa, g->a.type,
                                                   index_of(&g->a, 0, is_n ? i : k, is_n ? k : i)));
        }
        store(g->desc.bias, bias_type(g), i, (float)sum);
    }
}

static void run_gemm(void *args)
{
    const struct gemm *g = args;
    float alpha = g->dev_alpha ? *g->dev_alpha : g->alpha;
    float beta = g->dev_beta ? *g->dev_beta : g->beta;
    if (!all_inside(g, beta))
        return;
    if (g->workspace_bytes)
        memset(g->workspace, 0xee, g->workspace_bytes);
    for (int64_t z = 0; z < g->d.n_batches; z++)
        multiply(g, z, alpha, beta);
    if (g->desc.epilogue & (BIT_BGRAD | BIT_BGRADA | BIT_BGRADB))
        put_bias_gradient(g);
}

cudaError_t gemm_enqueue(const struct gemm *g, const char *name, uint64_t cost_ns,
                         struct fake_verdict verdict, cudaStream_t stream)
{
    struct fake_call call = {.name = name, .run = run_gemm, .cost_ns = cost_ns, .verdict = verdict};
    return fake_enqueue(stream, &call, g, sizeof *g);
}
