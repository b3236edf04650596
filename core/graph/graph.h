/* What a net is: values, operations, parameters. Built once for a micro-batch by a function of
 * nets/, read by the compiler (compile.h), never changed afterwards. One thread.
 *
 * Builder functions return a value's number, or -1 once anything failed; they accept -1, so a net
 * is written straight through and bst_graph_check() reports the first error. Shapes are NCHW; a
 * matrix is [N, C]. Parameter names are the ones PyTorch users know: "layer1.0.conv1" gives
 * "layer1.0.conv1.weight". */
#ifndef BST_GRAPH_GRAPH_H
#define BST_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

#define BST_MAX_RANK 4

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
    BST_OP_LINEAR,          /* [N,C] → [N,K], with bias */
    BST_OP_SOFTMAX_CE,      /* [N,K] and labels → loss; ends a graph */
};

enum bst_param_kind {
    BST_PARAM_CONV_WEIGHT,   /* OIHW */
    BST_PARAM_LINEAR_WEIGHT, /* [out, in] */
    BST_PARAM_BIAS,
    BST_PARAM_BN_SCALE,
    BST_PARAM_BN_SHIFT,
    BST_PARAM_BN_MEAN, /* running statistics: saved, not trained */
    BST_PARAM_BN_VAR,
};
#define BST_PARAM_IS_TRAINED(kind) ((kind) < BST_PARAM_BN_MEAN)

enum bst_init { BST_INIT_ZERO, BST_INIT_ONE, BST_INIT_KAIMING_FAN_OUT, BST_INIT_UNIFORM_FAN_IN };

struct bst_param {
    char *name; /* "layer1.0.bn1.running_mean" */
    enum bst_param_kind kind;
    enum bst_init init;
    struct bst_shape shape;
};

struct bst_window { /* of a convolution or a pooling; square, as in every net here */
    int kernel, stride, pad;
};

struct bst_node {
    enum bst_op op;
    char *name;    /* "layer1.0.conv1"; unique */
    int in[2];     /* values; -1 where there is none */
    int out;       /* value; -1 for the loss */
    int params[4]; /* conv, linear: weight, bias; BN: scale, shift, mean, var; -1 where none */
    struct bst_window window;
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
