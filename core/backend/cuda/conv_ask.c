#include "core/backend/cuda/conv_ask.h"

#include <inttypes.h>
#include <stdio.h>

static const char *way_name(enum cuda_conv_way way)
{
    static const char *const names[] = {
#define X(name, word) word,
        CUDA_CONV_WAYS(X)
#undef X
    };
    return names[way];
}

static const char *type_name(const struct cuda_conv_ask *a)
{
    if (a->type == CUDNN_DATA_HALF)
        return "fp16";
    if (a->type == CUDNN_DATA_BFLOAT16)
        return "bf16";
    return a->tf32 ? "tf32" : "fp32";
}

void cuda_conv_key(const struct cuda_conv_ask *a, char out[CUDA_CONV_KEY])
{
    snprintf(out, CUDA_CONV_KEY,
             "%s%s%s %s %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 " %" PRId64 " k%d s%d p%d",
             way_name(a->way), a->sums ? "+sums" : "", a->add ? "+add" : "", type_name(a), a->n,
             a->c, a->h, a->w, a->k, a->kernel, a->stride, a->pad);
}

static void build(const struct cuda_conv_ask *a, struct cuda_dnn_graph *g)
{
    const struct cuda_dnn_window w = {a->stride, a->pad};
    const int64_t oh = (a->h + 2 * a->pad - a->kernel) / a->stride + 1;
    const int64_t ow = (a->w + 2 * a->pad - a->kernel) / a->stride + 1;
    const int64_t x_dim[4] = {a->n, a->c, a->h, a->w}, y_dim[4] = {a->n, a->k, oh, ow};
    const int64_t filter_dim[4] = {a->k, a->c, a->kernel, a->kernel};
    const int x = cuda_dnn_nhwc(g, a->type, x_dim, CUDA_DNN_REAL);
    const int filter = cuda_dnn_nhwc(g, a->type, filter_dim, CUDA_DNN_REAL);
    const int y = cuda_dnn_nhwc(g, a->type, y_dim, CUDA_DNN_REAL);

    if (a->way == CUDA_CONV_BWD_DATA)
        cuda_dnn_conv_bwd_data(g, y, filter, x, w, a->add ? 1 : 0);
    else if (a->way == CUDA_CONV_BWD_FILTER)
        cuda_dnn_conv_bwd_filter(g, x, y, filter, w, a->add ? 1 : 0);
    else
        cuda_dnn_conv_fwd(g, x, filter, y, w);
    if (a->sums) {
        const int sum = cuda_dnn_channels(g, CUDNN_DATA_FLOAT, a->k, CUDA_DNN_REAL);

        cuda_dnn_genstats(g, y, sum, cuda_dnn_channels(g, CUDNN_DATA_FLOAT, a->k, CUDA_DNN_REAL));
    }
}

enum bst_err cuda_conv_plans(const struct cuda_conv_ask *a, cudnnBackendDescriptor_t device,
                             struct cuda_dnn_plan *out, int most, int *n)
{
    struct cuda_dnn_wish wish = {.refuse = CUDA_DNN_NOTE(NONDETERMINISTIC),
                                 .workspace_most = CUDA_CONV_WORKSPACE_MOST};
    struct cuda_dnn_graph *g = cuda_dnn_graph_new();
    const bool extra = a->add || a->sums;

    if (extra)
        wish.refuse_behaviour = CUDA_DNN_BEHAVIOUR(RUNTIME_COMPILATION);
    if (a->type == CUDNN_DATA_FLOAT && !a->tf32)
        wish.refuse |= CUDA_DNN_NOTES_INEXACT;
    build(a, g);
    enum bst_err err = cuda_dnn_plans(g, device, &wish, out, most, n, NULL);
    if (err == BST_E_UNSUPPORTED && !extra) { /* dear in memory is better than none */
        wish.workspace_most = -1;
        err = cuda_dnn_plans(g, device, &wish, out, most, n, NULL);
    }
    cuda_dnn_graph_free(g);
    return err;
}
