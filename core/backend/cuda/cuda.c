#include "core/backend/cuda/cuda.h"

#include "core/backend/cuda/segment.h"
#include "core/backend/cuda/tune.h"
#include "core/base/alloc.h"

static const struct cuda_op *const ops[BST_I_N_OPS] = {
    [BST_I_IMAGE] = &cuda_op_image,
    [BST_I_CONV_FWD] = &cuda_op_conv_fwd,
    [BST_I_CONV_BWD_DATA] = &cuda_op_conv_bwd_data,
    [BST_I_CONV_BWD_WEIGHT] = &cuda_op_conv_bwd_weight,
    [BST_I_BN_TRAIN] = &cuda_op_bn_train,
    [BST_I_BN_INFER] = &cuda_op_bn_infer,
    [BST_I_BN_BWD] = &cuda_op_bn_bwd,
    [BST_I_RELU_FWD] = &cuda_op_relu_fwd,
    [BST_I_RELU_BWD] = &cuda_op_relu_bwd,
    [BST_I_ADD] = &cuda_op_add,
    [BST_I_MAX_POOL_FWD] = &cuda_op_max_pool_fwd,
    [BST_I_MAX_POOL_BWD] = &cuda_op_max_pool_bwd,
    [BST_I_AVG_POOL_FWD] = &cuda_op_avg_pool_fwd,
    [BST_I_AVG_POOL_BWD] = &cuda_op_avg_pool_bwd,
    [BST_I_LINEAR_FWD] = &cuda_op_linear_fwd,
    [BST_I_LINEAR_BWD_DATA] = &cuda_op_linear_bwd_data,
    [BST_I_LINEAR_BWD_WEIGHT] = &cuda_op_linear_bwd_weight,
    [BST_I_SOFTMAX_CE] = &cuda_op_softmax_ce,
    [BST_I_EMBED_FWD] = &cuda_op_embed_fwd,
    [BST_I_EMBED_BWD] = &cuda_op_embed_bwd,
    [BST_I_POSITION_FWD] = &cuda_op_position_fwd,
    [BST_I_POSITION_BWD] = &cuda_op_position_bwd,
    [BST_I_SINUSOID] = &cuda_op_sinusoid,
    [BST_I_LN_FWD] = &cuda_op_ln_fwd,
    [BST_I_LN_BWD] = &cuda_op_ln_bwd,
    [BST_I_GELU_FWD] = &cuda_op_gelu_fwd,
    [BST_I_GELU_BWD] = &cuda_op_gelu_bwd,
    [BST_I_TANH_FWD] = &cuda_op_tanh_fwd,
    [BST_I_TANH_BWD] = &cuda_op_tanh_bwd,
    [BST_I_FIRST_FWD] = &cuda_op_first_fwd,
    [BST_I_FIRST_BWD] = &cuda_op_first_bwd,
    [BST_I_DROPOUT] = &cuda_op_dropout,
    [BST_I_ATTN_FWD] = &cuda_op_attn_fwd,
    [BST_I_ATTN_BWD] = &cuda_op_attn_bwd,
    [BST_I_REORDER] = &cuda_op_reorder,
};

static void release(struct bst_be *be, void *handle)
{
    struct cuda_handle *h = handle;

    if (!h)
        return;
    cuda_segments_free(be, h->segments);
    cuda_dnn_plan_fini(&h->plan);
    cuda_dnn_plan_fini(&h->plan_add);
    cuda_product_fini(&h->product);
    cuda_sorted_free(be, h->sorted);
    cuda_attn_free(be, h->attn);
    bst_free(h);
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    if (!ops[in->op])
        return bst_fail(BST_E_UNSUPPORTED, "the cuda backend has no %s yet",
                        bst_instr_op_name(in->op));
    struct cuda_handle *h = bst_xalloc(sizeof *h);
    enum bst_err err = ops[in->op]->describe(be, p, in, accumulate, w, h);

    if (err) {
        release(be, h);
        return err;
    }
    w->handle = h;
    return BST_OK;
}

static enum bst_err run(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step)
{
    const struct bst_call call = {p, in, src, dst, scratch, step};

    return ops[in->op]->run(be, in->handle, &call);
}

static void choices(struct bst_be *be, struct bst_sb *out)
{
    if (be->tuned)
        cuda_tuned_print(be->tuned, out);
}

static void take_choices(struct bst_be *be, const char *text)
{
    if (be->tuned)
        cuda_tuned_take(be->tuned, text);
}

const struct bst_backend bst_backend_cuda = {
    .name = "cuda",
    .about = "cuDNN, cuBLASLt and own kernels on NVIDIA GPUs",
    .elem_bytes = sizeof(float),
    .own_memory = true,
    .precisions = 1u << BST_PRECISION_TF32 | 1u << BST_PRECISION_FP16 | 1u << BST_PRECISION_BF16,
    .describe = {.describe = describe,
                 .release = release,
                 .layout_bytes = cuda_layout_bytes,
                 .alignment = CUDA_ALIGNMENT,
                 .fuses = BST_IF_SUM | BST_IF_STATS},
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .run = run,
    .run_some = cuda_run_some,
    .finish = cuda_finish,
    .begin = cuda_begin,
    .steps_left = cuda_steps_left,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .input_bytes = cuda_input_bytes,
    .upload = cuda_upload,
    .download = cuda_download,
    .memory = cuda_memory,
    .held = cuda_held,
    .link = &cuda_link_ops,
    .export_plain = cuda_export_plain,
    .import_plain = cuda_import_plain,
    .sum = cuda_sum,
    .scale = cuda_scale,
    .copy = cuda_copy,
    .sum_squares = cuda_sum_squares,
    .sum_squares_each = cuda_sum_squares_each,
    .sgd = cuda_sgd,
    .optimize = cuda_optimize,
    .commit_room = cuda_commit_room,
    .commit = cuda_commit,
    .committed = cuda_committed,
    .measure = cuda_measure,
    .copy_later = cuda_copy_later,
    .forget = cuda_forget,
    .set_commit_state = cuda_set_commit_state,
    .choices = choices,
    .take_choices = take_choices,
};
