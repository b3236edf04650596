/* Graph → program: differentiate, fuse, describe, insert reorders, plan memory. */
#ifndef BST_GRAPH_COMPILE_H
#define BST_GRAPH_COMPILE_H

#include "core/graph/describe.h"

struct bst_compile_opts {
    bool training;   /* false: evaluation, with the running statistics */
    bool accumulate; /* more than one micro-batch makes an update */
    bool no_fuse;    /* every instruction alone (tests) */
    bool no_alias;   /* nothing in place (tests) */
};

/* The program borrows `params`, `d` and `be`. On failure *out is NULL and nothing is held. */
BST_MUST_USE enum bst_err bst_compile(const struct bst_graph *g, const struct bst_describe *d,
                                      struct bst_be *be, struct bst_param_table *params,
                                      const struct bst_compile_opts *o, struct bst_program **out);

/* Readable listing, an instruction a line with layouts, bytes and offsets: tests, debugging. */
struct bst_sb;
void bst_program_print(const struct bst_program *p, struct bst_sb *out);

#endif
