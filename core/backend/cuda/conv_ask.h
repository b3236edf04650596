/* A convolution as cuDNN is asked about it: its graph, the rule which of cuDNN's plans it gets, and
 * a text that names it. The rule is one for a device that is here and one of which only the
 * properties are known. One thread at a time. */
#ifndef BST_BACKEND_CUDA_CONV_ASK_H
#define BST_BACKEND_CUDA_CONV_ASK_H

#include "core/backend/cuda/dnn_graph.h"

enum {
    CUDA_CONV_KEY = 96,                   /* one of keep.h's */
    CUDA_CONV_WORKSPACE_MOST = 256 << 20, /* preferred; a plan that needs more is taken where no
                                             other is */
};

#define CUDA_CONV_WAYS(X) X(FWD, "fwd") X(BWD_DATA, "data") X(BWD_FILTER, "weight")

enum cuda_conv_way {
#define X(name, word) CUDA_CONV_##name,
    CUDA_CONV_WAYS(X)
#undef X
};

struct cuda_conv_ask {
    enum cuda_conv_way way;
    cudnnDataType_t type; /* of all three tensors */
    bool tf32;            /* fp32 may be rounded to it */
    int64_t n, c, h, w;   /* of the input, NHWC in memory */
    int64_t k;            /* channels of the output */
    int kernel, stride, pad;
    bool add;  /* BWD_*: added to what is there */
    bool sums; /* FWD: with the sums that a batch norm behind it needs, in fp32 */
};

void cuda_conv_key(const struct cuda_conv_ask *a, char out[CUDA_CONV_KEY]);

/* Up to `most` plans, best first by cuDNN's heuristics; only such as give the same bits each time,
 * and fp32 in fp32. What does something beside has another way round: there no plan is better than
 * one that is dear in memory, or compiled for a second each time a program is. Numbers of the
 * tensors: 0 is x, 1 the filter, 2 y, then the sums. The plans are the caller's. BST_E_UNSUPPORTED:
 * there is none. */
BST_MUST_USE enum bst_err cuda_conv_plans(const struct cuda_conv_ask *a,
                                          cudnnBackendDescriptor_t device,
                                          struct cuda_dnn_plan *out, int most, int *n);

#endif
