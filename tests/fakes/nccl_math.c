/* What a collective computes, element by element. */
#include <stdlib.h>

#include "tests/fakes/half.h"
#include "tests/fakes/nccl_inner.h"

size_t nccl_type_bytes(ncclDataType_t t)
{
    static const unsigned char bytes[ncclNumTypes] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,  [ncclFloat16] = 2, [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2};
    return (int)t >= 0 && t < ncclNumTypes ? bytes[t] : 0;
}

static double load(const void *p, ncclDataType_t t, size_t i)
{
    switch (t) {
    case ncclFloat16:
        return (double)fake_from_half(((const uint16_t *)p)[i]);
    case ncclBfloat16:
        return (double)fake_from_bf16(((const uint16_t *)p)[i]);
    case ncclFloat32:
        return (double)((const float *)p)[i];
    case ncclFloat64:
        return ((const double *)p)[i];
    case ncclInt8:
        return ((const int8_t *)p)[i];
    case ncclUint8:
        return ((const uint8_t *)p)[i];
    case ncclInt32:
        return ((const int32_t *)p)[i];
    case ncclUint32:
        return ((const uint32_t *)p)[i];
    case ncclUint64:
        return (double)((const uint64_t *)p)[i];
    default:
        return (double)((const int64_t *)p)[i];
    }
}

static void store(void *p, ncclDataType_t t, size_t i, double v)
{
    switch (t) {
    case ncclFloat16:
        ((uint16_t *)p)[i] = fake_to_half((float)v);
        break;
    case ncclBfloat16:
        ((uint16_t *)p)[i] = fake_to_bf16((float)v);
        break;
    case ncclFloat32:
        ((float *)p)[i] = (float)v;
        break;
    case ncclFloat64:
        ((double *)p)[i] = v;
        break;
    case ncclInt8:
        ((int8_t *)p)[i] = (int8_t)v;
        break;
    case ncclUint8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case ncclInt32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case ncclUint32:
        ((uint32_t *)p)[i] = (uint32_t)v;
        break;
    case ncclUint64:
        ((uint64_t *)p)[i] = (uint64_t)v;
        break;
    default:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    }
}

static double combine(ncclRedOp_t op, double a, double b)
{
    switch (op) {
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    case ncclProd:
        return a * b;
    default:
        return a + b;
    }
}

/* In rank order, in double: every rank gets the same bits. */
static double reduced(const struct coll *c, int n, size_t i)
{
    double v = load(c->src[0], c->spec.type, i);
    for (int r = 1; r < n; r++)
        v = combine(c->spec.op, v, load(c->src[r], c->spec.type, i));
    return c->spec.op == ncclAvg ? v / n : v;
}

/* A rank's send buffer may be its receive buffer, so an element is read in all ranks before it is
 * written in any. */
void nccl_run(const struct coll *c, int n)
{
    const struct coll_spec *s = &c->spec;
    for (size_t i = 0; i < s->count; i++) {
        if (s->kind == ALL_REDUCE || s->kind == REDUCE) {
            double v = reduced(c, n, i);
            for (int r = 0; r < n; r++) {
                if (s->kind == ALL_REDUCE || r == s->root)
                    store(c->dst[r], s->type, i, v);
            }
        } else if (s->kind == BROADCAST) {
            double v = load(c->src[s->root], s->type, i);
            for (int r = 0; r < n; r++)
                store(c->dst[r], s->type, i, v);
        } else if (s->kind == ALL_GATHER) {
            for (int r = 0; r < n; r++) {
                double v = load(c->src[r], s->type, i);
                for (int to = 0; to < n; to++)
                    store(c->dst[to], s->type, (size_t)r * s->count + i, v);
            }
        }
    }
    if (s->kind != REDUCE_SCATTER)
        return;
    size_t all = (size_t)n * s->count;
    double *v = malloc((all ? all : 1) * sizeof *v);
    for (size_t i = 0; i < all; i++)
        v[i] = reduced(c, n, i);
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < s->count; i++)
            store(c->dst[r], s->type, i, v[(size_t)r * s->count + i]);
    }
    free(v);
}
