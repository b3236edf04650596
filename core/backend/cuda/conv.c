/* Convolutions: one cuDNN plan an instruction, chosen by its heuristics when the program is
 * compiled, its workspace a part of the program's arena. Only plans that give the same bits each
 * time; fp32 is fp32, and TF32 only where it was asked for.
 *
 * Filters and their gradients are fp32 in memory, in the order that the library takes. In 16 bits
 * an instruction rounds its filter into the scratch, six bytes of traffic a weight beside the
 * hundreds of reads that a weight is used in; a gradient is made there and becomes fp32 behind it,
 * since no engine writes one in fp32. */
#include "core/backend/cuda/plan.h"
#include "core/backend/cuda/tune.h"

/* What a graph does beside: adds to what is there, or makes a batch norm's sums. */
enum extra { NOTHING, ADDS, SUMS };

/* The three tensors of a convolution, whichever of them is made. */
struct conv {
    const struct bst_shape *x, *filter, *y;
    enum cuda_pad pad; /* of the channels of x and of the filter */
    struct bst_window window;
};

static cudnnDataType_t dnn_type(enum kern_type t)
{
    return t == KERN_F32 ? CUDNN_DATA_FLOAT : t == KERN_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* The padding decides how many channels the library sees; they are 0 where there are none. */
static enum bst_err find_plan(struct bst_be *be, const struct conv *c, enum cuda_conv_way way,
                              enum extra extra, struct cuda_handle *h, struct cuda_dnn_plan *out)
{
    struct cuda_form x;

    BST_TRY(cuda_form_of(cuda_layout(be->type, c->pad), c->x, &x));
    struct cuda_conv_ask ask = {
        .way = way,
        .type = dnn_type(be->type),
        .tf32 = be->tf32,
        .n = c->x->d[0],
        .c = x.c_stored,
        .h = c->x->d[2],
        .w = c->x->d[3],
        .k = c->y->d[1],
        .kernel = c->window.kernel,
        .stride = c->window.stride,
        .pad = c->window.pad,
        .add = extra == ADDS,
        .sums = extra == SUMS,
    };
    if (out == &h->plan)
        h->ask = ask;
    return cuda_conv_find(be, &ask, out);
}

/* An activation of this backend's type as it lies now, or its padding's default. */
static enum cuda_pad pad_of(const struct bst_be *be, uint32_t layout)
{
    return cuda_layout_is_last(layout, be->type) ? cuda_layout_pad(layout) : CUDA_PAD_NONE;
}

/* As it is kept, whatever the library multiplies. */
static uint32_t filter_layout(enum cuda_pad pad)
{
    return cuda_layout(KERN_F32, pad);
}

static int64_t filter_count(const struct cuda_handle *h)
{
    return h->form.n * h->form.pixels * (int64_t)h->form.c_stored;
}

/* The plan's workspace, and in 16 bits the filter behind it. */
static enum bst_err give_scratch(struct bst_be *be, const struct conv *c, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    BST_TRY(cuda_form_of(filter_layout(c->pad), c->filter, &h->form));
    h->workspace = cuda_round_up((size_t)h->plan.workspace);
    w->scratch_bytes =
        cuda_is_mixed(be) ? h->workspace + 2 * (size_t)filter_count(h) : (size_t)h->plan.workspace;
    return BST_OK;
}

static size_t form_bytes(const struct cuda_form *f)
{
    return (size_t)f->n * (size_t)f->pixels * (size_t)f->c_stored * (f->type == KERN_F32 ? 4 : 2);
}

static void *behind_workspace(const struct cuda_handle *h, const struct bst_call *c)
{
    return (char *)c->scratch + h->workspace;
}

static enum bst_err rounded_filter(struct bst_be *be, const struct cuda_handle *h,
                                   const struct bst_call *c, void **out)
{
    *out = c->src[1];
    if (!cuda_is_mixed(be))
        return BST_OK;
    *out = behind_workspace(h, c);
    return cuda_narrow(be, *out, c->src[1], filter_count(h));
}

static enum bst_err fwd_describe(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cuda_handle *h)
{
    const struct conv c = {cuda_src_shape(p, in, 0), cuda_src_shape(p, in, 1),
                           cuda_dst_shape(p, in, 0), pad_of(be, w->src[0]), in->window};

    (void)accumulate;
    w->src[0] = cuda_layout(be->type, c.pad);
    w->src[1] = filter_layout(c.pad);
    w->dst[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    if (in->flags & BST_IF_STATS) {
        /* Σx² - (Σx)²/n in fp32 loses what a variance is much smaller than the mean's square by: no
         * more than the values' own rounding in fewer bits, but all that fp32 is asked for. */
        if (!cuda_is_mixed(be) && !be->tf32)
            return bst_fail(BST_E_UNSUPPORTED, "cuda: sums of fp32 values beside a convolution");
        /* Two rows of floats next to each other, each of them aligned for the library. */
        if (c.y->d[1] % 4)
            return bst_fail(BST_E_UNSUPPORTED, "cuda: sums of %d channels", (int)c.y->d[1]);
        w->raw_bytes[1] = 2 * (size_t)c.y->d[1] * sizeof(float);
    }
    BST_TRY(
        find_plan(be, &c, CUDA_CONV_FWD, in->flags & BST_IF_STATS ? SUMS : NOTHING, h, &h->plan));
    return give_scratch(be, &c, w, h);
}

static enum bst_err data_describe(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cuda_handle *h)
{
    const struct conv c = {cuda_dst_shape(p, in, 0), cuda_src_shape(p, in, 1),
                           cuda_src_shape(p, in, 0), pad_of(be, w->dst[0]), in->window};

    (void)accumulate;
    w->src[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    w->src[1] = filter_layout(c.pad);
    w->dst[0] = cuda_layout(be->type, c.pad);
    if (in->flags & BST_IF_SUM) {
        w->src[2] = w->dst[0];
        w->inplace[0] = 2;
    }
    BST_TRY(cuda_form_of(w->dst[0], c.x, &h->other));
    BST_TRY(find_plan(be, &c, CUDA_CONV_BWD_DATA, in->flags & BST_IF_SUM ? ADDS : NOTHING, h,
                      &h->plan));
    return give_scratch(be, &c, w, h);
}

/* In 16 bits, and where the library has no plan that adds, the gradient is made in the scratch and
 * a kernel of ours takes it to its place. */
static enum bst_err weight_describe(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, bool accumulate,
                                    struct bst_wants *w, struct cuda_handle *h)
{
    const struct conv c = {cuda_src_shape(p, in, 0), cuda_dst_shape(p, in, 0),
                           cuda_src_shape(p, in, 1), pad_of(be, w->src[0]), in->window};
    size_t add = 0;

    w->src[0] = cuda_layout(be->type, c.pad);
    w->dst[0] = filter_layout(c.pad);
    w->src[1] = cuda_layout(be->type, CUDA_PAD_NONE);
    BST_TRY(find_plan(be, &c, CUDA_CONV_BWD_FILTER, NOTHING, h, &h->plan));
    BST_TRY(give_scratch(be, &c, w, h));
    if (!cuda_is_mixed(be) && (accumulate || in->adds)) {
        enum bst_err err = find_plan(be, &c, CUDA_CONV_BWD_FILTER, ADDS, h, &h->plan_add);

        if (err && err != BST_E_UNSUPPORTED)
            return err;
        add = err ? h->workspace + cuda_layout_bytes(be, w->dst[0], c.filter)
                  : (size_t)h->plan_add.workspace;
    }
    w->scratch_bytes = add > w->scratch_bytes ? add : w->scratch_bytes;
    return BST_OK;
}

static enum bst_err run_plan(struct bst_be *be, const struct cuda_dnn_plan *plan, void *x,
                             void *filter, void *y, void *workspace)
{
    const struct cuda_conv_places at = {{x, filter, y}, .n = 3, .workspace = workspace};

    return cuda_conv_run(be, plan, &at);
}

/* One that overwrites, once it is settled which. */
static enum bst_err run_chosen(struct bst_be *be, struct cuda_handle *h,
                               struct cuda_conv_places *at)
{
    at->room = (size_t)h->plan.workspace;
    if (be->tuned && !h->settled)
        BST_TRY(cuda_tune(be, &h->ask, at, &h->plan));
    h->settled = true;
    return cuda_conv_run(be, &h->plan, at);
}

static enum bst_err fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    void *filter;

    BST_TRY(rounded_filter(be, h, c, &filter));
    struct cuda_conv_places at = {{c->src[0], filter, c->dst[0]}, .n = 3, .workspace = c->scratch};
    if (c->in->flags & BST_IF_STATS) {
        at.at[3] = c->dst[1];
        at.at[4] = (float *)c->dst[1] + cuda_dst_shape(c->p, c->in, 0)->d[1];
        at.n = 5;
    }
    return run_chosen(be, h, &at);
}

static enum bst_err data_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    void *filter;

    BST_TRY(rounded_filter(be, h, c, &filter));
    if (!(c->in->flags & BST_IF_SUM)) {
        struct cuda_conv_places at = {
            {c->dst[0], filter, c->src[0]}, .n = 3, .workspace = c->scratch};

        return run_chosen(be, h, &at);
    }
    if (c->dst[0] != c->src[2])
        BST_TRY(cuda_fail(cudaMemcpyAsync(c->dst[0], c->src[2], form_bytes(&h->other),
                                          cudaMemcpyDeviceToDevice, be->stream),
                          "a gradient to its place"));
    return run_plan(be, &h->plan, c->dst[0], filter, c->src[0], c->scratch);
}

static enum bst_err weight_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const bool mixed = cuda_is_mixed(be), adds = cuda_adds(c, 0);

    struct cuda_conv_places at = {
        {c->src[0], c->dst[0], c->src[1]}, .n = 3, .workspace = c->scratch};
    if (!mixed && !adds)
        return run_chosen(be, h, &at);
    if (h->plan_add.desc)
        return run_plan(be, &h->plan_add, c->src[0], c->dst[0], c->src[1], c->scratch);
    void *made = at.at[1] = behind_workspace(h, c);
    const struct kern_accumulate a = {c->dst[0], made, filter_count(h)};
    BST_TRY(run_chosen(be, h, &at));
    return mixed ? cuda_widen(be, c->dst[0], made, filter_count(h), adds)
                 : cuda_fail(kern_run_accumulate(be->stream, KERN_F32, &a), "adding up gradients");
}

const struct cuda_op cuda_op_conv_fwd = {fwd_describe, fwd_run};
const struct cuda_op cuda_op_conv_bwd_data = {data_describe, data_run};
const struct cuda_op cuda_op_conv_bwd_weight = {weight_describe, weight_run};
