/* Private to core/graph: how the builders (build.c, build_seq.c) add to a graph and report. One
 * thread. */
#ifndef BST_GRAPH_BUILD_H
#define BST_GRAPH_BUILD_H

#include "core/graph/graph.h"

/* Keeps the first error of the graph; always -1, the number of no value. */
int bst_graph_fail(struct bst_graph *g, enum bst_err err, const char *fmt, ...) BST_PRINTF(3, 4);

/* True when x is a value of that rank (0: of any) and the graph may still grow. */
bool bst_graph_takes(struct bst_graph *g, int x, int rank, const char *name);

/* A node of result shape `s` (NULL: none); its value, or -1. *node may be used until the next one.
 */
int bst_graph_add_node(struct bst_graph *g, enum bst_op op, const char *name, int x, int y,
                       const struct bst_shape *s, struct bst_node **node);
/* The parameter's number. */
int bst_graph_add_param(struct bst_graph *g, const char *layer, const char *suffix,
                        enum bst_param_kind kind, enum bst_init init, const struct bst_shape *s);

struct bst_shape_text { /* "8x64x7x7" */
    char s[96];
};
struct bst_shape_text bst_shape_text(const struct bst_shape *s);

#endif
