/* Training as PyTorch does it: what the parity tests and their driver share. A case is a net and
 * the settings of its updates, on Fashion-MNIST in the files' order or on a generated set of
 * sequences in its own; weights start as the trainer's own for seed 1. */
#ifndef TESTS_NET_PARITY_H
#define TESTS_NET_PARITY_H

#include "core/train/train.h"

#define PARITY_MAX_GROUPS 4

struct parity_seq { /* length 0: the net is one over images */
    int length, vocabulary, layers, heads, hidden, positions;
    bool norm_first;
    const char *format;
    enum bst_optimizer optimizer; /* SGD: that of the images' cases */
    double epsilon;
    int clip_interval; /* updates; clipped is every one that it divides, counted from 1 */
};

struct parity_case {
    const char *name, *net;
    int width;
    enum bst_stem stem;
    int batch, micro_batches;
    double lr, momentum, weight_decay, smoothing, max_grad_norm;
    bool nesterov;
    int n_groups;
    struct bst_lr_group groups[PARITY_MAX_GROUPS];
    struct parity_seq seq;
};

struct parity { /* one trainer on one backend */
    struct parity_case c;
    struct bst_trainer *t;
    struct bst_trainer *plain; /* the same under SGD, whose momenta can hold a gradient; may be t */
};

/* Any failure prints and ends the program. */
void parity_must(enum bst_err err, const char *what);
void parity_open(struct parity *p, const struct parity_case *c, const char *backend, int ranks);
void parity_close(struct parity *p);
/* Update number u, 0-based, on samples u·batch, u·batch+1, … */
struct bst_update_result parity_update(struct parity *p, int u);
/* The gradient of update u at the weights and statistics there are, before clipping; statistics
 * move. */
struct bst_update_result parity_gradient(struct parity *p, int u);
void parity_save_gradient(struct parity *p, const char *path); /* the last one, as momenta */
void parity_load(struct parity *p, const char *weights,
                 const char *momenta); /* NULL: not that one */
void parity_save(struct parity *p, const char *weights, const char *momenta);
/* What the case is trained on. */
struct bst_data_cfg parity_data(const struct parity_case *c);

#endif
