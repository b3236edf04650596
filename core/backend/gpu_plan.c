#include "core/backend/gpu_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

/* Layouts beside the plain one, which is fp32 in the order of the shape: of the run's type,
 * channels (of a filter: its input's) next to each other. An image's few are padded to what tensor
 * cores take at once, and with them the filter's that it meets: convolutions of 3 channels would
 * pad them again and again, in a workspace of their own. */
enum { NHWC = 1, NHWC_PADDED = 2 };

enum {
    ALIGNMENT = 256,
    WORKSPACE_MOST = 256 << 20, /* preferred; a plan that needs more where there is no other */
    LT_WORKSPACE = 4 << 20,     /* cuBLASLt's, at most; which one it takes, only a device knows */
    ROW_BYTES = 16,             /* of softmax cross-entropy, for each sample */
};

struct bst_be {
    struct bst_conv_planner *planner;
    struct bst_plan_for how;
};

/* Whether parameters, which are fp32, are of another type than what convolutions work with. */
static bool is_mixed(const struct bst_be *be)
{
    return be->how.type == BST_CONV_FP16 || be->how.type == BST_CONV_BF16;
}

static int64_t stored_channels(const struct bst_be *be, uint32_t layout, int64_t c)
{
    const int64_t multiple = layout != NHWC_PADDED ? 1 : be->how.type == BST_CONV_BF16 ? 8 : 4;
    return (c + multiple - 1) / multiple * multiple;
}

static size_t layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    int64_t n = bst_shape_count(s);
    BST_ASSERT(n >= 0);
    if (layout == BST_LAYOUT_PLAIN)
        return (size_t)n * sizeof(float);
    BST_ASSERT(s->rank == 4);
    return (size_t)(n / s->d[1] * stored_channels(be, layout, s->d[1])) * (is_mixed(be) ? 2 : 4);
}

static const struct bst_shape *shape_of(const struct bst_program *p, int value)
{
    return &p->values[value].shape;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct conv { /* the places of its three tensors in an instruction, and how x lies */
    const struct bst_shape *x, *filter, *y;
    uint32_t *x_layout, *filter_layout, *y_layout;
    enum bst_conv_pass pass;
    uint32_t layout;
};

static struct conv conv_of(const struct bst_program *p, const struct bst_instr *in,
                           struct bst_wants *w)
{
    struct conv c = {shape_of(p, in->src[0]),
                     shape_of(p, in->src[1]),
                     shape_of(p, in->dst[0]),
                     &w->src[0],
                     &w->src[1],
                     &w->dst[0],
                     BST_CONV_FWD,
                     NHWC};
    if (in->op == BST_I_CONV_BWD_DATA)
        c = (struct conv){c.y,        c.filter,          c.x, &w->dst[0], &w->src[1],
                          &w->src[0], BST_CONV_BWD_DATA, NHWC};
    if (in->op == BST_I_CONV_BWD_WEIGHT)
        c = (struct conv){
            c.x, c.y, c.filter, &w->src[0], &w->dst[0], &w->src[1], BST_CONV_BWD_WEIGHT, NHWC};
    return c;
}

static enum bst_err ask(struct bst_be *be, const struct conv *c, struct bst_window window, bool add,
                        struct bst_conv_answer *out)
{
    struct bst_conv_ask a = {
        .pass = c->pass,
        .type = be->how.type,
        .n = (int)c->x->d[0],
        .c = (int)stored_channels(be, c->layout, c->x->d[1]),
        .h = (int)c->x->d[2],
        .w = (int)c->x->d[3],
        .k = (int)c->y->d[1],
        .kernel = window.kernel,
        .stride = window.stride,
        .pad = window.pad,
        .add = add,
        .deterministic = true,
        .workspace_most = WORKSPACE_MOST,
    };
    BST_TRY(bst_conv_planner_ask(be->planner, &a, out));
    a.workspace_most = -1;
    return out->accepted ? BST_OK : bst_conv_planner_ask(be->planner, &a, out);
}

/* cuDNN's workspace. Where filters are kept in another type than they are used in, room for one
 * that is cast; where a gradient is added to and cuDNN has no plan that adds, room for it. */
static enum bst_err describe_conv(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, uint32_t layout, bool accumulate,
                                  struct bst_wants *w)
{
    struct conv c = conv_of(p, in, w);
    struct bst_conv_answer answer, adds;
    c.layout = layout;
    BST_TRY(ask(be, &c, in->window, false, &answer));
    if (!answer.accepted)
        return bst_fail(BST_E_LIBRARY, "cuDNN has no plan for this convolution in %s on that GPU",
                        bst_conv_type_name(be->how.type));
    const size_t filter = layout_bytes(be, c.layout, c.filter);
    *c.x_layout = c.layout;
    *c.y_layout = NHWC;
    w->scratch_bytes = (size_t)answer.workspace;
    if (is_mixed(be)) {
        w->scratch_bytes = aligned(w->scratch_bytes) + filter;
        return BST_OK;
    }
    *c.filter_layout = c.layout;
    if (c.pass == BST_CONV_BWD_WEIGHT && accumulate) {
        BST_TRY(ask(be, &c, in->window, true, &adds));
        size_t with = adds.accepted ? (size_t)adds.workspace : aligned(w->scratch_bytes) + filter;
        w->scratch_bytes = with > w->scratch_bytes ? with : w->scratch_bytes;
    }
    return BST_OK;
}

/* Partial sums over chunks of rows, as the kernels make them (cuda/kern.c). */
static size_t partial_bytes(const struct bst_shape *x)
{
    const size_t rows = (size_t)(x->d[0] * x->d[2] * x->d[3]), c = (size_t)x->d[1];
    const size_t groups = c % 8 ? c : c / 8, tiles = (groups + 31) / 32;
    size_t chunks = 512 / tiles, most = (rows + 31) / 32;
    chunks = chunks > most ? most : chunks;
    return (chunks ? chunks : 1) * 2 * c * sizeof(float);
}

/* Behind the gradient, the ReLU's mask is found again from x; where a residual was added, it is
 * kept, a bit a number. */
static void describe_bn(const struct bst_program *p, const struct bst_instr *in,
                        struct bst_wants *w)
{
    const struct bst_shape *x = shape_of(p, in->src[0]);
    const size_t c = (size_t)x->d[1], channel = 2 * c * sizeof(float);
    const bool residual = in->flags & BST_IF_RESIDUAL;
    w->src[0] = NHWC;
    w->dst[0] = NHWC;
    if (in->op == BST_I_BN_BWD) {
        w->src[1] = NHWC;
        for (int k = 5; k < in->n_src; k++)
            w->src[k] = NHWC;
        if (residual)
            w->dst[3] = NHWC;
        w->inplace[0] = 1;
        if (residual && in->flags & BST_IF_DY2)
            w->inplace[3] = in->n_src - 1;
        w->scratch_bytes = aligned(partial_bytes(x)) + channel;
        return;
    }
    if (residual)
        w->src[5] = NHWC;
    w->inplace[0] = residual && in->op == BST_I_BN_TRAIN ? 5 : 0;
    if (in->op == BST_I_BN_TRAIN) {
        w->raw_bytes[1] = channel;
        if (residual)
            w->raw_bytes[1] += ((size_t)bst_shape_count(x) + 7) / 8;
        w->scratch_bytes = aligned(partial_bytes(x));
    }
}

static void describe_pool(const struct bst_program *p, const struct bst_instr *in,
                          struct bst_wants *w)
{
    w->src[0] = in->op == BST_I_AVG_POOL_BWD ? BST_LAYOUT_PLAIN : NHWC;
    w->dst[0] = in->op == BST_I_AVG_POOL_FWD ? BST_LAYOUT_PLAIN : NHWC;
    if (in->op == BST_I_MAX_POOL_FWD && in->n_dst > 1) /* the tap of each maximum */
        w->raw_bytes[1] = (size_t)bst_shape_count(shape_of(p, in->dst[0]));
}

static void describe_pointwise(const struct bst_program *p, const struct bst_instr *in,
                               struct bst_wants *w)
{
    const uint32_t layout = shape_of(p, in->src[0])->rank == 4 ? NHWC : BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = layout;
    w->dst[0] = layout;
    w->inplace[0] = 0;
}

/* Images come as bytes into a place of their own. */
static void describe_image(const struct bst_program *p, const struct bst_instr *in,
                           struct bst_wants *w)
{
    w->dst[0] = NHWC_PADDED;
    w->scratch_bytes = (size_t)bst_shape_count(shape_of(p, in->dst[0]));
}

static void describe_softmax(const struct bst_program *p, const struct bst_instr *in,
                             struct bst_wants *w)
{
    const size_t n = (size_t)shape_of(p, in->src[0])->d[0];
    w->inplace[0] = in->n_dst ? 0 : -1;
    w->scratch_bytes = aligned(n * sizeof(int32_t)) + n * ROW_BYTES;
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    /* As they lie now, or will: an image's padding is known by that. */
    const uint32_t x = in->op == BST_I_CONV_BWD_DATA ? w->dst[0] : w->src[0];
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = BST_LAYOUT_PLAIN;
    switch (in->op) {
    case BST_I_CONV_FWD:
    case BST_I_CONV_BWD_DATA:
    case BST_I_CONV_BWD_WEIGHT:
        return describe_conv(be, p, in, x == NHWC_PADDED ? x : NHWC, accumulate, w);
    case BST_I_BN_TRAIN:
    case BST_I_BN_INFER:
    case BST_I_BN_BWD:
        describe_bn(p, in, w);
        return BST_OK;
    case BST_I_MAX_POOL_FWD:
    case BST_I_MAX_POOL_BWD:
    case BST_I_AVG_POOL_FWD:
    case BST_I_AVG_POOL_BWD:
        describe_pool(p, in, w);
        return BST_OK;
    case BST_I_RELU_FWD:
    case BST_I_RELU_BWD:
    case BST_I_ADD:
        describe_pointwise(p, in, w);
        return BST_OK;
    case BST_I_IMAGE:
        describe_image(p, in, w);
        return BST_OK;
    case BST_I_SOFTMAX_CE:
        describe_softmax(p, in, w);
        return BST_OK;
    case BST_I_LINEAR_FWD:
    case BST_I_LINEAR_BWD_DATA:
    case BST_I_LINEAR_BWD_WEIGHT:
        w->scratch_bytes = LT_WORKSPACE;
        return BST_OK;
    case BST_I_REORDER:
        return BST_OK;
    default:
        return bst_fail(BST_E_UNSUPPORTED, "%s is not planned for a GPU yet",
                        bst_instr_op_name(in->op));
    }
}

static enum bst_err be_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    if (!cfg->plan_for)
        return bst_fail(BST_E_ARG, "a plan needs a device to plan for");
    struct bst_be *be = bst_xalloc(sizeof *be);
    be->how = *cfg->plan_for;
    enum bst_err err = bst_conv_planner_open(be->how.properties, be->how.n_properties,
                                             be->how.cache, &be->planner);
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
    bst_conv_planner_close(be->planner);
    bst_free(be);
}

static void be_info(struct bst_be *be, struct bst_device_info *out)
{
    *out = (struct bst_device_info){.threads = 1};
    snprintf(out->name, sizeof out->name, "a GPU that is not here");
    snprintf(out->library, sizeof out->library, "cuDNN %s", bst_conv_planner_cudnn(be->planner));
}

/* Of what nobody allocated. */
static void be_free(struct bst_be *be, void *p, size_t bytes)
{
    (void)be;
    (void)bytes;
    BST_ASSERT(!p);
}

const struct bst_backend bst_backend_gpu_plan = {
    .name = "cuda",
    .about = "plans for a GPU that is not here",
    .elem_bytes = sizeof(float),
    .own_memory = true,
    .precisions = 1u << BST_PRECISION_TF32 | 1u << BST_PRECISION_FP16 | 1u << BST_PRECISION_BF16,
    .describe = {.describe = describe, .layout_bytes = layout_bytes, .alignment = ALIGNMENT},
    .open = be_open,
    .close = be_close,
    .info = be_info,
    .free = be_free,
};
