/* plan_cuda.so: convolutions planned by cuDNN for a device of which only the properties are known.
 * Needs cuDNN alone: neither a driver nor the CUDA backend. */
#include <stdio.h>
#include <string.h>

#include "core/backend/conv_plan.h"
#include "core/backend/cuda/dnn_graph.h"

extern const struct bst_conv_module bst_conv_module __attribute__((visibility("default")));

static const cudnnDataType_t types[BST_CONV_N_TYPES] = {
    [BST_CONV_FP32] = CUDNN_DATA_FLOAT,
    [BST_CONV_TF32] = CUDNN_DATA_FLOAT,
    [BST_CONV_FP16] = CUDNN_DATA_HALF,
    [BST_CONV_BF16] = CUDNN_DATA_BFLOAT16,
};

static enum bst_err told(enum bst_err err, char why[BST_CONV_WHY])
{
    if (err)
        snprintf(why, BST_CONV_WHY, "%s", bst_err_text());
    return err;
}

static long version(void)
{
    return (long)cudnnGetVersion();
}

static enum bst_err open_device(const char *properties, size_t bytes, void **device,
                                char why[BST_CONV_WHY])
{
    cudnnBackendDescriptor_t d = NULL;
    enum bst_err err = cuda_dnn_device_parse(properties, bytes, &d);
    *device = d;
    return told(err, why);
}

static void close_device(void *device)
{
    cuda_dnn_device_free(device);
}

static void build(struct cuda_dnn_graph *g, const struct bst_conv_ask *a)
{
    const cudnnDataType_t t = types[a->type];
    const struct cuda_dnn_window w = {a->stride, a->pad};
    const int64_t oh = (a->h + 2 * a->pad - a->kernel) / a->stride + 1;
    const int64_t ow = (a->w + 2 * a->pad - a->kernel) / a->stride + 1;
    const int64_t dx[4] = {a->n, a->c, a->h, a->w}, dy[4] = {a->n, a->k, oh, ow};
    const int64_t df[4] = {a->k, a->c, a->kernel, a->kernel};
    int x = cuda_dnn_nhwc(g, t, dx, CUDA_DNN_REAL);
    int filter = cuda_dnn_nhwc(g, t, df, CUDA_DNN_REAL);
    int y = cuda_dnn_nhwc(g, t, dy, CUDA_DNN_REAL);
    if (a->pass == BST_CONV_BWD_DATA) {
        cuda_dnn_conv_bwd_data(g, y, filter, x, w, a->add ? 1 : 0);
    } else if (a->pass == BST_CONV_BWD_WEIGHT) {
        cuda_dnn_conv_bwd_filter(g, x, y, filter, w, a->add ? 1 : 0);
    } else {
        cuda_dnn_conv_fwd(g, x, filter, y, w);
        if (a->sums) {
            int sum = cuda_dnn_channels(g, CUDNN_DATA_FLOAT, a->k, CUDA_DNN_REAL);
            int squares = cuda_dnn_channels(g, CUDNN_DATA_FLOAT, a->k, CUDA_DNN_REAL);
            cuda_dnn_genstats(g, y, sum, squares);
        }
    }
}

static enum bst_err ask(void *device, const struct bst_conv_ask *a, struct bst_conv_answer *out,
                        char why[BST_CONV_WHY])
{
    struct cuda_dnn_plan p = {0};
    struct cuda_dnn_wish wish = {.workspace_most = a->workspace_most};
    int n = 0;
    if (a->type == BST_CONV_FP32)
        wish.refuse |= CUDA_DNN_NOTES_INEXACT;
    if (a->deterministic)
        wish.refuse |= CUDA_DNN_NOTE(NONDETERMINISTIC);
    struct cuda_dnn_graph *g = cuda_dnn_graph_new();
    build(g, a);
    enum bst_err err = cuda_dnn_plans(g, device, &wish, &p, 1, &n, NULL);
    *out = (struct bst_conv_answer){.accepted = !err,
                                    .fallback = p.fallback,
                                    .workspace = p.workspace,
                                    .engine = p.engine,
                                    .notes = p.numerical};
    cuda_dnn_plan_fini(&p);
    cuda_dnn_graph_free(g);
    return err == BST_E_UNSUPPORTED ? BST_OK : told(err, why);
}

const struct bst_conv_module bst_conv_module = {
    .abi = BST_CONV_MODULE_ABI,
    .version = version,
    .open = open_device,
    .close = close_device,
    .ask = ask,
};
