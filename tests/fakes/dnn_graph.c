/* The operations there are, and a graph's run: tensors in, one operation after another, tensors
 * out. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"
#include "tests/fakes/half.h"

#define R(name)                                                                                    \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, DNN_READ, false                                               \
    }
#define R_OPT(name)                                                                                \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, DNN_READ, true                                                \
    }
#define W(name)                                                                                    \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, DNN_WRITE, false                                              \
    }
#define W_OPT(name)                                                                                \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, DNN_WRITE, true                                               \
    }
#define STATS(name)                                                                                \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, DNN_STATS, true                                               \
    }

static const struct operand fprop[] = {R(CONVOLUTION_FORWARD_X), R(CONVOLUTION_FORWARD_W),
                                       W(CONVOLUTION_FORWARD_Y)};
static const struct operand dgrad[] = {R(CONVOLUTION_BWD_DATA_DY), R(CONVOLUTION_BWD_DATA_W),
                                       W(CONVOLUTION_BWD_DATA_DX)};
static const struct operand wgrad[] = {R(CONVOLUTION_BWD_FILTER_X), R(CONVOLUTION_BWD_FILTER_DY),
                                       W(CONVOLUTION_BWD_FILTER_DW)};
static const struct operand pointwise[] = {R_OPT(POINTWISE_XDESC),  R_OPT(POINTWISE_BDESC),
                                           R_OPT(POINTWISE_TDESC),  R_OPT(POINTWISE_DYDESC),
                                           W_OPT(POINTWISE_DXDESC), W_OPT(POINTWISE_YDESC)};
static const struct operand genstats[] = {R(GENSTATS_XDESC), W(GENSTATS_SUMDESC),
                                          W(GENSTATS_SQSUMDESC)};
static const struct operand bn_finalize[] = {R(BN_FINALIZE_Y_SUM_DESC),
                                             R(BN_FINALIZE_Y_SQ_SUM_DESC),
                                             R(BN_FINALIZE_SCALE_DESC),
                                             R(BN_FINALIZE_BIAS_DESC),
                                             R_OPT(BN_FINALIZE_PREV_RUNNING_MEAN_DESC),
                                             R_OPT(BN_FINALIZE_PREV_RUNNING_VAR_DESC),
                                             R(BN_FINALIZE_ACCUM_COUNT_DESC),
                                             R(BN_FINALIZE_EPSILON_DESC),
                                             R_OPT(BN_FINALIZE_EXP_AVERATE_FACTOR_DESC),
                                             W_OPT(BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC),
                                             W_OPT(BN_FINALIZE_UPDATED_RUNNING_VAR_DESC),
                                             W(BN_FINALIZE_SAVED_MEAN_DESC),
                                             W(BN_FINALIZE_SAVED_INV_STD_DESC),
                                             W(BN_FINALIZE_EQ_SCALE_DESC),
                                             W(BN_FINALIZE_EQ_BIAS_DESC)};
static const struct operand bn_bwd_weights[] = {
    R(BN_BWD_WEIGHTS_MEAN_DESC),       R(BN_BWD_WEIGHTS_INVSTD_DESC),
    R(BN_BWD_WEIGHTS_BN_SCALE_DESC),   R(BN_BWD_WEIGHTS_X_DESC),
    R(BN_BWD_WEIGHTS_DY_DESC),         W(BN_BWD_WEIGHTS_DBN_SCALE_DESC),
    W(BN_BWD_WEIGHTS_DBN_BIAS_DESC),   W(BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC),
    W(BN_BWD_WEIGHTS_EQ_X_SCALE_DESC), W(BN_BWD_WEIGHTS_EQ_BIAS)};
static const struct operand norm_fwd[] = {R(NORM_FWD_XDESC),
                                          R_OPT(NORM_FWD_SCALE_DESC),
                                          R_OPT(NORM_FWD_BIAS_DESC),
                                          R_OPT(NORM_FWD_EPSILON_DESC),
                                          R_OPT(NORM_FWD_EXP_AVG_FACTOR_DESC),
                                          R_OPT(NORM_FWD_INPUT_RUNNING_MEAN_DESC),
                                          R_OPT(NORM_FWD_INPUT_RUNNING_VAR_DESC),
                                          STATS(NORM_FWD_MEAN_DESC),
                                          STATS(NORM_FWD_INV_VARIANCE_DESC),
                                          W_OPT(NORM_FWD_OUTPUT_RUNNING_MEAN_DESC),
                                          W_OPT(NORM_FWD_OUTPUT_RUNNING_VAR_DESC),
                                          W(NORM_FWD_YDESC)};
static const struct operand norm_bwd[] = {
    R(NORM_BWD_XDESC),           R_OPT(NORM_BWD_MEAN_DESC),  R(NORM_BWD_INV_VARIANCE_DESC),
    R(NORM_BWD_DYDESC),          R(NORM_BWD_SCALE_DESC),     R_OPT(NORM_BWD_EPSILON_DESC),
    W_OPT(NORM_BWD_DSCALE_DESC), W_OPT(NORM_BWD_DBIAS_DESC), W(NORM_BWD_DXDESC)};
static const struct operand matmul[] = {R(MATMUL_ADESC),
                                        R(MATMUL_BDESC),
                                        R_OPT(MATMUL_GEMM_M_OVERRIDE_DESC),
                                        R_OPT(MATMUL_GEMM_N_OVERRIDE_DESC),
                                        R_OPT(MATMUL_GEMM_K_OVERRIDE_DESC),
                                        W(MATMUL_CDESC)};
static const struct operand reduction[] = {R(REDUCTION_XDESC), W(REDUCTION_YDESC)};
static const struct operand reshape[] = {R(RESHAPE_XDESC), W(RESHAPE_YDESC)};
static const struct operand rng[] = {R_OPT(RNG_SEED), R_OPT(RNG_OFFSET_DESC), W(RNG_YDESC)};
static const struct operand resample_fwd[] = {R(RESAMPLE_FWD_XDESC), W(RESAMPLE_FWD_YDESC),
                                              W_OPT(RESAMPLE_FWD_IDXDESC)};
static const struct operand resample_bwd[] = {R_OPT(RESAMPLE_BWD_XDESC), R_OPT(RESAMPLE_BWD_YDESC),
                                              R(RESAMPLE_BWD_DYDESC), R_OPT(RESAMPLE_BWD_IDXDESC),
                                              W(RESAMPLE_BWD_DXDESC)};

#define OPERATION(type, operands, check, run)                                                      \
    {                                                                                              \
        CUDNN_BACKEND_##type##_DESCRIPTOR, #operands, operands,                                    \
            (int)(sizeof operands / sizeof *operands), check, run                                  \
    }

static const struct operation operations[] = {
    OPERATION(OPERATION_CONVOLUTION_FORWARD, fprop, dnn_check_conv, dnn_run_conv),
    OPERATION(OPERATION_CONVOLUTION_BACKWARD_DATA, dgrad, dnn_check_conv, dnn_run_conv),
    OPERATION(OPERATION_CONVOLUTION_BACKWARD_FILTER, wgrad, dnn_check_conv, dnn_run_conv),
    OPERATION(OPERATION_POINTWISE, pointwise, dnn_check_pointwise, dnn_run_pointwise),
    OPERATION(OPERATION_REDUCTION, reduction, NULL, dnn_run_reduction),
    OPERATION(OPERATION_GEN_STATS, genstats, NULL, dnn_run_genstats),
    OPERATION(OPERATION_BN_FINALIZE_STATISTICS, bn_finalize, NULL, dnn_run_bn_finalize),
    OPERATION(OPERATION_BN_BWD_WEIGHTS, bn_bwd_weights, NULL, dnn_run_bn_bwd_weights),
    OPERATION(OPERATION_NORM_FORWARD, norm_fwd, NULL, dnn_run_norm_fwd),
    OPERATION(OPERATION_NORM_BACKWARD, norm_bwd, NULL, dnn_run_norm_bwd),
    OPERATION(OPERATION_MATMUL, matmul, NULL, dnn_run_matmul),
    OPERATION(OPERATION_RESHAPE, reshape, NULL, dnn_run_reshape),
    OPERATION(OPERATION_RNG, rng, NULL, dnn_run_rng),
    OPERATION(OPERATION_RESAMPLE_FWD, resample_fwd, dnn_check_resample, dnn_run_resample),
    OPERATION(OPERATION_RESAMPLE_BWD, resample_bwd, dnn_check_resample, dnn_run_resample),
};

const struct operation *dnn_operation(int type)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (operations[i].type == type)
            return &operations[i];
    }
    return NULL;
}

bool dnn_writes(const struct desc *op, const struct operand *o)
{
    if (o->role == DNN_STATS)
        return desc_int(op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, 0) == CUDNN_NORM_FWD_TRAINING;
    return o->role == DNN_WRITE;
}

size_t dnn_data_bytes(int type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
        return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
        return 8;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
        return 1;
    default:
        return 0;
    }
}

void run_error(struct run *r, const char *fmt, ...)
{
    if (r->error[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->error, sizeof r->error, fmt, ap);
    va_end(ap);
}

/* --- walking --- */

/* Dimensions by falling step: what lies together is visited together. */
static void order_of(const struct tensor *t, int order[DNN_DIMS_MAX])
{
    for (int i = 0; i < t->nd; i++) {
        int at = i;
        for (; at > 0 && t->step[order[at - 1]] < t->step[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

void walk_init(struct walk *w, const struct tensor *shape, const struct tensor *const *others,
               int n_others)
{
    *w = (struct walk){0};
    int order[DNN_DIMS_MAX];
    order_of(shape, order);
    int last = -1;
    for (int i = shape->nd - 1; i >= 0 && last < 0; i--) {
        if (shape->dim[order[i]] > 1)
            last = order[i];
    }
    w->inner = last < 0 ? 1 : shape->dim[last];
    for (int i = 0; i < shape->nd; i++) {
        if (order[i] != last)
            w->dim[w->nd++] = shape->dim[order[i]];
    }
    for (int k = 0; k <= n_others; k++) {
        const struct tensor *t = k ? others[k - 1] : shape;
        int at = 0;
        for (int i = 0; t && i < shape->nd; i++) {
            if (order[i] != last)
                w->step[k][at++] = order[i] < t->nd ? t->step[order[i]] : 0;
        }
        w->inner_step[k] = t && last >= 0 && last < t->nd ? t->step[last] : 0;
    }
}

bool walk_next(struct walk *w)
{
    for (int i = w->nd - 1; i >= 0; i--) {
        for (int k = 0; k < 4; k++)
            w->off[k] += w->step[k][i];
        if (++w->at[i] < w->dim[i])
            return true;
        for (int k = 0; k < 4; k++)
            w->off[k] -= w->step[k][i] * w->dim[i];
        w->at[i] = 0;
    }
    return false;
}

/* --- tensors --- */

static float load_one(int type, const void *mem, int64_t i)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return ((const float *)mem)[i];
    case CUDNN_DATA_HALF:
        return fake_from_half(((const uint16_t *)mem)[i]);
    case CUDNN_DATA_BFLOAT16:
        return fake_from_bf16(((const uint16_t *)mem)[i]);
    case CUDNN_DATA_DOUBLE:
        return (float)((const double *)mem)[i];
    case CUDNN_DATA_INT32:
        return (float)((const int32_t *)mem)[i];
    case CUDNN_DATA_INT64:
        return (float)((const int64_t *)mem)[i];
    case CUDNN_DATA_INT8:
        return (float)((const int8_t *)mem)[i];
    case CUDNN_DATA_BOOLEAN:
        return ((const uint8_t *)mem)[i] != 0;
    default:
        return (float)((const uint8_t *)mem)[i];
    }
}

static void store_one(int type, void *mem, int64_t i, float v)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        ((float *)mem)[i] = v;
        break;
    case CUDNN_DATA_HALF:
        ((uint16_t *)mem)[i] = fake_to_half(v);
        break;
    case CUDNN_DATA_BFLOAT16:
        ((uint16_t *)mem)[i] = fake_to_bf16(v);
        break;
    case CUDNN_DATA_DOUBLE:
        ((double *)mem)[i] = (double)v;
        break;
    case CUDNN_DATA_INT32:
        ((int32_t *)mem)[i] = (int32_t)v;
        break;
    case CUDNN_DATA_INT64:
        ((int64_t *)mem)[i] = (int64_t)v;
        break;
    case CUDNN_DATA_INT8:
        ((int8_t *)mem)[i] = (int8_t)v;
        break;
    case CUDNN_DATA_BOOLEAN:
        ((uint8_t *)mem)[i] = v != 0;
        break;
    default:
        ((uint8_t *)mem)[i] = (uint8_t)v;
        break;
    }
}

static float rounded(int type, float v)
{
    switch (type) {
    case CUDNN_DATA_HALF:
        return fake_from_half(fake_to_half(v));
    case CUDNN_DATA_BFLOAT16:
        return fake_from_bf16(fake_to_bf16(v));
    case CUDNN_DATA_BOOLEAN:
        return v != 0;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_INT32:
    case CUDNN_DATA_INT64:
        return truncf(v);
    default:
        return v;
    }
}

/* The strides of memory in place of the packed steps. */
static struct tensor in_memory(const struct tensor *t)
{
    struct tensor m = *t;
    for (int i = 0; i < t->nd; i++)
        m.step[i] = t->dim[i] == 1 ? 0 : t->stride[i];
    return m;
}

void run_load(struct run *r, struct tensor *t)
{
    if (t->is_loaded || r->error[0])
        return;
    t->is_loaded = true;
    if (t->is_virtual)
        return;
    struct tensor mem = in_memory(t);
    const struct tensor *others[] = {&mem};
    struct walk w;
    walk_init(&w, t, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++)
            t->v[w.off[0] + i * w.inner_step[0]] =
                load_one(t->data_type, t->mem, w.off[1] + i * w.inner_step[1]);
    } while (walk_next(&w));
}

static void store(struct tensor *t)
{
    t->is_loaded = true;
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = rounded(t->data_type, t->v[i]);
    if (t->is_virtual)
        return;
    struct tensor mem = in_memory(t);
    const struct tensor *others[] = {&mem};
    struct walk w;
    walk_init(&w, t, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++)
            store_one(t->data_type, t->mem, w.off[1] + i * w.inner_step[1],
                      t->v[w.off[0] + i * w.inner_step[0]]);
    } while (walk_next(&w));
}

/* Packed steps, in the order of the strides. */
static void pack(struct tensor *t)
{
    struct tensor by_stride = in_memory(t);
    int order[DNN_DIMS_MAX];
    order_of(&by_stride, order);
    t->n = 1;
    for (int i = t->nd - 1; i >= 0; i--) {
        int d = order[i];
        t->step[d] = t->dim[d] == 1 ? 0 : t->n;
        t->n *= t->dim[d];
    }
}

/* From here on accesses are legal, or the device has met an illegal address. */
static void bind(struct run *r, struct tensor *t, const struct desc *d)
{
    for (int i = 0; i < r->n_bindings; i++) {
        const struct binding *b = &r->bindings[i];
        if (b->uid != t->uid)
            continue;
        t->mem = b->p ? b->p : (void *)(uintptr_t)b->value;
        int64_t far = 0;
        for (int k = 0; k < t->nd; k++)
            far += (t->dim[k] - 1) * t->stride[k];
        size_t bytes = (size_t)(far + 1) * dnn_data_bytes(t->data_type);
        if (b->p && !fake_inside(b->p, bytes))
            run_error(r, "tensor %lld of %zu bytes leaves its block", (long long)t->uid, bytes);
        return;
    }
    run_error(r, "tensor %lld has no memory",
              (long long)desc_i64(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0));
}

static struct tensor *tensor_of(struct run *r, const struct desc *d)
{
    int64_t uid = desc_i64(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    for (int i = 0; i < r->n; i++) {
        if (r->tensors[i].uid == uid)
            return &r->tensors[i];
    }
    struct tensor *t = &r->tensors[r->n++];
    *t = (struct tensor){.uid = uid,
                         .nd = (int)desc_count(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                         .data_type = desc_int(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 0),
                         .is_virtual = desc_bool(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL)};
    for (int i = 0; i < t->nd; i++) {
        t->dim[i] = desc_i64(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t->stride[i] = desc_i64(d, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    pack(t);
    t->v = calloc((size_t)t->n, sizeof *t->v);
    if (!t->is_virtual)
        bind(r, t, d);
    return t;
}

struct tensor *run_operand(struct run *r, const struct desc *op, int name)
{
    const struct desc *d = desc_child(op, name, 0);
    return d ? tensor_of(r, d) : NULL;
}

static void run_operation(struct run *r, const struct desc *op)
{
    const struct operation *kind = dnn_operation(op->type);
    for (int i = 0; i < kind->n_operands; i++) {
        struct tensor *t = run_operand(r, op, kind->operands[i].name);
        if (t && !dnn_writes(op, &kind->operands[i]))
            run_load(r, t);
    }
    if (!r->error[0])
        kind->run(r, op);
    for (int i = 0; i < kind->n_operands && !r->error[0]; i++) {
        struct tensor *t = run_operand(r, op, kind->operands[i].name);
        if (t && dnn_writes(op, &kind->operands[i]))
            store(t);
    }
}

void dnn_run_graph(struct run *r, const struct desc *graph)
{
    int n = (int)desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    r->tensors = calloc((size_t)n * 16, sizeof *r->tensors);
    for (int i = 0; i < n && !r->error[0]; i++)
        run_operation(r, desc_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i));
    for (int i = 0; i < r->n; i++)
        free(r->tensors[i].v);
    free(r->tensors);
}
