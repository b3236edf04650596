/* cuDNN's descriptors as a store of attributes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

static _Thread_local char error_text[256];

cudnnStatus_t dnn_fail(cudnnStatus_t status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error_text, sizeof error_text, fmt, ap);
    va_end(ap);
    return status;
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (max_size)
        snprintf(message, max_size, "%s", error_text);
}

size_t dnn_type_bytes(int type)
{
    static const unsigned char bytes[] = {
        [CUDNN_TYPE_HANDLE] = 8,
        [CUDNN_TYPE_DATA_TYPE] = 4,
        [CUDNN_TYPE_BOOLEAN] = 1,
        [CUDNN_TYPE_INT64] = 8,
        [CUDNN_TYPE_FLOAT] = 4,
        [CUDNN_TYPE_DOUBLE] = 8,
        [CUDNN_TYPE_VOID_PTR] = 8,
        [CUDNN_TYPE_CONVOLUTION_MODE] = 4,
        [CUDNN_TYPE_HEUR_MODE] = 4,
        [CUDNN_TYPE_KNOB_TYPE] = 4,
        [CUDNN_TYPE_NUMERICAL_NOTE] = 4,
        [CUDNN_TYPE_POINTWISE_MODE] = 4,
        [CUDNN_TYPE_BACKEND_DESCRIPTOR] = 8,
        [CUDNN_TYPE_GENSTATS_MODE] = 4,
        [CUDNN_TYPE_BN_FINALIZE_STATS_MODE] = 4,
        [CUDNN_TYPE_REDUCTION_OPERATOR_TYPE] = 4,
        [CUDNN_TYPE_BEHAVIOR_NOTE] = 4,
        [CUDNN_TYPE_TENSOR_REORDERING_MODE] = 4,
        [CUDNN_TYPE_RESAMPLE_MODE] = 4,
        [CUDNN_TYPE_PADDING_MODE] = 4,
        [CUDNN_TYPE_INT32] = 4,
        [CUDNN_TYPE_CHAR] = 1,
        [CUDNN_TYPE_FRACTION] = 16,
        [CUDNN_TYPE_NORM_MODE] = 4,
        [CUDNN_TYPE_NORM_FWD_PHASE] = 4,
        [CUDNN_TYPE_RNG_DISTRIBUTION] = 4,
    };
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

struct desc *desc_new(int type)
{
    struct desc *d = calloc(1, sizeof *d);
    d->refs = 1;
    d->type = type;
    return d;
}

struct desc *desc_ref(struct desc *d)
{
    d->refs++;
    return d;
}

static void drop_value(struct attr *a)
{
    for (int64_t i = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < a->n; i++)
        desc_unref(((struct desc **)a->v)[i]);
    free(a->v);
}

void desc_clear(struct desc *d)
{
    for (int i = 0; i < d->n; i++)
        drop_value(&d->attrs[i]);
    free(d->attrs);
    d->attrs = NULL;
    d->n = 0;
}

void desc_unref(struct desc *d)
{
    if (!d || --d->refs)
        return;
    desc_clear(d);
    free(d);
}

struct attr *desc_find(const struct desc *d, int name)
{
    for (int i = 0; d && i < d->n; i++) {
        if (d->attrs[i].name == name)
            return &d->attrs[i];
    }
    return NULL;
}

void desc_set(struct desc *d, int name, int type, int64_t n, const void *v)
{
    size_t bytes = (size_t)n * dnn_type_bytes(type);
    struct attr fresh = {.name = name, .type = type, .n = n, .v = malloc(bytes ? bytes : 1)};
    if (bytes)
        memcpy(fresh.v, v, bytes);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++)
        desc_ref(((struct desc **)fresh.v)[i]);
    struct attr *a = desc_find(d, name);
    if (a) {
        drop_value(a);
    } else {
        d->attrs = realloc(d->attrs, (size_t)(d->n + 1) * sizeof *d->attrs);
        a = &d->attrs[d->n++];
    }
    *a = fresh;
}

int64_t desc_count(const struct desc *d, int name)
{
    const struct attr *a = desc_find(d, name);
    return a ? a->n : 0;
}

int64_t desc_i64(const struct desc *d, int name, int i)
{
    const struct attr *a = desc_find(d, name);
    return a && i < a->n ? ((int64_t *)a->v)[i] : 0;
}

int desc_int(const struct desc *d, int name, int otherwise)
{
    const struct attr *a = desc_find(d, name);
    return a && a->n ? *(int *)a->v : otherwise;
}

bool desc_bool(const struct desc *d, int name)
{
    const struct attr *a = desc_find(d, name);
    return a && a->n && *(bool *)a->v;
}

double desc_real(const struct desc *d, int name, double otherwise)
{
    const struct attr *a = desc_find(d, name);
    if (!a || !a->n)
        return otherwise;
    return a->type == CUDNN_TYPE_DOUBLE ? *(double *)a->v : (double)*(float *)a->v;
}

double desc_fraction(const struct desc *d, int name, int i)
{
    const struct attr *a = desc_find(d, name);
    if (!a || i >= a->n)
        return 0;
    if (a->type == CUDNN_TYPE_INT64)
        return (double)((int64_t *)a->v)[i];
    const cudnnFraction_t *f = &((cudnnFraction_t *)a->v)[i];
    return (double)f->numerator / (double)f->denominator;
}

struct desc *desc_child(const struct desc *d, int name, int i)
{
    const struct attr *a = desc_find(d, name);
    return a && a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < a->n ? ((struct desc **)a->v)[i]
                                                                     : NULL;
}
