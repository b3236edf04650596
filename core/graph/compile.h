/* Graph → program: differentiate, fuse, describe, insert reorders, plan memory. On the thread
 * that the backend's context belongs to. */
#ifndef BST_GRAPH_COMPILE_H
#define BST_GRAPH_COMPILE_H

#include "core/graph/describe.h"

/* Which forward instructions run a second time, just before their results are needed in the
 * backward half, instead of leaving them in memory for the whole of both. Changes no number.
 *
 * A block is what lies between two places where one tensor alone goes on, to a convolution, a
 * linear layer or a layer norm: in a ResNet the stem, each residual block, and the head; in a
 * Transformer each attention and each feed-forward part. */
enum bst_recompute_kind {
    BST_RECOMPUTE_NONE,
    BST_RECOMPUTE_AUTO,   /* the cheapest set found with which the arena keeps to `arena_limit` */
    BST_RECOMPUTE_EVERY,  /* all but what enters every n-th block */
    BST_RECOMPUTE_LAYERS, /* the layers whose names match a pattern */
};

struct bst_recompute {
    enum bst_recompute_kind kind;
    int every;
    const char *const *layers; /* anchored fnmatch patterns; a batch norm has taken in the addition
                                  and the ReLU behind it, and keeps its name */
    int n_layers;
    size_t arena_limit; /* bytes; what cannot be met gives the smallest arena found */
};

/* BST_E_ARG when a pattern matches no layer of the net. */
BST_MUST_USE enum bst_err bst_recompute_check(const struct bst_graph *g,
                                              const struct bst_recompute *r);

struct bst_compile_opts {
    bool training;                  /* false: evaluation, with the running statistics */
    bool accumulate;                /* more than one micro-batch makes an update */
    bool no_fuse;                   /* every instruction alone (tests) */
    bool no_alias;                  /* nothing in place (tests) */
    struct bst_recompute recompute; /* of training; borrowed until bst_compile() returns */
};

/* The program borrows `params`, `d` and `be`. On failure *out is NULL and nothing is held. */
BST_MUST_USE enum bst_err bst_compile(const struct bst_graph *g, const struct bst_describe *d,
                                      struct bst_be *be, struct bst_param_table *params,
                                      const struct bst_compile_opts *o, struct bst_program **out);

/* Readable listing, an instruction a line with layouts, bytes and offsets: tests, debugging. */
struct bst_sb;
void bst_program_print(const struct bst_program *p, struct bst_sb *out);

#endif
