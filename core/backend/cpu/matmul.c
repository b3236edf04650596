/* Convolutions and linear layers: oneDNN primitives. The forward pass fixes the layouts; a backward
 * primitive takes what there is when the library has a fast implementation for it, else it asks for
 * another layout and the compiler reorders. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"

/* Which operand of the instruction plays which role; a destination is -1 - its index. */
struct roles {
    enum shim_kind kind;
    int at[SHIM_N_ROLES];
};

#define DST(i) (-1 - (i))
#define NONE 99

static const struct roles conv_fwd = {SHIM_CONV_FWD, {0, 1, NONE, DST(0)}};
static const struct roles conv_bwd_data = {SHIM_CONV_BWD_DATA, {DST(0), 1, NONE, 0}};
static const struct roles conv_bwd_weight = {SHIM_CONV_BWD_WEIGHT, {0, DST(0), NONE, 1}};
static const struct roles linear_fwd = {SHIM_LINEAR_FWD, {0, 1, 2, DST(0)}};
static const struct roles linear_bwd_data = {SHIM_LINEAR_BWD_DATA, {DST(0), 1, NONE, 0}};
static const struct roles linear_bwd_weight = {SHIM_LINEAR_BWD_WEIGHT, {0, DST(0), DST(1), 1}};

static const struct bst_value *operand(const struct bst_program *p, const struct bst_instr *in,
                                       int at)
{
    return &p->values[at < 0 ? in->dst[-1 - at] : in->src[at]];
}

static uint32_t *wanted(struct bst_wants *w, int at)
{
    return at < 0 ? &w->dst[-1 - at] : &w->src[at];
}

/* What may be left to the library, in the order of the reorders it can cost. */
enum { FREE_WEIGHT = 1, FREE_SRC = 2, FREE_DST = 4 };

static enum bst_err attempt(struct bst_be *be, const struct bst_program *p,
                            const struct bst_instr *in, const struct roles *r, unsigned freed,
                            const struct bst_wants *w, struct shim_op *op, struct cpu_handle *h)
{
    static const unsigned free_bit[SHIM_N_ROLES] = {FREE_SRC, FREE_WEIGHT, 0, FREE_DST};
    struct bst_wants have = *w;

    memset(op, 0, sizeof *op);
    op->kind = r->kind;
    op->window = in->window;
    for (int i = 0; i < SHIM_N_ROLES; i++) {
        if (r->at[i] == NONE)
            continue;
        op->t[i].shape = operand(p, in, r->at[i])->shape;
        op->t[i].now = *wanted(&have, r->at[i]);
        op->t[i].layout = freed & free_bit[i] ? BST_LAYOUT_ANY : op->t[i].now;
    }
    op->t[SHIM_BIAS].layout = BST_LAYOUT_PLAIN;
    return shim_prim_new(be->shim, op, &h->prim);
}

static enum bst_err describe_with(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, const struct roles *r,
                                  const unsigned *tries, int n_tries, struct bst_wants *w,
                                  struct cpu_handle *h)
{
    struct shim_op op;
    enum bst_err err = BST_E_UNSUPPORTED;

    for (int i = 0; i < n_tries && err; i++) {
        err = attempt(be, p, in, r, tries[i], w, &op, h);
        if (err && err != BST_E_UNSUPPORTED && err != BST_E_SHAPE)
            break;
    }
    if (err)
        return bst_fail_in(err, "%s", in->name);
    for (int i = 0; i < SHIM_N_ROLES; i++)
        if (r->at[i] != NONE)
            *wanted(w, r->at[i]) = op.t[i].layout;
    h->prim_scratch = (shim_prim_scratch(h->prim) + 63) / 64 * 64;
    w->scratch_bytes = h->prim_scratch;
    return BST_OK;
}

static enum bst_err execute(struct cpu_handle *h, const struct roles *r, const struct bst_call *c,
                            void *const dst[2])
{
    void *at[SHIM_N_ROLES] = {0};

    for (int i = 0; i < SHIM_N_ROLES; i++)
        if (r->at[i] != NONE)
            at[i] = r->at[i] < 0 ? dst[-1 - r->at[i]] : c->src[r->at[i]];
    return shim_prim_run(h->prim, at, c->scratch);
}

static enum bst_err describe_conv_fwd(struct bst_be *be, const struct bst_program *p,
                                      const struct bst_instr *in, bool accumulate,
                                      struct bst_wants *w, struct cpu_handle *h)
{
    static const unsigned tries[] = {0, FREE_WEIGHT, FREE_SRC, FREE_SRC | FREE_WEIGHT,
                                     FREE_SRC | FREE_WEIGHT | FREE_DST};

    (void)accumulate;
    return describe_with(be, p, in, &conv_fwd, tries, 5, w, h);
}

static enum bst_err run_conv_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    (void)be;
    return execute(h, &conv_fwd, c, c->dst);
}

const struct cpu_op cpu_op_conv_fwd = {describe_conv_fwd, run_conv_fwd};

static enum bst_err describe_conv_bwd_data(struct bst_be *be, const struct bst_program *p,
                                           const struct bst_instr *in, bool accumulate,
                                           struct bst_wants *w, struct cpu_handle *h)
{
    static const unsigned tries[] = {FREE_WEIGHT, FREE_WEIGHT | FREE_SRC,
                                     FREE_WEIGHT | FREE_SRC | FREE_DST};

    (void)accumulate;
    return describe_with(be, p, in, &conv_bwd_data, tries, 3, w, h);
}

static enum bst_err run_conv_bwd_data(struct bst_be *be, struct cpu_handle *h,
                                      const struct bst_call *c)
{
    (void)be;
    return execute(h, &conv_bwd_data, c, c->dst);
}

const struct cpu_op cpu_op_conv_bwd_data = {describe_conv_bwd_data, run_conv_bwd_data};

/* A gradient that may be added to is computed into scratch first. */
static enum bst_err describe_gradient(const struct bst_program *p, const struct bst_instr *in,
                                      bool accumulate, struct bst_wants *w, struct cpu_handle *h)
{
    size_t *count[2] = {&h->count, &h->count2};

    BST_ASSERT(in->n_dst <= 2);
    for (int i = 0; i < in->n_dst; i++) {
        *count[i] = shim_layout_bytes(w->dst[i], &p->values[in->dst[i]].shape) / sizeof(float);
        if (accumulate)
            w->scratch_bytes += (*count[i] * sizeof(float) + 63) / 64 * 64;
    }
    return BST_OK;
}

static enum bst_err run_gradient(struct bst_be *be, struct cpu_handle *h, const struct roles *r,
                                 const struct bst_call *c)
{
    char *room = (char *)c->scratch + h->prim_scratch;
    const size_t count[2] = {h->count, h->count2};
    void *dst[2] = {NULL, NULL};

    BST_ASSERT(c->in->n_dst <= 2);
    for (int i = 0; i < c->in->n_dst; i++) {
        dst[i] = c->dst[i];
        if (!cpu_adds(c, i))
            continue;
        dst[i] = room;
        room += (count[i] * sizeof(float) + 63) / 64 * 64;
    }
    BST_TRY(execute(h, r, c, dst));
    for (int i = 0; i < c->in->n_dst; i++)
        if (dst[i] != c->dst[i])
            cpu_add_into(be, c->dst[i], dst[i], count[i]);
    return BST_OK;
}

static enum bst_err describe_conv_bwd_weight(struct bst_be *be, const struct bst_program *p,
                                             const struct bst_instr *in, bool accumulate,
                                             struct bst_wants *w, struct cpu_handle *h)
{
    static const unsigned tries[] = {0, FREE_WEIGHT, FREE_SRC, FREE_SRC | FREE_WEIGHT,
                                     FREE_SRC | FREE_WEIGHT | FREE_DST};

    if (cpu_grey_fits(p, in, w))
        return cpu_grey_describe(be, p, in, w, h);
    BST_TRY(describe_with(be, p, in, &conv_bwd_weight, tries, 5, w, h));
    return describe_gradient(p, in, accumulate, w, h);
}

static enum bst_err run_conv_bwd_weight(struct bst_be *be, struct cpu_handle *h,
                                        const struct bst_call *c)
{
    return h->grey ? cpu_grey_run(be, h, c) : run_gradient(be, h, &conv_bwd_weight, c);
}

const struct cpu_op cpu_op_conv_bwd_weight = {describe_conv_bwd_weight, run_conv_bwd_weight};

/* A linear layer's tensors stay plain: the library multiplies them as they are. */
static enum bst_err describe_linear(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, const struct roles *r,
                                    struct bst_wants *w, struct cpu_handle *h)
{
    static const unsigned tries[] = {0};

    for (int i = 0; i < in->n_src; i++)
        w->src[i] = BST_LAYOUT_PLAIN;
    for (int i = 0; i < in->n_dst; i++)
        w->dst[i] = BST_LAYOUT_PLAIN;
    return describe_with(be, p, in, r, tries, 1, w, h);
}

static enum bst_err describe_linear_fwd(struct bst_be *be, const struct bst_program *p,
                                        const struct bst_instr *in, bool accumulate,
                                        struct bst_wants *w, struct cpu_handle *h)
{
    (void)accumulate;
    return describe_linear(be, p, in, &linear_fwd, w, h);
}

static enum bst_err run_linear_fwd(struct bst_be *be, struct cpu_handle *h,
                                   const struct bst_call *c)
{
    (void)be;
    return execute(h, &linear_fwd, c, c->dst);
}

const struct cpu_op cpu_inner_fwd = {describe_linear_fwd, run_linear_fwd};

static enum bst_err describe_linear_bwd_data(struct bst_be *be, const struct bst_program *p,
                                             const struct bst_instr *in, bool accumulate,
                                             struct bst_wants *w, struct cpu_handle *h)
{
    (void)accumulate;
    return describe_linear(be, p, in, &linear_bwd_data, w, h);
}

static enum bst_err run_linear_bwd_data(struct bst_be *be, struct cpu_handle *h,
                                        const struct bst_call *c)
{
    (void)be;
    return execute(h, &linear_bwd_data, c, c->dst);
}

const struct cpu_op cpu_inner_bwd_data = {describe_linear_bwd_data, run_linear_bwd_data};

static enum bst_err describe_linear_bwd_weight(struct bst_be *be, const struct bst_program *p,
                                               const struct bst_instr *in, bool accumulate,
                                               struct bst_wants *w, struct cpu_handle *h)
{
    BST_TRY(describe_linear(be, p, in, &linear_bwd_weight, w, h));
    return describe_gradient(p, in, accumulate, w, h);
}

static enum bst_err run_linear_bwd_weight(struct bst_be *be, struct cpu_handle *h,
                                          const struct bst_call *c)
{
    return run_gradient(be, h, &linear_bwd_weight, c);
}

const struct cpu_op cpu_inner_bwd_weight = {describe_linear_bwd_weight, run_linear_bwd_weight};

static enum bst_err describe_reorder(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cpu_handle *h)
{
    struct shim_op op = {.kind = SHIM_REORDER};

    op.t[SHIM_SRC].shape = p->values[in->src[0]].shape;
    op.t[SHIM_DST].shape = p->values[in->dst[0]].shape;
    op.t[SHIM_SRC].layout = op.t[SHIM_SRC].now = w->src[0];
    op.t[SHIM_DST].layout = op.t[SHIM_DST].now = w->dst[0];
    BST_TRY(shim_prim_new(be->shim, &op, &h->prim));
    h->prim_scratch = (shim_prim_scratch(h->prim) + 63) / 64 * 64;
    w->scratch_bytes = h->prim_scratch;
    return describe_gradient(p, in, accumulate && p->values[in->dst[0]].memory == BST_MEM_GRAD, w,
                             h);
}

static enum bst_err run_reorder(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    static const struct roles reorder = {SHIM_REORDER, {0, NONE, NONE, DST(0)}};

    return run_gradient(be, h, &reorder, c);
}

const struct cpu_op cpu_op_reorder = {describe_reorder, run_reorder};
