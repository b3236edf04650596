/* Small random nets of the ResNet kind, and some that are not: identity and projection shortcuts,
 * values read three times, ReLUs without batch norm and batch norms without ReLU, pools. The same
 * seed gives the same net at any micro-batch. */
#ifndef TESTS_NET_RANDOM_NET_H
#define TESTS_NET_RANDOM_NET_H

#include "core/graph/graph.h"

#define RANDOM_NET_CLASSES 5

struct random_net {
    uint64_t seed;
    int channels, size; /* of the image */
    bool batch_norm;    /* false: none at all */
};

struct bst_graph *random_net_build(const struct random_net *how, int micro_batch);

#endif
