/* What a net is: values, operations, parameters. Built once for a micro-batch by a function of
 * nets/, read by the compiler (compile.h), never changed afterwards. One thread.
 *
 * Builder functions return a value's number, or -1 once anything failed; they accept -1, so a net
 * is written straight through and bst_graph_check() reports the first error. Shapes are NCHW; a
 * matrix is [N, C]; sequences are [N, T, D], a sample's T positions of D features each, always in
 * the plain layout (no backend blocks them: to a matrix product they are [N·T, D], and a head is
 * D/H columns of it). Parameter names are the ones PyTorch users know: "layer1.0.conv1" gives
 * "layer1.0.conv1.weight". The builders of sequences are in graph_seq.h. */
#ifndef BST_GRAPH_GRAPH_H
#define BST_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

#define BST_MAX_RANK 4
#define BST_MAX_IN 3
#define BST_MAX_STREAMS 2 /* of tokens: source and target, or tokens and segments */

struct bst_shape {
    int rank;
    int64_t d[BST_MAX_RANK];
};

int64_t bst_shape_count(const struct bst_shape *s); /* elements; -1 on overflow */
bool bst_shape_equal(const struct bst_shape *a, const struct bst_shape *b);

enum bst_op {
    BST_OP_IMAGE,  /* uint8 [N,H,W,C] from the loader → real [N,C,H,W], (x/255 - mean) / std */
    BST_OP_CONV2D, /* no bias: a batch norm follows */
    BST_OP_BATCH_NORM, /* over N,H,W; eps 1e-5, running statistics with momentum 0.1 */
    BST_OP_RELU,
    BST_OP_ADD,
    BST_OP_MAX_POOL,
    BST_OP_GLOBAL_AVG_POOL, /* [N,C,H,W] → [N,C] */
    BST_OP_LINEAR,          /* […,C] → […,K] */
    BST_OP_SOFTMAX_CE,      /* […,K] and a label each → loss; ends a graph */
    BST_OP_EMBEDDING,       /* tokens of the step → [N,T,D], rows of a table */
    BST_OP_POSITION,        /* [N,T,D] + the first T rows of a learned table */
    BST_OP_SINUSOID,        /* [N,T,D] + sines and cosines (Vaswani et al. 2017, 3.5) */
    BST_OP_LAYER_NORM,      /* over the last axis */
    BST_OP_GELU,
    BST_OP_DROPOUT,
    BST_OP_FIRST, /* [N,T,D] → [N,D], position 0 */
    BST_OP_TANH,
    BST_OP_PAIR_CE, /* [N,K] and the step's pair labels → a second loss; ends nothing */
    BST_OP_ATTENTION, /* softmax(q·kᵀ/√d)·v by heads: q, k, v, or one value that holds all three */
};

enum bst_param_kind {
    BST_PARAM_CONV_WEIGHT,   /* OIHW */
    BST_PARAM_LINEAR_WEIGHT, /* [out, in]; GPT-2's [in, out] */
    BST_PARAM_BIAS,
    BST_PARAM_BN_SCALE,
    BST_PARAM_BN_SHIFT,
    BST_PARAM_EMBEDDING, /* [tokens or positions, features] */
    BST_PARAM_LN_SCALE,
    BST_PARAM_LN_SHIFT,
    BST_PARAM_BN_MEAN, /* running statistics: saved, not trained */
    BST_PARAM_BN_VAR,
};
#define BST_PARAM_IS_TRAINED(kind) ((kind) < BST_PARAM_BN_MEAN)

enum bst_init {
    BST_INIT_ZERO,
    BST_INIT_ONE,
    BST_INIT_KAIMING_FAN_OUT,
    BST_INIT_UNIFORM_FAN_IN,
    BST_INIT_NORMAL,         /* of the parameter's init_scale */
    BST_INIT_XAVIER_UNIFORM, /* ±√(6/(in + out)) */
};

struct bst_param {
    char *name; /* "layer1.0.bn1.running_mean" */
    enum bst_param_kind kind;
    enum bst_init init;
    double init_scale; /* deviation of BST_INIT_NORMAL */
    struct bst_shape shape;
};

/* What an operation needs to know beside its operands; each reads what concerns it. */
struct bst_attr {
    int stream; /* EMBEDDING: tokens read; ATTENTION: whose lengths bound the keys, -1: no padding
                 */
    int heads;
    int site;    /* DROPOUT, ATTENTION: number of the place, part of the random counter */
    bool causal; /* ATTENTION: position i sees keys 0 … i */
    bool in_out; /* LINEAR: the weight is [in, out] */
    bool part;   /* LINEAR: the weight is rows from first_row on of a parameter, the bias too */
    int first_row;
    bool pair;        /* SOFTMAX_CE: the second loss, of the step's pair labels */
    bool tanh;        /* GELU: by its tanh approximation */
    double eps;       /* LAYER_NORM */
    double scale;     /* EMBEDDING: factor of the rows */
    double drop;      /* DROPOUT, ATTENTION (of the probabilities): the part that is dropped */
    int whole_length; /* ATTENTION: as bst_graph's */
};

struct bst_window { /* of a convolution or a pooling; square, as in every net here */
    int kernel, stride, pad;
};

struct bst_node {
    enum bst_op op;
    char *name;         /* "layer1.0.conv1"; unique */
    int in[BST_MAX_IN]; /* values; -1 where there is none */
    int out;            /* value; -1 for the loss */
    int params[4]; /* conv, linear: weight, bias; BN: scale, shift, mean, var; LN: scale, shift;
                      -1 where none. Two nodes may share one */
    struct bst_window window;
    struct bst_attr attr;
};

struct bst_graph {
    int micro_batch;
    struct bst_node *nodes; /* in an order in which every value is made before it is used */
    int n_nodes, room_nodes;
    struct bst_shape *values;
    int n_values, room_values;
    struct bst_param *params;
    int n_params, room_params;
    float mean[4], std[4]; /* of BST_OP_IMAGE, per channel, in 0…1; set by the net */
    int classes;
    int length[BST_MAX_STREAMS]; /* tokens a sample in each stream; 0: not read */
    /* Tokens of a row in all streams, where the net is built for rows that were cut shorter; else
     * 0. Only the numbering of what dropout drops goes by it. */
    int whole_length;
    int n_sites;
    enum bst_err err;
    char err_text[256];
};

struct bst_graph *bst_graph_new(int micro_batch);
void bst_graph_free(struct bst_graph *g);
/* First error met while building, as a result. */
BST_MUST_USE enum bst_err bst_graph_check(const struct bst_graph *g);

int bst_graph_image(struct bst_graph *g, int channels, int height, int width);
int bst_graph_conv2d(struct bst_graph *g, int x, int out_channels, struct bst_window w,
                     const char *name);
int bst_graph_batch_norm(struct bst_graph *g, int x, const char *name);
int bst_graph_relu(struct bst_graph *g, int x, const char *name);
int bst_graph_add(struct bst_graph *g, int x, int y, const char *name);
int bst_graph_max_pool(struct bst_graph *g, int x, struct bst_window w, const char *name);
int bst_graph_global_avg_pool(struct bst_graph *g, int x, const char *name);
int bst_graph_linear(struct bst_graph *g, int x, int out, const char *name);
void bst_graph_softmax_ce(struct bst_graph *g, int x, const char *name);

#endif
