/* cuDNN's descriptors as its API shows them: set, finalize, get. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

/* Which attributes a descriptor has: the header numbers them in runs. */
static const struct {
    int type, first, last;
} owners[] = {
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0, 9},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 100, 106},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 200, 204},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 300, 304},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 400, 407},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 600, 601},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 700, 705},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 706, 711},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 712, 717},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 750, 758},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, 770, 774},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR, 780, 796},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 800, 804},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, 900, 913},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 1000, 1003},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1300, 1308},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, 1500, 1503},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 1520, 1527},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 1600, 1602},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 1610, 1612},
    {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, 1620, 1630},
    {CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, 1700, 1708},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, 1710, 1716},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, 1720, 1727},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, 2000, 2014},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, 2100, 2110},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 2200, 2201},
    {CUDNN_BACKEND_RNG_DESCRIPTOR, 2300, 2305},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, 2310, 2313},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 2700, 2702},
};

static bool owns(int type, int name)
{
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        if (owners[i].type == type)
            return name >= owners[i].first && name <= owners[i].last;
    }
    return false;
}

static bool is_faked(int type)
{
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        if (owners[i].type == type)
            return true;
    }
    return false;
}

/* Types that a caller in C gets wrong without a word from the compiler. */
static int wanted_type(int name)
{
    switch (name) {
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_POINTWISE_MATH_PREC:
    case CUDNN_ATTR_MATMUL_COMP_TYPE:
    case CUDNN_ATTR_REDUCTION_COMP_TYPE:
        return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        return CUDNN_TYPE_INT64;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
        return CUDNN_TYPE_BOOLEAN;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        return CUDNN_TYPE_BACKEND_DESCRIPTOR;
    default:
        return -1;
    }
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    *out = NULL;
    int refused = fake_refuse(__func__, -1);
    if (refused)
        return dnn_fail((cudnnStatus_t)refused, "injected");
    if (!is_faked((int)type))
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "descriptor type %d is not faked", (int)type);
    *out = desc_new((int)type);
    fake_count(FAKE_CUDNN_DESCRIPTOR, 1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    if (!descriptor)
        return CUDNN_STATUS_SUCCESS;
    fake_lock();
    desc_unref(descriptor);
    fake_count(FAKE_CUDNN_DESCRIPTOR, -1);
    fake_unlock();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_set(const struct desc *d, int name, int type, int64_t n, const void *v)
{
    if (d->is_final)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute %d set after finalization", name);
    if (n < 0 || (!v && n))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: no values", name);
    if (!owns(d->type, name))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "descriptor type %d has no attribute %d", d->type,
                        name);
    if (!dnn_type_bytes(type) || (wanted_type(name) >= 0 && wanted_type(name) != type))
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d given as type %d",
                        name, type);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++) {
        const struct desc *child = ((struct desc *const *)v)[i];
        if (!child)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: a NULL child",
                            name);
        if (!child->is_final)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                            "attribute %d: child %d of type %d is not finalized", name, (int)i,
                            child->type);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *v)
{
    if (!descriptor)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    fake_lock();
    cudnnStatus_t s = check_set(descriptor, (int)name, (int)type, n, v);
    if (!s)
        desc_set(descriptor, (int)name, (int)type, n, v);
    fake_unlock();
    return s;
}

/* The name that errors are injected by. */
static const char *finalize_name(int type)
{
    switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return "cudnnBackendFinalize.tensor";
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return "cudnnBackendFinalize.graph";
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return "cudnnBackendFinalize.heuristics";
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return "cudnnBackendFinalize.plan";
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return "cudnnBackendFinalize.pack";
    default:
        return dnn_operation(type) ? "cudnnBackendFinalize.operation"
                                   : "cudnnBackendFinalize.other";
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct desc *d = descriptor;
    if (!d)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    fake_lock();
    int refused = fake_refuse("cudnnBackendFinalize", -1);
    if (!refused)
        refused = fake_refuse(finalize_name(d->type), -1);
    cudnnStatus_t s = refused ? dnn_fail((cudnnStatus_t)refused, "injected") : dnn_check(d);
    if (!s && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        s = dnn_check_plan(d);
    d->is_final = !s;
    fake_unlock();
    return s;
}

/* --- getting --- */

static cudnnStatus_t give(const void *values, int64_t n, size_t each, int64_t want, int64_t *got,
                          void *out)
{
    if (got)
        *got = n;
    int64_t give_n = want < n ? want : n;
    if (out && give_n > 0)
        memcpy(out, values, (size_t)give_n * each);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_notes(unsigned bits, int64_t want, int64_t *got, void *out)
{
    int notes[32];
    int n = 0;
    for (int i = 0; i < 32; i++) {
        if (bits >> i & 1)
            notes[n++] = i;
    }
    return give(notes, n, sizeof *notes, want, got, out);
}

static cudnnStatus_t give_text(char *text, int64_t want, int64_t *got, void *out)
{
    if (!text)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "there is no text");
    cudnnStatus_t s = give(text, (int64_t)strlen(text) + 1, 1, want, got, out);
    free(text);
    return s;
}

/* Into descriptors that the caller made: they become what is asked for. */
static cudnnStatus_t copy_into(struct desc *dst, const struct desc *src)
{
    if (!dst || dst->type != src->type)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor of the wrong type");
    desc_clear(dst);
    for (int i = 0; i < src->n; i++) {
        const struct attr *a = &src->attrs[i];
        desc_set(dst, a->name, a->type, a->n, a->v);
    }
    dst->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_children(const struct attr *a, int64_t want, int64_t *got, void *out)
{
    if (got)
        *got = a->n;
    for (int64_t i = 0; out && i < want && i < a->n; i++) {
        cudnnStatus_t s = copy_into(((struct desc **)out)[i], ((struct desc **)a->v)[i]);
        if (s)
            return s;
    }
    return CUDNN_STATUS_SUCCESS;
}

static struct desc *new_config(struct desc *graph, int64_t engine)
{
    struct desc *e = desc_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    desc_set(e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    desc_set(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &engine);
    e->is_final = true;
    struct desc *c = desc_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    desc_set(c, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e);
    c->is_final = true;
    desc_unref(e);
    return c;
}

static cudnnStatus_t give_results(const struct desc *heur, int64_t want, int64_t *got, void *out)
{
    int engines[DNN_ENGINES];
    int n = dnn_heuristics(desc_int(heur, CUDNN_ATTR_ENGINEHEUR_MODE, 0), engines);
    struct desc *graph = desc_child(heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    if (!dnn_has_engine(graph, desc_child(heur, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 0)))
        n = 0;
    if (got)
        *got = out && want < n ? want : n;
    for (int i = 0; out && i < n && i < want; i++) {
        struct desc *c = new_config(graph, engines[i]);
        cudnnStatus_t s = copy_into(((struct desc **)out)[i], c);
        desc_unref(c);
        if (s)
            return s;
    }
    return CUDNN_STATUS_SUCCESS;
}

static char *device_json(const struct desc *d)
{
    const struct attr *given = desc_find(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    if (given)
        return strndup(given->v, (size_t)given->n);
    char text[160];
    snprintf(text, sizeof text,
             "{\"deviceVer\":%d,\"deviceName\":\"%s\",\"multiProcessorCount\":132}",
             100 * fake_set.sm_major + 10 * fake_set.sm_minor, fake_set.name);
    return strdup(text);
}

static cudnnStatus_t get(struct desc *d, int name, int type, int64_t want, int64_t *got, void *out)
{
    int64_t value;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return give_results(d, want, got, out);
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        value = DNN_ENGINES;
        return give(&value, 1, sizeof value, want, got, out);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        value = dnn_workspace(dnn_plan_graph(d), dnn_plan_engine(d));
        return give(&value, 1, sizeof value, want, got, out);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        value = desc_i64(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        return give_notes(dnn_numerical_notes((int)value), want, got, out);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        value = desc_i64(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        return give_notes(dnn_behavior_notes((int)value), want, got, out);
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
        return give_text(
            dnn_to_json(desc_child(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0), "plan"), want,
            got, out);
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
        return give_text(device_json(d), want, got, out);
    default:
        break;
    }
    const struct attr *a = desc_find(d, name);
    if (!a || a->type != type)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d is not there as type %d", name, type);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return give_children(a, want, got, out);
    return give(a->v, a->n, dnn_type_bytes(type), want, got, out);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t want, int64_t *got,
                                       void *out)
{
    struct desc *d = descriptor;
    if (!d)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    fake_lock();
    cudnnStatus_t s;
    if (!d->is_final)
        s = dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d got before finalization",
                     (int)name);
    else if (!owns(d->type, (int)name))
        s = dnn_fail(CUDNN_STATUS_BAD_PARAM, "descriptor type %d has no attribute %d", d->type,
                     (int)name);
    else
        s = get(d, (int)name, (int)type, want, got, out);
    fake_unlock();
    return s;
}
