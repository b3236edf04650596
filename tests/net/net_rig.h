/* A bench for whole nets: programs of one parameter table on one backend, with their memories. Any
 * failure prints and ends the program: a test's right.
 *
 * Use: net_open; net_compile as often as wanted; net_alloc; net_fill; net_run…; net_close. */
#ifndef TESTS_NET_NET_RIG_H
#define TESTS_NET_NET_RIG_H

#include "core/backend/backend.h"

#define NET_MAX_PROGRAMS 8

struct net_rig {
    const struct bst_backend *b;
    struct bst_describe describe; /* the backend's, unless a test replaces it before compiling */
    struct bst_be *be;
    struct bst_param_table *table;
    struct bst_program *programs[NET_MAX_PROGRAMS];
    int n_programs;
    struct bst_bindings mem;
    size_t bytes[BST_MEM_N];
    struct bst_step_result result; /* of the last net_run() */
};

struct net_batch { /* images and labels of any number of samples, owned */
    int n, channels, height, width;
    uint8_t *images; /* [n, H, W, C] */
    int32_t *labels;
};

void net_must(enum bst_err err, const char *what);

/* Of every rig opened from now on whose backend has it; the others compute as always. */
void net_use_precision(enum bst_precision p);
void net_open(struct net_rig *r, const struct bst_backend *b, int threads);
/* Takes the graph; the program's number. */
int net_compile(struct net_rig *r, struct bst_graph *g, const struct bst_compile_opts *o);
void net_alloc(struct net_rig *r);
/* Random parameters that floats hold exactly, the same for every layout. */
void net_fill(struct net_rig *r, uint64_t seed);
void net_close(struct net_rig *r);

struct net_pass {
    int program, first; /* which; from which sample of the batch */
    bool accumulate;
    double grad_scale, smoothing;
};
/* Poisons the arena with NaN, then runs all of the program, or the first half without gradients. */
void net_run(struct net_rig *r, const struct net_batch *batch, const struct net_pass *pass);

/* The same with a step of the caller's, whose result it sets. */
void net_run_step(struct net_rig *r, int program, struct bst_step *step);

/* One parameter-shaped tensor of a memory as doubles; statistics in BST_MEM_STAGED or _WEIGHT. */
void net_get(struct net_rig *r, enum bst_memory m, int slot, double *out);
void net_set(struct net_rig *r, enum bst_memory m, int slot, const double *in);
void net_stage(struct net_rig *r); /* committed statistics → staged ones */

void net_batch_make(struct net_batch *b, int n, int channels, int size, int classes, uint64_t seed);
void net_batch_free(struct net_batch *b);

#endif
