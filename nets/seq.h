/* What the nets over sequences share: their sizes as the configuration gives them, checked. */
#ifndef NET_SEQ_H
#define NET_SEQ_H

#include "core/graph/net.h"

struct net_sizes {
    int vocabulary, positions, width, layers, heads, hidden;
    double dropout;
};

/* *s holds the net's own sizes, hidden 0 for four times the width, and gets those that cfg names.
 * The net reads `n_streams` of tokens. */
BST_MUST_USE enum bst_err net_sizes_read(const struct bst_net_cfg *cfg, int n_streams,
                                         struct net_sizes *s);

#endif
