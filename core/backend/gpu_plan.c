#include "core/backend/gpu_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

/* Layouts beside the plain one, which is fp32 in the order of the shape: matrices and parameters.
 */
enum {
    NHWC = 1, /* of the run's type, channels next to each other */
};

enum { ALIGNMENT = 256, IMAGE_CHANNELS = 4 };

struct bst_be {
    struct bst_conv_planner *planner;
    struct bst_plan_for how;
};

static size_t type_bytes(const struct bst_be *be)
{
    return be->how.type == BST_CONV_FP16 || be->how.type == BST_CONV_BF16 ? 2 : 4;
}

/* An image's few channels are padded to what tensor cores take at once: convolutions of 3 channels
 * would pad them again and again, in a workspace of their own. */
static int64_t padded_channels(const struct bst_be *be, int64_t c)
{
    if (c > IMAGE_CHANNELS)
        return c;
    return be->how.type == BST_CONV_FP16 ? 4 : be->how.type == BST_CONV_BF16 ? 8 : c;
}

static size_t layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    int64_t n = bst_shape_count(s);
    BST_ASSERT(n >= 0);
    if (layout == BST_LAYOUT_PLAIN)
        return (size_t)n * sizeof(float);
    BST_ASSERT(layout == NHWC && s->rank == 4);
    return (size_t)(n / s->d[1] * padded_channels(be, s->d[1])) * type_bytes(be);
}

static const struct bst_shape *shape_of(const struct bst_program *p, int value)
{
    return &p->values[value].shape;
}

/* Elements of a filter [k, c, kernel, kernel] as cuDNN gets it. */
static size_t filter_bytes(const struct bst_be *be, const struct bst_conv_ask *a)
{
    return (size_t)a->k * (size_t)a->c * (size_t)(a->kernel * a->kernel) * type_bytes(be);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void ask_of(const struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                   struct bst_conv_ask *out)
{
    const bool data = in->op == BST_I_CONV_BWD_DATA, weight = in->op == BST_I_CONV_BWD_WEIGHT;
    const struct bst_shape *x = shape_of(p, data ? in->dst[0] : in->src[0]);
    const struct bst_shape *y = shape_of(p, data ? in->src[0] : weight ? in->src[1] : in->dst[0]);
    *out = (struct bst_conv_ask){
        .pass = data     ? BST_CONV_BWD_DATA
                : weight ? BST_CONV_BWD_WEIGHT
                         : BST_CONV_FWD,
        .type = be->how.type,
        .n = (int)x->d[0],
        .c = (int)padded_channels(be, x->d[1]),
        .h = (int)x->d[2],
        .w = (int)x->d[3],
        .k = (int)y->d[1],
        .kernel = in->window.kernel,
        .stride = in->window.stride,
        .pad = in->window.pad,
        .deterministic = be->how.deterministic,
        .workspace_most = -1,
    };
}

/* cuDNN's workspace and, where filters are kept in another type than they are used in, room for one
 * such filter. */
static enum bst_err describe_conv(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, struct bst_wants *w)
{
    struct bst_conv_ask ask;
    struct bst_conv_answer answer;
    ask_of(be, p, in, &ask);
    BST_TRY(bst_conv_planner_ask(be->planner, &ask, &answer));
    if (!answer.accepted)
        return bst_fail(BST_E_LIBRARY, "cuDNN has no plan for this convolution in %s",
                        bst_conv_type_name(ask.type));
    w->src[0] = NHWC;
    if (in->op == BST_I_CONV_BWD_WEIGHT)
        w->src[1] = NHWC;
    else
        w->dst[0] = NHWC;
    w->scratch_bytes = aligned((size_t)answer.workspace) + aligned(filter_bytes(be, &ask));
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
        w->scratch_bytes = aligned(partial_bytes(x)) + aligned(channel);
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
    w->dst[0] = NHWC;
    w->scratch_bytes = (size_t)bst_shape_count(shape_of(p, in->dst[0]));
}

static void describe_softmax(const struct bst_program *p, const struct bst_instr *in,
                             struct bst_wants *w)
{
    const size_t n = (size_t)shape_of(p, in->src[0])->d[0];
    w->inplace[0] = in->n_dst ? 0 : -1;
    w->scratch_bytes = aligned(n * 16) + aligned(n * sizeof(int32_t)) + ALIGNMENT;
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    (void)accumulate;
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = BST_LAYOUT_PLAIN;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = BST_LAYOUT_PLAIN;
    switch (in->op) {
    case BST_I_CONV_FWD:
    case BST_I_CONV_BWD_DATA:
    case BST_I_CONV_BWD_WEIGHT:
        return describe_conv(be, p, in, w);
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
    .describe = {describe, NULL, layout_bytes, ALIGNMENT},
    .open = be_open,
    .close = be_close,
    .info = be_info,
    .free = be_free,
};
