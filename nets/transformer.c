#include "nets/transformer.h"

#include <math.h>
#include <stdio.h>

#include "core/graph/graph_seq.h"
#include "nets/seq.h"

enum { PART_MAX_BYTES = 48 };

#define EPSILON 1e-5

/* "self_attn" and "out_proj", with a dot. */
static const char *join(char out[PART_MAX_BYTES], const char *a, const char *b)
{
    snprintf(out, PART_MAX_BYTES, "%.20s.%.20s", a, b);
    return out;
}

static int linear(struct net_maker *m, int x, int out, const char *part)
{
    const struct bst_linear l = {.out = out, .init = BST_INIT_XAVIER_UNIFORM};
    return bst_graph_linear_as(m->g, x, &l, net_name(m, part));
}

/* Projections [first, first + n) of the three, of the one weight that PyTorch keeps for all. */
static int project(struct net_maker *m, int x, const char *part, int first, int n, const char *what)
{
    char text[PART_MAX_BYTES], whole[NET_NAME];
    snprintf(whole, sizeof whole, "%s", net_name(m, join(text, part, "in_proj")));
    const struct bst_linear l = {.out = n * m->s.width,
                                 .part_of = whole,
                                 .first = first * m->s.width,
                                 .rows = 3 * m->s.width,
                                 .init = BST_INIT_XAVIER_UNIFORM};
    return bst_graph_linear_as(m->g, x, &l, net_name(m, join(text, part, what)));
}

struct attend {
    const char *part;
    int memory; /* the encoder's result; -1: keys and values are the queries' own */
    bool causal;
    int key_stream;
};

static int attend(struct net_maker *m, int x, const struct attend *how)
{
    const struct bst_attention a = {.heads = m->s.heads,
                                    .causal = how->causal,
                                    .key_stream = how->key_stream,
                                    .drop = m->s.dropout};
    char text[PART_MAX_BYTES];
    int qkv[3] = {-1, -1, -1};
    if (how->memory < 0) {
        qkv[0] = project(m, x, how->part, 0, 3, "qkv");
    } else {
        qkv[0] = project(m, x, how->part, 0, 1, "q");
        qkv[1] = project(m, how->memory, how->part, 1, 1, "k");
        qkv[2] = project(m, how->memory, how->part, 2, 1, "v");
    }
    int y = bst_graph_attention(m->g, qkv, &a, net_name(m, how->part));
    return linear(m, y, m->s.width, join(text, how->part, "out_proj"));
}

static int feed_forward(struct net_maker *m, int x)
{
    int y = linear(m, x, m->s.hidden, "linear1");
    y = bst_graph_relu(m->g, y, net_name(m, "relu"));
    y = bst_graph_dropout(m->g, y, m->s.dropout, net_name(m, "dropout"));
    return linear(m, y, m->s.width, "linear2");
}

/* Part number n of a block: x + f(norm(x)), or norm(x + f(x)). `how` NULL: f is the feed-forward.
 */
static int add_part(struct net_maker *m, int x, int n, const struct attend *how)
{
    char norm[16], drop[16], add[16];
    snprintf(norm, sizeof norm, "norm%d", n);
    snprintf(drop, sizeof drop, "dropout%d", n);
    snprintf(add, sizeof add, "add%d", n);
    int y = m->s.norm_first ? bst_graph_layer_norm(m->g, x, EPSILON, net_name(m, norm)) : x;
    y = how ? attend(m, y, how) : feed_forward(m, y);
    y = bst_graph_dropout(m->g, y, m->s.dropout, net_name(m, drop));
    y = bst_graph_add(m->g, x, y, net_name(m, add));
    return m->s.norm_first ? y : bst_graph_layer_norm(m->g, y, EPSILON, net_name(m, norm));
}

static int encode(struct net_maker *m, int x)
{
    const struct attend self = {"self_attn", -1, false, 0};
    m->blocks = "transformer.encoder.layers";
    for (m->block = 0; m->block < m->s.layers; m->block++) {
        x = add_part(m, x, 1, &self);
        x = add_part(m, x, 2, NULL);
    }
    return bst_graph_layer_norm(m->g, x, EPSILON, "transformer.encoder.norm");
}

/* A target's padding needs no mask: it is behind all that has a label. */
static int decode(struct net_maker *m, int x, int memory)
{
    const struct attend self = {"self_attn", -1, true, -1};
    const struct attend cross = {"multihead_attn", memory, false, 0};
    m->blocks = "transformer.decoder.layers";
    for (m->block = 0; m->block < m->s.layers; m->block++) {
        x = add_part(m, x, 1, &self);
        x = add_part(m, x, 2, &cross);
        x = add_part(m, x, 3, NULL);
    }
    return bst_graph_layer_norm(m->g, x, EPSILON, "transformer.decoder.norm");
}

static int embed(struct net_maker *m, int stream, int length, const char *layer, const char *part)
{
    char text[PART_MAX_BYTES];
    const struct bst_embedding e = {.stream = stream,
                                    .length = length,
                                    .rows = m->s.vocabulary,
                                    .width = m->s.width,
                                    .scale = sqrt(m->s.width),
                                    .deviation = 1 / sqrt(m->s.width),
                                    .tied = stream ? "embedding" : NULL};
    int x = bst_graph_embedding(m->g, &e, layer);
    x = bst_graph_sinusoid(m->g, x, join(text, part, "position"));
    return bst_graph_dropout(m->g, x, m->s.dropout, join(text, part, "dropout"));
}

enum bst_err net_transformer_build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    /* 37000 is the paper's English and German; positions have no table. */
    struct net_maker m = {
        .g = g,
        .s = {.vocabulary = 37000, .positions = 1, .width = 512, .layers = 6, .heads = 8},
    };
    BST_TRY(net_sizes_read(cfg, 2, &m.s));
    if (cfg->positions)
        return bst_fail(BST_E_ARG, "%s: its positions are sinusoids, of any length", cfg->name);
    const struct bst_linear head = {.out = m.s.vocabulary, .no_bias = true, .tied = "embedding"};
    int memory = encode(&m, embed(&m, 0, cfg->length[0], "embedding", "source"));
    int x = decode(&m, embed(&m, 1, cfg->length[1], "target.embedding", "target"), memory);
    bst_graph_softmax_ce(g, bst_graph_linear_as(g, x, &head, "generator"), "loss");
    return bst_graph_check(g);
}
