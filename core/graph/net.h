/* A net by name: what nets/ hands to core/run through tui/main.c. The table is const and listed by
 * hand in nets/nets.c. Any thread. */
#ifndef BST_GRAPH_NET_H
#define BST_GRAPH_NET_H

#include "core/graph/graph.h"

/* What a net reads. Of sequences, core/data/data.h tells what a sample is made into. */
enum bst_net_input {
    BST_INPUT_IMAGES,
    BST_INPUT_NEXT,      /* one stream of tokens, a label at each position */
    BST_INPUT_TRANSLATE, /* source and target */
    BST_INPUT_MASKED,    /* tokens and segments */
};

enum bst_stem { BST_STEM_DEFAULT, BST_STEM_IMAGENET, BST_STEM_CIFAR };

struct bst_net_cfg {
    const char *name; /* "resnet50"; borrowed */
    int base_width;   /* channels of the first stage; 0: the net's own */
    int classes;
    int in_channels;
    int height, width; /* of the image, pixels */
    enum bst_stem stem;
    float mean[4], std[4]; /* per channel, in 0…1 */
    /* Of nets over sequences: base_width is the model's, classes the vocabulary. 0: the net's own.
     */
    int length[BST_MAX_STREAMS]; /* tokens a sample, as the data have them */
    int layers, heads, hidden;   /* hidden: of the feed-forward part */
    int positions;               /* rows of a learned table of positions */
    double dropout;
    bool norm_first; /* layer norm in front of each part, not behind; transformer alone has both */
};

/* What other programs' files of weights call things. Lists end with NULL. */
struct bst_net_tie {
    const char *copy, *of; /* a tensor that is a parameter once more; that parameter */
};

struct bst_net_names {
    const char *prefix; /* of the body's parameters: a file of the body alone leaves it out */
    bool gamma_beta;    /* a norm's weight and bias may be called so, as in TensorFlow */
    const char *const *buffers;     /* patterns of tensors that hold nothing trained */
    const char *const *head;        /* patterns of parameters that --init may start anew */
    const struct bst_net_tie *ties; /* to {NULL}; or NULL */
};

struct bst_net {
    const char *name;
    const char *about;
    /* Builds for cfg at g->micro_batch, up to and with the loss. */
    enum bst_err (*build)(const struct bst_net_cfg *cfg, struct bst_graph *g);
    enum bst_net_input input;
    const struct bst_net_names *names; /* NULL: PyTorch's counts of batches, and a head called fc */
};

struct bst_net_table {
    const struct bst_net *nets;
    int n_nets;
};

/* NULL when there is none of that name. */
const struct bst_net *bst_net_find(const struct bst_net_table *t, const char *name);

#endif
