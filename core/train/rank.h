/* Inside the trainer: a rank, its thread, memories and programs. Private to core/train.
 *
 * What belongs to a rank is touched by its own thread, in jobs that the session's thread posts and
 * waits for (bst_ranks_do); between jobs the session's thread may read it. */
#ifndef BST_TRAIN_RANK_H
#define BST_TRAIN_RANK_H

#include <pthread.h>

#include "core/comm/comm.h"
#include "core/comm/wide.h"
#include "core/train/train.h"
#include "core/tune/split.h"

enum {
    LENGTHS = 8,        /* of rows, that programs are compiled for where rows end early */
    PROGRAM_CACHE = 40, /* programs kept; those of the split in force never leave */
    LAYOUT_MICRO = 32, /* the micro-batch that fixes the parameters' layouts, whatever the run's is,
                          so that a resumed run has the layouts of the unbroken one */
    SPLIT_SIZES = 4,   /* distinct micro-batches of a split; two unless ranks run empty */
    TRAIN_SLOTS = 3,   /* of the loader: one in use, two being filled; steps that are on their way
                          on a device have theirs beside */
    EVAL_SLOTS = 2,
    EVAL_BATCH_MOST = 256,
    PROBE_MICRO = 8, /* compiled to tell roughly what larger ones need */
};

struct rank_program {
    struct bst_program *p; /* NULL: free */
    bool accumulate;
    int length;         /* rows cut to this; 0: whole */
    size_t arena_limit; /* it was compiled for; 0 where that plays no part */
    uint64_t used;      /* larger is later */
};

/* What programs need; known once they are compiled. */
struct program_need {
    size_t arena, activations;
    struct bst_peak peak; /* of the one whose arena is largest */
    int n_again;
    double again_share;
};

/* What a split asks of every rank. */
struct split_plan {
    int64_t asked_batch; /* as it was asked for; split may have lowered the micro-batches */
    int asked_micros;
    struct bst_split split;
    int sizes[SPLIT_SIZES], n_sizes; /* micro-batches, largest first */
    bool accumulate;
    int eval_batch;
    struct program_need need;
    size_t arena_limit; /* for recomputation on demand: what all else leaves */
    size_t loader;
    size_t input; /* device memory that batches are copied to; 0: there is none of its own */
};

struct rank;
typedef enum bst_err rank_job(struct rank *k, void *arg);

struct part {
    double samples, targets; /* 0: none */
};

struct rank {
    struct bst_trainer *t;
    int rank;
    struct bst_comm *comm;        /* device_comm where there is one, else the group's end */
    struct bst_comm *device_comm; /* NULL: one rank, or devices that have no link */
    struct bst_be *be;
    struct bst_param_table *params;

    struct rank_program programs[PROGRAM_CACHE];
    uint64_t program_clock;
    struct program_need need; /* of the plan compiled last */

    void *weight, *grad, *staged;
    void *optim; /* the optimizer's blocks, one behind the other: t->optim_bytes */
    void *hold_weight, *hold_optim;
    struct bst_span *spans; /* n_runs, filled in at every update */
    void *arena;
    size_t arena_bytes;
    struct bst_loader *loader[2]; /* by enum bst_part */
    int loader_batch[2];
    void *input; /* where the training loader's batches go to on the device */
    size_t input_bytes;
    struct bst_batch lent[BST_STEP_SLOTS]; /* taken, and still read by the device; oldest first */
    int n_lent;
    struct part parts[BST_COMMITS]; /* measured for the noise scale, by place in t->sent */
    int eval_batch;                 /* what fits the arena; 0: not asked yet */

    double *sum_squares;    /* of the last update's gradient, by trained parameter */
    double *weight_squares; /* of the weights behind the last one that was to bring them */
    struct bst_device_info info;
    uint64_t device_free; /* of a device with memory of its own, when it was opened */
    uint64_t held;        /* of the device's memory, else by this thread, after the last job */

    /* Mailbox; guarded by the trainer's lock. */
    pthread_t thread;
    bool started, quit;
    rank_job *job;
    void *arg;
    enum bst_err err;
    bool lost; /* its device does not come back */
    char text[512];
};

/* commit.c's; below. */
struct commit {
    const struct bst_update_req *req;
    double grad_norm, coefficient;
    int first_nonfinite, last_nonfinite; /* trained parameters, or -1 */
    int n_zero;                          /* parameters being trained whose gradient was exactly 0 */
    bool skipped, clipped;
    double lr_used, momentum_used, weight_decay_used; /* what the optimizer was called with */
    double loss_scale;
    struct bst_commit_state after; /* where the backend keeps it */
};

/* What the ranks' micro-batches came to. Numbers, so that one gather tells everybody. */
enum tally {
    T_CANCELLED,
    T_LOSS,
    T_CORRECT,
    T_EXACT,
    T_SAMPLES,
    T_TOKENS,
    T_POSITIONS,
    T_TARGETS,
    T_PAIR_LOSS, /* of the second loss, which is a mean over samples */
    T_TOLD,      /* samples that the losses are of; all, but where a rank could not tell */
    T_BAD,
    T_BAD_STATS,
    T_LARGEST,
    T_MICROS,
    T_WAIT,
    T_PARTS,     /* measured for the noise scale */
    T_PART_NORM, /* their mean gradients' squared norms, added up */
    T_PART_INV,  /* 1 / samples, added up */
    T_PART_TIME,
    T_BUSY,
    T_N,
    T_BUSY_MOST = T_N, /* known once all agree */
    T_ALL
};
_Static_assert((int)T_N <= BST_COMM_SMALL, "one gather tells everybody");

/* An update on its way: asked of the ranks, not taken yet. */
struct sent {
    struct bst_update_req req;
    const atomic_int *stop;
    double targets; /* of the whole update: labels that count; with images its samples */
    bool waits;     /* the ranks stay with it until its gradients are reduced, everywhere */
    bool ahead;     /* it is taken by a call of its own */
    double at;      /* when it was asked for */
    double behind;  /* seconds after the one before it was, if that was on its way still; else 0 */
    /* Rank 0's; of a backend with commit() the losses and what the commit came to only once it is
     * taken. */
    double tally[T_ALL];
    struct commit c;
};

/* Parameters next to each other that the optimizer treats alike; a single one where it is
 * layer-wise. */
struct param_run {
    size_t offset, bytes;
    double factor, weight_decay; /* weight_decay < 0: the update's */
    bool decays;                 /* whether parameters of this kind do */
};

/* What the first process shows of every rank. */
struct rank_shown {
    struct bst_device_info info;
    uint64_t held;
};

struct bst_trainer {
    struct bst_train_cfg cfg;
    int threads;           /* a rank */
    int first, ranks_here; /* of cfg.ranks those from `first` on are this process's */
    uint64_t limit;
    struct bst_dataset *data;
    struct bst_order *order; /* of the training part, to know what an update will take */
    struct bst_comm_local *group;
    struct rank *ranks; /* this process's */

    /* Of several processes; else NULL. */
    struct bst_comm_wide *wide;
    struct rank_shown *shown; /* by rank */
    int on_host, sharing;   /* processes before this one on its machine; that have its very cores */
    uint64_t job;           /* number of the one at hand, the same on all */
    const atomic_int *stop; /* of the call at hand; NULL: none */
    atomic_int told_stop;   /* the first process's is set */
    bool opened;

    pthread_mutex_t lock;
    pthread_cond_t posted, done;
    bool meets; /* the job at hand is all ranks', which meet in it; set between jobs */

    struct split_plan plan; /* in force; split.batch 0: none yet */
    atomic_bool broken;     /* a commit failed half-way: the state is lost */

    double *factor;         /* by trained parameter */
    struct param_run *runs; /* without the frozen ones */
    int n_runs;
    size_t optim_bytes; /* of all the optimizer's blocks */
    bool scales_loss;
    /* What updates leave to each other. A backend that commits by itself has its own copy, which
     * decides; this one follows it. */
    struct bst_commit_state commits, hold_commits;

    struct sent sent[BST_COMMITS]; /* n_sent of them, from first_sent on, in a ring */
    int first_sent, n_sent;
    double taken_at; /* the last one */
    bool moved;      /* rank 0 has made the one that is being taken: what the others go by, too */
    bool apart;      /* after a failure ranks may differ, and their link be broken */
    /* Why the updates on their way cannot all be taken; err 0: they can. */
    struct bst_failure cause;
    bool cause_is_told;

    struct bst_layer_norm *layers;
    bool weight_norms; /* of the present weights, are in layers */
    bool have_hold;

    int trace_fd;
    int64_t *trace; /* indices of the update at hand */
    int64_t trace_room;
};

/* rank.c: runs `job` on the first n_ranks ranks of this process and waits. The error that tells
 * most is returned. No collectives in it: where it fails, that is nobody else's affair. */
BST_MUST_USE enum bst_err bst_ranks_do(struct bst_trainer *t, int n_ranks, rank_job *job,
                                       void *arg);
/* The same on every rank of every process, or on each process's first; all get one error. */
BST_MUST_USE enum bst_err bst_ranks_all(struct bst_trainer *t, rank_job *job, void *arg);
BST_MUST_USE enum bst_err bst_ranks_first(struct bst_trainer *t, rank_job *job, void *arg);
/* What each process has come to by itself, as one error for all. */
BST_MUST_USE enum bst_err bst_ranks_agree(struct bst_trainer *t, enum bst_err err);
BST_MUST_USE enum bst_err bst_ranks_start(struct bst_trainer *t);
void bst_ranks_stop(struct bst_trainer *t);

/* Of its process's ranks: what all of them come to is left to it to write down. */
static inline bool bst_rank_is_first(const struct rank *k)
{
    return k == k->t->ranks;
}

/* crew.c: what only several processes need; in a run of one each is nothing. */
struct crew_request;
enum crew_op {
    CREW_PLAN,
    CREW_LARGEST,
    CREW_SPLIT,
    CREW_UPDATE,
    CREW_SEND,
    CREW_TAKE,
    CREW_EVAL,
    CREW_SHARE,
    CREW_HOLD,
    CREW_REWIND,
    CREW_CHOICES,
    CREW_COMPARE,
    CREW_CLOSE,
};
struct crew_request {
    enum crew_op op;
    union {
        struct {
            int64_t batch;
            int micro_batches;
        } split;
        struct {
            int most, k;
        } largest;
        struct bst_update_req update;
        bool some; /* of an evaluation */
        struct {
            struct bst_commit_state commits;
            bool whole; /* afterwards, whatever an update had left */
        } share;
        size_t bytes; /* of a text that follows */
    } u;
};
/* On the first process: what the others are to do with it. */
BST_MUST_USE enum bst_err bst_crew_lead(struct bst_trainer *t, const struct crew_request *r);
BST_MUST_USE enum bst_err bst_crew_join(struct bst_trainer *t);
BST_MUST_USE enum bst_err bst_crew_same_data(struct bst_trainer *t);
BST_MUST_USE enum bst_err bst_crew_show_devices(struct bst_trainer *t);
/* What a rank may have is what the one that may have least may: a plan is the same for all. */
BST_MUST_USE enum bst_err bst_crew_least_limit(struct bst_trainer *t);

/* programs.c */
BST_MUST_USE enum bst_err bst_rank_build(struct rank *k); /* table, layouts; the rank's thread */
/* What a rank runs: a training program of the plan, or one for evaluation. */
struct program_ask {
    int micro;
    bool training, accumulate;
    size_t arena_limit;
    int length; /* as above */
};
static inline struct program_ask bst_ask_training(const struct split_plan *s, int micro)
{
    return (struct program_ask){.micro = micro,
                                .training = true,
                                .accumulate = s->accumulate,
                                .arena_limit = s->arena_limit};
}
BST_MUST_USE enum bst_err bst_rank_program(struct rank *k, const struct program_ask *ask,
                                           struct bst_program **out);
/* The same for the batch at hand, in the arena in force. Where its rows end early they are cut to
 * the longest of them, in steps of which there are LENGTHS, and the program is one for that: what
 * is behind costs nothing then. */
BST_MUST_USE enum bst_err bst_rank_program_for(struct rank *k, struct bst_loader *l,
                                               const struct program_ask *ask, struct bst_batch *b,
                                               struct bst_program **out);
void bst_rank_drop_programs(struct rank *k);

/* swap.c */
BST_MUST_USE enum bst_err bst_swap_split(struct bst_trainer *t, int64_t batch, int micro_batches,
                                         double *replan_seconds);
BST_MUST_USE enum bst_err bst_rank_map_arena(struct rank *k, size_t bytes);
BST_MUST_USE enum bst_err bst_rank_make_loader(struct rank *k, enum bst_part part, int batch);
void bst_rank_drop_split(struct rank *k);

/* memory.c */
BST_MUST_USE enum bst_err bst_memory_plan(const struct bst_trainer *t, int64_t batch, int k,
                                          struct split_plan *out);
void bst_memory_table(const struct bst_trainer *t, const struct split_plan *s,
                      struct bst_rank_memory *out);
BST_MUST_USE enum bst_err bst_memory_check(const struct bst_trainer *t, const struct split_plan *s);
void bst_memory_loader_cfg(const struct bst_trainer *t, enum bst_part part, int max_batch,
                           struct bst_loader_cfg *out);

/* groups.c */
BST_MUST_USE enum bst_err bst_groups_resolve(struct bst_trainer *t);

/* init.c: parameter i's starting values, into `block` at its place. The rank's thread. */
BST_MUST_USE enum bst_err bst_init_parameter(struct rank *k, int i, void *at);
BST_MUST_USE enum bst_err bst_init_all(struct rank *k);

/* state.c: weights, statistics and optimizer state of rank 0 to all; steps and loss scale to the
 * backend. */
BST_MUST_USE enum bst_err bst_state_share(struct rank *k, void *arg);
/* The same on all, with the numbers that updates leave to each other; `whole`: nothing is in doubt
 * then. */
BST_MUST_USE enum bst_err bst_state_share_all(struct bst_trainer *t, bool whole);
BST_MUST_USE enum bst_err bst_state_push_commits(struct rank *k);
/* Where parameter i lies in a block laid out like the weights (trained ones, then statistics). */
static inline void *bst_slot_at(const struct rank *k, void *block, int i)
{
    return (char *)block + k->params->slots[i].offset;
}

/* commit.c: after the all-reduce; norms, decision, optimizer, statistics. The rank's thread. */
/* Σ x² of each trained parameter's place in a block. */
BST_MUST_USE enum bst_err bst_rank_squares(struct rank *k, void *block, double *out);
BST_MUST_USE enum bst_err bst_rank_norms(struct rank *k, struct commit *c);
BST_MUST_USE enum bst_err bst_rank_commit(struct rank *k, struct commit *c);
/* For the backend's own commit(), and what came of it. */
void bst_rank_commit_how(struct rank *k, struct commit *c, struct bst_commit *how);
void bst_rank_commit_result(struct commit *c, const struct bst_commit_result *r);

/* update.c: an update as far as a rank takes it: all of it, or until it is on the device's queue.
 * `arg` is its struct sent. */
BST_MUST_USE enum bst_err bst_update_job(struct rank *k, void *arg);
/* Until the device has no more than so many batches of the training loader's. */
BST_MUST_USE enum bst_err bst_rank_take_back(struct rank *k, int most);

/* sent.c */
static inline enum bst_err bst_none_sent(const struct bst_trainer *t)
{
    return t->n_sent ? bst_fail(BST_E_STATE, "%d updates are on their way", t->n_sent) : BST_OK;
}
/* The same, and after a failure rank 0's state is every rank's again. Before all that looks at more
 * ranks than the first. */
BST_MUST_USE enum bst_err bst_made_alike(struct bst_trainer *t);

/* trace.c */
BST_MUST_USE enum bst_err bst_trace_open(struct bst_trainer *t);
void bst_trace_room(struct bst_trainer *t, int64_t n);
void bst_trace_write(struct bst_trainer *t, const struct bst_update_req *req);
void bst_trace_close(struct bst_trainer *t);

#endif
