/* A bench for instructions: a hand-written program on any backend, with its memories, fed and read
 * as plain doubles. Goes through the compiler's own layout and plan passes, so what runs is what a
 * net runs.
 *
 * Use: rig_open; rig_param…; rig_start; values and instructions by rig_* and bst_pass_*;
 * rig_finish; rig_set…; rig_run; rig_get…; rig_close. Any failure prints and ends the program: a
 * test's right. */
#ifndef TESTS_OPS_RIG_H
#define TESTS_OPS_RIG_H

#include "core/backend/backend.h"
#include "core/graph/passes.h"

#define RIG_MAX_VALUES 32

struct rig {
    const struct bst_backend *b;
    struct bst_be *be;
    struct bst_param_table table;
    struct bst_pass pass;
    struct bst_program *p;
    struct bst_bindings mem;
    size_t bytes[BST_MEM_N];
    int inputs[RIG_MAX_VALUES],
        n_inputs; /* values in the plain layout, in the order of rig_input() */
    int outputs[RIG_MAX_VALUES], n_outputs; /* by rig_output(), plain after rig_finish() */
    bool blocked;                           /* inputs take the layout a convolution's result has */
    struct bst_step step;
    struct bst_step_result result;
};

/* rig_open's variants */
enum {
    RIG_BLOCKED = 1,      /* activations in the backend's own layout, not plain */
    RIG_PLAIN_WEIGHT = 2, /* parameters fixed to the plain layout beforehand */
    RIG_ACCUMULATE = 4,   /* instructions are prepared to add to gradients */
    RIG_NO_ALIAS = 8,
    RIG_N_VARIANTS = 16,
};

/* Of every rig opened from now on whose backend has it; the others compute as always. */
void rig_use_precision(enum bst_precision p);
enum bst_precision rig_precision(const struct bst_backend *b);
void rig_open(struct rig *r, const struct bst_backend *b, int threads, unsigned variant);
int rig_param(struct rig *r, enum bst_param_kind kind,
              const struct bst_shape *s); /* trained ones first */
void rig_start(struct rig *r, int micro_batch, unsigned variant);
int rig_input(struct rig *r, const struct bst_shape *s); /* value in the layout of the variant */
int rig_value(struct rig *r, const struct bst_shape *s, bool raw);
void rig_output(struct rig *r, int value);
void rig_finish(struct rig *r);
void rig_set_input(struct rig *r, int nth, const double *x);
void rig_set_param(struct rig *r, int value, const double *x); /* weight, gradient or staged */
void rig_get_param(struct rig *r, int value, double *x);
void rig_get_output(struct rig *r, int nth, double *x);
const struct bst_shape *rig_output_shape(const struct rig *r, int nth);
void rig_run(struct rig *r);
void rig_close(struct rig *r);

/* Prints bst_err_text() and ends with 1 unless err is BST_OK. */
void rig_must(enum bst_err err, const char *what);

/* Reals of a backend, on its device ↔ doubles, densely. */
void rig_store(const struct bst_backend *b, struct bst_be *be, void *to, const double *from,
               int64_t n);
void rig_load(const struct bst_backend *b, struct bst_be *be, double *to, const void *from,
              int64_t n);
/* Bytes to the device; and one byte all over. */
void rig_put(const struct bst_backend *b, struct bst_be *be, void *to, const void *from,
             size_t bytes);
void rig_fill(const struct bst_backend *b, struct bst_be *be, void *to, int byte, size_t bytes);

#endif
