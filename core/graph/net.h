/* A net by name: what nets/ hands to core/run through tui/main.c. The table is const and listed by
 * hand in nets/nets.c. */
#ifndef BST_GRAPH_NET_H
#define BST_GRAPH_NET_H

#include "core/graph/graph.h"

enum bst_stem { BST_STEM_DEFAULT, BST_STEM_IMAGENET, BST_STEM_CIFAR };

struct bst_net_cfg {
    const char *name; /* "resnet50"; borrowed */
    int base_width;   /* channels of the first stage; 0: the net's own */
    int classes;
    int in_channels;
    int height, width; /* of the image, pixels */
    enum bst_stem stem;
    float mean[4], std[4]; /* per channel, in 0…1 */
};

struct bst_net {
    const char *name;
    const char *about;
    /* Builds for cfg at g->micro_batch, up to and with the loss. */
    enum bst_err (*build)(const struct bst_net_cfg *cfg, struct bst_graph *g);
};

struct bst_net_table {
    const struct bst_net *nets;
    int n_nets;
};

/* NULL when there is none of that name. */
const struct bst_net *bst_net_find(const struct bst_net_table *t, const char *name);

#endif
