/* Small nets over sequences for tests: between them they have every operation of graph_seq.h, and a
 * batch of random tokens for them. */
#ifndef TESTS_NET_SEQ_NETS_H
#define TESTS_NET_SEQ_NETS_H

#include "tests/net/net_rig.h"

enum { SEQ_VOCAB = 23, SEQ_WIDTH = 24, SEQ_HEADS = 3, SEQ_POSITIONS = 80 };

struct seq_net {
    int length; /* T; the encoder's is 3 more */
    int layers;
    double drop;
};

/* Decoder only, normalising first, as GPT-2: learned positions, packed and causal attention,
 * weights that lie [in, out], GELU by tanh, the head tied to the embedding. */
struct bst_graph *seq_decoder(const struct seq_net *how, int micro_batch);
/* Encoder and decoder, normalising last, as Vaswani et al.: sinusoids, queries, keys and values
 * apart, padding, attention across, GELU. Stream 0 is the source, 1 the target. */
struct bst_graph *seq_encoder_decoder(const struct seq_net *how, int micro_batch);

struct seq_batch {
    int n, length[BST_MAX_STREAMS];
    int32_t *tokens[BST_MAX_STREAMS], *lengths, *labels; /* labels as stream `of` is long */
};
/* `target`: the stream whose positions have labels; some are ignored. */
void seq_batch_make(struct seq_batch *b, int n, const struct bst_graph *g, int target,
                    uint64_t seed);
void seq_batch_free(struct seq_batch *b);
/* A step over samples [first, first + n). */
struct bst_step seq_step(const struct seq_batch *b, int target, int first, int n);

#endif
