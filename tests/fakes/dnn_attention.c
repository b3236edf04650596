/* Which graphs with two products and a softmax between them real cuDNN has an engine for: as it
 * answered, without a device, for the six of presets/devices (tests/cudnn). Of a graph whose scores
 * are virtual there is no other engine that could take it. */
#include <stdio.h>
#include <string.h>

#include "tests/fakes/dnn.h"

enum { SM_LEAST = 80, HEAD_MOST = 256, HEAD_MOST_BACK = 128, HEAD_MULTIPLE = 8 };

static bool is_16_bits(const struct desc *tensor)
{
    const int type = desc_int(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, -1);

    return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

/* The product of queries and keys, the first of all; NULL: the graph is no attention's. */
static const struct desc *scores_of(const struct desc *graph)
{
    const struct desc *first = NULL;
    bool reduces = false;

    for (int i = 0; i < desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++) {
        const struct desc *op = desc_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);

        if (!first && op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
            first = op;
        reduces |= op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
    }
    return reduces && first &&
                   desc_bool(desc_child(first, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0),
                             CUDNN_ATTR_TENSOR_IS_VIRTUAL)
               ? first
               : NULL;
}

/* Forward has two products, backward five. */
static bool is_backward(const struct desc *graph)
{
    int n = 0;

    for (int i = 0; i < desc_count(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
        n += desc_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)->type ==
             CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    return n > 2;
}

static int sm_of(const struct desc *device)
{
    const struct attr *json =
        device ? desc_find(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) : NULL;
    const char *at = json ? memmem(json->v, (size_t)json->n, "\"deviceVer\":", 12) : NULL;
    int version = 0;

    if (at && sscanf(at + 12, "%d", &version) == 1)
        return version / 10;
    return 10 * fake_set.sm_major + fake_set.sm_minor;
}

bool dnn_has_engine(const struct desc *graph, const struct desc *device)
{
    const struct desc *scores = scores_of(graph);

    if (!scores)
        return true;
    const struct desc *q = desc_child(scores, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 0);
    const struct desc *k = desc_child(scores, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0);
    const int64_t dim = desc_i64(q, CUDNN_ATTR_TENSOR_DIMENSIONS, 3);
    return sm_of(device) >= SM_LEAST && is_16_bits(q) && is_16_bits(k) &&
           dim <= (is_backward(graph) ? HEAD_MOST_BACK : HEAD_MOST) && dim % HEAD_MULTIPLE == 0;
}
