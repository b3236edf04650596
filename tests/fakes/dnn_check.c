/* What a descriptor has to hold when it is finalized. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

static cudnnStatus_t need(const struct desc *d, const int *names, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        if (!desc_count(d, names[i]))
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s lacks attribute %d", what, names[i]);
    }
    return CUDNN_STATUS_SUCCESS;
}
#define NEED(d, what, ...)                                                                         \
    need(d, (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), what)

static cudnnStatus_t check_tensor(const struct desc *d)
{
    cudnnStatus_t s = NEED(d, "a tensor", CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
                           CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE,
                           CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (s)
        return s;
    int64_t nd = desc_count(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    int64_t uid = desc_i64(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    if (nd > DNN_DIMS_MAX || desc_count(d, CUDNN_ATTR_TENSOR_STRIDES) != nd)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld: dimensions and strides differ",
                        (long long)uid);
    for (int i = 0; i < nd; i++) {
        if (desc_i64(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i) <= 0 ||
            desc_i64(d, CUDNN_ATTR_TENSOR_STRIDES, i) < 0)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld: dimension %d", (long long)uid, i);
    }
    int64_t align = desc_i64(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    if (align < 1 || (align & (align - 1)))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld: alignment %lld", (long long)uid,
                        (long long)align);
    if (!dnn_data_bytes(desc_int(d, CUDNN_ATTR_TENSOR_DATA_TYPE, -1)))
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "tensor %lld: data type not faked",
                        (long long)uid);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_conv_desc(const struct desc *d)
{
    cudnnStatus_t s =
        NEED(d, "a convolution", CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
             CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
             CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
             CUDNN_ATTR_CONVOLUTION_DILATIONS);
    if (s)
        return s;
    if (desc_i64(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "only two spatial dimensions are faked");
    if (desc_int(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 0) != CUDNN_CROSS_CORRELATION)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "only cross-correlation is faked");
    static const int pairs[] = {
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS};
    for (int i = 0; i < 4; i++) {
        if (desc_count(d, pairs[i]) != 2)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a convolution's attribute %d is no pair",
                            pairs[i]);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_operation(const struct desc *d, const struct operation *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        const struct operand *o = &op->operands[i];
        const struct desc *t = desc_child(d, o->name, 0);
        if (!t && !o->is_optional)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s lacks operand %d", op->name, o->name);
        if (t && t->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "%s: operand %d is no tensor",
                            op->name, o->name);
    }
    return op->check ? op->check(d) : CUDNN_STATUS_SUCCESS;
}

/* --- a graph: one meaning for each uid, and nothing virtual read before it is written --- */

struct seen {
    const struct desc *tensor;
    bool is_written;
};

static bool same_attr(const struct desc *a, const struct desc *b, int name)
{
    const struct attr *x = desc_find(a, name);
    const struct attr *y = desc_find(b, name);
    if (!x || !y)
        return x == y;
    return x->n == y->n && !memcmp(x->v, y->v, (size_t)x->n * dnn_type_bytes(x->type));
}

static bool same_tensor(const struct desc *a, const struct desc *b)
{
    return same_attr(a, b, CUDNN_ATTR_TENSOR_DIMENSIONS) &&
           same_attr(a, b, CUDNN_ATTR_TENSOR_STRIDES) &&
           same_attr(a, b, CUDNN_ATTR_TENSOR_DATA_TYPE) &&
           desc_bool(a, CUDNN_ATTR_TENSOR_IS_VIRTUAL) == desc_bool(b, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

static cudnnStatus_t see(struct seen *seen, int *n, const struct desc *t, bool writes)
{
    long long uid = desc_i64(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    int at = 0;
    while (at < *n && desc_i64(seen[at].tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0) != uid)
        at++;
    if (at == *n)
        seen[(*n)++] = (struct seen){.tensor = t};
    if (!same_tensor(seen[at].tensor, t))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "uid %lld stands for two different tensors", uid);
    if (writes && seen[at].is_written)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld is written twice", uid);
    if (!writes && !seen[at].is_written && desc_bool(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld is read before it is written",
                        uid);
    seen[at].is_written |= writes;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t see_operation(struct seen *seen, int *n, const struct desc *op)
{
    const struct operation *kind = dnn_operation(op->type);
    for (int pass = 0; pass < 2; pass++) { /* what is read, then what is written */
        for (int i = 0; i < kind->n_operands; i++) {
            const struct desc *t = desc_child(op, kind->operands[i].name, 0);
            bool writes = dnn_writes(op, &kind->operands[i]);
            if (!t || writes != (pass == 1))
                continue;
            cudnnStatus_t s = see(seen, n, t, writes);
            if (s)
                return s;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_graph(const struct desc *d)
{
    int64_t n_ops = desc_count(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!n_ops)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a graph without operations");
    struct seen *seen = calloc((size_t)n_ops * 16, sizeof *seen);
    int n = 0;
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < n_ops && !s; i++) {
        const struct desc *op = desc_child(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        s = dnn_operation(op->type)
                ? see_operation(seen, &n, op)
                : dnn_fail(CUDNN_STATUS_BAD_PARAM, "element %d of a graph is no operation", i);
    }
    free(seen);
    return s;
}

/* --- the rest --- */

static cudnnStatus_t check_heuristics(const struct desc *d)
{
    const struct desc *graph = desc_child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    if (!graph || !desc_count(d, CUDNN_ATTR_ENGINEHEUR_MODE))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "heuristics lack a graph or a mode");
    if (!desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) &&
        !desc_count(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "heuristics have neither a handle nor a device");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_engine(const struct desc *d)
{
    int64_t i = desc_i64(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    if (!desc_child(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0) ||
        !desc_count(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) || i < 0 || i >= DNN_ENGINES)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "an engine lacks its graph or its index");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pack(const struct desc *d)
{
    int64_t n = desc_count(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    if (n != desc_count(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "a pack's uids and pointers differ in number");
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            if (desc_i64(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) ==
                desc_i64(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, k))
                return dnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a uid twice in a pack");
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t dnn_check(const struct desc *d)
{
    const struct operation *op = dnn_operation(d->type);
    if (op)
        return check_operation(d, op);
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return check_conv_desc(d);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return NEED(d, "pointwise", CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC);
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        return NEED(d, "a reduction", CUDNN_ATTR_REDUCTION_OPERATOR,
                    CUDNN_ATTR_REDUCTION_COMP_TYPE);
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        return NEED(d, "a matmul", CUDNN_ATTR_MATMUL_COMP_TYPE);
    case CUDNN_BACKEND_RNG_DESCRIPTOR:
        return NEED(d, "a random generator", CUDNN_ATTR_RNG_DISTRIBUTION);
    case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR:
        return NEED(d, "resampling", CUDNN_ATTR_RESAMPLE_MODE, CUDNN_ATTR_RESAMPLE_COMP_TYPE,
                    CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS,
                    CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_ATTR_RESAMPLE_POST_PADDINGS,
                    CUDNN_ATTR_RESAMPLE_STRIDES);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return check_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return check_heuristics(d);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return check_engine(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return NEED(d, "a configuration", CUDNN_ATTR_ENGINECFG_ENGINE);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return check_pack(d);
    default:
        return CUDNN_STATUS_SUCCESS;
    }
}
