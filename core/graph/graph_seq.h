/* Builders for nets over sequences, [N, T, D] (graph.h). As there: one thread; a value's number,
 * or -1 once anything failed. */
#ifndef BST_GRAPH_GRAPH_SEQ_H
#define BST_GRAPH_GRAPH_SEQ_H

#include "core/graph/graph.h"

struct bst_embedding {
    int stream;       /* which of the step's tokens; all embeddings of one have the same length */
    int length;       /* T */
    int rows, width;  /* of the table: tokens it knows, D */
    double scale;     /* factor of the rows: √D in Vaswani et al.; 0 counts as 1 */
    double deviation; /* of the starting values */
    const char *tied; /* name of an embedding whose table this one reads too; or NULL */
};
int bst_graph_embedding(struct bst_graph *g, const struct bst_embedding *e, const char *name);

/* x + the first T rows of a learned table of `rows`. */
struct bst_position {
    int rows;
    double deviation;
};
int bst_graph_position(struct bst_graph *g, int x, const struct bst_position *p, const char *name);
int bst_graph_sinusoid(struct bst_graph *g, int x, const char *name);

int bst_graph_layer_norm(struct bst_graph *g, int x, double eps, const char *name);
int bst_graph_gelu(struct bst_graph *g, int x, bool tanh, const char *name);
int bst_graph_first(struct bst_graph *g, int x, const char *name); /* [N, T, D] → [N, D] */
int bst_graph_tanh(struct bst_graph *g, int x, const char *name);
/* Keeps an element with probability 1 - p and multiplies it by 1/(1-p). p = 0 gives x itself. */
int bst_graph_dropout(struct bst_graph *g, int x, double p, const char *name);

struct bst_linear {
    int out;
    bool no_bias;
    bool in_out;        /* the weight is [in, out], as in GPT-2's files */
    enum bst_init init; /* of the weight; the bias starts at 0 */
    double deviation;   /* of BST_INIT_NORMAL */
    /* Rows from `first` on of a weight and a bias that have `rows` in all and are called
     * NAME_weight and NAME_bias: the projections of PyTorch's MultiheadAttention. Each row is one
     * layer's. */
    const char *part_of;
    int first, rows;
    const char *tied; /* name of an embedding's layer whose table is the weight, [out, in]; its
                         gradient is the sum of both uses */
};
int bst_graph_linear_as(struct bst_graph *g, int x, const struct bst_linear *l, const char *name);

struct bst_attention {
    int heads;
    bool causal;
    int key_stream; /* keys at and past the length of this stream's sample are padding; -1: none
                       are. A query that may see no key at all gives 0, and no gradient */
    double drop;    /* of the probabilities, in training */
};
/* q is [N, Tq, D], k and v [N, Tk, D]; with k = v = -1, q is [N, T, 3·D], queries, keys and values
 * side by side. */
int bst_graph_attention(struct bst_graph *g, const int qkv[3], const struct bst_attention *a,
                        const char *name);

/* A second loss, of the step's pair labels, over [N, K]; before the one that ends the net. */
void bst_graph_pair_ce(struct bst_graph *g, int x, const char *name);

#endif
