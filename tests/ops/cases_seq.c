/* Instructions over sequences. What goes from forward to backward is a backend's own, so the two
 * are tried together. */
#include <math.h>

#include "tests/ops/cases.h"

enum { /* of op_case.flags, beside BST_IF_* */
       IN_OUT = 1 << 16,
       NO_BIAS = 1 << 17,
       TANH = 1 << 18,
       CAUSAL = 1 << 19,
       PADDED = 1 << 20,
       APART = 1 << 21, /* queries, keys and values in values of their own, of two lengths */
       DROP = 1 << 22,
       INFER = 1 << 23,
       PART = 1 << 24, /* rows of a larger weight, from one on that no vector load may start at */
};

enum { BEFORE = 1, BEHIND = 2 }; /* rows of a weight around a part of it */

static struct bst_shape seq_shape(const struct op_size *s, int width)
{
    return (struct bst_shape){3, {s->n, s->t, width}};
}

static struct bst_instr *add(struct rig *r, const struct op_case *oc, enum bst_instr_op op)
{
    struct bst_instr *in = bst_pass_add_instr(&r->pass, op, oc->name);
    in->attr = (struct bst_attr){
        .in_out = oc->flags & IN_OUT,
        .part = oc->flags & PART,
        .first_row = oc->flags & PART ? BEFORE : 0,
        .tanh = oc->flags & TANH,
        .causal = oc->flags & CAUSAL,
        .stream = op == BST_I_ATTN_FWD || op == BST_I_ATTN_BWD ? (oc->flags & PADDED ? 0 : -1) : 0,
        .drop = oc->flags & DROP ? 0.3 : 0,
        .site = 5,
        .eps = 1e-5,
        .scale = 1.5,
    };
    return in;
}

static void start(struct rig *r, const struct op_size *s, unsigned variant)
{
    rig_start(r, s->n, variant);
    r->step.n_valid = s->n - s->n / 3; /* of three samples the last does not count */
    r->step.seed = 11;
    r->step.position = UINT64_C(0x123456789);
}

static int weight(struct rig *r, const struct op_case *oc, const struct op_size *s)
{
    struct bst_shape w = {2, {s->oc, s->c}}, b = {1, {s->oc}};
    if (oc->flags & IN_OUT)
        w = (struct bst_shape){2, {s->c, s->oc}};
    if (oc->flags & PART)
        w.d[0] = b.d[0] = BEFORE + s->oc + BEHIND;
    int first = rig_param(r, BST_PARAM_LINEAR_WEIGHT, &w);
    if (!(oc->flags & NO_BIAS))
        rig_param(r, BST_PARAM_BIAS, &b);
    return first;
}

static void build_linear_fwd(struct rig *r, const struct op_case *oc, const struct op_size *s,
                             unsigned variant)
{
    struct bst_shape x = seq_shape(s, s->c), y = seq_shape(s, s->oc);
    int p = weight(r, oc, s);
    start(r, s, variant);
    int vx = rig_input(r, &x), vy = rig_value(r, &y, false), vu = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_FWD);
    in->flags = oc->flags & BST_IF_GELU;
    bst_instr_read(in, vx);
    bst_instr_read(in, p);
    if (!(oc->flags & NO_BIAS))
        bst_instr_read(in, p + 1);
    bst_instr_write(in, vy);
    rig_output(r, vy);
    if (in->flags && !(oc->flags & INFER)) {
        bst_instr_write(in, vu);
        rig_output(r, vu);
    }
}

static void build_linear_bwd(struct rig *r, const struct op_case *oc, const struct op_size *s,
                             unsigned variant)
{
    struct bst_shape x = seq_shape(s, s->c), y = seq_shape(s, s->oc);
    int p = weight(r, oc, s);
    start(r, s, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y), dx = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_BWD_WEIGHT);
    bst_instr_read(in, vx);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    if (!(oc->flags & NO_BIAS))
        bst_instr_write(in, bst_pass_second(&r->pass, p + 1));
    in = add(r, oc, BST_I_LINEAR_BWD_DATA);
    bst_instr_read(in, dy);
    bst_instr_read(in, p);
    bst_instr_write(in, dx);
    rig_output(r, dx);
}

static int table(struct rig *r, int rows, int width)
{
    struct bst_shape w = {2, {rows, width}};
    return rig_param(r, BST_PARAM_EMBEDDING, &w);
}

static void build_embed(struct rig *r, const struct op_case *oc, const struct op_size *s,
                        unsigned variant)
{
    struct bst_shape y = seq_shape(s, s->c);
    int p = table(r, s->oc, s->c);
    start(r, s, variant);
    int dy = rig_input(r, &y), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_EMBED_FWD);
    bst_instr_read(in, p);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_EMBED_BWD);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    rig_output(r, vy);
}

/* One parameter with two uses: the second instruction adds to what the first has written. */
static void build_tied(struct rig *r, const struct op_case *oc, const struct op_size *s,
                       unsigned variant)
{
    struct bst_shape x = seq_shape(s, s->c), y = seq_shape(s, s->oc);
    int p = table(r, s->oc, s->c);
    start(r, s, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y), dx = rig_input(r, &x);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_BWD_WEIGHT);
    bst_instr_read(in, vx);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    in = add(r, oc, BST_I_EMBED_BWD);
    in->adds = 1;
    bst_instr_read(in, dx);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
}

static void build_position(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape y = seq_shape(s, s->c);
    int p = table(r, s->t + s->heads, s->c);
    start(r, s, variant);
    int vx = rig_input(r, &y), dy = rig_input(r, &y), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_POSITION_FWD);
    bst_instr_read(in, vx);
    bst_instr_read(in, p);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_POSITION_BWD);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    rig_output(r, vy);
}

/* What stands between: the sum of a residual branch, cut at 0, and back. */
static void build_between(struct rig *r, const struct op_case *oc, const struct op_size *s,
                          unsigned variant)
{
    struct bst_shape y = seq_shape(s, s->c);
    start(r, s, variant);
    int vx = rig_input(r, &y), vr = rig_input(r, &y), dy = rig_input(r, &y);
    int sum = rig_value(r, &y, false), vy = rig_value(r, &y, false), dx = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_ADD);
    bst_instr_read(in, vx);
    bst_instr_read(in, vr);
    bst_instr_write(in, sum);
    in = add(r, oc, BST_I_RELU_FWD);
    bst_instr_read(in, sum);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_RELU_BWD);
    bst_instr_read(in, dy);
    bst_instr_read(in, vy);
    bst_instr_write(in, dx);
    rig_output(r, vy);
    rig_output(r, dx);
}

/* y <- x */
static void build_plain(struct rig *r, const struct op_case *oc, const struct op_size *s,
                        unsigned variant, enum bst_instr_op op)
{
    struct bst_shape y = seq_shape(s, s->c);
    start(r, s, variant);
    int vx = rig_input(r, &y), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, op);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    rig_output(r, vy);
}

static void build_sinusoid(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    build_plain(r, oc, s, variant, BST_I_SINUSOID);
}

static void build_dropout(struct rig *r, const struct op_case *oc, const struct op_size *s,
                          unsigned variant)
{
    build_plain(r, oc, s, variant, BST_I_DROPOUT);
}

static void build_gelu(struct rig *r, const struct op_case *oc, const struct op_size *s,
                       unsigned variant)
{
    struct bst_shape y = seq_shape(s, s->c);
    start(r, s, variant);
    int vx = rig_input(r, &y), dy = rig_input(r, &y);
    int vy = rig_value(r, &y, false), dx = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_GELU_FWD);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_GELU_BWD);
    bst_instr_read(in, dy);
    bst_instr_read(in, vx);
    bst_instr_write(in, dx);
    rig_output(r, vy);
    rig_output(r, dx);
}

static void build_ln(struct rig *r, const struct op_case *oc, const struct op_size *s,
                     unsigned variant)
{
    struct bst_shape y = seq_shape(s, s->c), d = {1, {s->c}}, none = {0, {0}};
    bool infer = oc->flags & INFER;
    int p = rig_param(r, BST_PARAM_LN_SCALE, &d);
    rig_param(r, BST_PARAM_LN_SHIFT, &d);
    start(r, s, variant);
    int vx = rig_input(r, &y), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_LN_FWD);
    bst_instr_read(in, vx);
    bst_instr_read(in, p);
    bst_instr_read(in, p + 1);
    bst_instr_write(in, vy);
    rig_output(r, vy);
    if (infer)
        return;
    int saved = rig_value(r, &none, true), dy = rig_input(r, &y), dx = rig_value(r, &y, false);
    bst_instr_write(in, saved);
    in = add(r, oc, BST_I_LN_BWD);
    bst_instr_read(in, dy);
    bst_instr_read(in, vx);
    bst_instr_read(in, p);
    bst_instr_read(in, saved);
    bst_instr_write(in, dx);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    bst_instr_write(in, bst_pass_second(&r->pass, p + 1));
    rig_output(r, dx);
}

static void build_attention(struct rig *r, const struct op_case *oc, const struct op_size *s,
                            unsigned variant)
{
    bool apart = oc->flags & APART;
    struct bst_shape y = seq_shape(s, s->c), q = seq_shape(s, apart ? s->c : 3 * s->c);
    struct bst_shape k = seq_shape(s, s->c), none = {0, {0}};
    k.d[1] = s->t + 2 * s->heads; /* apart: other than the queries' */
    start(r, s, variant);
    int n = apart ? 3 : 1, in[3], out[3];
    for (int i = 0; i < n; i++) {
        in[i] = rig_input(r, i ? &k : &q);
        out[i] = rig_value(r, i ? &k : &q, false);
    }
    int vy = rig_value(r, &y, false), lse = rig_value(r, &none, true);
    struct bst_instr *instr = add(r, oc, BST_I_ATTN_FWD);
    instr->attr.heads = s->heads;
    for (int i = 0; i < n; i++)
        bst_instr_read(instr, in[i]);
    bst_instr_write(instr, vy);
    rig_output(r, vy);
    if (oc->flags & INFER)
        return;
    bst_instr_write(instr, lse);
    int dy = rig_input(r, &y);
    instr = add(r, oc, BST_I_ATTN_BWD);
    instr->attr.heads = s->heads;
    bst_instr_read(instr, dy);
    for (int i = 0; i < n; i++)
        bst_instr_read(instr, in[i]);
    bst_instr_read(instr, vy);
    bst_instr_read(instr, lse);
    for (int i = 0; i < n; i++) {
        bst_instr_write(instr, out[i]);
        rig_output(r, out[i]);
    }
}

static void build_loss(struct rig *r, const struct op_case *oc, const struct op_size *s,
                       unsigned variant)
{
    struct bst_shape z = seq_shape(s, s->oc);
    start(r, s, variant);
    int vz = rig_input(r, &z), dz = rig_value(r, &z, false);
    struct bst_instr *in = add(r, oc, BST_I_SOFTMAX_CE);
    bst_instr_read(in, vz);
    if (oc->flags & INFER)
        rig_output(r, vz);
    else
        bst_instr_write(in, dz);
    r->step.label_smoothing = s->c % 2 ? 0.1 : 0;
    r->step.grad_scale = 1.0 / (s->n + 2);
    if (!(oc->flags & INFER))
        rig_output(r, dz);
}

/* Of a net that ends in two losses: the first position, a tanh, and the loss of a label a sample.
 */
static void build_pair(struct rig *r, const struct op_case *oc, const struct op_size *s,
                       unsigned variant)
{
    struct bst_shape x = seq_shape(s, s->c), y = {2, {s->n, s->c}};
    start(r, s, variant);
    r->step.pair_scale = 1.0 / (s->n + 1);
    r->step.label_smoothing = 0.1; /* not of this loss */
    int vx = rig_input(r, &x), v[5];
    for (int i = 0; i < 5; i++)
        v[i] = rig_value(r, i < 4 ? &y : &x, false);
    struct bst_instr *in = add(r, oc, BST_I_FIRST_FWD);
    bst_instr_read(in, vx);
    bst_instr_write(in, v[0]);
    in = add(r, oc, BST_I_TANH_FWD);
    bst_instr_read(in, v[0]);
    bst_instr_write(in, v[1]);
    in = add(r, oc, BST_I_SOFTMAX_CE);
    in->attr.pair = true;
    bst_instr_read(in, v[1]);
    bst_instr_write(in, v[2]);
    in = add(r, oc, BST_I_TANH_BWD);
    bst_instr_read(in, v[2]);
    bst_instr_read(in, v[1]);
    bst_instr_write(in, v[3]);
    in = add(r, oc, BST_I_FIRST_BWD);
    bst_instr_read(in, v[3]);
    bst_instr_write(in, v[4]);
    rig_output(r, v[2]);
    rig_output(r, v[4]);
}

static double one(const struct op_size *s)
{
    (void)s;
    return 1;
}

static double features(const struct op_size *s)
{
    return s->c > s->oc ? s->c : s->oc;
}

static double positions(const struct op_size *s)
{
    return (double)s->n * s->t;
}

static double most(const struct op_size *s)
{
    return fmax(features(s), positions(s));
}

/* Scores, their softmax and the sums over it. */
static double pairs(const struct op_size *s)
{
    return (double)s->t * (s->c / s->heads);
}

#define SEQ(label, builder, bits, n_terms, allowed)                                                \
    {                                                                                              \
        .name = label, .build = builder, .flags = bits, .sequence = true, .terms = n_terms,        \
        .budget = allowed, .roundings = 1                                                          \
    }
#define STEADY(label, builder, bits, n_terms, allowed)                                             \
    {                                                                                              \
        .name = label, .build = builder, .flags = bits, .sequence = true, .terms = n_terms,        \
        .budget = allowed, .steady = true, .roundings = 1                                          \
    }
/* In 16 bits probabilities, scores' gradients and results are rounded, and y is read back: what it
 * is off by meets a dy and a q of up to three deviations, in scores' gradients that cancel
 * otherwise. */
#define ATTN(label, bits)                                                                          \
    {                                                                                              \
        .name = label, .build = build_attention, .flags = bits, .sequence = true, .terms = pairs,  \
        .budget = 4, .nan_spreads = true, .steady = true, .roundings = 6                           \
    }
/* Enough rows for blocks of them, of sizes that kernels take. Forward the number of threads moves
 * no bit; a gradient is cut for it, and the library sums narrow pieces in another order. */
#define MANY(label, builder, bits, n_terms, same)                                                  \
    {                                                                                              \
        .name = label, .build = builder, .flags = bits, .sequence = true, .terms = n_terms,        \
        .budget = 2, .steady = same, .many = true, .roundings = 1                                  \
    }
/* With a GELU behind, whose slope is 1.13 at most, what goes into it is rounded and what comes out.
 */
#define GELU(label, bits)                                                                          \
    {                                                                                              \
        .name = label, .build = build_linear_fwd, .flags = BST_IF_GELU | (bits), .sequence = true, \
        .terms = features, .budget = 2, .roundings = 3                                             \
    }
#define MANY_GELU(label, bits)                                                                     \
    {                                                                                              \
        .name = label, .build = build_linear_fwd, .flags = BST_IF_GELU | (bits), .sequence = true, \
        .terms = features, .budget = 2, .steady = true, .many = true, .roundings = 3               \
    }
const struct op_case op_seq_cases[] = {
    SEQ("seq_linear_fwd", build_linear_fwd, 0, features, 2),
    GELU("seq_linear_fwd+gelu", IN_OUT | TANH),
    GELU("seq_linear_fwd+gelu infer", NO_BIAS | INFER),
    SEQ("seq_linear_fwd in_out", build_linear_fwd, IN_OUT | NO_BIAS, features, 2),
    SEQ("seq_linear_fwd part", build_linear_fwd, PART, features, 2),
    SEQ("seq_linear_bwd", build_linear_bwd, 0, most, 2),
    SEQ("seq_linear_bwd in_out", build_linear_bwd, IN_OUT, most, 2),
    SEQ("seq_linear_bwd no_bias", build_linear_bwd, NO_BIAS, most, 2),
    SEQ("seq_linear_bwd part", build_linear_bwd, PART, most, 2),
    MANY("many_linear_fwd", build_linear_fwd, 0, features, true),
    MANY_GELU("many_linear_fwd+gelu", IN_OUT | TANH),
    MANY_GELU("many_linear_fwd+gelu infer", NO_BIAS | INFER),
    MANY("many_linear_bwd", build_linear_bwd, 0, most, false),
    MANY("many_linear_bwd in_out", build_linear_bwd, IN_OUT, most, false),
    MANY("many_linear tied", build_tied, NO_BIAS, most, false),
    STEADY("embed", build_embed, 0, positions, 2),
    SEQ("embed+linear tied", build_tied, NO_BIAS, positions, 2),
    STEADY("position", build_position, 0, positions, 2),
    STEADY("seq_add relu", build_between, 0, one, 2),
    STEADY("sinusoid", build_sinusoid, 0, one, 2),
    STEADY("ln", build_ln, 0, most, 4),
    STEADY("ln infer", build_ln, INFER, features, 4),
    STEADY("gelu", build_gelu, 0, one, 4),
    STEADY("gelu tanh", build_gelu, TANH, one, 4),
    STEADY("dropout", build_dropout, DROP, one, 1),
    ATTN("attention", 0),
    ATTN("attention causal", CAUSAL),
    ATTN("attention padded", PADDED),
    ATTN("attention causal padded drop", CAUSAL | PADDED | DROP),
    ATTN("attention apart", APART),
    ATTN("attention apart padded drop", APART | PADDED | DROP),
    ATTN("attention infer", CAUSAL | INFER),
    SEQ("first tanh pair_ce", build_pair, 0, features, 4),
    STEADY("seq_softmax_ce", build_loss, 0, features, 4),
    SEQ("seq_softmax_ce infer", build_loss, INFER, features, 4),
    {.name = "vocabulary",
     .build = build_loss,
     .sequence = true,
     .large = true,
     .steady = true,
     .terms = features,
     .budget = 4,
     .roundings = 1},
};
const int n_op_seq_cases = sizeof op_seq_cases / sizeof op_seq_cases[0];
