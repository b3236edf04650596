/* One rank's net without a trainer: a compiled program, its memories, generated images or tokens.
 * For the bench and for tests that run whole programs. One thread, the one that opened it. */
#ifndef TESTS_BENCH_RIG_H
#define TESTS_BENCH_RIG_H

#include "core/backend/backend.h"
#include "core/graph/net.h"

struct rig_cfg {
    const char *backend;
    struct bst_net_cfg net;
    int batch, threads;
    struct bst_compile_opts opts;
    enum bst_optimizer optimizer;
    uint64_t seed;
};

struct rig {
    struct rig_cfg cfg;
    const struct bst_backend *b;
    struct bst_be *be;
    struct bst_param_table *params;
    struct bst_program *program;
    struct bst_bindings m;
    size_t bytes[BST_MEM_N];
    void *state; /* the optimizer's blocks; of SGD the momenta */
    size_t state_bytes;
    uint64_t steps;
    struct bst_span *spans; /* of parameters that decay alike; SGD has none */
    int n_spans;
    uint8_t *images;
    int32_t *tokens, *labels;
    struct bst_step step;
    struct bst_step_result result;
};

/* On failure the rig is empty and closed. */
BST_MUST_USE enum bst_err rig_open(struct rig *r, const struct rig_cfg *cfg);
void rig_close(struct rig *r);
/* Forward and backward of one batch; r->result holds its sums. */
BST_MUST_USE enum bst_err rig_pass(struct rig *r);
/* The update behind it: SGD with momentum 0.9, rate 0.1, weight decay 1e-4; or AdamW with rate 3e-4
 * and weight decay 0.1 of what is multiplied. */
BST_MUST_USE enum bst_err rig_update(struct rig *r);
/* A parameter's gradient in the order of its shape; freed by the caller. */
double *rig_gradient(struct rig *r, int slot);
double *rig_weight(struct rig *r, int slot);

#endif
