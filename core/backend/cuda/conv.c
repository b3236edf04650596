/* Convolutions: one cuDNN plan an instruction, chosen by its heuristics when the program is
 * compiled, its workspace a part of the program's arena. Only plans that give the same bits each
 * time; fp32 is fp32, and TF32 only where it was asked for.
 *
 * Filters and their gradients are fp32 in memory, in the order that the library takes. In 16 bits
 * an instruction rounds its filter into the scratch, six bytes of traffic a weight beside the
 * hundreds of reads that a weight is used in; a gradient is made there and becomes fp32 behind it,
 * since no engine writes one in fp32. */
#include "core/backend/cuda/be.h"

enum direction { FORWARD, BY_DATA, BY_FILTER };
/* What a graph does beside: adds to what is there, or makes a batch norm's sums. */
enum extra { NOTHING, ADDS, SUMS };

/* The three tensors of a convolution, whichever of them is made. */
struct conv {
    const struct bst_shape *x, *filter, *y;
    enum cuda_pad pad; /* of the channels of x and of the filter */
    struct cuda_dnn_window window;
};

static cudnnDataType_t dnn_type(enum kern_type t)
{
    return t == KERN_F32 ? CUDNN_DATA_FLOAT : t == KERN_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* The padding decides how many channels the library sees; they are 0 where there are none. */
static enum bst_err dims(const struct bst_shape *s, uint32_t layout, int64_t out[4])
{
    struct cuda_form f;

    BST_TRY(cuda_form_of(layout, s, &f));
    out[0] = s->d[0];
    out[1] = f.c_stored;
    out[2] = s->d[2];
    out[3] = s->d[3];
    return BST_OK;
}

/* Tensors' numbers in the graph, and in run(): 0 is x, 1 the filter, 2 y, then Σ y and Σ y². */
static enum bst_err build(struct bst_be *be, const struct conv *c, enum direction way,
                          enum extra extra, struct cuda_dnn_graph *g)
{
    const float beta = extra == ADDS ? 1 : 0;
    const uint32_t padded = cuda_layout(be->type, c->pad);
    const cudnnDataType_t type = dnn_type(be->type);
    int64_t dim[4];

    BST_TRY(dims(c->x, padded, dim));
    const int x = cuda_dnn_nhwc(g, type, dim, CUDA_DNN_REAL);
    BST_TRY(dims(c->filter, padded, dim));
    const int filter = cuda_dnn_nhwc(g, type, dim, CUDA_DNN_REAL);
    BST_TRY(dims(c->y, cuda_layout(be->type, CUDA_PAD_NONE), dim));
    const int y = cuda_dnn_nhwc(g, type, dim, CUDA_DNN_REAL);
    if (way == FORWARD)
        cuda_dnn_conv_fwd(g, x, filter, y, c->window);
    else if (way == BY_DATA)
        cuda_dnn_conv_bwd_data(g, y, filter, x, c->window, beta);
    else
        cuda_dnn_conv_bwd_filter(g, x, y, filter, c->window, beta);
    if (extra == SUMS) {
        const int sum = cuda_dnn_channels(g, CUDNN_DATA_FLOAT, c->y->d[1], CUDA_DNN_REAL);

        cuda_dnn_genstats(g, y, sum,
                          cuda_dnn_channels(g, CUDNN_DATA_FLOAT, c->y->d[1], CUDA_DNN_REAL));
    }
    return BST_OK;
}

/* A form with something beside has another way round: no plan at all is better than one that is
 * dear in memory, or compiled for a second each time a program is. */
static enum bst_err find_plan(struct bst_be *be, const struct conv *c, enum direction way,
                              enum extra extra, struct cuda_dnn_plan *out)
{
    struct cuda_dnn_wish wish = {.refuse = CUDA_DNN_NOTE(NONDETERMINISTIC),
                                 .workspace_most = CUDA_DNN_WORKSPACE_MOST};
    struct cuda_dnn_graph *g = cuda_dnn_graph_new();
    int n = 0;

    if (be->type == KERN_F32 && !be->tf32)
        wish.refuse |= CUDA_DNN_NOTES_INEXACT;
    if (extra)
        wish.refuse_behaviour = CUDA_DNN_BEHAVIOUR(RUNTIME_COMPILATION);
    enum bst_err err = build(be, c, way, extra, g);
    if (!err)
        err = cuda_dnn_plans(g, be->device_props, &wish, out, 1, &n, NULL);
    if (err == BST_E_UNSUPPORTED && !extra) { /* dear in memory is better than none */
        wish.workspace_most = -1;
        err = cuda_dnn_plans(g, be->device_props, &wish, out, 1, &n, NULL);
    }
    cuda_dnn_graph_free(g);
    return err;
}

/* An activation of this backend's type as it lies now, or its padding's default. */
static enum cuda_pad pad_of(const struct bst_be *be, uint32_t layout)
{
    return cuda_layout_is_last(layout, be->type) ? cuda_layout_pad(layout) : CUDA_PAD_NONE;
}

static struct cuda_dnn_window window_of(const struct bst_instr *in)
{
    return (struct cuda_dnn_window){in->window.stride, in->window.pad};
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
                           cuda_dst_shape(p, in, 0), pad_of(be, w->src[0]), window_of(in)};

    (void)accumulate;
    w->src[0] = cuda_layout(be->type, c.pad);
    w->src[1] = filter_layout(c.pad);
    w->dst[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    if (in->flags & BST_IF_STATS) {
        /* Two rows of floats next to each other, each of them aligned for the library. */
        if (c.y->d[1] % 4)
            return bst_fail(BST_E_UNSUPPORTED, "cuda: sums of %d channels", (int)c.y->d[1]);
        w->raw_bytes[1] = 2 * (size_t)c.y->d[1] * sizeof(float);
    }
    BST_TRY(find_plan(be, &c, FORWARD, in->flags & BST_IF_STATS ? SUMS : NOTHING, &h->plan));
    return give_scratch(be, &c, w, h);
}

static enum bst_err data_describe(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cuda_handle *h)
{
    const struct conv c = {cuda_dst_shape(p, in, 0), cuda_src_shape(p, in, 1),
                           cuda_src_shape(p, in, 0), pad_of(be, w->dst[0]), window_of(in)};

    (void)accumulate;
    w->src[0] = cuda_layout(be->type, CUDA_PAD_NONE);
    w->src[1] = filter_layout(c.pad);
    w->dst[0] = cuda_layout(be->type, c.pad);
    if (in->flags & BST_IF_SUM) {
        w->src[2] = w->dst[0];
        w->inplace[0] = 2;
    }
    BST_TRY(cuda_form_of(w->dst[0], c.x, &h->other));
    BST_TRY(find_plan(be, &c, BY_DATA, in->flags & BST_IF_SUM ? ADDS : NOTHING, &h->plan));
    return give_scratch(be, &c, w, h);
}

/* In 16 bits, and where the library has no plan that adds, the gradient is made in the scratch and
 * a kernel of ours takes it to its place. */
static enum bst_err weight_describe(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, bool accumulate,
                                    struct bst_wants *w, struct cuda_handle *h)
{
    const struct conv c = {cuda_src_shape(p, in, 0), cuda_dst_shape(p, in, 0),
                           cuda_src_shape(p, in, 1), pad_of(be, w->src[0]), window_of(in)};
    size_t add = 0;

    w->src[0] = cuda_layout(be->type, c.pad);
    w->dst[0] = filter_layout(c.pad);
    w->src[1] = cuda_layout(be->type, CUDA_PAD_NONE);
    BST_TRY(find_plan(be, &c, BY_FILTER, NOTHING, &h->plan));
    BST_TRY(give_scratch(be, &c, w, h));
    if (!cuda_is_mixed(be) && (accumulate || in->adds)) {
        enum bst_err err = find_plan(be, &c, BY_FILTER, ADDS, &h->plan_add);

        if (err && err != BST_E_UNSUPPORTED)
            return err;
        add = err ? h->workspace + cuda_layout_bytes(be, w->dst[0], c.filter)
                  : (size_t)h->plan_add.workspace;
    }
    w->scratch_bytes = add > w->scratch_bytes ? add : w->scratch_bytes;
    return BST_OK;
}

static const int64_t ids[] = {0, 1, 2, 3, 4};

static enum bst_err run_plan(struct bst_be *be, const struct cuda_dnn_plan *plan, void *x,
                             void *filter, void *y, void *workspace)
{
    void *const at[] = {x, filter, y};

    return cuda_dnn_run(be->dnn, plan, 3, ids, at, workspace);
}

static enum bst_err fwd_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    void *filter;

    BST_TRY(rounded_filter(be, h, c, &filter));
    if (!(c->in->flags & BST_IF_STATS))
        return run_plan(be, &h->plan, c->src[0], filter, c->dst[0], c->scratch);
    float *sums = c->dst[1];
    void *const at[] = {c->src[0], filter, c->dst[0], sums,
                        sums + cuda_dst_shape(c->p, c->in, 0)->d[1]};
    return cuda_dnn_run(be->dnn, &h->plan, 5, ids, at, c->scratch);
}

static enum bst_err data_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    void *filter;

    BST_TRY(rounded_filter(be, h, c, &filter));
    if (c->in->flags & BST_IF_SUM && c->dst[0] != c->src[2])
        BST_TRY(cuda_fail(cudaMemcpyAsync(c->dst[0], c->src[2], form_bytes(&h->other),
                                          cudaMemcpyDeviceToDevice, be->stream),
                          "a gradient to its place"));
    return run_plan(be, &h->plan, c->dst[0], filter, c->src[0], c->scratch);
}

static enum bst_err weight_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const bool mixed = cuda_is_mixed(be), adds = cuda_adds(c, 0);

    if (!mixed && !adds)
        return run_plan(be, &h->plan, c->src[0], c->dst[0], c->src[1], c->scratch);
    if (h->plan_add.desc)
        return run_plan(be, &h->plan_add, c->src[0], c->dst[0], c->src[1], c->scratch);
    void *made = behind_workspace(h, c);
    const struct kern_accumulate a = {c->dst[0], made, filter_count(h)};
    BST_TRY(run_plan(be, &h->plan, c->src[0], made, c->src[1], c->scratch));
    return mixed ? cuda_widen(be, c->dst[0], made, filter_count(h), adds)
                 : cuda_fail(kern_run_accumulate(be->stream, KERN_F32, &a), "adding up gradients");
}

const struct cuda_op cuda_op_conv_fwd = {fwd_describe, fwd_run};
const struct cuda_op cuda_op_conv_bwd_data = {data_describe, data_run};
const struct cuda_op cuda_op_conv_bwd_weight = {weight_describe, weight_run};
