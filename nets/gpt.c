#include "nets/gpt.h"

#include <math.h>
#include <stdio.h>

#include "core/graph/graph_seq.h"
#include "nets/seq.h"

enum { NAME_MAX_BYTES = 64 };

#define DEVIATION 0.02 /* of all weights; less where a residual branch ends */
#define EPSILON 1e-5

struct maker {
    struct bst_graph *g;
    struct net_sizes s;
    int block;
    char name[NAME_MAX_BYTES];
};

/* "transformer.h.3.attn.c_proj" */
static const char *name(struct maker *m, const char *part)
{
    snprintf(m->name, sizeof m->name, "transformer.h.%d.%.30s", m->block, part);
    return m->name;
}

static int norm(struct maker *m, int x, const char *part)
{
    return bst_graph_layer_norm(m->g, x, EPSILON, name(m, part));
}

/* GPT-2's weights lie [in, out]. */
static int linear(struct maker *m, int x, int out, double deviation, const char *part)
{
    const struct bst_linear l = {
        .out = out, .in_out = true, .init = BST_INIT_NORMAL, .deviation = deviation};
    return bst_graph_linear_as(m->g, x, &l, name(m, part));
}

/* The residual branch's end: its deviation keeps the sum of all 2·layers branches at one size. */
static int project(struct maker *m, int y, int x, const char *part, const char *drop,
                   const char *add)
{
    y = linear(m, y, m->s.width, DEVIATION / sqrt(2.0 * m->s.layers), part);
    y = bst_graph_dropout(m->g, y, m->s.dropout, name(m, drop));
    return bst_graph_add(m->g, x, y, name(m, add));
}

static int add_block(struct maker *m, int x)
{
    const struct bst_attention a = {
        .heads = m->s.heads, .causal = true, .key_stream = -1, .drop = m->s.dropout};
    int y = linear(m, norm(m, x, "ln_1"), 3 * m->s.width, DEVIATION, "attn.c_attn");
    y = bst_graph_attention(m->g, (const int[3]){y, -1, -1}, &a, name(m, "attn"));
    x = project(m, y, x, "attn.c_proj", "attn.resid_dropout", "attn.add");
    y = linear(m, norm(m, x, "ln_2"), m->s.hidden, DEVIATION, "mlp.c_fc");
    y = bst_graph_gelu(m->g, y, true, name(m, "mlp.act"));
    return project(m, y, x, "mlp.c_proj", "mlp.dropout", "mlp.add");
}

enum bst_err net_gpt_build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    struct maker m = {.g = g, .s = {50257, 1024, 768, 12, 12, 0, 0}};
    BST_TRY(net_sizes_read(cfg, 1, &m.s));
    if (cfg->norm_first)
        return bst_fail(BST_E_ARG, "%s: always normalises first; norm_first is transformer's",
                        cfg->name);
    const struct bst_embedding wte = {.length = cfg->length[0],
                                      .rows = m.s.vocabulary,
                                      .width = m.s.width,
                                      .deviation = DEVIATION};
    const struct bst_position wpe = {m.s.positions, DEVIATION};
    const struct bst_linear head = {
        .out = m.s.vocabulary, .no_bias = true, .tied = "transformer.wte"};
    int x = bst_graph_embedding(g, &wte, "transformer.wte");
    x = bst_graph_position(g, x, &wpe, "transformer.wpe");
    x = bst_graph_dropout(g, x, m.s.dropout, "transformer.drop");
    for (m.block = 0; m.block < m.s.layers; m.block++)
        x = add_block(&m, x);
    x = bst_graph_layer_norm(g, x, EPSILON, "transformer.ln_f");
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &head, "lm_head"), "loss");
    return bst_graph_check(g);
}
