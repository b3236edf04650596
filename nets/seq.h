/* What the nets over sequences share: their sizes as the configuration gives them, checked, and the
 * names of their blocks. Any thread. */
#ifndef NET_SEQ_H
#define NET_SEQ_H

#include "core/graph/net.h"

struct net_sizes {
    int vocabulary, positions, width, layers, heads, hidden;
    double dropout;
    bool norm_first; /* of a net that has both ways */
};

enum { NET_NAME = 96 }; /* bytes */

struct net_maker { /* of one net, while it is built */
    struct bst_graph *g;
    struct net_sizes s;
    const char *blocks; /* what their numbers stand behind: "bert.encoder.layer" */
    int block;
    char name[NET_NAME];
};

/* "bert.encoder.layer.3.attention.self.query"; it stays until the next call. */
const char *net_name(struct net_maker *m, const char *part);

/* *s holds the net's own sizes, hidden 0 for four times the width, and gets those that cfg names.
 * The net reads `n_streams` of tokens. */
BST_MUST_USE enum bst_err net_sizes_read(const struct bst_net_cfg *cfg, int n_streams,
                                         struct net_sizes *s);

#endif
