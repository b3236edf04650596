/* The trainer: one net on R ranks, advanced one update at a time. The session (core/run) owns it
 * and calls it from one thread; each rank has a thread of its own inside. Every number that may
 * change while the run lives comes in with the call, so a change is a matter of what the next call
 * says. */
#ifndef BST_TRAIN_TRAIN_H
#define BST_TRAIN_TRAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/backend/backend.h"
#include "core/data/data.h"
#include "core/graph/net.h"
#include "core/tune/noise.h"
#include "core/tune/optimizer.h"

struct bst_lr_group { /* anchored fnmatch pattern over parameter names; first match wins */
    const char *match;
    double factor; /* of the learning rate; 0 freezes: no update, no part in the global norm */
    double weight_decay; /* < 0: the run's own */
};

/* What of the optimizer never changes; struct bst_update_req brings the rest. */
struct bst_optim_cfg {
    enum bst_optimizer kind;
    double beta1, beta2, epsilon; /* adamw, lamb */
    double trust;                 /* lars: η */
};

struct bst_cluster;

struct bst_train_cfg { /* fixed at the start; strings borrowed for the trainer's life */
    const struct bst_net *net;
    struct bst_net_cfg net_cfg; /* height, width, in_channels, classes of 0: the data's */
    const struct bst_backend *backend;
    int ranks;                   /* of the whole run */
    struct bst_cluster *cluster; /* NULL: all are this process's; else dealt in equal parts */
    /* This process's, by rank: number or UUID; NULL: rank r has device r, counted from the first
     * process of its machine. */
    const char *const *devices;
    double wait_seconds; /* for a device or another rank that does not answer; 0: 60 */
    int threads;         /* a rank; 0: cores divided among ranks */
    enum bst_precision precision;
    bool capture;  /* the backend may keep what an update asks of a device, and repeat it */
    bool autotune; /* the backend may choose by measured time, see bst_trainer_choices() */
    uint64_t memory_per_rank; /* bytes; 0: what the machine has, see bst_trainer_memory_default() */
    struct bst_data_cfg data;
    bool shuffle;
    uint64_t seed;
    int eval_batch; /* 0: chosen to fit */
    const struct bst_lr_group *groups;
    int n_groups;
    struct bst_optim_cfg optim;
    bool decay_bn_and_bias;         /* weight decay on BN parameters and biases too */
    struct bst_recompute recompute; /* arena_limit: what the memory leaves, worked out by split */
    const char *trace_path;         /* --trace-samples; NULL: none */
    bool plan_only;                 /* nothing is allocated and nothing runs: for plans alone */
    const struct bst_plan_for *plan_for; /* with that: for a GPU that is not here, or NULL */
};

/* What one update uses. */
struct bst_update_req { /* {batch, micro_batches} other than the split in force: swapped to first */
    uint64_t first;     /* stream position */
    int64_t batch;      /* global */
    int micro_batches;  /* a rank: the split's k */
    double lr, momentum, weight_decay;
    bool nesterov;
    double label_smoothing;
    double max_grad_norm;   /* 0: no clipping this time */
    double momentum_factor; /* multiplies v beforehand (momentum correction); 0 or 1: nothing */
    uint64_t update;        /* 1-based number of this update, for the trace; 0: not in the trace */
    bool only_matmul;       /* bench: convolutions and linear layers alone; no state moves */
    bool noise;  /* measure the gradient of a part too; changes no number of the update */
    bool layers; /* the weights' norms behind it come with its result, for _layers() */
};

struct bst_update_result {
    double loss; /* mean over the update's samples, of sequences over their targets; with that of
                    a second loss, over samples, added */
    double accuracy;  /* top-1 of them, 0…1 */
    double exact;     /* 0…1 of the samples: every target right; NaN where they are no answers */
    double grad_norm; /* before clipping, of the averaged gradient */
    bool nonfinite, skipped, clipped;
    bool overflowed; /* skipped for a loss scale that was too large, which is halved: no fault */
    bool alone;      /* the losses are rank 0's: another rank failed, and did not say its own */
    /* Name of the parameter whose gradient went non-finite before the others', or NULL. Backward
     * runs from the loss to the images, so behind a finite loss it is the one nearest to it. */
    const char *first_nonfinite;
    double loss_scale; /* that the loss was multiplied by; 1 where it is not scaled */
    double seconds, data_wait_seconds; /* seconds: since the result before it, where they overlap */
    int n_zero;                        /* parameters being trained whose gradient was exactly 0 */
    int n_bad;                         /* samples that could not be read */
    /* What the update really used, counted where it was used (not copied from the request), so that
     * a change can be read back: samples the ranks took, the largest micro-batch and the most
     * micro-batches a rank that ran, and the numbers the optimizer was called with (factor 1). */
    int64_t samples_used, tokens_used; /* tokens: of sequences, padding not counted */
    int64_t targets_used;              /* labels that counted: what the loss is the mean over */
    int64_t positions_used;            /* where there is padding: that were computed, with it */
    int micro_largest, micro_used;
    double lr_used, momentum_used, weight_decay_used; /* momentum: 0 where there is none */
    /* Where it was asked for and the update had parts: of several ranks each one's sum before they
     * are added up, else the first micro-batch. b_small 0: not measured. */
    struct bst_noise_pair noise;
    double noise_seconds; /* that it took, of the slowest rank */
    /* What ranks spent on their micro-batches, waiting for data left out; by the device's clock
     * where it has a queue. */
    double busy_mean, busy_most;
};

/* It is not finite, and not for want of a smaller loss scale. */
static inline bool bst_update_lost(const struct bst_update_result *r)
{
    return r->nonfinite && !r->overflowed;
}

struct bst_layer_norm { /* one trained parameter */
    const char *name;
    double grad_norm, weight_norm;
};

struct bst_rank_memory {                            /* bytes of one rank, planned = asked for */
    uint64_t weights, gradients, optimizer, staged; /* staged: BN statistics not committed yet */
    uint64_t hold;        /* room for bst_trainer_hold(), reserved from the start */
    uint64_t activations; /* of the arena: alive when backward starts */
    uint64_t arena, loader, total;
    uint64_t host;        /* the loader's, where the device has a memory of its own: not in total;
                             `loader` is then what batches are copied to */
    struct bst_peak peak; /* the arena's parts when most is alive */
    int n_again;          /* instructions of the largest micro-batch that run a second time */
    double again_share;   /* their estimated work, as a part of all the rest */
    uint64_t limit, held; /* held: counted by the allocator on the rank's thread */
};

struct bst_trainer;

BST_MUST_USE enum bst_err bst_trainer_open(const struct bst_train_cfg *cfg,
                                           struct bst_trainer **out);
void bst_trainer_close(struct bst_trainer *t);

/* Of several processes the first one's session calls what follows. The others give this call alone:
 * it makes the same calls as they are made there, until the trainer is closed there, and then it is
 * for the caller to close. BST_E_PEER: the first process, or another, is lost.
 *
 * A call gives the same result and error on all. What reads rank 0's state (saving, hashes, norms,
 * keeping) is the first process's own affair: it can be had when the others are lost. */
BST_MUST_USE enum bst_err bst_trainer_follow(struct bst_trainer *t);
int bst_trainer_ranks_here(const struct bst_trainer *t);

/* Bytes a rank would need for this split, without allocating; the plan itself is kept for the
 * change that may follow. BST_E_NOMEM (with both sizes in the text) when it exceeds the limit. */
BST_MUST_USE enum bst_err bst_trainer_plan(struct bst_trainer *t, int64_t batch, int micro_batches,
                                           struct bst_rank_memory *out);
/* Another limit than the configuration's, for the plans made from now on; not with a cluster. */
void bst_trainer_set_limit(struct bst_trainer *t, uint64_t bytes);
/* Largest micro-batch of which k a rank fit, 1 … most; 0 and BST_E_NOMEM when none does. */
BST_MUST_USE enum bst_err bst_trainer_largest(struct bst_trainer *t, int most, int k, int *out);
/* The same for however many. */
BST_MUST_USE enum bst_err bst_trainer_largest_micro(struct bst_trainer *t, int most, int *out);
/* Swaps to the programs and the arena of this split on every rank; the old ones stay in force on
 * failure. Never two arenas at once. `replan_seconds` may be NULL. */
BST_MUST_USE enum bst_err bst_trainer_set_split(struct bst_trainer *t, int64_t batch,
                                                int micro_batches, double *replan_seconds);

/* Whether its state is whole, and rank 0's device, from which it is saved, answers. */
bool bst_trainer_intact(const struct bst_trainer *t);

/* Global batch of the split in force: that of the last update, which may have been cut short. */
int64_t bst_trainer_batch(const struct bst_trainer *t);

/* One update on all ranks. BST_E_CANCELLED when `stop` was set at a micro-batch boundary: nothing
 * moved. */
BST_MUST_USE enum bst_err bst_trainer_update(struct bst_trainer *t,
                                             const struct bst_update_req *req,
                                             const atomic_int *stop, struct bst_update_result *out);

/* The same in two halves, so that nobody waits for a device that has a queue: an update is sent,
 * and its result taken once up to bst_trainer_late() others have been sent behind it; 0: where
 * there is no queue, and an update is over when it was sent. They are taken in the order in which
 * they were sent. While any is on its way, nothing else is asked of the trainer than what it knows
 * already (BST_E_STATE), and none is sent that needs another split.
 *
 * A failure of send() is about the update it was given; those before it are still there to be
 * taken. After one of take() none is on its way any more: the update asked for has not happened,
 * nor have those sent behind it, and the state is that behind the last one that was taken. A result
 * that another rank's failure left incomplete has rank 0's losses; the failure follows. */
enum { BST_UPDATES_LATE = 2 };
int bst_trainer_late(const struct bst_trainer *t);
int bst_trainer_sent(const struct bst_trainer *t); /* on their way */
BST_MUST_USE enum bst_err bst_trainer_send(struct bst_trainer *t, const struct bst_update_req *req,
                                           const atomic_int *stop);
BST_MUST_USE enum bst_err bst_trainer_take(struct bst_trainer *t, struct bst_update_result *out);

struct bst_eval_result {
    double loss, accuracy, seconds; /* means over samples, of sequences over their targets */
    double perplexity; /* of sequences: e to the loss of their targets, without a second loss */
    /* As above. Each target is predicted behind the right ones before it, so this is also the part
     * of the answers that a greedy decoder would write out without a mistake. */
    double exact;
    int64_t samples, targets;
};
/* Whole evaluation part on rank 0's statistics, all ranks working. */
BST_MUST_USE enum bst_err bst_trainer_eval(struct bst_trainer *t, const atomic_int *stop,
                                           struct bst_eval_result *out);
/* A batch a rank of it, from its start: what an evaluation needs, without its time. */
BST_MUST_USE enum bst_err bst_trainer_eval_some(struct bst_trainer *t, const atomic_int *stop,
                                                struct bst_eval_result *out);

/* Tokens of one epoch of the training part, padding not counted; 0 with images. */
uint64_t bst_trainer_epoch_tokens(const struct bst_trainer *t);
const struct bst_data_info *bst_trainer_data(const struct bst_trainer *t);
/* What the backend has chosen by measuring, as text for a checkpoint; "" where it does not. And
 * back, before anything has run. */
void bst_trainer_choices(struct bst_trainer *t, struct bst_sb *out);
void bst_trainer_take_choices(struct bst_trainer *t, const char *text);
int64_t bst_trainer_n_parameters(const struct bst_trainer *t); /* numbers that are trained */
int bst_trainer_classes(const struct bst_trainer *t);          /* outputs of the net */
bool bst_trainer_has_batch_norm(const struct bst_trainer *t);
/* The i-th sample that could not be read, both parts counted; false past the last. Several are
 * found in one update in the order of the ranks that were first. */
bool bst_trainer_bad_sample(const struct bst_trainer *t, int64_t i, struct bst_data_bad *out);
/* Per-parameter norms behind the last update that was taken; n_trained entries, borrowed until the
 * next call. While others are on their way nothing is waited for: the weights' are then those that
 * came with the last update that was to bring them, NaN before the first. */
const struct bst_layer_norm *bst_trainer_layers(struct bst_trainer *t, int *n);
void bst_trainer_memory(const struct bst_trainer *t, int rank, struct bst_rank_memory *out);
void bst_trainer_device(const struct bst_trainer *t, int rank, struct bst_device_info *out);
uint64_t bst_trainer_memory_default(int ranks); /* min(MemAvailable, cgroup limit) · 0.9 / ranks */

/* Updates that moved the weights since the optimizer's state was zero: what adamw and lamb correct
 * their bias by. A skipped update does not count. */
uint64_t bst_trainer_optim_steps(const struct bst_trainer *t);

/* State as named tensors (weights, statistics, and "momentum.<name>" or whatever blocks the
 * optimizer has), rank 0's. */
enum bst_state { BST_STATE_WEIGHTS, BST_STATE_OPTIMIZER };
/* Writes a safetensors file (fsync'ed; fp32, or fp64 for ref64). */
BST_MUST_USE enum bst_err bst_trainer_save(struct bst_trainer *t, enum bst_state what,
                                           const char *path);
/* Loads on every rank; weights also under the names of other programs' files (struct
 * bst_net_names). lenient: a head that is missing or of another shape starts anew; `note` then says
 * so. */
BST_MUST_USE enum bst_err bst_trainer_load(struct bst_trainer *t, enum bst_state what,
                                           const char *path, bool lenient, char *note,
                                           size_t note_room);
uint64_t bst_trainer_state_bytes(const struct bst_trainer *t); /* of both files' data */
/* What a save takes beside the plan while it lasts: room for the largest tensor. */
uint64_t bst_trainer_save_bytes(const struct bst_trainer *t);
/* CRC-32C over weights, statistics and optimizer state in plain order: equal state, equal number.
 */
BST_MUST_USE enum bst_err bst_trainer_hash(struct bst_trainer *t, uint32_t *out);
/* BST_E_CORRUPT when a rank's state is not rank 0's, bit for bit. */
BST_MUST_USE enum bst_err bst_trainer_compare_ranks(struct bst_trainer *t);
/* In-memory copy of the state for undo --rewind and trials; a second take replaces the first. */
BST_MUST_USE enum bst_err bst_trainer_hold(struct bst_trainer *t);
BST_MUST_USE enum bst_err bst_trainer_rewind(struct bst_trainer *t);
/* The state set aside while something is tried out (a search for a batch or a rate); the hold is
 * left alone. Its bytes are taken beside the plan, for as long as it is kept. Putting it back
 * checks that it is the same, bit for bit (BST_E_CORRUPT), and may be done several times. The split
 * is not part of it. Free before the trainer is closed; NULL is fine. */
struct bst_kept;
BST_MUST_USE enum bst_err bst_trainer_keep(struct bst_trainer *t, struct bst_kept **out);
BST_MUST_USE enum bst_err bst_trainer_restore(struct bst_kept *kept);
void bst_trainer_kept_free(struct bst_kept *kept);

#endif
