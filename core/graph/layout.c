/* Asks the backend about every instruction in turn, takes fused forms apart that it does not have,
 * and puts reorders where the layout it wants is not the one a value has. Each instruction moves
 * from the list made so far to a new one. */
#include "core/graph/passes.h"

#include <string.h>

#include "core/base/alloc.h"

struct copy { /* a value also exists in another layout */
    int value, copy;
};

struct layouter {
    struct bst_pass *c;
    struct copy *copies; /* of the half (forward or backward) at hand: a copy that lived from one
                            into the other would cost memory for the whole of both */
    int n_copies, room_copies;
};

static enum bst_err emit(struct layouter *l, struct bst_instr *in);

static uint32_t layout_of(const struct bst_pass *c, int v)
{
    return c->p->values[v].layout;
}

static void set_layout(struct bst_pass *c, int v, uint32_t layout)
{
    struct bst_value *x = &c->p->values[v];
    x->layout = layout;
    if (x->param >= 0) { /* weight, gradient and statistic of one parameter agree */
        c->slot_layout[x->param] = layout;
        c->p->values[x->param].layout = layout;
        c->p->values[bst_pass_second(c, x->param)].layout = layout;
    }
}

static bool adds(const struct bst_pass *c, const struct bst_instr *in)
{
    for (int k = 0; k < in->n_dst; k++) {
        if (c->p->values[in->dst[k]].memory == BST_MEM_GRAD)
            return c->o.accumulate || in->adds;
    }
    return false;
}

static enum bst_err ask(struct bst_pass *c, struct bst_instr *in, struct bst_wants *w)
{
    *w = (struct bst_wants){0};
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = layout_of(c, in->src[k]);
    for (int k = 0; k < BST_MAX_DST; k++)
        w->inplace[k] = -1;
    for (int k = 0; k < in->n_dst; k++) {
        int forward = c->info[in->dst[k]].forward;
        w->dst[k] = layout_of(c, in->dst[k]);
        if (w->dst[k] == BST_LAYOUT_ANY && forward >= 0)
            w->dst[k] = layout_of(c, forward);
    }
    enum bst_err err = c->d->describe(c->be, c->p, in, adds(c, in), w);
    in->handle = err ? NULL : w->handle;
    return err;
}

static void forget(struct bst_pass *c, struct bst_instr *in)
{
    if (in->handle && c->d->release)
        c->d->release(c->be, in->handle);
    in->handle = NULL;
}

/* Appends a described instruction and gives its results and scratch their bytes. */
static void append(struct bst_pass *c, const struct bst_instr *in, const struct bst_wants *w)
{
    for (int k = 0; k < in->n_dst; k++) {
        struct bst_value *v = &c->p->values[in->dst[k]];
        if (v->raw)
            v->bytes = w->raw_bytes[k];
        else if (v->layout == BST_LAYOUT_ANY)
            set_layout(c, in->dst[k], w->dst[k] == BST_LAYOUT_ANY ? BST_LAYOUT_PLAIN : w->dst[k]);
    }
    int scratch = -1;
    if (w->scratch_bytes) {
        const struct bst_shape none = {0, {0}};
        scratch = bst_pass_add_value(c, &none);
        c->p->values[scratch].raw = true;
        c->p->values[scratch].bytes = w->scratch_bytes;
        c->info[scratch].scratch = true;
    }
    struct bst_instr *to = bst_pass_add_instr(c, in->op, in->name);
    const char *name = to->name;
    *to = *in;
    to->name = name;
    to->scratch = scratch;
    memcpy(c->inplace[c->p->n_instrs - 1], w->inplace, sizeof w->inplace);
}

static enum bst_err reorder(struct bst_pass *c, int from, int to, bool adds, const char *name)
{
    struct bst_wants w;
    struct bst_instr in = {.op = BST_I_REORDER, .scratch = -1, .adds = adds, .name = name};
    bst_instr_read(&in, from);
    bst_instr_write(&in, to);
    enum bst_err err = ask(c, &in, &w);
    if (err)
        return bst_fail_in(err, "%s: reorder", name);
    append(c, &in, &w);
    return BST_OK;
}

int bst_pass_expose(struct bst_pass *c, int v)
{
    c->info[v].output = true;
    if (c->p->values[v].layout == BST_LAYOUT_PLAIN)
        return v;
    const struct bst_shape s = c->p->values[v].shape;
    int plain = bst_pass_add_value(c, &s);
    set_layout(c, plain, BST_LAYOUT_PLAIN);
    c->p->values[plain].bytes = c->d->layout_bytes(c->be, BST_LAYOUT_PLAIN, &s);
    c->info[plain].output = true;
    return reorder(c, v, plain, false, "output") ? -1 : plain;
}

/* *v becomes a copy of it in `layout`, made at most once a half. */
static enum bst_err reordered(struct layouter *l, int *v, uint32_t layout, const char *name)
{
    for (int i = 0; i < l->n_copies; i++) {
        if (l->copies[i].value == *v && layout_of(l->c, l->copies[i].copy) == layout) {
            *v = l->copies[i].copy;
            return BST_OK;
        }
    }
    const struct bst_shape s = l->c->p->values[*v].shape;
    int copy = bst_pass_add_value(l->c, &s);
    set_layout(l->c, copy, layout);
    BST_TRY(reorder(l->c, *v, copy, false, name));
    l->copies = bst_xgrow(l->copies, l->n_copies, &l->room_copies, sizeof *l->copies);
    l->copies[l->n_copies++] = (struct copy){*v, copy};
    *v = copy;
    return BST_OK;
}

static enum bst_err take_sources(struct layouter *l, struct bst_instr *in,
                                 const struct bst_wants *w)
{
    for (int k = 0; k < in->n_src; k++) {
        int *v = &in->src[k];
        uint32_t want = w->src[k];
        if (l->c->p->values[*v].raw)
            continue;
        if (want == BST_LAYOUT_ANY)
            want = BST_LAYOUT_PLAIN;
        if (layout_of(l->c, *v) == BST_LAYOUT_ANY)
            set_layout(l->c, *v, want);
        else if (layout_of(l->c, *v) != want)
            BST_TRY(reordered(l, v, want, in->name));
    }
    return BST_OK;
}

/* Results whose fixed layout the backend does not write go to stand-ins; real[k] is where they
 * belong. Returns whether there are any. */
static bool stand_in(struct bst_pass *c, struct bst_instr *in, const struct bst_wants *w, int *real)
{
    bool any = false;
    for (int k = 0; k < in->n_dst; k++) {
        const struct bst_value v = c->p->values[in->dst[k]];
        real[k] = -1;
        if (v.raw || v.layout == BST_LAYOUT_ANY || v.layout == w->dst[k])
            continue;
        real[k] = in->dst[k];
        in->dst[k] = bst_pass_add_value(c, &v.shape);
        set_layout(c, in->dst[k], w->dst[k]);
        any = true;
    }
    return any;
}

static enum bst_err finish(struct layouter *l, struct bst_instr *in, struct bst_wants *w)
{
    struct bst_pass *c = l->c;
    int real[BST_MAX_DST], again[BST_MAX_DST];
    if (stand_in(c, in, w, real)) {
        /* Asked anew, since what it writes now is overwritten, not added to. */
        forget(c, in);
        BST_TRY(ask(c, in, w));
        if (stand_in(c, in, w, again)) {
            forget(c, in);
            return bst_fail(BST_E_LIBRARY,
                            "%s: %s: the backend names another layout each time it is asked",
                            in->name, bst_instr_op_name(in->op));
        }
    }
    enum bst_err err = take_sources(l, in, w);
    if (err) {
        forget(c, in);
        return err;
    }
    append(c, in, w);
    for (int k = 0; k < in->n_dst; k++) {
        if (real[k] >= 0)
            BST_TRY(reorder(c, in->dst[k], real[k], in->adds >> k & 1, in->name));
    }
    return BST_OK;
}

/* BN_*(…)+ReLU → BN_*; [ADD;] RELU_FWD. */
static enum bst_err emit_apart_fwd(struct layouter *l, struct bst_instr *in)
{
    struct bst_pass *c = l->c;
    const struct bst_shape s = c->p->values[in->dst[0]].shape;
    int y = in->dst[0], u = bst_pass_add_value(c, &s);
    struct bst_instr relu = {.op = BST_I_RELU_FWD, .scratch = -1, .name = in->name};
    struct bst_instr add = {.op = BST_I_ADD, .scratch = -1, .name = in->name};
    bool residual = in->flags & BST_IF_RESIDUAL;
    in->flags = 0;
    in->dst[0] = u;
    if (residual) {
        int sum = bst_pass_add_value(c, &s);
        bst_instr_read(&add, u);
        bst_instr_read(&add, in->src[--in->n_src]);
        bst_instr_write(&add, sum);
        u = sum;
    }
    BST_TRY(emit(l, in));
    if (residual)
        BST_TRY(emit(l, &add));
    bst_instr_read(&relu, u);
    bst_instr_write(&relu, y);
    return emit(l, &relu);
}

/* The sum first; asked again, a backend may have the rest fused. */
static enum bst_err emit_apart_join(struct layouter *l, struct bst_instr *in)
{
    struct bst_pass *c = l->c;
    const struct bst_shape s = c->p->values[in->src[1]].shape;
    int sum = bst_pass_add_value(c, &s);
    struct bst_instr add = {.op = BST_I_ADD, .scratch = -1, .name = in->name};
    c->info[sum].forward = c->info[in->src[1]].forward;
    bst_instr_read(&add, in->src[1]);
    bst_instr_read(&add, in->src[--in->n_src]);
    bst_instr_write(&add, sum);
    in->flags &= ~(unsigned)BST_IF_DY2;
    in->src[1] = sum;
    BST_TRY(emit(l, &add));
    return emit(l, in);
}

/* BN_BWD+ReLU → RELU_BWD; BN_BWD. The gradient behind the ReLU is what a residual's branch gets. */
static enum bst_err emit_apart_bwd(struct layouter *l, struct bst_instr *in)
{
    struct bst_pass *c = l->c;
    const struct bst_shape s = c->p->values[in->src[1]].shape;
    int y = c->relu_of[c->p->values[in->src[2]].param], d;
    struct bst_instr relu = {.op = BST_I_RELU_BWD, .scratch = -1, .name = in->name};
    BST_ASSERT(y >= 0);
    if (in->flags & BST_IF_RESIDUAL) {
        d = in->dst[--in->n_dst];
        in->n_src--; /* y */
    } else {
        d = bst_pass_add_value(c, &s);
        c->info[d].forward = c->info[in->src[1]].forward;
    }
    bst_instr_read(&relu, in->src[1]);
    bst_instr_read(&relu, y);
    bst_instr_write(&relu, d);
    in->flags = 0;
    in->src[1] = d;
    BST_TRY(emit(l, &relu));
    return emit(l, in);
}

/* CONV_BWD_DATA+SUM → CONV_BWD_DATA; ADD. */
static enum bst_err emit_apart_sum(struct layouter *l, struct bst_instr *in)
{
    struct bst_pass *c = l->c;
    const struct bst_shape s = c->p->values[in->dst[0]].shape;
    int dx = bst_pass_add_value(c, &s);
    struct bst_instr add = {.op = BST_I_ADD, .scratch = -1, .name = in->name};
    c->info[dx].forward = c->info[in->dst[0]].forward;
    bst_instr_read(&add, in->src[--in->n_src]);
    bst_instr_read(&add, dx);
    bst_instr_write(&add, in->dst[0]);
    in->flags = 0;
    in->dst[0] = dx;
    BST_TRY(emit(l, in));
    return emit(l, &add);
}

/* A convolution without the sums; the batch norm behind it makes them itself. */
static enum bst_err emit_apart_stats(struct layouter *l, struct bst_instr *in)
{
    l->c->info[in->dst[--in->n_dst]].gone = true;
    in->flags &= ~(unsigned)BST_IF_STATS;
    return emit(l, in);
}

static void drop_stats(struct bst_instr *in)
{
    in->n_src--;
    in->flags &= ~(unsigned)BST_IF_STATS;
}

/* LINEAR_FWD+GELU → LINEAR_FWD; GELU_FWD. */
static enum bst_err emit_apart_gelu(struct layouter *l, struct bst_instr *in)
{
    const struct bst_shape s = l->c->p->values[in->dst[0]].shape;
    struct bst_instr gelu = {
        .op = BST_I_GELU_FWD, .attr = in->attr, .scratch = -1, .name = in->name};
    int y = in->dst[0], u = in->n_dst > 1 ? in->dst[1] : bst_pass_add_value(l->c, &s);
    in->flags = 0;
    in->dst[0] = u;
    in->n_dst = 1;
    BST_TRY(emit(l, in));
    bst_instr_read(&gelu, u);
    bst_instr_write(&gelu, y);
    return emit(l, &gelu);
}

static enum bst_err emit(struct layouter *l, struct bst_instr *in)
{
    struct bst_wants w;
    if (in->op == BST_I_BN_TRAIN && in->flags & BST_IF_STATS &&
        l->c->info[in->src[in->n_src - 1]].gone)
        drop_stats(in);
    enum bst_err err = ask(l->c, in, &w);
    if (err == BST_E_UNSUPPORTED && in->flags & BST_IF_SUM)
        return emit_apart_sum(l, in);
    if (err == BST_E_UNSUPPORTED && in->op == BST_I_CONV_FWD && in->flags & BST_IF_STATS)
        return emit_apart_stats(l, in);
    if (err == BST_E_UNSUPPORTED && in->flags & BST_IF_STATS) {
        drop_stats(in);
        return emit(l, in);
    }
    if (err == BST_E_UNSUPPORTED && in->flags & BST_IF_DY2)
        return emit_apart_join(l, in);
    if (err == BST_E_UNSUPPORTED && in->flags & BST_IF_GELU)
        return emit_apart_gelu(l, in);
    if (err == BST_E_UNSUPPORTED && in->flags)
        return in->op == BST_I_BN_BWD ? emit_apart_bwd(l, in) : emit_apart_fwd(l, in);
    if (err)
        return bst_fail_in(err, "%s: %s", in->name, bst_instr_op_name(in->op));
    return finish(l, in, &w);
}

/* Parameter and input values have their bytes by layout; results have them too once all are known.
 */
static void count_bytes(struct bst_pass *c)
{
    struct bst_program *p = c->p;
    for (int v = 0; v < p->n_values; v++) {
        struct bst_value *x = &p->values[v];
        if (x->layout == BST_LAYOUT_ANY && x->param >= 0)
            set_layout(c, v, BST_LAYOUT_PLAIN);
        if (!x->raw && x->layout != BST_LAYOUT_ANY)
            x->bytes = c->d->layout_bytes(c->be, x->layout, &x->shape);
    }
}

enum bst_err bst_pass_layout(struct bst_pass *c)
{
    struct bst_program *p = c->p;
    struct bst_instr *old = p->instrs;
    int n_old = p->n_instrs, n_forward = p->n_forward;
    struct layouter l = {.c = c};
    enum bst_err err = BST_OK;
    p->instrs = NULL;
    bst_free(c->inplace);
    c->inplace = NULL;
    p->n_instrs = c->room_instrs = 0;
    for (int i = 0; i < n_old; i++) {
        if (i == n_forward) {
            p->n_forward = p->n_instrs;
            l.n_copies = 0;
        }
        if (!err)
            err = emit(&l, &old[i]);
    }
    if (n_forward == n_old)
        p->n_forward = p->n_instrs;
    for (int i = 0; i < n_old; i++)
        bst_free((void *)old[i].name);
    bst_free(old);
    bst_free(l.copies);
    if (!err)
        count_bytes(c);
    return err;
}
