/* Attention as cuDNN is asked about it: not as one operation but as the graph of its parts, which
 * the library recognises and fuses, so that no T×T matrix reaches memory. The graph for a device
 * that is here and for one of which only the properties are known is one; a text names it. One
 * thread at a time. */
#ifndef BST_BACKEND_CUDA_ATTENTION_ASK_H
#define BST_BACKEND_CUDA_ATTENTION_ASK_H

#include "core/backend/cuda/dnn_graph.h"

enum { CUDA_ATTN_KEY = 96 }; /* one of keep.h's */

struct cuda_attn_ask {
    bool backward;
    cudnnDataType_t type; /* of queries, keys, values, the result and their gradients: 16 bits */
    int64_t n, heads, tq, tk, dim;
    bool packed; /* queries, keys and values side by side in one row, as their gradients */
    bool causal;
    bool padded; /* how many queries and keys of a sample there are is given */
    bool drops;  /* what dropout leaves of the probabilities is given */
    bool steady; /* backward: the same bits each time */
};

/* The graph's tensors by their numbers; each ask uses some of them. Q to DV lie as the
 * instruction's values do, [N, T, …] with a head as columns. */
enum cuda_attn_tensor {
    CUDA_ATTN_Q,
    CUDA_ATTN_K,
    CUDA_ATTN_V,
    CUDA_ATTN_Y,
    CUDA_ATTN_LSE, /* fp32 [N, H, Tq]: logarithms of the sums of exponentials, made by forward */
    CUDA_ATTN_DY,
    CUDA_ATTN_DQ,
    CUDA_ATTN_DK,
    CUDA_ATTN_DV,
    CUDA_ATTN_QUERIES, /* int32 [N], of a sample; at least 1 */
    CUDA_ATTN_KEYS,
    CUDA_ATTN_LEFT,    /* [N, H, Tq, Tk] in `type`: 1 where a probability stays, 0 where not */
    CUDA_ATTN_DELTA,   /* fp32 [N, H, Tq], written: Σ dy·y */
    CUDA_ATTN_DQ_SUMS, /* fp32 [N, H, Tq, dim], written, unless steady */
    CUDA_ATTN_SCALE,   /* numbers on the host, fp32 */
    CUDA_ATTN_LEAST,
    CUDA_ATTN_FACTOR, /* of what dropout leaves */
    CUDA_ATTN_BACK,   /* 1 / that; 1 where nothing is dropped */
    CUDA_ATTN_N
};

void cuda_attn_key(const struct cuda_attn_ask *a, char out[CUDA_ATTN_KEY]);

/* The tensors that a graph has, by number; returns how many. */
int cuda_attn_tensors(const struct cuda_attn_ask *a, int64_t out[CUDA_ATTN_N]);

/* cuDNN's first plan. BST_E_UNSUPPORTED: it has none; the device is too old, a head has a size that
 * it does not take. The plan is the caller's. */
BST_MUST_USE enum bst_err cuda_attn_plan(const struct cuda_attn_ask *a,
                                         cudnnBackendDescriptor_t device,
                                         struct cuda_dnn_plan *out);

#endif
