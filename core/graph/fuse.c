/* Batch norm takes in the ReLU behind it, the addition of a residual before that ReLU, and on the
 * way back the sum of two gradients that meet there: three passes over memory become one. A linear
 * layer takes in the GELU behind it. Where a backend has it, a convolution's data gradient takes in
 * the sum instead, and forward it makes the sums that a batch norm starts with. What a backend
 * cannot do is taken apart again in layout.c. */
#include "core/graph/passes.h"

#include "core/base/alloc.h"

struct fuse {
    struct bst_pass *c;
    int *uses;      /* value → how often it is read */
    int *maker;     /* value → instruction that writes it, or -1 */
    int *bn_of;     /* value behind a fused ReLU → slot of the BN's scale, or -1 */
    int *bwd_of;    /* slot of a BN's scale → its BN_BWD, or -1 */
    bool *residual; /* value behind a fused ReLU → a residual was added */
    bool *dead;     /* instruction → taken in by another */
};

static void index_program(struct fuse *f)
{
    const struct bst_program *p = f->c->p;
    for (int v = 0; v < p->n_values; v++)
        f->maker[v] = f->bn_of[v] = -1;
    for (int s = 0; s < p->params->n_slots; s++)
        f->bwd_of[s] = -1;
    for (int i = 0; i < p->n_instrs; i++) {
        const struct bst_instr *in = &p->instrs[i];
        for (int k = 0; k < in->n_src; k++)
            f->uses[in->src[k]]++;
        for (int k = 0; k < in->n_dst; k++)
            f->maker[in->dst[k]] = i;
        if (in->op == BST_I_BN_BWD)
            f->bwd_of[p->values[in->src[2]].param] = i;
    }
}

/* The instruction that writes v, when nothing but one instruction reads it; else NULL. */
static struct bst_instr *sole_maker(struct fuse *f, int v)
{
    int i = f->maker[v];
    return i >= 0 && f->uses[v] == 1 ? &f->c->p->instrs[i] : NULL;
}

static bool is_plain_bn(const struct bst_instr *in)
{
    return in && (in->op == BST_I_BN_TRAIN || in->op == BST_I_BN_INFER) && !in->flags;
}

/* Puts `in` in the place of instruction `at`, whose name it does not need. */
static void replace(struct fuse *f, int at, const struct bst_instr *in,
                    const struct bst_instr *from)
{
    struct bst_program *p = f->c->p;
    struct bst_instr moved = *in;
    const char *name = p->instrs[at].name;
    int was = (int)(from - p->instrs);
    p->instrs[was].name = name; /* freed with the dead instruction */
    p->instrs[at] = moved;
    f->dead[was] = true;
    for (int k = 0; k < moved.n_dst; k++)
        f->maker[moved.dst[k]] = at;
}

static void fuse_relu_fwd(struct fuse *f, int at)
{
    struct bst_program *p = f->c->p;
    int y = p->instrs[at].dst[0], res = -1;
    struct bst_instr *bn = sole_maker(f, p->instrs[at].src[0]), *add = NULL;
    if (bn && bn->op == BST_I_ADD) {
        add = bn;
        bn = NULL;
        for (int k = 0; k < 2 && !bn; k++) {
            bn = sole_maker(f, add->src[k]);
            if (!is_plain_bn(bn))
                bn = NULL;
            res = add->src[!k];
        }
    }
    if (!is_plain_bn(bn))
        return;
    struct bst_instr fused = *bn;
    int slot = p->values[bn->src[1]].param;
    fused.flags = BST_IF_RELU;
    fused.dst[0] = y;
    if (add) {
        fused.flags |= BST_IF_RESIDUAL;
        bst_instr_read(&fused, res);
        f->dead[add - p->instrs] = true;
    }
    replace(f, at, &fused, bn);
    f->bn_of[y] = slot;
    f->residual[y] = add != NULL;
    f->c->relu_of[slot] = y;
}

/* A BN with a ReLU alone finds the mask again from x; with a residual it reads y, and the gradient
 * behind the ReLU, which the residual's branch needs, is its fourth result. */
static void fuse_relu_bwd(struct fuse *f, int at)
{
    struct bst_program *p = f->c->p;
    const struct bst_instr *relu = &p->instrs[at];
    int dy = relu->src[0], y = relu->src[1], d = relu->dst[0];
    int bwd = f->bn_of[y] >= 0 ? f->bwd_of[f->bn_of[y]] : -1;
    if (bwd < 0 || p->instrs[bwd].src[1] != d || p->instrs[bwd].flags)
        return;
    struct bst_instr fused = p->instrs[bwd];
    fused.src[1] = dy;
    fused.flags = BST_IF_RELU;
    if (f->residual[y]) {
        fused.flags |= BST_IF_RESIDUAL;
        bst_instr_read(&fused, y);
        bst_instr_write(&fused, d);
        f->uses[d]--; /* the batch norm's own */
    } else if (f->uses[d] != 1) {
        return;
    }
    replace(f, at, &fused, &p->instrs[bwd]);
}

static void fuse_join(struct fuse *f, int at)
{
    struct bst_program *p = f->c->p;
    struct bst_instr *bn = &p->instrs[at], *add = sole_maker(f, bn->src[1]);
    if (!add || add->op != BST_I_ADD || add->src[0] == add->src[1])
        return;
    bn->src[1] = add->src[0];
    bst_instr_read(bn, add->src[1]);
    bn->flags |= BST_IF_DY2;
    f->dead[add - p->instrs] = true;
}

/* The share of a gradient that a convolution makes last is added to the one that is there, which
 * nothing else reads: a pass over memory less than to write it beside that and read both. */
static void fuse_sum(struct fuse *f, int at)
{
    struct bst_program *p = f->c->p;
    const struct bst_instr *add = &p->instrs[at];
    for (int k = 0; k < 2; k++) {
        const struct bst_instr *conv = sole_maker(f, add->src[k]);
        const int other = add->src[!k], from = f->maker[other];
        if (!conv || conv->op != BST_I_CONV_BWD_DATA || conv->flags || from < 0 ||
            from > conv - p->instrs || f->uses[other] != 1)
            continue;
        struct bst_instr fused = *conv;
        fused.flags = BST_IF_SUM;
        bst_instr_read(&fused, other);
        fused.dst[0] = add->dst[0];
        replace(f, at, &fused, conv);
        return;
    }
}

static void fuse_stats(struct fuse *f, int at)
{
    static const struct bst_shape none = {0, {0}};
    const int made = f->maker[f->c->p->instrs[at].src[0]];
    if (made < 0 || f->c->p->instrs[made].op != BST_I_CONV_FWD || f->c->p->instrs[made].flags)
        return;
    const int sums = bst_pass_add_value(f->c, &none);
    struct bst_instr *conv = &f->c->p->instrs[made], *bn = &f->c->p->instrs[at];
    f->c->p->values[sums].raw = true;
    conv->flags |= BST_IF_STATS;
    bst_instr_write(conv, sums);
    bn->flags |= BST_IF_STATS;
    bst_instr_read(bn, sums);
}

/* A linear layer takes in the GELU behind it; what it was applied to stays, as a second result,
 * where backward reads it. Where memory is short the two are left apart: alone, a GELU's second run
 * is a pass over memory, and with it the layer's product would be made again. */
static void fuse_gelu(struct fuse *f, int at)
{
    struct bst_program *p = f->c->p;
    const struct bst_instr *gelu = &p->instrs[at];
    int u = gelu->src[0], i = f->maker[u];
    if (i < 0 || p->instrs[i].op != BST_I_LINEAR_FWD || p->instrs[i].flags ||
        f->c->o.recompute.kind != BST_RECOMPUTE_NONE)
        return;
    for (int k = 0; k < p->n_forward; k++) { /* read by nothing else on the way forward */
        for (int s = 0; s < p->instrs[k].n_src; s++) {
            if (k != at && !f->dead[k] && p->instrs[k].src[s] == u)
                return;
        }
    }
    struct bst_instr fused = p->instrs[i];
    fused.flags = BST_IF_GELU;
    fused.attr.tanh = gelu->attr.tanh;
    fused.dst[0] = gelu->dst[0];
    if (f->uses[u] > 1)
        bst_instr_write(&fused, u);
    replace(f, at, &fused, &p->instrs[i]);
}

static void sweep(struct fuse *f)
{
    struct bst_program *p = f->c->p;
    int kept = 0, forward = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        if (f->dead[i]) {
            bst_free((void *)p->instrs[i].name);
            continue;
        }
        p->instrs[kept++] = p->instrs[i];
        forward += i < p->n_forward;
    }
    p->n_instrs = kept;
    p->n_forward = forward;
}

void bst_pass_fuse(struct bst_pass *c)
{
    const struct bst_program *p = c->p;
    size_t n = (size_t)p->n_values + 1, slots = (size_t)p->params->n_slots + 1;
    struct fuse f = {
        .c = c,
        .uses = bst_xcalloc(n, sizeof *f.uses),
        .maker = bst_xcalloc(n, sizeof *f.maker),
        .bn_of = bst_xcalloc(n, sizeof *f.bn_of),
        .bwd_of = bst_xcalloc(slots, sizeof *f.bwd_of),
        .residual = bst_xcalloc(n, sizeof *f.residual),
        .dead = bst_xcalloc((size_t)p->n_instrs + 1, sizeof *f.dead),
    };
    index_program(&f);
    for (int i = 0; i < p->n_instrs; i++) {
        if (!f.dead[i] && p->instrs[i].op == BST_I_RELU_FWD)
            fuse_relu_fwd(&f, i);
        else if (!f.dead[i] && p->instrs[i].op == BST_I_RELU_BWD)
            fuse_relu_bwd(&f, i);
        else if (!f.dead[i] && p->instrs[i].op == BST_I_GELU_FWD)
            fuse_gelu(&f, i);
    }
    for (int i = p->n_forward; i < p->n_instrs && c->d->fuses & BST_IF_SUM; i++) {
        if (!f.dead[i] && p->instrs[i].op == BST_I_ADD)
            fuse_sum(&f, i);
    }
    for (int i = p->n_forward; i < p->n_instrs; i++) {
        if (!f.dead[i] && p->instrs[i].op == BST_I_BN_BWD)
            fuse_join(&f, i);
    }
    for (int i = 0; i < p->n_forward && c->d->fuses & BST_IF_STATS; i++) {
        if (!f.dead[i] && p->instrs[i].op == BST_I_BN_TRAIN)
            fuse_stats(&f, i);
    }
    sweep(&f);
    bst_free(f.uses);
    bst_free(f.maker);
    bst_free(f.bn_of);
    bst_free(f.bwd_of);
    bst_free(f.residual);
    bst_free(f.dead);
}
