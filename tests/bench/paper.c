/* What a GPU's memory allows at most, on paper: the bytes that an update of a net moves per image,
 * counted from the net's own program as the CUDA backend would run it, over the device's bandwidth;
 * and its arithmetic over the tensor cores' peak. Nothing is measured here.
 *
 *     bench_paper NET BATCH fp16|bf16|tf32|fp32 GPU...
 *
 * Counted are tensors, each read and written once a pass over it: a batch norm's forward is two
 * passes (statistics, then the result), so is its backward. Not counted are what a cache may save,
 * cuDNN's workspaces, and the loader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/plan_for.h"
#include "core/run/gpu.h"
#include "nets/nets.h"

enum kind { CONV, NORM, POINTWISE, POOL, FILTERS, OTHER, N_KINDS };
static const char *const kind_names[N_KINDS] = {"convolutions", "batch norms",    "add and ReLU",
                                                "pooling",      "filters' casts", "the rest"};

struct model {
    double bytes[N_KINDS]; /* of a pass through the net, forward and backward */
    double flops;
    double epilogue; /* bytes that statistics made by the convolutions themselves save */
    double optimizer;
    int batch;
};

struct setup {
    const struct bst_net *net;
    struct bst_net_cfg net_cfg;
    enum bst_precision precision;
    struct bst_plan_for plan_for;
    int batch;
    bool no_fuse;
};

static int fail(const char *what)
{
    fprintf(stderr, "bench_paper: %s: %s\n", what, bst_err_text());
    return 1;
}

static enum kind kind_of(enum bst_instr_op op)
{
    switch (op) {
    case BST_I_CONV_FWD:
    case BST_I_CONV_BWD_DATA:
    case BST_I_CONV_BWD_WEIGHT:
        return CONV;
    case BST_I_BN_TRAIN:
    case BST_I_BN_BWD:
        return NORM;
    case BST_I_RELU_FWD:
    case BST_I_RELU_BWD:
    case BST_I_ADD:
        return POINTWISE;
    case BST_I_MAX_POOL_FWD:
    case BST_I_MAX_POOL_BWD:
    case BST_I_AVG_POOL_FWD:
    case BST_I_AVG_POOL_BWD:
        return POOL;
    default:
        return OTHER;
    }
}

/* Filters are masters in fp32, cast to what the convolution works with, and back. */
static void count_filter(const struct bst_program *p, const struct bst_instr *in, double size,
                         struct model *m)
{
    int v = in->op == BST_I_CONV_BWD_WEIGHT ? in->dst[0] : in->src[1];
    double n = (double)bst_shape_count(&p->values[v].shape);
    if (size < 4)
        m->bytes[FILTERS] += n * (4 + size);
    m->bytes[CONV] += n * size;
}

static void count_conv(const struct bst_program *p, const struct bst_instr *in, double size,
                       struct model *m)
{
    const bool weight = in->op == BST_I_CONV_BWD_WEIGHT, data = in->op == BST_I_CONV_BWD_DATA;
    const struct bst_shape *w = &p->values[weight ? in->dst[0] : in->src[1]].shape;
    const struct bst_value *y = &p->values[weight ? in->src[1] : data ? in->src[0] : in->dst[0]];
    m->bytes[CONV] += (double)p->values[in->src[0]].bytes;
    m->bytes[CONV] += (double)p->values[weight ? in->src[1] : in->dst[0]].bytes;
    m->flops +=
        2.0 * (double)bst_shape_count(&y->shape) * (double)bst_shape_count(w) / (double)w->d[0];
    count_filter(p, in, size, m);
}

/* The sums over x (and dy) are a pass of their own. A residual's mask is kept as bits, with what is
 * saved: y itself is not read for it. */
static void count_norm(const struct bst_program *p, const struct bst_instr *in, struct model *m)
{
    const bool back = in->op == BST_I_BN_BWD;
    double twice = (double)p->values[in->src[0]].bytes;
    for (int k = 0; k < in->n_src; k++) {
        bool mask_of = back && k == 5 && in->flags & BST_IF_RESIDUAL;
        if (!mask_of)
            m->bytes[NORM] += (double)p->values[in->src[k]].bytes;
    }
    for (int k = 0; k < in->n_dst; k++)
        m->bytes[NORM] += (double)p->values[in->dst[k]].bytes;
    if (back) {
        twice += (double)p->values[in->src[1]].bytes;
        if (in->flags & BST_IF_DY2)
            twice += (double)p->values[in->src[in->n_src - 1]].bytes;
        if (in->flags & BST_IF_RESIDUAL)
            twice += (double)p->values[in->src[4]].bytes; /* the mask */
    } else {
        m->epilogue += twice;
    }
    m->bytes[NORM] += twice;
}

static void count_instr(const struct bst_program *p, const struct bst_instr *in, double size,
                        struct model *m)
{
    enum kind kind = kind_of(in->op);
    if (kind == CONV) {
        count_conv(p, in, size, m);
        return;
    }
    if (kind == NORM) {
        count_norm(p, in, m);
        return;
    }
    for (int k = 0; k < in->n_src; k++)
        m->bytes[kind] += (double)p->values[in->src[k]].bytes;
    for (int k = 0; k < in->n_dst; k++)
        m->bytes[kind] += (double)p->values[in->dst[k]].bytes;
}

/* SGD with momentum reads weight, momentum and gradient, and writes the first two. */
static void count_program(const struct bst_program *p, double size, struct model *m)
{
    *m = (struct model){.batch = p->micro_batch};
    for (int i = 0; i < p->n_instrs; i++)
        count_instr(p, &p->instrs[i], size, m);
    m->optimizer = 5.0 * (double)p->params->trained_bytes;
}

static enum bst_err make_model(const struct setup *s, struct model *out)
{
    const struct bst_backend *b = NULL;
    BST_TRY(bst_backend_get_planner(&b));
    const struct bst_be_cfg cfg = {
        .threads = 1, .precision = s->precision, .plan_for = &s->plan_for};
    const struct bst_compile_opts opts = {.training = true, .no_fuse = s->no_fuse};
    struct bst_graph *g = bst_graph_new(s->batch);
    struct bst_param_table *params = NULL;
    struct bst_program *p = NULL;
    struct bst_be *be = NULL;
    enum bst_err err = s->net->build(&s->net_cfg, g);
    if (!err)
        err = bst_graph_check(g);
    if (!err)
        err = b->open(&cfg, &be);
    if (!err) {
        params = bst_param_table_new(g);
        err = bst_compile(g, &b->describe, be, params, &opts, &p);
    }
    if (!err)
        count_program(p, s->precision >= BST_PRECISION_FP16 ? 2 : 4, out);
    bst_program_free(p);
    bst_param_table_free(params);
    b->close(be);
    bst_graph_free(g);
    return err;
}

static double moved(const struct model *m, bool epilogue)
{
    double sum = m->optimizer - (epilogue ? m->epilogue : 0);
    for (int k = 0; k < N_KINDS; k++)
        sum += m->bytes[k];
    return sum / m->batch;
}

static void print_bound(const char *what, const struct model *m, bool epilogue,
                        const struct bst_gpu *gpu)
{
    double mb = moved(m, epilogue) / 1e6, rate = gpu->memory_gb_s * 1e3 / mb;
    printf("| %s | %.0f | %.0f | %.0f |\n", what, mb, rate, 0.9 * rate);
}

static int report(const struct setup *s, const struct bst_gpu *gpu)
{
    struct setup apart = *s;
    struct model fused, unfused;
    apart.no_fuse = true;
    if (make_model(s, &fused) || make_model(&apart, &unfused))
        return fail(gpu->id);
    printf("\n%s, %s, batch %d, %s: %.1f GFLOP an image\n\n", gpu->title, s->net->name, s->batch,
           bst_precision_name(s->precision), fused.flops / s->batch / 1e9);
    printf("| | MB an image | images/s at %.0f GB/s | at 0.9 of it |\n|---|---|---|---|\n",
           gpu->memory_gb_s);
    print_bound("batch norm, add and ReLU apart", &unfused, false, gpu);
    print_bound("fused, as built", &fused, false, gpu);
    print_bound("and statistics by the convolutions", &fused, true, gpu);
    if (gpu->tensor16_tflops > 0 && s->precision >= BST_PRECISION_FP16)
        printf("| arithmetic alone, at %.0f TFLOP/s | | %.0f | |\n", gpu->tensor16_tflops,
               gpu->tensor16_tflops * 1e12 / (fused.flops / s->batch));
    printf("\nfused, by kind, MB an image:");
    for (int k = 0; k < N_KINDS; k++)
        printf(" %s %.1f,", kind_names[k], fused.bytes[k] / s->batch / 1e6);
    printf(" optimizer %.1f\n", fused.optimizer / s->batch / 1e6);
    return 0;
}

static bool find_type(const char *word, enum bst_precision *out)
{
    for (int i = 0; i < BST_N_PRECISIONS; i++) {
        *out = (enum bst_precision)i;
        if (!strcmp(word, bst_precision_name(*out)))
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct setup s = {.net_cfg = {.classes = 1000,
                                  .in_channels = 3,
                                  .height = 224,
                                  .width = 224,
                                  .mean = {0.5f, 0.5f, 0.5f},
                                  .std = {0.5f, 0.5f, 0.5f}}};
    int failed = 0;
    if (argc < 5 || !find_type(argv[3], &s.precision) ||
        !(s.net = bst_net_find(&net_table, argv[1])) ||
        (s.batch = (int)strtol(argv[2], NULL, 10)) < 1) {
        fprintf(stderr, "usage: bench_paper NET BATCH fp16|bf16|tf32|fp32 GPU...\n");
        return 2;
    }
    s.net_cfg.name = argv[1];
    struct bst_preset_env *env = bst_preset_env_new(&net_table);
    for (int i = 4; i < argc && !failed; i++) {
        struct bst_gpu gpu;
        if (bst_gpu_load(env, argv[i], &gpu)) {
            failed = fail("device");
            continue;
        }
        s.plan_for.properties = gpu.properties;
        s.plan_for.n_properties = gpu.n_properties;
        s.plan_for.memory = gpu.memory;
        failed = report(&s, &gpu);
        bst_gpu_fini(&gpu);
    }
    bst_preset_env_free(env);
    return failed;
}
