/* The contract of a backend. One context (struct bst_be) drives one device and belongs to one
 * rank's thread, which alone may call it after open(). The list of backends is backends.c.
 *
 * "Real" below is the backend's number type: float, or double for ref64. Blocks (weights,
 * gradients, optimizer state) are laid out by the parameter table; padding inside a blocked layout
 * and between parameters is kept zero, so that sums over a block are sums over its parameters. */
#ifndef BST_BACKEND_BACKEND_H
#define BST_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "core/backend/commit.h"
#include "core/backend/precision.h"
#include "core/graph/compile.h"

#define BST_LABEL_IGNORED (-100) /* a position that has no target; PyTorch's number */

enum { BST_STEP_SLOTS = 2 }; /* steps without a result that may be on their way at once */

/* What an update gives to its instructions. Host memory, valid until bst_program_run() returns; of
 * a step without a result until steps_left() says so. */
struct bst_step {
    const uint8_t *images;                   /* [n, H, W, C] */
    const int32_t *labels;                   /* [n], of sequences [n, T] */
    const int32_t *tokens[BST_MAX_STREAMS];  /* [n, T of the stream] */
    const int32_t *lengths[BST_MAX_STREAMS]; /* [n], what is behind is padding; NULL: none is */
    int n_valid; /* samples that count: evaluation may fill a batch in part; training: all */
    const int32_t *pair; /* [n], labels of a second loss */
    double pair_scale;   /* 1 / samples of the whole update: of the second loss's gradient */
    double grad_scale;   /* 1 / targets of the whole update: dlogits = (p - t) · grad_scale */
    /* Dropout's masks are a function of these two, the place in the net and the element of the
     * sample (drop.h): whatever the split, a second run and a resumed one drop the same. */
    uint64_t seed;
    uint64_t position; /* in the stream of samples, of sample 0; sample i is position + i */
    double label_smoothing;
    bool accumulate;                /* add to the parameter gradients instead of overwriting */
    bool only_matmul;               /* bench: run nothing but convolutions and linear layers */
    struct bst_step_result *result; /* added to; NULL, of a backend with commit(): what the program
                                       comes to is kept, and comes back with the commit */
    /* Without a result: the block from alloc_host() that the arrays above lie in, and device memory
     * of BST_STEP_SLOTS · input_bytes(block_bytes) that it is copied to beside the work. */
    const void *block;
    size_t block_bytes;
    void *input;
};

/* SGD as PyTorch writes it:
 *     g = grad_factor·g + wd·w;  v = first ? g : μv + g;  d = nesterov ? g + μv : v;  w -= lr·d
 * With μ = 0 there is no v (NULL). */
struct bst_sgd {
    double lr, momentum, weight_decay, grad_factor;
    bool nesterov, first;
};

struct bst_device_info {
    char name[96];
    char isa[32];     /* "avx2", "avx512", "plain" */
    char library[64]; /* "oneDNN 2.6.3" */
    char uuid[48];    /* of a GPU, as its driver has it: "GPU-…"; else "" */
    int threads;
};

struct bst_plan_for;
struct bst_sb;

struct bst_be_cfg {
    int rank;
    const char *device;  /* which one: its number or UUID; NULL: that of the rank's number */
    double wait_seconds; /* for a device that does not answer, and for other ranks; 0: 60 */
    int threads;         /* this rank's team; at least 1 */
    enum bst_precision precision;        /* one that the backend has */
    bool autotune;                       /* may choose by measured time, see choices() */
    bool capture;                        /* run_some() may keep what it asked for and repeat it */
    const struct bst_plan_for *plan_for; /* a GPU that is not here (plan_for.h), or NULL */
};

/* What run() is given for an instruction, in one piece; for a backend to hand on. */
struct bst_call {
    const struct bst_program *p;
    const struct bst_instr *in;
    void *const *src;
    void *const *dst;
    void *scratch;
    const struct bst_step *step;
};

/* Collectives between the devices of ranks, by their maker's library (NCCL). A rank's end belongs
 * to its context and its thread. A collective is put on the context's queue and is waited for with
 * it; whoever waits looks again and again whether the library reports a failure, `given_up` is set
 * or wait_seconds have gone by, and then leaves the collective, here alone. After a failure the end
 * is broken until all ranks have left and joined again. */
enum { BST_LINK_ID = 128 };

struct bst_link_cfg {
    int rank, n_ranks;
    unsigned char id[BST_LINK_ID]; /* from rank 0's name(), the same on all ranks */
    const atomic_bool *given_up; /* another rank has failed; read in every wait, outlives the end */
};

struct bst_link_ops {
    enum bst_err (*name)(struct bst_be *be, unsigned char id[BST_LINK_ID]);
    enum bst_err (*join)(struct bst_be *be, const struct bst_link_cfg *cfg); /* all ranks at once */
    void (*leave)(struct bst_be *be, bool broken); /* broken: without the others */
    bool (*intact)(const struct bst_be *be);
    enum bst_err (*owed)(struct bst_be *be); /* why it was left, where no call has said so yet */
    /* In place. Sums have the same bits on every rank. */
    enum bst_err (*all_reduce)(struct bst_be *be, void *block, size_t bytes);
    enum bst_err (*broadcast)(struct bst_be *be, void *block, size_t bytes, int root);
    enum bst_err (*settle)(struct bst_be *be); /* until those asked for are through */
};

/* Addresses of a rank's four memories while a program runs. */
struct bst_bindings {
    void *base[BST_MEM_N];
};

static inline void *bst_program_address(const struct bst_program *p, const struct bst_bindings *m,
                                        int value)
{
    const struct bst_value *v = &p->values[value];
    return (char *)m->base[v->memory] + v->offset;
}

struct bst_backend {
    const char *name;
    const char *about;
    int elem_bytes;      /* of a real: 4 or 8 */
    bool own_memory;     /* apart from the host's, which then has the loader's images */
    unsigned precisions; /* beside fp32, a bit each: BST_HAS_PRECISION */
    /* Of a module's entry in the list: the backend itself, from the module (module.h). */
    enum bst_err (*load)(const struct bst_backend **out);
    struct bst_describe describe;

    /* open() is called on the rank's own thread, as is everything else. */
    enum bst_err (*open)(const struct bst_be_cfg *cfg, struct bst_be **out);
    void (*close)(struct bst_be *be);
    void (*info)(struct bst_be *be, struct bst_device_info *out);

    /* Device memory, zeroed; host backends take it from bst_alloc, where it is counted. */
    enum bst_err (*alloc)(struct bst_be *be, size_t bytes, void **out);
    void (*free)(struct bst_be *be, void *p, size_t bytes);

    /* Runs one instruction; src, dst and scratch are resolved addresses. */
    enum bst_err (*run)(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step);

    /* Instruction `from` and as many behind it as it takes at once, `to` at most; *next is the
     * first that it left, `from` itself where run() is to take it. NULL: run() takes them all. */
    enum bst_err (*run_some)(struct bst_be *be, const struct bst_program *p,
                             const struct bst_bindings *m, const struct bst_step *step, int from,
                             int to, int *next);

    /* A backend with a queue: run() has asked, and this waits, and adds to step->result what the
     * instructions left for it. Everything else has happened when it returns. Without a result it
     * only marks the step's end. NULL: so has run(). */
    enum bst_err (*finish)(struct bst_be *be, const struct bst_step *step);
    /* Before the first instruction, of a step without a result: its block is on its way. Fewer than
     * BST_STEP_SLOTS are left then. */
    enum bst_err (*begin)(struct bst_be *be, const struct bst_step *step);
    /* Until no more than so many of the steps without a result are still being worked on; the
     * blocks of the others are their owner's again. */
    enum bst_err (*steps_left)(struct bst_be *be, int most);
    /* Host memory that the device copies from by itself (page-locked); NULL: any is as good. */
    enum bst_err (*alloc_host)(struct bst_be *be, size_t bytes, void **out);
    void (*free_host)(struct bst_be *be, void *p, size_t bytes);
    size_t (*input_bytes)(size_t block_bytes);

    /* Bytes between the host and the device's memory; NULL: it is the host's, and both are a copy.
     */
    enum bst_err (*upload)(struct bst_be *be, void *dst, const void *src, size_t bytes);
    enum bst_err (*download)(struct bst_be *be, void *dst, const void *src, size_t bytes);
    /* What is free of the device's memory; NULL: it is the host's. */
    enum bst_err (*memory)(struct bst_be *be, uint64_t *bytes);
    /* Bytes that alloc() has given and free() has not had back; NULL: bst_alloc counts them. */
    uint64_t (*held)(const struct bst_be *be);
    /* NULL: ranks add up by sum() and copy() over each other's blocks. */
    const struct bst_link_ops *link;

    /* What it chose by measuring, as text for a checkpoint, and back before anything has run, so
     * that a run that is resumed computes as before. Of other devices or libraries nothing is
     * taken. NULL: nothing is chosen so. */
    void (*choices)(struct bst_be *be, struct bst_sb *out);
    void (*take_choices)(struct bst_be *be, const char *text);

    /* One parameter-shaped tensor between its place `at` in a block and plain host doubles in shape
     * order. Lossless both ways (a float goes through a double unchanged); import zeroes the
     * padding. */
    enum bst_err (*export_plain)(struct bst_be *be, const struct bst_param_slot *slot,
                                 const void *at, double *out);
    enum bst_err (*import_plain)(struct bst_be *be, const struct bst_param_slot *slot,
                                 const double *in, void *at);

    /* Flat work over `bytes` of a block (whole reals).
     * dst = srcs[0] + srcs[1] + … in that order (the all-reduce's arithmetic); dst may be one of
     * them. */
    enum bst_err (*sum)(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                        size_t bytes);
    enum bst_err (*scale)(struct bst_be *be, void *dst, double factor, size_t bytes);
    enum bst_err (*copy)(struct bst_be *be, void *dst, const void *src, size_t bytes);
    /* Σ x² in double, the same for the same thread count; NaN and Inf come through. */
    enum bst_err (*sum_squares)(struct bst_be *be, const void *x, size_t bytes, double *out);
    /* The same of n tensors, together; NULL: one after another is as good. */
    enum bst_err (*sum_squares_each)(struct bst_be *be, const void *const *x, const size_t *bytes,
                                     int n, double *out);
    enum bst_err (*sgd)(struct bst_be *be, const struct bst_sgd *how, void *w, void *v,
                        const void *g, size_t bytes);
    /* adamw, lamb and lars over all spans, see optim.h; the same bits whatever the thread count. A
     * span's norms are formed in double. NULL: this backend has none of them. */
    enum bst_err (*optimize)(struct bst_be *be, const struct bst_optim *how,
                             const struct bst_span *spans, int n_spans,
                             const struct bst_optim_blocks *blocks);

    /* All of that as one, put on the queue (commit.h); NULL: the caller does it piece by piece.
     * committed() waits for the oldest, once for each; BST_COMMITS may be on their way. What the
     * last one left may be set where none is: it is {1, 0, 0} at first. commit_room() takes what
     * commits of that many need at the start, where being out of memory is still no loss: by the
     * time of a commit other ranks have moved. */
    enum bst_err (*commit_room)(struct bst_be *be, int n_params, int n_spans);
    enum bst_err (*commit)(struct bst_be *be, const struct bst_commit *how);
    enum bst_err (*committed)(struct bst_be *be, struct bst_commit_result *out);
    /* The squared norm of the spans' gradients as they are at this place of the queue: comes back
     * with the next commit, which is of the same spans. */
    enum bst_err (*measure)(struct bst_be *be, const struct bst_commit *how);
    /* copy(), put on the queue. */
    enum bst_err (*copy_later)(struct bst_be *be, void *dst, const void *src, size_t bytes);
    /* After a failure: leaves the link, broken as it may be, and every commit that was not asked
     * for yet. Those that have not happened by now will not. */
    void (*forget)(struct bst_be *be);
    enum bst_err (*set_commit_state)(struct bst_be *be, const struct bst_commit_state *s);
};

#define BST_HAS_PRECISION(backend, p) ((p) == BST_PRECISION_FP32 || (backend)->precisions >> (p)&1u)

/* NULL-terminated; the first is the default. One that is a module has a name, its precisions
 * and load() here, and nothing else: bst_backend_get() loads it. */
extern const struct bst_backend *const bst_backends[];
/* BST_E_NOTFOUND: no such name, or its module or what that needs is missing, in plain words. */
BST_MUST_USE enum bst_err bst_backend_get(const char *name, const struct bst_backend **out);
const struct bst_backend *bst_backend_find(const char *name); /* NULL: bst_backend_get() fails */

/* Runs instructions [from, to) of p, to their end; stops at the first failure. `stop` (may be NULL)
 * is read between instructions: BST_E_CANCELLED once it is not 0. */
BST_MUST_USE enum bst_err bst_program_run(const struct bst_backend *b, const struct bst_program *p,
                                          const struct bst_bindings *m, const struct bst_step *step,
                                          int from, int to, const atomic_int *stop);

#endif
