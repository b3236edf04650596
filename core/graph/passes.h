/* Private to core/graph and its tests: what the compiler's passes share. They run in the order of
 * the functions below, each over the whole flat list of instructions. One thread; the caller of
 * bst_pass_init() owns the pass and calls bst_pass_fini() whatever happened. */
#ifndef BST_GRAPH_PASSES_H
#define BST_GRAPH_PASSES_H

#include "core/graph/compile.h"

struct bst_pass_value { /* beside each value of the program */
    int forward;        /* of a gradient: the value it belongs to, whose layout it follows; or -1 */
    bool again;         /* made by a second run */
    bool scratch;
    bool gone;   /* sums that the backend does not make */
    bool input;  /* holds something before the first instruction (tests) */
    bool output; /* is read after the last one (tests) */
};

struct bst_pass {
    const struct bst_graph *g; /* NULL where a test writes the instructions itself */
    const struct bst_describe *d;
    struct bst_be *be;
    struct bst_compile_opts o;
    struct bst_program *p; /* being made; freed by fini unless taken */
    struct bst_pass_value *info;
    int (*inplace)[BST_MAX_DST]; /* beside each instruction, from layout on */
    int room_values, room_instrs;
    uint32_t *slot_layout; /* of parameters; the table gets them only when all went well */
    int *slot_of;          /* graph parameter → slot */
    int *value_of;         /* graph value → value */
    int *grad_of;          /* graph value → its gradient, or -1 */
    int *relu_of;          /* slot of a BN's scale → value behind the ReLU fused with it, or -1 */
    size_t lower_bound;    /* most bytes alive at one time: no plan can need less */
};

enum bst_err bst_pass_init(struct bst_pass *c, const struct bst_graph *g,
                           const struct bst_describe *d, struct bst_be *be,
                           struct bst_param_table *params, const struct bst_compile_opts *o);
void bst_pass_fini(struct bst_pass *c);

void bst_pass_lower(struct bst_pass *c);         /* graph → forward instructions */
void bst_pass_differentiate(struct bst_pass *c); /* appends the backward ones */
void bst_pass_fuse(struct bst_pass *c);
enum bst_err bst_pass_layout(struct bst_pass *c); /* describes all, inserts reorders */
void bst_pass_settle(struct bst_pass *c);         /* layouts and offsets into the parameter table */
void bst_pass_recompute(struct bst_pass *c);      /* second runs into the backward half */
void bst_pass_plan(struct bst_pass *c);           /* offsets in the arena */

/* Most bytes alive at one instruction; `curve` (n_instrs + 2) gets those at each. In place rights
 * are used as the plan would, so the program is one to be thrown away (again.c). */
size_t bst_pass_alive(struct bst_pass *c, size_t *curve);

/* again.c: a copy of c's program, before it is planned, with second runs of the forward
 * instructions in `again`. Made anew each time in the same storage; shares names and handles. */
void bst_again_init(struct bst_pass *t, const struct bst_pass *c);
void bst_again_make(struct bst_pass *t, const struct bst_pass *c, const bool *again);
void bst_again_take(struct bst_pass *c, struct bst_pass *t); /* its program becomes c's */
void bst_again_fini(struct bst_pass *t);

/* For tests, between layout and plan: the value that holds the numbers of v in the plain layout at
 * the end of the program; -1 when the backend has no such reorder. */
int bst_pass_expose(struct bst_pass *c, int v);

/* Values 0 … n_slots-1 are the parameters; this is the gradient of a trained one, the staged copy
 * of a statistic. */
int bst_pass_second(const struct bst_pass *c, int slot);

int bst_pass_add_value(struct bst_pass *c, const struct bst_shape *s);
/* Appends; the name is copied. Valid until the next one. */
struct bst_instr *bst_pass_add_instr(struct bst_pass *c, enum bst_instr_op op, const char *name);
/* Appends `in` as it is, its name too. */
void bst_pass_put_instr(struct bst_pass *c, const struct bst_instr *in,
                        const int inplace[BST_MAX_DST]);
void bst_instr_read(struct bst_instr *in, int value);
void bst_instr_write(struct bst_instr *in, int value);

#endif
