/* Evaluation: the whole part in order, its batches dealt to the ranks, on the statistics that every
 * rank has from rank 0. It lives in the arena that is there for training. */
#include <math.h>

#include "core/base/clock.h"
#include "core/train/rank.h"

struct job {
    const atomic_int *stop;
    struct bst_eval_result *out; /* written by the process's first rank */
    bool some;                   /* one batch a rank */
};

enum { E_CANCELLED, E_LOSS, E_CORRECT, E_EXACT, E_SAMPLES, E_TARGETS, E_PAIR_LOSS, E_N };

/* The largest batch up to the plan's whose program needs no more than the arena in force. Without a
 * split there is none: then the plan's batch, in an arena of its own, within the limit. */
static enum bst_err choose_program(struct rank *k, struct bst_program **p)
{
    const struct bst_trainer *t = k->t;
    int b = k->eval_batch ? k->eval_batch : k->loader_batch[BST_EVAL];
    for (;; b /= 2) {
        const struct program_ask ask = {.micro = b};
        BST_TRY(bst_rank_program(k, &ask, p));
        if ((*p)->arena_bytes <= k->arena_bytes || b == 1 || !k->arena)
            break;
    }
    k->eval_batch = b;
    if ((*p)->arena_bytes <= k->arena_bytes)
        return BST_OK;
    struct split_plan s = t->plan;
    s.need.arena = (*p)->arena_bytes;
    s.sizes[0] = s.sizes[0] ? s.sizes[0] : b;
    BST_TRY(bst_memory_check(t, &s));
    return bst_rank_map_arena(k, s.need.arena);
}

/* The batch is a rank's stride through the part, so all have the same; arenas of different machines
 * need not hold the same ones. */
static enum bst_err choose_with_all(struct rank *k, struct bst_program **p)
{
    BST_TRY(choose_program(k, p));
    if (!k->t->wide)
        return BST_OK;
    double smallest = -k->eval_batch;
    BST_TRY(bst_comm_max(k->comm, &smallest, 1));
    k->eval_batch = (int)-smallest;
    return choose_program(k, p);
}

static enum bst_err run_batch(struct rank *k, struct bst_batch *b, const struct job *job,
                              double *tally)
{
    const struct program_ask ask = {.micro = k->eval_batch};
    struct bst_program *p = NULL;
    struct bst_step_result result = {0};
    BST_TRY(bst_rank_program_for(k, k->loader[BST_EVAL], &ask, b, &p));
    struct bst_step step = {.images = b->images,
                            .labels = b->labels,
                            .tokens = {b->tokens[0], b->tokens[1]},
                            .lengths = {b->lengths[0], b->lengths[1]},
                            .pair = b->pair,
                            .n_valid = b->n,
                            .result = &result};
    struct bst_bindings mem = {.base = {[BST_MEM_WEIGHT] = k->weight,
                                        [BST_MEM_GRAD] = k->grad,
                                        [BST_MEM_STAGED] = k->staged,
                                        [BST_MEM_ARENA] = k->arena}};
    BST_TRY(bst_program_run(k->t->cfg.backend, p, &mem, &step, 0, p->n_instrs, job->stop));
    tally[E_LOSS] += result.loss_sum;
    tally[E_CORRECT] += (double)result.correct;
    tally[E_EXACT] += (double)result.exact;
    tally[E_SAMPLES] += b->n;
    tally[E_TARGETS] += (double)result.targets;
    tally[E_PAIR_LOSS] += result.pair_loss_sum;
    return BST_OK;
}

static enum bst_err run_part(struct rank *k, const struct job *job, double *tally)
{
    struct bst_loader *l = k->loader[BST_EVAL];
    struct bst_program *p = NULL;
    BST_TRY(choose_with_all(k, &p)); /* what the arena is for; rows may be cut shorter */
    int64_t n = bst_dataset_info(k->t->data)->n[BST_EVAL];
    int64_t b = k->eval_batch, stride = b * k->comm->n_ranks;
    for (int64_t at = b * k->rank; at < n; at += stride) {
        struct bst_batch batch;
        int64_t next = at + stride;
        if (job->stop && atomic_load(job->stop))
            return bst_fail(BST_E_CANCELLED, "stopped");
        BST_TRY(
            bst_loader_take(l, (uint64_t)at, (int)(n - at < b ? n - at : b), job->stop, &batch));
        if (next < n && !job->some)
            bst_loader_ask(l, (uint64_t)next, (int)(n - next < b ? n - next : b));
        enum bst_err err = run_batch(k, &batch, job, tally);
        bst_loader_give_back(l, &batch);
        if (err || job->some)
            return err;
    }
    return BST_OK;
}

static enum bst_err eval_job(struct rank *k, void *arg)
{
    const struct job *job = arg;
    double tally[E_N] = {0};
    enum bst_err err = BST_OK;
    if (!k->loader[BST_EVAL])
        err = bst_rank_make_loader(k, BST_EVAL, EVAL_BATCH_MOST);
    if (!err)
        err = run_part(k, job, tally);
    if (err && err != BST_E_CANCELLED)
        return err;
    tally[E_CANCELLED] = err == BST_E_CANCELLED;
    BST_TRY(bst_comm_sum(k->comm, tally, E_N));
    if (tally[E_CANCELLED] > 0)
        return bst_fail(BST_E_CANCELLED, "stopped");
    if (bst_rank_is_first(k)) {
        job->out->samples = (int64_t)tally[E_SAMPLES];
        job->out->targets = (int64_t)tally[E_TARGETS];
        job->out->loss = tally[E_LOSS] / tally[E_TARGETS] + tally[E_PAIR_LOSS] / tally[E_SAMPLES];
        job->out->accuracy = tally[E_CORRECT] / tally[E_TARGETS];
        if (bst_dataset_info(k->t->data)->streams)
            job->out->perplexity = exp(tally[E_LOSS] / tally[E_TARGETS]);
        job->out->exact =
            bst_dataset_info(k->t->data)->answers ? tally[E_EXACT] / tally[E_SAMPLES] : NAN;
    }
    return BST_OK;
}

static enum bst_err evaluate(struct bst_trainer *t, struct job *job)
{
    struct bst_eval_result *out = job->out;
    double start = bst_clock_now();
    *out = (struct bst_eval_result){0};
    BST_TRY(bst_none_sent(t));
    if (t->cfg.plan_only)
        return bst_fail(BST_E_STATE, "this trainer only plans");
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    if (bst_dataset_info(t->data)->n[BST_EVAL] < 1)
        return bst_fail(BST_E_STATE, "the data set has no evaluation part");
    BST_TRY(bst_made_alike(t));
    const struct crew_request r = {.op = CREW_EVAL, .u.some = job->some};
    BST_TRY(bst_crew_lead(t, &r));
    t->stop = job->stop;
    enum bst_err err = bst_ranks_all(t, eval_job, job);
    t->stop = NULL;
    /* It may have had to grow; and before the first split there was nothing. */
    t->plan.need.arena = t->ranks[0].arena_bytes;
    if (!t->plan.split.batch && t->ranks[0].loader[BST_EVAL])
        t->plan.loader = bst_loader_bytes(t->ranks[0].loader[BST_EVAL]);
    out->seconds = bst_clock_now() - start;
    return err;
}

enum bst_err bst_trainer_eval(struct bst_trainer *t, const atomic_int *stop,
                              struct bst_eval_result *out)
{
    struct job job = {.stop = stop, .out = out};
    return evaluate(t, &job);
}

enum bst_err bst_trainer_eval_some(struct bst_trainer *t, const atomic_int *stop,
                                   struct bst_eval_result *out)
{
    struct job job = {.stop = stop, .out = out, .some = true};
    return evaluate(t, &job);
}
