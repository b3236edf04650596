#include "nets/gpt.h"

#include <math.h>

#include "core/graph/graph_seq.h"
#include "nets/seq.h"

#define DEVIATION 0.02 /* of all weights; less where a residual branch ends */
#define EPSILON 1e-5

/* Older files hold the causal mask of each block; some the tied head. */
static const char *const buffers[] = {"*h.*.attn.bias", "*h.*.attn.masked_bias", NULL};
static const struct bst_net_tie ties[] = {{"lm_head.weight", "transformer.wte.weight"}, {0}};
const struct bst_net_names net_gpt_names = {
    .prefix = "transformer.", .buffers = buffers, .ties = ties};

static int norm(struct net_maker *m, int x, const char *part)
{
    return bst_graph_layer_norm(m->g, x, EPSILON, net_name(m, part));
}

/* GPT-2's weights lie [in, out]. */
static int linear(struct net_maker *m, int x, int out, double deviation, const char *part)
{
    const struct bst_linear l = {
        .out = out, .in_out = true, .init = BST_INIT_NORMAL, .deviation = deviation};
    return bst_graph_linear_as(m->g, x, &l, net_name(m, part));
}

/* The residual branch's end: its deviation keeps the sum of all 2·layers branches at one size. */
static int project(struct net_maker *m, int y, int x, const char *part, const char *drop,
                   const char *add)
{
    y = linear(m, y, m->s.width, DEVIATION / sqrt(2.0 * m->s.layers), part);
    y = bst_graph_dropout(m->g, y, m->s.dropout, net_name(m, drop));
    return bst_graph_add(m->g, x, y, net_name(m, add));
}

static int add_block(struct net_maker *m, int x)
{
    const struct bst_attention a = {
        .heads = m->s.heads, .causal = true, .key_stream = -1, .drop = m->s.dropout};
    int y = linear(m, norm(m, x, "ln_1"), 3 * m->s.width, DEVIATION, "attn.c_attn");
    y = bst_graph_attention(m->g, (const int[3]){y, -1, -1}, &a, net_name(m, "attn"));
    x = project(m, y, x, "attn.c_proj", "attn.resid_dropout", "attn.add");
    y = linear(m, norm(m, x, "ln_2"), m->s.hidden, DEVIATION, "mlp.c_fc");
    y = bst_graph_gelu(m->g, y, true, net_name(m, "mlp.act"));
    return project(m, y, x, "mlp.c_proj", "mlp.dropout", "mlp.add");
}

enum bst_err net_gpt_build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    struct net_maker m = {
        .g = g,
        .s = {.vocabulary = 50257, .positions = 1024, .width = 768, .layers = 12, .heads = 12},
        .blocks = "transformer.h",
    };
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
