/* Private to core/graph: how the builder reports. */
#ifndef BST_GRAPH_BUILD_H
#define BST_GRAPH_BUILD_H

#include "core/graph/graph.h"

/* Keeps the first error of the graph; always -1, the number of no value. */
int bst_graph_fail(struct bst_graph *g, enum bst_err err, const char *fmt, ...) BST_PRINTF(3, 4);

#endif
