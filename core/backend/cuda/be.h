/* Inside the CUDA backend: the context of one device, an instruction's prepared state, the table of
 * instructions. A context belongs to one thread, on which its device is the current one.
 *
 * run(), steps without a result, commit(), measure() and copy_later() only put work on the
 * context's stream. Everything else has happened when it returns, so that what one rank's thread
 * has finished may be read by another's. */
#ifndef BST_BACKEND_CUDA_BE_H
#define BST_BACKEND_CUDA_BE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "core/backend/backend.h"
#include "core/backend/cuda/conv_ask.h"
#include "core/backend/cuda/kern.h"
#include "core/backend/plan_for.h"

enum {
    CUDA_ALIGNMENT = 256,
    CUDA_LT_WORKSPACE_MOST = 4 << 20,
    CUDA_SUM_CHUNK = 8 << 20, /* of blocks that are added up */
    CUDA_LOSSES = KERN_LOSSES,
};

struct cuda_link;

/* steps.c's. */
struct cuda_steps {
    cudaStream_t copy;
    cudaEvent_t copied[BST_STEP_SLOTS], done[BST_STEP_SLOTS];
    unsigned n_begun, n_done; /* n_done: of those that are known to be */
    bool is_copying;          /* the stream for copies may have work */
    const char *from;         /* the block of the last one, and where it went */
    char *at;
    size_t bytes;
};

/* What is kept of a commit until it is asked for, beside what lies in struct cuda_update. */
struct cuda_commit_slot {
    cudaEvent_t began, ended, done; /* of the update's steps; the commit itself */
    bool is_timed;                  /* it had steps */
    bool weighs;                    /* the weights' norms come with it */
    int n_params, n_parts;
    uint64_t n_calls; /* collectives in front of it */
};

struct bst_be {
    int device;
    double wait_seconds; /* for the device, and for other ranks */
    bool is_hung;  /* it did not answer in that time: no call that may wait is made any more */
    uint64_t held; /* bytes, by cuda_alloc() */
    struct cuda_link *link; /* NULL: one rank alone, or not joined yet */
    cudaStream_t stream;
    cudnnHandle_t dnn;
    cudnnBackendDescriptor_t device_props;
    cublasLtHandle_t lt;
    bool captures;              /* stretches of programs, as graphs (segment.h) */
    int n_captured;             /* graphs made so far */
    uint64_t clock;             /* of their uses */
    struct cuda_tuned *tuned;   /* plans by measured time (tune.h); NULL: cuDNN's first one */
    enum kern_type type;        /* of activations and of what products are made of */
    bool tf32;                  /* fp32's factors may be rounded to TF32 */
    bool is_steady;             /* the same bits each time, whatever that costs */
    struct cuda_shared *shared; /* plans of cuDNN's that several instructions have (plan.h) */
    /* Of a context that only plans (plan.h): nothing else than these and device_props is set.
     */
    struct bst_plan_for plan_for;
    struct cuda_keep *answers; /* cuDNN's so far; NULL: the context runs */
    bool compiles;             /* and it could be asked for plans that are compiled */
    /* Small results, on the device and where they are read: of the loss and of a second one. */
    struct kern_loss *loss, *loss_host;
    bool loss_is_pending[CUDA_LOSSES];
    int64_t loss_per_sample;      /* rows */
    struct kern_draw_state *draw; /* on the device: what dropout draws from */
    struct kern_draw_state drawn; /* what it was set to, */
    bool is_drawn;                /* once it was */
    double *sums, *sums_host;     /* on the device with the partial sums behind them */
    float *sum_chunk;             /* CUDA_SUM_CHUNK bytes, made when first needed */
    struct kern_scaler *scaler;   /* on the device: what one commit leaves to the next */
    struct cuda_update *update;   /* update.h's */
    struct cuda_steps steps;
    struct cuda_commit_slot commits[BST_COMMITS];
    uint64_t n_commits, n_fetched; /* asked for; of them, whose result was fetched */
};

/* How a tensor lies in memory. Plain is fp32 in the order of the shape; every other layout has the
 * channels last, in a type, padded with zeros to a multiple. For a filter "channels" are its input
 * channels: [out][kernel][kernel][in]. */
struct cuda_form {
    enum kern_type type;
    bool last;
    int64_t n, pixels;
    int c, c_stored;
};
enum cuda_pad { CUDA_PAD_NONE, CUDA_PAD_4, CUDA_PAD_8 };

uint32_t cuda_layout(enum kern_type type, enum cuda_pad pad);
bool cuda_layout_is_last(uint32_t layout, enum kern_type type); /* channels last, in this type */
enum cuda_pad cuda_layout_pad(uint32_t layout);
BST_MUST_USE enum bst_err cuda_form_of(uint32_t layout, const struct bst_shape *s,
                                       struct cuda_form *out);
size_t cuda_layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s);

/* A matrix product by cuBLASLt. */
struct cuda_product {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
};

struct cuda_segment;
struct cuda_sorted;
struct cuda_attn;
struct cuda_shared;

/* What describe() leaves in an instruction. */
struct cuda_handle {
    struct cuda_segment *segments;       /* stretches that begin with it */
    struct cuda_dnn_plan plan, plan_add; /* plan_add: adds to the result; may be missing */
    struct cuda_conv_ask ask;            /* what `plan` is of */
    bool settled;                        /* no other plan will take its place */
    struct cuda_product product;
    struct cuda_form form;  /* of the tensor the instruction is about */
    struct cuda_form other; /* of a second one */
    int chunks;
    size_t workspace;  /* bytes of the scratch that are the library's; the instruction's follow */
    int64_t factor[2]; /* elements of a product's that are rounded into the scratch; or 0 */
    struct cuda_sorted *sorted; /* embed.c's, on the host */
    struct cuda_attn *attn;     /* attention.c's */
};

struct cuda_op {
    enum bst_err (*describe)(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cuda_handle *h);
    enum bst_err (*run)(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c);
};

extern const struct cuda_op cuda_op_image, cuda_op_conv_fwd, cuda_op_conv_bwd_data,
    cuda_op_conv_bwd_weight, cuda_op_bn_train, cuda_op_bn_infer, cuda_op_bn_bwd, cuda_op_relu_fwd,
    cuda_op_relu_bwd, cuda_op_add, cuda_op_max_pool_fwd, cuda_op_max_pool_bwd, cuda_op_avg_pool_fwd,
    cuda_op_avg_pool_bwd, cuda_op_linear_fwd, cuda_op_linear_bwd_data, cuda_op_linear_bwd_weight,
    cuda_op_softmax_ce, cuda_op_embed_fwd, cuda_op_embed_bwd, cuda_op_position_fwd,
    cuda_op_position_bwd, cuda_op_sinusoid, cuda_op_ln_fwd, cuda_op_ln_bwd, cuda_op_gelu_fwd,
    cuda_op_gelu_bwd, cuda_op_tanh_fwd, cuda_op_tanh_bwd, cuda_op_first_fwd, cuda_op_first_bwd,
    cuda_op_dropout, cuda_op_attn_fwd, cuda_op_attn_bwd, cuda_op_reorder;

static inline const struct bst_shape *cuda_src_shape(const struct bst_program *p,
                                                     const struct bst_instr *in, int k)
{
    return &p->values[in->src[k]].shape;
}

static inline const struct bst_shape *cuda_dst_shape(const struct bst_program *p,
                                                     const struct bst_instr *in, int k)
{
    return &p->values[in->dst[k]].shape;
}

/* Whether this call adds to destination i, a parameter's gradient, instead of overwriting it. */
static inline bool cuda_adds(const struct bst_call *c, int i)
{
    return c->p->values[c->in->dst[i]].memory == BST_MEM_GRAD &&
           (c->step->accumulate || c->in->adds >> i & 1u);
}

/* A matrix: all but the last dimension are rows. */
static inline int64_t cuda_width(const struct bst_shape *s)
{
    return s->d[s->rank - 1];
}

static inline int64_t cuda_rows(const struct bst_shape *s)
{
    int64_t rows = 1;

    for (int i = 0; i < s->rank - 1; i++)
        rows *= s->d[i];
    return rows;
}

/* Sequences, [N, T, D], lie dense in the context's type; matrices, vectors and all that belongs to
 * a parameter in fp32. */
static inline enum kern_type cuda_seq_type(const struct bst_be *be, const struct bst_shape *s)
{
    return s->rank == 3 ? be->type : KERN_F32;
}

static inline uint32_t cuda_seq_layout(const struct bst_be *be, const struct bst_shape *s)
{
    const enum kern_type type = cuda_seq_type(be, s);

    return type == KERN_F32 ? BST_LAYOUT_PLAIN : cuda_layout(type, CUDA_PAD_NONE);
}

static inline size_t cuda_round_up(size_t bytes)
{
    return (bytes + CUDA_ALIGNMENT - 1) / CUDA_ALIGNMENT * CUDA_ALIGNMENT;
}

/* Scratch for a reduction's partial sums, two a column: [chunks][2][width], fp32; what follows them
 * is aligned. `chunks` is kern_chunks()'s. */
static inline size_t cuda_partial_bytes(int chunks, int64_t width)
{
    return cuda_round_up((size_t)chunks * 2 * (size_t)width * sizeof(float));
}

static inline void cuda_set_precision(struct bst_be *be, enum bst_precision p)
{
    be->type = p == BST_PRECISION_FP16 ? KERN_F16 : p == BST_PRECISION_BF16 ? KERN_BF16 : KERN_F32;
    be->tf32 = p == BST_PRECISION_TF32;
}

/* device.c: stores the runtime's words and returns what kind of failure it is; BST_OK for success.
 */
enum bst_err cuda_fail(cudaError_t e, const char *what);
enum bst_err cuda_open(const struct bst_be_cfg *cfg, struct bst_be **out);
void cuda_close(struct bst_be *be);
void cuda_info(struct bst_be *be, struct bst_device_info *out);
enum bst_err cuda_alloc(struct bst_be *be, size_t bytes, void **out);
void cuda_free(struct bst_be *be, void *p, size_t bytes);
enum bst_err cuda_upload(struct bst_be *be, void *dst, const void *src, size_t bytes);
enum bst_err cuda_download(struct bst_be *be, void *dst, const void *src, size_t bytes);
/* Until the context's streams are empty. What other ranks have a part in fails here, if it does. */
enum bst_err cuda_wait(struct bst_be *be);
enum bst_err cuda_wait_event(struct bst_be *be, cudaEvent_t event); /* the same, up to it */
void cuda_pause(unsigned *looks); /* between two looks at something; *looks is 0 at first */
enum bst_err cuda_memory(struct bst_be *be, uint64_t *bytes);
uint64_t cuda_held(const struct bst_be *be);

/* link.c */
extern const struct bst_link_ops cuda_link_ops;
/* In a wait; BST_OK: go on waiting. *others: it is the other ranks that are waited for. */
enum bst_err cuda_link_look(struct bst_be *be, bool *others);
uint64_t cuda_link_calls(const struct bst_be *be);           /* collectives so far */
void cuda_link_is_over(struct bst_be *be, uint64_t n_calls); /* so many of them have run */
void cuda_link_give_up(struct bst_be *be); /* leaves the collectives that are on their way */
/* 0 while commits may move something; read by the device. NULL: they always may. */
const int32_t *cuda_link_gate(const struct bst_be *be);
enum bst_err cuda_link_why(struct bst_be *be); /* it was left, in its own words */
void cuda_link_owes(struct bst_be *be);        /* ... and nobody was told */

/* steps.c: slots of struct bst_backend, and what the instructions use. */
size_t cuda_input_bytes(size_t block_bytes);
enum bst_err cuda_steps_open(struct bst_be *be);
void cuda_steps_close(struct bst_be *be);
enum bst_err cuda_begin(struct bst_be *be, const struct bst_step *step);
enum bst_err cuda_step_ends(struct bst_be *be);
enum bst_err cuda_steps_left(struct bst_be *be, int most);
enum bst_err cuda_alloc_host(struct bst_be *be, size_t bytes, void **out);
void cuda_free_host(struct bst_be *be, void *p, size_t bytes);
/* Of BST_STEP_SLOTS places the one that is the step's which is being put on the stream. */
static inline size_t cuda_step_slot(const struct bst_be *be)
{
    return (be->steps.n_begun + BST_STEP_SLOTS - 1) % BST_STEP_SLOTS;
}
/* Where on the device an array of the step lies; NULL: it has to be copied. */
const void *cuda_input(const struct bst_be *be, const struct bst_step *step, const void *host);

/* Numbers in fp32 to the context's type, or back ([+] added to what is there). */
enum bst_err cuda_narrow(struct bst_be *be, void *dst, const float *src, int64_t count);
enum bst_err cuda_widen(struct bst_be *be, float *dst, const void *src, int64_t count, bool add);

static inline bool cuda_is_mixed(const struct bst_be *be)
{
    return be->type != KERN_F32;
}

/* product.c: D = op(A) · op(B) [+ bias, one a row of D], column-major as cuBLASLt counts: A is m×k,
 * B k×n, D m×n after their transpositions. A and B are of the context's type, D and bias of
 * `result`: fp32 or the same. */
struct cuda_product_ask {
    bool transpose_a, transpose_b, bias;
    enum kern_type result;
    int64_t m, n, k;
    int64_t skip_a, skip_d; /* reals that A and D begin behind a buffer's start: their alignment */
    int64_t ld_b;  /* from one column of B to the next, before its transposition; 0: dense */
    int64_t batch; /* so many products, */
    int64_t step_a, step_b, step_d; /* each so many reals behind the one before */
};
BST_MUST_USE enum bst_err cuda_product_init(struct bst_be *be, const struct cuda_product_ask *ask,
                                            struct cuda_product *out);
void cuda_product_fini(struct cuda_product *p); /* a zeroed one is fine */
BST_MUST_USE enum bst_err cuda_product_run(struct bst_be *be, const struct cuda_product *p,
                                           const void *a, const void *b, void *d, const void *bias,
                                           bool add, void *workspace);

/* embed.c */
void cuda_sorted_free(struct bst_be *be, struct cuda_sorted *s); /* NULL is fine */

/* attention.c */
void cuda_attn_free(struct bst_be *be, struct cuda_attn *at); /* NULL is fine */

/* curve.c: what dropout draws from is the step's, from here on in the stream. Asks for nothing
 * where it is already; so a stretch that draws can be captured behind it. */
enum bst_err cuda_draw_ready(struct bst_be *be, const struct bst_step *step);

/* Fills in both ends of an instruction over sequences: every value as cuda_seq_layout() has it. */
void cuda_seq_layouts(const struct bst_be *be, const struct bst_program *p,
                      const struct bst_instr *in, struct bst_wants *w);

/* loss.c: waits for what the program asked for and gives its loss to the step, if it has a result.
 */
enum bst_err cuda_finish(struct bst_be *be, const struct bst_step *step);

/* commit.c, flat.c, optim.c, plain.c: the slots of struct bst_backend of the same names. */
enum bst_err cuda_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                      size_t bytes);
enum bst_err cuda_scale(struct bst_be *be, void *dst, double factor, size_t bytes);
enum bst_err cuda_copy(struct bst_be *be, void *dst, const void *src, size_t bytes);
enum bst_err cuda_copy_later(struct bst_be *be, void *dst, const void *src, size_t bytes);
enum bst_err cuda_sum_squares(struct bst_be *be, const void *x, size_t bytes, double *out);
enum bst_err cuda_sum_squares_each(struct bst_be *be, const void *const *x, const size_t *bytes,
                                   int n, double *out);
enum bst_err cuda_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v, const void *g,
                      size_t bytes);
enum bst_err cuda_optimize(struct bst_be *be, const struct bst_optim *how,
                           const struct bst_span *spans, int n_spans,
                           const struct bst_optim_blocks *blocks);
enum bst_err cuda_commit_room(struct bst_be *be, int n_params, int n_spans);
enum bst_err cuda_commit(struct bst_be *be, const struct bst_commit *how);
enum bst_err cuda_committed(struct bst_be *be, struct bst_commit_result *out);
enum bst_err cuda_measure(struct bst_be *be, const struct bst_commit *how);
void cuda_forget(struct bst_be *be);
enum bst_err cuda_commits_open(struct bst_be *be);
void cuda_commits_close(struct bst_be *be);
enum bst_err cuda_update_begins(struct bst_be *be); /* marks of the time that steps take */
enum bst_err cuda_update_goes_on(struct bst_be *be);
enum bst_err cuda_set_commit_state(struct bst_be *be, const struct bst_commit_state *s);
void cuda_update_free(struct cuda_update *u); /* NULL is fine */
enum bst_err cuda_export_plain(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                               double *out);
enum bst_err cuda_import_plain(struct bst_be *be, const struct bst_param_slot *slot,
                               const double *in, void *at);

#endif
