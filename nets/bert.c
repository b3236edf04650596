#include "nets/bert.h"

#include "core/graph/graph_seq.h"
#include "nets/seq.h"

#define DEVIATION 0.02 /* of all weights */
#define EPSILON 1e-12
#define EMBEDDINGS "bert.embeddings"
#define WORDS EMBEDDINGS ".word_embeddings"

/* A file of BertModel has no heads, one of BertForMaskedLM neither pooler nor that of pairs. */
static const char *const buffers[] = {"*embeddings.position_ids", "*embeddings.token_type_ids",
                                      NULL};
static const char *const head[] = {"cls.*", "bert.pooler.*", NULL};
static const struct bst_net_tie ties[] = {{"cls.predictions.decoder.weight", WORDS ".weight"},
                                          {"cls.predictions.decoder.bias", "cls.predictions.bias"},
                                          {0}};
const struct bst_net_names net_bert_names = {
    .prefix = "bert.", .gamma_beta = true, .buffers = buffers, .head = head, .ties = ties};

static int linear(struct net_maker *m, int x, int out, const char *layer)
{
    const struct bst_linear l = {.out = out, .init = BST_INIT_NORMAL, .deviation = DEVIATION};
    return bst_graph_linear_as(m->g, x, &l, layer);
}

static int drop(struct net_maker *m, int x, const char *layer)
{
    return bst_graph_dropout(m->g, x, m->s.dropout, layer);
}

static int embed(struct net_maker *m, int stream, int length, int rows, const char *layer)
{
    const struct bst_embedding e = {.stream = stream,
                                    .length = length,
                                    .rows = rows,
                                    .width = m->s.width,
                                    .deviation = DEVIATION};
    return bst_graph_embedding(m->g, &e, layer);
}

static int embed_all(struct net_maker *m, const int length[BST_MAX_STREAMS])
{
    const struct bst_position positions = {m->s.positions, DEVIATION};
    int x = embed(m, 0, length[0], m->s.vocabulary, WORDS);
    int segments = embed(m, 1, length[1], 2, EMBEDDINGS ".token_type_embeddings");
    x = bst_graph_add(m->g, x, segments, EMBEDDINGS ".add");
    x = bst_graph_position(m->g, x, &positions, EMBEDDINGS ".position_embeddings");
    x = bst_graph_layer_norm(m->g, x, EPSILON, EMBEDDINGS ".LayerNorm");
    return drop(m, x, EMBEDDINGS ".dropout");
}

static int attend(struct net_maker *m, int x)
{
    static const char *const parts[3] = {"attention.self.query", "attention.self.key",
                                         "attention.self.value"};
    const struct bst_attention a = {.heads = m->s.heads, .key_stream = 0, .drop = m->s.dropout};
    int qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = linear(m, x, m->s.width, net_name(m, parts[i]));
    return bst_graph_attention(m->g, qkv, &a, net_name(m, "attention.self"));
}

struct branch { /* the names of what ends one: norm(x + drop(dense(y))) */
    const char *dense, *drop, *add, *norm;
};

static int end_branch(struct net_maker *m, int x, int y, const struct branch *b)
{
    y = linear(m, y, m->s.width, net_name(m, b->dense));
    y = drop(m, y, net_name(m, b->drop));
    y = bst_graph_add(m->g, x, y, net_name(m, b->add));
    return bst_graph_layer_norm(m->g, y, EPSILON, net_name(m, b->norm));
}

static int add_block(struct net_maker *m, int x)
{
    static const struct branch attention = {"attention.output.dense", "attention.output.dropout",
                                            "attention.output.add", "attention.output.LayerNorm"};
    static const struct branch output = {"output.dense", "output.dropout", "output.add",
                                         "output.LayerNorm"};
    x = end_branch(m, x, attend(m, x), &attention);
    int y = linear(m, x, m->s.hidden, net_name(m, "intermediate.dense"));
    y = bst_graph_gelu(m->g, y, false, net_name(m, "intermediate.act"));
    return end_branch(m, x, y, &output);
}

/* Whether the second segment follows the first, from the first position. */
static void add_pair_head(struct net_maker *m, int x)
{
    int y =
        linear(m, bst_graph_first(m->g, x, "bert.pooler.first"), m->s.width, "bert.pooler.dense");
    y = linear(m, bst_graph_tanh(m->g, y, "bert.pooler.activation"), 2, "cls.seq_relationship");
    bst_graph_pair_ce(m->g, y, "loss.pair");
}

static void add_token_head(struct net_maker *m, int x)
{
    const struct bst_linear decoder = {.out = m->s.vocabulary, .tied = WORDS};
    x = linear(m, x, m->s.width, "cls.predictions.transform.dense");
    x = bst_graph_gelu(m->g, x, false, "cls.predictions.transform.act");
    x = bst_graph_layer_norm(m->g, x, EPSILON, "cls.predictions.transform.LayerNorm");
    bst_graph_softmax_ce(m->g, bst_graph_linear_as(m->g, x, &decoder, "cls.predictions"), "loss");
}

enum bst_err net_bert_build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    struct net_maker m = {
        .g = g,
        .s = {.vocabulary = 30522, .positions = 512, .width = 768, .layers = 12, .heads = 12},
        .blocks = "bert.encoder.layer",
    };
    BST_TRY(net_sizes_read(cfg, 2, &m.s));
    if (cfg->norm_first)
        return bst_fail(BST_E_ARG, "%s: always normalises last; norm_first is transformer's",
                        cfg->name);
    int x = embed_all(&m, cfg->length);
    for (m.block = 0; m.block < m.s.layers; m.block++)
        x = add_block(&m, x);
    add_pair_head(&m, x);
    add_token_head(&m, x);
    return bst_graph_check(g);
}
