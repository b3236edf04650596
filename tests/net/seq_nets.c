#include "tests/net/seq_nets.h"

#include <math.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/graph/graph_seq.h"

struct maker {
    struct bst_graph *g;
    const struct seq_net *how;
    const char *prefix;
    char name[64];
};

static const char *name(struct maker *m, const char *part)
{
    snprintf(m->name, sizeof m->name, "%.30s.%.30s", m->prefix, part);
    return m->name;
}

static int norm(struct maker *m, int x, const char *part)
{
    return bst_graph_layer_norm(m->g, x, 1e-5, name(m, part));
}

static int linear(struct maker *m, int x, int out, bool in_out, const char *part)
{
    struct bst_linear l = {.out = out, .in_out = in_out, .init = BST_INIT_NORMAL, .deviation = 0.1};
    return bst_graph_linear_as(m->g, x, &l, name(m, part));
}

static int drop(struct maker *m, int x, const char *part)
{
    return bst_graph_dropout(m->g, x, m->how->drop, name(m, part));
}

static int add(struct maker *m, int x, int y, const char *part)
{
    return bst_graph_add(m->g, x, y, name(m, part));
}

static int decoder_block(struct maker *m, int x)
{
    const struct bst_attention a = {
        .heads = SEQ_HEADS, .causal = true, .key_stream = -1, .drop = m->how->drop};
    int qkv[3] = {linear(m, norm(m, x, "ln_1"), 3 * SEQ_WIDTH, true, "c_attn"), -1, -1};
    int y = bst_graph_attention(m->g, qkv, &a, name(m, "attn"));
    y = drop(m, linear(m, y, SEQ_WIDTH, true, "c_proj"), "drop_1");
    x = add(m, x, y, "add_1");
    y = linear(m, norm(m, x, "ln_2"), 4 * SEQ_WIDTH, true, "c_fc");
    y = bst_graph_gelu(m->g, y, true, name(m, "act"));
    y = drop(m, linear(m, y, SEQ_WIDTH, true, "mlp_proj"), "drop_2");
    return add(m, x, y, "add_2");
}

struct bst_graph *seq_decoder(const struct seq_net *how, int micro_batch)
{
    struct maker m = {.g = bst_graph_new(micro_batch), .how = how};
    const struct bst_embedding wte = {
        .length = how->length, .rows = SEQ_VOCAB, .width = SEQ_WIDTH, .deviation = 0.5};
    const struct bst_linear head = {.out = SEQ_VOCAB, .no_bias = true, .tied = "wte"};
    int x = bst_graph_embedding(m.g, &wte, "wte");
    x = bst_graph_position(m.g, x, &(struct bst_position){SEQ_POSITIONS, 0.5}, "wpe");
    x = bst_graph_dropout(m.g, x, how->drop, "drop");
    for (int i = 0; i < how->layers; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "h.%d", i);
        m.prefix = prefix;
        x = decoder_block(&m, x);
    }
    x = bst_graph_layer_norm(m.g, x, 1e-5, "ln_f");
    bst_graph_softmax_ce(m.g, bst_graph_linear_as(m.g, x, &head, "lm_head"), "loss");
    return m.g;
}

struct from { /* of an attention: where its operands come from */
    int queries, keys;
    bool causal;
    int key_stream;
};

static int attend(struct maker *m, const struct from *from, const char *part)
{
    static const char *const suffix[3] = {"q", "k", "v"};
    const struct bst_attention a = {.heads = SEQ_HEADS,
                                    .causal = from->causal,
                                    .key_stream = from->key_stream,
                                    .drop = m->how->drop};
    char text[32], whole[80];
    int qkv[3];
    snprintf(text, sizeof text, "%.20s.in_proj", part);
    snprintf(whole, sizeof whole, "%s", name(m, text));
    for (int i = 0; i < 3; i++) {
        const struct bst_linear l = {.out = SEQ_WIDTH,
                                     .part_of = whole,
                                     .first = i * SEQ_WIDTH,
                                     .rows = 3 * SEQ_WIDTH,
                                     .init = BST_INIT_XAVIER_UNIFORM};
        snprintf(text, sizeof text, "%.20s.%s", part, suffix[i]);
        qkv[i] = bst_graph_linear_as(m->g, i ? from->keys : from->queries, &l, name(m, text));
    }
    int y = bst_graph_attention(m->g, qkv, &a, name(m, part));
    snprintf(text, sizeof text, "%.20s.out", part);
    y = linear(m, y, SEQ_WIDTH, false, text);
    snprintf(text, sizeof text, "%.20s.drop", part);
    y = drop(m, y, text);
    snprintf(text, sizeof text, "%.20s.add", part);
    y = add(m, from->queries, y, text);
    snprintf(text, sizeof text, "%.20s.norm", part);
    return norm(m, y, text);
}

static int feed_forward(struct maker *m, int x)
{
    int y = linear(m, x, 2 * SEQ_WIDTH, false, "linear1");
    y = linear(m, bst_graph_gelu(m->g, y, false, name(m, "act")), SEQ_WIDTH, false, "linear2");
    return norm(m, add(m, x, y, "add"), "norm");
}

static int embed(struct maker *m, int stream, int length)
{
    const struct bst_embedding e = {.stream = stream,
                                    .length = length,
                                    .rows = SEQ_VOCAB,
                                    .width = SEQ_WIDTH,
                                    .scale = sqrt(SEQ_WIDTH),
                                    .deviation = 0.2};
    int x = bst_graph_embedding(m->g, &e, name(m, "embed"));
    return drop(m, bst_graph_sinusoid(m->g, x, name(m, "position")), "drop");
}

struct bst_graph *seq_encoder_decoder(const struct seq_net *how, int micro_batch)
{
    struct maker m = {.g = bst_graph_new(micro_batch), .how = how, .prefix = "encoder"};
    const struct bst_linear head = {.out = SEQ_VOCAB, .init = BST_INIT_XAVIER_UNIFORM};
    char prefix[24];
    int x = embed(&m, 0, how->length + 3);
    for (int i = 0; i < how->layers; i++) {
        snprintf(prefix, sizeof prefix, "encoder.%d", i);
        m.prefix = prefix;
        x = attend(&m, &(struct from){x, x, false, 0}, "self");
        x = feed_forward(&m, x);
    }
    m.prefix = "decoder";
    int y = embed(&m, 1, how->length);
    for (int i = 0; i < how->layers; i++) {
        snprintf(prefix, sizeof prefix, "decoder.%d", i);
        m.prefix = prefix;
        y = attend(&m, &(struct from){y, y, true, -1}, "self");
        y = attend(&m, &(struct from){y, x, false, 0}, "cross");
        y = feed_forward(&m, y);
    }
    bst_graph_softmax_ce(m.g, bst_graph_linear_as(m.g, y, &head, "head"), "loss");
    return m.g;
}

void seq_batch_make(struct seq_batch *b, int n, const struct bst_graph *g, int target,
                    uint64_t seed)
{
    struct bst_rng rng;
    *b = (struct seq_batch){.n = n};
    bst_rng_init(&rng, seed, BST_RNG_TEST, 2000);
    for (int s = 0; s < BST_MAX_STREAMS; s++) {
        size_t count = (size_t)n * (size_t)g->length[s];
        b->length[s] = g->length[s];
        b->tokens[s] = bst_xcalloc(count + 1, sizeof(int32_t));
        for (size_t i = 0; i < count; i++)
            b->tokens[s][i] = (int32_t)bst_rng_below(&rng, SEQ_VOCAB);
    }
    b->lengths = bst_xcalloc((size_t)n, sizeof *b->lengths);
    for (int i = 0; i < n; i++)
        b->lengths[i] = 1 + (int32_t)bst_rng_below(&rng, (uint32_t)g->length[0]);
    size_t count = (size_t)n * (size_t)g->length[target];
    b->labels = bst_xcalloc(count, sizeof *b->labels);
    for (size_t i = 0; i < count; i++)
        b->labels[i] =
            bst_rng_below(&rng, 4) ? (int32_t)bst_rng_below(&rng, SEQ_VOCAB) : BST_LABEL_IGNORED;
}

void seq_batch_free(struct seq_batch *b)
{
    for (int s = 0; s < BST_MAX_STREAMS; s++)
        bst_free(b->tokens[s]);
    bst_free(b->lengths);
    bst_free(b->labels);
}

struct bst_step seq_step(const struct seq_batch *b, int target, int first, int n)
{
    struct bst_step step = {.n_valid = n,
                            .grad_scale = 1.0 / (b->n * b->length[target]),
                            .label_smoothing = 0.1,
                            .seed = 7,
                            .position = (uint64_t)(1000 + first)};
    for (int s = 0; s < BST_MAX_STREAMS; s++)
        step.tokens[s] = b->tokens[s] + (size_t)first * (size_t)b->length[s];
    step.lengths[0] = b->lengths + first;
    step.labels = b->labels + (size_t)first * (size_t)b->length[target];
    return step;
}
