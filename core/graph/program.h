/* A compiled net: a flat list of instructions over numbered buffers with offsets. Every byte is
 * known before anything is allocated. Made by bst_compile() (compile.h) for one backend context and
 * one micro-batch; read-only while it runs. */
#ifndef BST_GRAPH_PROGRAM_H
#define BST_GRAPH_PROGRAM_H

#include "core/graph/graph.h"

/* clang-format off */
enum bst_instr_op {          /* results        <- sources */
    BST_I_IMAGE,             /* image          <- the step's images (uint8 NHWC) */
    BST_I_CONV_FWD,          /* y              <- x, weight */
    BST_I_CONV_BWD_DATA,     /* dx             <- dy, weight */
    BST_I_CONV_BWD_WEIGHT,   /* dweight        <- x, dy */
    BST_I_BN_TRAIN,          /* y, saved       <- x, scale, shift, staged mean and var[, residual] */
    BST_I_BN_INFER,          /* y              <- x, scale, shift, mean, var[, residual] */
    BST_I_BN_BWD,            /* dx, dscale, dshift[, dresidual]
                                               <- x, dy, scale, shift, saved[, y][, dy2] */
    BST_I_RELU_FWD,          /* y              <- x */
    BST_I_RELU_BWD,          /* dx             <- dy, y */
    BST_I_ADD,               /* z              <- x, y; also sums of gradients */
    BST_I_MAX_POOL_FWD,      /* y[, index]     <- x */
    BST_I_MAX_POOL_BWD,      /* dx             <- dy, index */
    BST_I_AVG_POOL_FWD,      /* y              <- x */
    BST_I_AVG_POOL_BWD,      /* dx             <- dy */
    BST_I_LINEAR_FWD,        /* y[, u]         <- x, weight[, bias] */
    BST_I_LINEAR_BWD_DATA,   /* dx             <- dy, weight */
    BST_I_LINEAR_BWD_WEIGHT, /* dweight[, dbias] <- x, dy */
    BST_I_SOFTMAX_CE,        /* [dlogits]      <- logits, the step's labels; adds to its result */
    BST_I_EMBED_FWD,         /* y              <- table, the step's tokens */
    BST_I_EMBED_BWD,         /* dtable         <- dy, the step's tokens */
    BST_I_POSITION_FWD,      /* y              <- x, table */
    BST_I_POSITION_BWD,      /* dtable         <- dy */
    BST_I_SINUSOID,          /* y              <- x */
    BST_I_LN_FWD,            /* y[, saved]     <- x, scale, shift */
    BST_I_LN_BWD,            /* dx, dscale, dshift <- dy, x, scale, saved */
    BST_I_GELU_FWD,          /* y              <- x */
    BST_I_GELU_BWD,          /* dx             <- dy, x */
    BST_I_TANH_FWD,          /* y              <- x */
    BST_I_TANH_BWD,          /* dx             <- dy, y */
    BST_I_FIRST_FWD,         /* y              <- x */
    BST_I_FIRST_BWD,         /* dx             <- dy */
    BST_I_DROPOUT,           /* y              <- x; and backward dx <- dy, by the same mask */
    BST_I_ATTN_FWD,          /* y[, lse]       <- q, k, v | qkv */
    BST_I_ATTN_BWD,          /* dq, dk, dv     <- dy, q, k, v, y, lse | dqkv <- dy, qkv, y, lse */
    BST_I_REORDER,           /* dst            <- src: same numbers, other layout */
    BST_I_N_OPS
};
/* clang-format on */
/* Every destination is overwritten, but one in BST_MEM_GRAD (dweight, dbias, dscale, dshift) is
 * added to when the step says `accumulate`, or when the bit of the destination in `adds` is
 * set: the parameter has another use, whose instruction ran before. Where the layout a backend
 * wants for a gradient is not the parameter's, the compiler makes the instruction write a value in
 * the arena, which is overwritten like any other, and puts a BST_I_REORDER into BST_MEM_GRAD behind
 * it: that one then adds. So the rule for a backend is one: a destination is added to if
 * p->values[in->dst[i]].memory is BST_MEM_GRAD and step->accumulate or bit i of in->adds. */
const char *bst_instr_op_name(enum bst_instr_op op);

enum {
    BST_IF_RELU = 1,     /* BN_*: a ReLU follows and is part of the instruction */
    BST_IF_RESIDUAL = 2, /* BN_*: a residual is added before the ReLU. BN_BWD then reads y for the
                            mask and writes dresidual, the gradient behind the ReLU */
    BST_IF_DY2 = 4,      /* BN_BWD: the incoming gradient is dy + dy2 (dy2 is the last source) */
    BST_IF_AGAIN = 8,    /* BN_TRAIN, a second run: the statistics are those saved by the first, the
                            last source; writes y alone and moves no running statistic */
    BST_IF_SUM = 32,     /* CONV_BWD_DATA: dx is added to the last source, another share of the same
                            gradient */
    BST_IF_STATS = 64,   /* CONV_FWD: the sums that a batch norm behind it needs are a second, raw
                            result. BN_TRAIN: they are its last source */
    BST_IF_GELU = 16, /* LINEAR_FWD: a GELU follows and is part of the instruction; u, what it was
                         applied to, is a second result where backward reads it */
};

enum bst_memory {
    BST_MEM_WEIGHT, /* trained parameters, then running statistics, in table order */
    BST_MEM_GRAD,   /* gradients, at the offsets of their parameters */
    BST_MEM_STAGED, /* running statistics of the update that is not committed yet */
    BST_MEM_ARENA,  /* activations, their gradients, scratch: planned by liveness */
    BST_MEM_N
};

/* A layout is a backend's own number; plain means dense, in the order of the shape. */
#define BST_LAYOUT_PLAIN 0u
#define BST_LAYOUT_ANY 0xffffffffu

struct bst_value {
    struct bst_shape shape;
    uint32_t layout; /* BST_LAYOUT_ANY until an instruction fixes it */
    enum bst_memory memory;
    int param; /* index in the parameter table, or -1 */
    bool raw;  /* bytes, not reals: BN's saved statistics, pool indices, scratch */
    size_t bytes, offset;
    int first, last; /* instructions that write it first and use it last */
    int alias;       /* value whose bytes it takes over in place, or -1 */
};

#define BST_MAX_SRC 8
#define BST_MAX_DST 4

struct bst_instr {
    enum bst_instr_op op;
    unsigned flags;
    unsigned adds; /* bit k: destination k, a parameter's gradient, is added to in any case */
    struct bst_window window;
    struct bst_attr attr;
    int src[BST_MAX_SRC], n_src; /* values */
    int dst[BST_MAX_DST], n_dst;
    int scratch;      /* value or -1 */
    const char *name; /* of the node it came from; owned by the program */
    void *handle;     /* the backend's: primitives for this instruction */
    bool again;       /* second run, in the backward half, of a forward instruction, whose name and
                         handle it shares; it must give the same bits */
};

/* ATTN_*: queries, keys and values lie side by side in one value, as their gradients do. */
static inline bool bst_instr_is_packed(const struct bst_instr *in)
{
    return in->n_src == (in->op == BST_I_ATTN_FWD ? 1 : 4);
}

/* What of the arena is alive when most is, the gaps that the plan could not fill added: the sum is
 * arena_bytes. */
struct bst_peak {
    size_t activations; /* results of forward instructions, also where a gradient is written over
                           one when its use is over */
    size_t recomputed;  /* of second runs */
    size_t gradients;   /* of activations, on their way */
    size_t scratch, gaps;
};

/* Parameters are laid out once, by the first program compiled against the table, and stay where
 * they are however the batch changes. Shared by all programs of a rank; owned by the caller. */
struct bst_param_slot {
    char *name;
    enum bst_param_kind kind;
    enum bst_init init;
    double init_scale;
    struct bst_shape shape;
    uint32_t layout;
    size_t bytes;
    size_t offset; /* in BST_MEM_WEIGHT; for trained ones also in BST_MEM_GRAD and in the
                      optimizer's blocks; for statistics less trained_bytes in BST_MEM_STAGED */
};

struct bst_param_table {
    struct bst_param_slot *slots; /* the trained ones first, in the order of the graph */
    int n_slots, n_trained;
    size_t trained_bytes; /* of BST_MEM_GRAD and of one optimizer block */
    size_t state_bytes;   /* of BST_MEM_STAGED; BST_MEM_WEIGHT is the sum of both */
    bool fixed;           /* layouts and offsets are settled */
};

struct bst_program {
    int micro_batch;
    bool training;
    struct bst_value *values;
    int n_values;
    struct bst_instr *instrs;
    int n_instrs, n_forward; /* [0, n_forward) is forward with the loss, the rest backward */
    size_t arena_bytes;      /* peak of the liveness plan */
    size_t activation_bytes; /* of that: alive when backward starts */
    size_t scratch_bytes;    /* of that: the largest scratch of one instruction */
    struct bst_peak peak;
    int n_again;                    /* instructions that are second runs */
    double again_share;             /* their estimated work, as a part of all the rest */
    struct bst_param_table *params; /* borrowed */
    float mean[4], std[4];
    int classes;
    int length[BST_MAX_STREAMS];         /* tokens a sample in each stream of the step */
    const struct bst_describe *describe; /* borrowed, with be: release() of the handles */
    struct bst_be *be;
};

void bst_program_free(struct bst_program *p);

struct bst_param_table *bst_param_table_new(const struct bst_graph *g);
void bst_param_table_free(struct bst_param_table *t);
int bst_param_table_find(const struct bst_param_table *t, const char *name); /* -1: none */

#endif
