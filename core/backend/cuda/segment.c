/* Stretches of a program as CUDA graphs. What a stretch asks the device for depends on its program,
 * on where the memories lie and on whether gradients are added to: for these it is captured when it
 * runs the second time, behind plans that are settled and code that is loaded, and launched from
 * then on. All that changes from update to update (images, tokens, labels, the loss's scale, and
 * rate and decay, which no instruction sees) stays outside, so that none of it makes a capture
 * anew; so do collectives, which are put on the stream between graphs. */
#include "core/backend/cuda/segment.h"

#include "core/base/alloc.h"

enum {
    SHORTEST = 2,     /* instructions that are worth a graph */
    KEPT_A_START = 4, /* graphs that begin with one instruction */
};

struct cuda_segment {
    struct cuda_segment *next;
    int to;
    bool accumulate;
    void *base[BST_MEM_N];
    cudaGraphExec_t exec; /* NULL: it has run once */
    bool refused;         /* it cannot be captured */
    uint64_t used;
};

/* Instructions of which nothing is in the step but whether gradients are added to, and what dropout
 * draws from, which lies in device memory and is set beforehand. Attention is one where it reads no
 * lengths and all samples count. */
static bool is_steady(const struct bst_program *p, const struct bst_instr *in)
{
    switch (in->op) {
    case BST_I_CONV_FWD:
    case BST_I_CONV_BWD_DATA:
    case BST_I_CONV_BWD_WEIGHT:
    case BST_I_BN_TRAIN:
    case BST_I_BN_INFER:
    case BST_I_BN_BWD:
    case BST_I_RELU_FWD:
    case BST_I_RELU_BWD:
    case BST_I_ADD:
    case BST_I_MAX_POOL_FWD:
    case BST_I_MAX_POOL_BWD:
    case BST_I_AVG_POOL_FWD:
    case BST_I_AVG_POOL_BWD:
    case BST_I_LINEAR_FWD:
    case BST_I_LINEAR_BWD_DATA:
    case BST_I_LINEAR_BWD_WEIGHT:
    case BST_I_POSITION_FWD:
    case BST_I_POSITION_BWD:
    case BST_I_SINUSOID:
    case BST_I_LN_FWD:
    case BST_I_LN_BWD:
    case BST_I_GELU_FWD:
    case BST_I_GELU_BWD:
    case BST_I_TANH_FWD:
    case BST_I_TANH_BWD:
    case BST_I_FIRST_FWD:
    case BST_I_FIRST_BWD:
    case BST_I_DROPOUT:
    case BST_I_REORDER:
        return true;
    case BST_I_ATTN_FWD:
    case BST_I_ATTN_BWD:
        return p->training && in->attr.stream < 0;
    default:
        return false;
    }
}

static enum bst_err run_one(struct bst_be *be, const struct bst_program *p,
                            const struct bst_bindings *m, const struct bst_step *step, int i)
{
    const struct bst_instr *in = &p->instrs[i];
    void *src[BST_MAX_SRC], *dst[BST_MAX_DST];

    for (int k = 0; k < in->n_src; k++)
        src[k] = bst_program_address(p, m, in->src[k]);
    for (int k = 0; k < in->n_dst; k++)
        dst[k] = bst_program_address(p, m, in->dst[k]);
    void *scratch = in->scratch < 0 ? NULL : bst_program_address(p, m, in->scratch);
    enum bst_err err = bst_backend_cuda.run(be, p, in, src, dst, scratch, step);
    return err ? bst_fail_in(err, "%s: %s", in->name, bst_instr_op_name(in->op)) : BST_OK;
}

static enum bst_err run_each(struct bst_be *be, const struct bst_program *p,
                             const struct bst_bindings *m, const struct bst_step *step, int from,
                             int to)
{
    for (int i = from; i < to; i++)
        BST_TRY(run_one(be, p, m, step, i));
    return BST_OK;
}

static void drop(struct bst_be *be, struct cuda_segment *s)
{
    (void)be;
    if (s->exec)
        cudaGraphExecDestroy(s->exec);
    bst_free(s);
}

void cuda_segments_free(struct bst_be *be, struct cuda_segment *first)
{
    while (first) {
        struct cuda_segment *next = first->next;

        drop(be, first);
        first = next;
    }
}

static struct cuda_segment *find(struct cuda_handle *h, const struct bst_bindings *m, int to,
                                 bool accumulate)
{
    for (struct cuda_segment *s = h->segments; s; s = s->next) {
        bool same = s->to == to && s->accumulate == accumulate;

        for (int i = 0; i < BST_MEM_N; i++)
            same &= s->base[i] == m->base[i];
        if (same)
            return s;
    }
    return NULL;
}

/* In the place of the one that was not used for longest, where there are enough. */
static struct cuda_segment *add(struct bst_be *be, struct cuda_handle *h,
                                const struct bst_bindings *m, int to, bool accumulate)
{
    struct cuda_segment **oldest = &h->segments, *s;
    int n = 0;

    for (struct cuda_segment **at = &h->segments; *at; at = &(*at)->next, n++)
        if ((*at)->used < (*oldest)->used)
            oldest = at;
    if (n >= KEPT_A_START) {
        s = *oldest;
        *oldest = s->next;
        drop(be, s);
    }
    s = bst_xalloc(sizeof *s);
    *s = (struct cuda_segment){.next = h->segments, .to = to, .accumulate = accumulate};
    for (int i = 0; i < BST_MEM_N; i++)
        s->base[i] = m->base[i];
    h->segments = s;
    return s;
}

/* A capture that fails leaves the work undone and the stream as it was; the work is then asked for
 * as ever, and if that fails too it says why. */
static void capture(struct bst_be *be, const struct bst_program *p, const struct bst_bindings *m,
                    const struct bst_step *step, int from, struct cuda_segment *s)
{
    cudaGraph_t graph = NULL;
    cudaError_t e = cudaStreamBeginCapture(be->stream, cudaStreamCaptureModeThreadLocal);

    if (e == cudaSuccess) {
        const enum bst_err err = run_each(be, p, m, step, from, s->to);

        e = cudaStreamEndCapture(be->stream, &graph);
        if (e == cudaSuccess && !err)
            e = cudaGraphInstantiate(&s->exec, graph, 0);
    }
    if (graph)
        cudaGraphDestroy(graph);
    if (e != cudaSuccess)
        cudaGetLastError();
    s->refused = !s->exec;
    be->n_captured += !s->refused;
}

enum bst_err cuda_run_some(struct bst_be *be, const struct bst_program *p,
                           const struct bst_bindings *m, const struct bst_step *step, int from,
                           int to, int *next)
{
    int end = from;
    bool draws = false;

    for (; end < to && is_steady(p, &p->instrs[end]); end++)
        draws |= p->instrs[end].attr.drop > 0;
    const bool takes = be->captures && end - from >= SHORTEST;
    *next = takes ? end : from;
    if (!takes)
        return BST_OK;
    if (draws)
        BST_TRY(cuda_draw_ready(be, step));
    struct cuda_handle *h = p->instrs[from].handle;
    struct cuda_segment *s = find(h, m, end, step->accumulate);
    if (!s) {
        s = add(be, h, m, end, step->accumulate);
        s->used = ++be->clock;
        return run_each(be, p, m, step, from, end);
    }
    s->used = ++be->clock;
    if (!s->exec && !s->refused)
        capture(be, p, m, step, from, s);
    if (s->refused)
        return run_each(be, p, m, step, from, end);
    return cuda_fail(cudaGraphLaunch(s->exec, be->stream), "a captured stretch");
}
