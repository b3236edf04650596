#include "core/backend/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"

static const struct cpu_op *const ops[BST_I_N_OPS] = {
    [BST_I_IMAGE] = &cpu_op_image,
    [BST_I_CONV_FWD] = &cpu_op_conv_fwd,
    [BST_I_CONV_BWD_DATA] = &cpu_op_conv_bwd_data,
    [BST_I_CONV_BWD_WEIGHT] = &cpu_op_conv_bwd_weight,
    [BST_I_BN_TRAIN] = &cpu_op_bn_train,
    [BST_I_BN_INFER] = &cpu_op_bn_infer,
    [BST_I_BN_BWD] = &cpu_op_bn_bwd,
    [BST_I_RELU_FWD] = &cpu_op_relu_fwd,
    [BST_I_RELU_BWD] = &cpu_op_relu_bwd,
    [BST_I_ADD] = &cpu_op_add,
    [BST_I_MAX_POOL_FWD] = &cpu_op_max_pool_fwd,
    [BST_I_MAX_POOL_BWD] = &cpu_op_max_pool_bwd,
    [BST_I_AVG_POOL_FWD] = &cpu_op_avg_pool_fwd,
    [BST_I_AVG_POOL_BWD] = &cpu_op_avg_pool_bwd,
    [BST_I_LINEAR_FWD] = &cpu_op_linear_fwd,
    [BST_I_LINEAR_BWD_DATA] = &cpu_op_linear_bwd_data,
    [BST_I_LINEAR_BWD_WEIGHT] = &cpu_op_linear_bwd_weight,
    [BST_I_SOFTMAX_CE] = &cpu_op_softmax_ce,
    [BST_I_EMBED_FWD] = &cpu_op_embed_fwd,
    [BST_I_EMBED_BWD] = &cpu_op_embed_bwd,
    [BST_I_POSITION_FWD] = &cpu_op_position_fwd,
    [BST_I_POSITION_BWD] = &cpu_op_position_bwd,
    [BST_I_SINUSOID] = &cpu_op_sinusoid,
    [BST_I_LN_FWD] = &cpu_op_ln_fwd,
    [BST_I_LN_BWD] = &cpu_op_ln_bwd,
    [BST_I_GELU_FWD] = &cpu_op_gelu_fwd,
    [BST_I_GELU_BWD] = &cpu_op_gelu_bwd,
    [BST_I_TANH_FWD] = &cpu_op_tanh_fwd,
    [BST_I_TANH_BWD] = &cpu_op_tanh_bwd,
    [BST_I_FIRST_FWD] = &cpu_op_first_fwd,
    [BST_I_FIRST_BWD] = &cpu_op_first_bwd,
    [BST_I_DROPOUT] = &cpu_op_dropout,
    [BST_I_ATTN_FWD] = &cpu_op_attn_fwd,
    [BST_I_ATTN_BWD] = &cpu_op_attn_bwd,
    [BST_I_REORDER] = &cpu_op_reorder,
};

/* oneDNN bakes the number of threads into a primitive and reads it from the calling thread's OpenMP
 * settings; 2.6 hangs when a region then gets fewer. */
static enum bst_err lead_team(int threads)
{
    if (threads < 1)
        return bst_fail(BST_E_ARG, "cpu: %d threads", threads);
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    if (omp_get_thread_limit() < threads)
        return bst_fail(BST_E_ARG, "cpu: a team of %d threads, but OMP_THREAD_LIMIT is %d", threads,
                        omp_get_thread_limit());
    return BST_OK;
}

static enum bst_err be_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    struct bst_be *be;
    enum bst_err err;

    BST_TRY(lead_team(cfg->threads));
    be = bst_xalloc(sizeof *be);
    be->threads = cfg->threads;
    be->vec = cpu_vec_best();
    be->vec_bn = cpu_vec_bn_best();
    be->seq = cpu_vec_seq_best();
    be->vec_optim = cpu_vec_optim_best();
    err = shim_open(cfg->threads, &be->shim);
    if (err)
        bst_free(be);
    else
        *out = be;
    return err;
}

static void be_close(struct bst_be *be)
{
    if (!be)
        return;
    shim_close(be->shim);
    bst_free(be->pieces);
    bst_free(be);
}

/* The processor's own name for itself; "CPU" where there is none to read. */
static void cpu_name(char *out, size_t room)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    snprintf(out, room, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, room, "%s", colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static void be_info(struct bst_be *be, struct bst_device_info *out)
{
    memset(out, 0, sizeof *out);
    cpu_name(out->name, sizeof out->name);
    snprintf(out->isa, sizeof out->isa, "%s", be->vec->isa);
    shim_version(out->library, sizeof out->library);
    out->threads = be->threads;
}

static enum bst_err be_alloc(struct bst_be *be, size_t bytes, void **out)
{
    (void)be;
    return bst_alloc(bytes, out);
}

static void be_free(struct bst_be *be, void *p, size_t bytes)
{
    (void)be;
    bst_alloc_free(p, bytes);
}

static void release(struct bst_be *be, void *handle)
{
    struct cpu_handle *h = handle;

    (void)be;
    if (!h)
        return;
    shim_prim_free(h->prim);
    shim_prim_free(h->rest);
    shim_prim_free(h->pack);
    bst_free(h->table);
    bst_free(h);
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    struct cpu_handle *h;
    enum bst_err err;

    if (!ops[in->op] || in->flags & (BST_IF_SUM | BST_IF_STATS))
        return bst_fail(BST_E_UNSUPPORTED, "the cpu backend does not have this operation");
    h = bst_xalloc(sizeof *h);
    err = ops[in->op]->describe(be, p, in, accumulate, w, h);
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

const struct bst_backend bst_backend_cpu = {
    .name = "cpu",
    .about = "oneDNN and own vector kernels on this machine's cores",
    .elem_bytes = sizeof(float),
    .describe = {.describe = describe,
                 .release = release,
                 .layout_bytes = cpu_layout_bytes,
                 .alignment = 64},
    .open = be_open,
    .close = be_close,
    .info = be_info,
    .alloc = be_alloc,
    .free = be_free,
    .run = run,
    .export_plain = cpu_export_plain,
    .import_plain = cpu_import_plain,
    .sum = cpu_sum,
    .scale = cpu_scale,
    .copy = cpu_copy,
    .sum_squares = cpu_sum_squares,
    .sgd = cpu_sgd,
    .optimize = cpu_optimize,
};
