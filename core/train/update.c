/* One update: every rank runs its micro-batches, all agree that it is complete, gradients are added
 * up, and only then does anything move that a checkpoint would hold. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/train/rank.h"

struct job {
    const struct bst_update_req *req;
    const atomic_int *stop;
    double targets; /* of the whole update: labels that count; with images its samples */
    struct bst_update_result *out; /* written by the process's first rank, as is what follows */
    struct bst_commit_state after;
};

/* What a rank's micro-batches came to. Numbers, so that one gather tells everybody. */
enum {
    T_CANCELLED,
    T_LOSS,
    T_CORRECT,
    T_EXACT,
    T_SAMPLES,
    T_TOKENS,
    T_POSITIONS,
    T_TARGETS,
    T_PAIR_LOSS, /* of the second loss, which is a mean over samples */
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

struct range {
    uint64_t first;
    int n;
};

/* Micro-batch i of this rank; past the last one those of the update that is likely to follow. */
static struct range range_at(const struct rank *k, const struct bst_update_req *req, uint64_t i)
{
    const struct bst_split *sp = &k->t->plan.split;
    uint64_t rank = (uint64_t)k->rank, n = bst_split_n_micro(sp, rank);
    if (!n)
        return (struct range){0, 0};
    uint64_t first = req->first + i / n * (uint64_t)req->batch + bst_split_rank_start(sp, rank);
    return (struct range){first + bst_split_micro_start(sp, rank, i % n),
                          (int)bst_split_micro(sp, rank, i % n)};
}

static void ask_ahead(struct rank *k, const struct bst_update_req *req, uint64_t i)
{
    for (int ahead = 1; ahead < TRAIN_SLOTS; ahead++) {
        struct range r = range_at(k, req, i + (uint64_t)ahead);
        bst_loader_ask(k->loader[BST_TRAIN], r.first, r.n);
    }
}

static void trace_batch(struct rank *k, const struct bst_update_req *req, const struct bst_batch *b,
                        uint64_t first)
{
    if (k->t->trace)
        memcpy(k->t->trace + (first - req->first), b->index, (size_t)b->n * sizeof *b->index);
}

static double count_tokens(const struct rank *k, const struct bst_batch *b)
{
    const struct bst_data_info *info = bst_dataset_info(k->t->data);
    double n = 0;
    if (!info->padded)
        return (double)info->each.tokens * b->n;
    for (int s = 0; s < info->streams; s++)
        for (int i = 0; i < b->n; i++)
            n += b->lengths[s][i];
    return n;
}

/* `first`: stream position of the batch's first sample. */
static enum bst_err run_batch(struct rank *k, const struct job *job, struct bst_batch *b,
                              uint64_t first, bool accumulate, double *tally)
{
    const struct bst_train_cfg *cfg = &k->t->cfg;
    struct bst_program *p = NULL;
    struct bst_step_result result = {0};
    struct program_ask ask = bst_ask_training(&k->t->plan, b->n);
    BST_TRY(bst_rank_program_for(k, k->loader[BST_TRAIN], &ask, b, &p));
    struct bst_step step = {
        .images = b->images,
        .labels = b->labels,
        .tokens = {b->tokens[0], b->tokens[1]},
        .lengths = {b->lengths[0], b->lengths[1]},
        .pair = b->pair,
        .pair_scale = 1.0 / (double)job->req->batch,
        .n_valid = b->n,
        .grad_scale = 1.0 / job->targets,
        .label_smoothing = job->req->label_smoothing,
        .seed = cfg->seed,
        .position = first,
        .accumulate = accumulate,
        .only_matmul = job->req->only_matmul,
        .result = &result,
    };
    struct bst_bindings mem = {.base = {[BST_MEM_WEIGHT] = k->weight,
                                        [BST_MEM_GRAD] = k->grad,
                                        [BST_MEM_STAGED] = k->staged,
                                        [BST_MEM_ARENA] = k->arena}};
    BST_TRY(bst_program_run(cfg->backend, p, &mem, &step, 0, p->n_instrs, job->stop));
    tally[T_LOSS] += result.loss_sum;
    tally[T_PAIR_LOSS] += result.pair_loss_sum;
    tally[T_CORRECT] += (double)result.correct;
    tally[T_EXACT] += (double)result.exact;
    tally[T_SAMPLES] += b->n;
    tally[T_TOKENS] += count_tokens(k, b);
    tally[T_POSITIONS] += (double)b->n * b->length * bst_dataset_info(k->t->data)->streams;
    tally[T_TARGETS] += (double)result.targets;
    tally[T_BAD] += b->n_bad;
    tally[T_LARGEST] = fmax(tally[T_LARGEST], b->n);
    tally[T_MICROS]++;
    return BST_OK;
}

/* What the gradient block holds at this moment as the gradient of `n` samples, all that this rank
 * has run: its squared norm over the parameters being trained. The loss has divided by the update's
 * targets already. */
static enum bst_err measure_part(struct rank *k, const struct job *job, double n, double *tally)
{
    const struct bst_trainer *t = k->t;
    double start = bst_clock_now(), sum = 0;
    double scale = job->targets / tally[T_TARGETS] / t->commits.loss_scale;
    for (int i = 0; i < t->n_runs; i++) {
        double q = 0;
        BST_TRY(t->cfg.backend->sum_squares(k->be, (char *)k->grad + t->runs[i].offset,
                                            t->runs[i].bytes, &q));
        sum += q;
    }
    tally[T_PARTS]++;
    tally[T_PART_NORM] += sum * scale * scale;
    tally[T_PART_INV] += 1 / n;
    tally[T_PART_TIME] += bst_clock_now() - start;
    return BST_OK;
}

/* A rank's sum is at hand before the ranks add up; one rank alone has its micro-batches. */
static bool measures(const struct rank *k, const struct job *job, bool first_of_several)
{
    if (!job->req->noise || job->req->only_matmul)
        return false;
    return first_of_several == (k->t->cfg.ranks == 1);
}

static enum bst_err run_micros(struct rank *k, const struct job *job, double *tally)
{
    uint64_t n = bst_split_n_micro(&k->t->plan.split, (uint64_t)k->rank);
    for (uint64_t i = 0; i < n; i++) {
        struct range r = range_at(k, job->req, i);
        struct bst_batch b;
        if (job->stop && atomic_load(job->stop))
            return bst_fail(BST_E_CANCELLED, "stopped");
        BST_TRY(bst_loader_take(k->loader[BST_TRAIN], r.first, r.n, job->stop, &b));
        ask_ahead(k, job->req, i);
        trace_batch(k, job->req, &b, r.first);
        enum bst_err err = run_batch(k, job, &b, r.first, i > 0, tally);
        bst_loader_give_back(k->loader[BST_TRAIN], &b);
        if (!err && i == 0 && n > 1 && measures(k, job, true))
            err = measure_part(k, job, r.n, tally);
        if (err)
            return err;
    }
    return BST_OK;
}

/* A rank without samples adds nothing; its block may hold anything, NaN included. */
static enum bst_err zero_gradients(struct rank *k)
{
    for (int i = 0; i < k->params->n_trained; i++) {
        const struct bst_param_slot *slot = &k->params->slots[i];
        size_t bytes = (size_t)bst_shape_count(&slot->shape) * sizeof(double);
        void *zeros = NULL;
        BST_TRY(bst_alloc(bytes, &zeros));
        enum bst_err err =
            k->t->cfg.backend->import_plain(k->be, slot, zeros, bst_slot_at(k, k->grad, i));
        bst_alloc_free(zeros, bytes);
        BST_TRY(err);
    }
    return BST_OK;
}

/* Everybody's tally as one: sums, in rank order, and maxima. */
static enum bst_err agree(struct rank *k, double *tally)
{
    double most[] = {tally[T_LARGEST], tally[T_MICROS], tally[T_WAIT], tally[T_PART_TIME],
                     tally[T_BUSY]};
    BST_TRY(bst_comm_sum(k->comm, tally, T_N));
    BST_TRY(bst_comm_max(k->comm, most, 5));
    tally[T_LARGEST] = most[0];
    tally[T_MICROS] = most[1];
    tally[T_WAIT] = most[2];
    tally[T_PART_TIME] = most[3];
    tally[T_BUSY_MOST] = most[4];
    return tally[T_CANCELLED] > 0 ? bst_fail(BST_E_CANCELLED, "stopped") : BST_OK;
}

/* The parameter that the trouble began at: from a loss that is no number it is in all of them, and
 * the first of the table stands for the forward half. */
static int culprit(const struct commit *c, double loss)
{
    return isfinite(loss) ? c->last_nonfinite : c->first_nonfinite;
}

static void report(const struct rank *k, const struct job *job, const struct commit *c,
                   const double *tally)
{
    struct bst_update_result *out = job->out;
    out->samples_used = (int64_t)tally[T_SAMPLES];
    out->tokens_used = (int64_t)tally[T_TOKENS];
    out->positions_used = (int64_t)tally[T_POSITIONS];
    out->targets_used = (int64_t)tally[T_TARGETS];
    /* Without a loss, under only_matmul, there are none. */
    out->loss = tally[T_LOSS] / fmax(tally[T_TARGETS], 1) + tally[T_PAIR_LOSS] / tally[T_SAMPLES];
    out->accuracy = tally[T_CORRECT] / fmax(tally[T_TARGETS], 1);
    out->exact = bst_dataset_info(k->t->data)->answers ? tally[T_EXACT] / tally[T_SAMPLES] : NAN;
    out->grad_norm = c->grad_norm;
    out->skipped = c->skipped;
    out->clipped = c->clipped;
    out->nonfinite = c->skipped || !isfinite(out->loss);
    const int bad = culprit(c, out->loss);
    if (bad >= 0)
        out->first_nonfinite = k->params->slots[bad].name;
    out->loss_scale = c->loss_scale;
    out->n_zero = c->n_zero;
    out->n_bad = (int)tally[T_BAD];
    out->data_wait_seconds = tally[T_WAIT];
    out->micro_largest = (int)tally[T_LARGEST];
    out->micro_used = (int)tally[T_MICROS];
    out->lr_used = c->lr_used;
    out->momentum_used = c->momentum_used;
    out->weight_decay_used = c->weight_decay_used;
    out->noise_seconds = tally[T_PART_TIME];
    out->busy_mean = tally[T_BUSY] / k->comm->n_ranks;
    out->busy_most = tally[T_BUSY_MOST];
    if (tally[T_PARTS] > 0)
        out->noise = (struct bst_noise_pair){
            .b_small = tally[T_PARTS] / tally[T_PART_INV],
            .g_small = tally[T_PART_NORM] / tally[T_PARTS],
            .b_big = tally[T_SAMPLES],
            .g_big = c->grad_norm * c->grad_norm,
        };
}

static enum bst_err commit_here(struct rank *k, struct commit *c, bool drop)
{
    BST_TRY(bst_rank_norms(k, c));
    c->skipped = c->skipped || drop;
    /* From here on a rank may have moved; until all have, the state is in doubt. */
    BST_TRY(k->comm->ops->barrier(k->comm));
    enum bst_err err = c->skipped ? BST_OK : bst_rank_commit(k, c);
    c->after = k->t->commits;
    c->after.steps += !c->skipped;
    if (err)
        atomic_store(&k->t->broken, true);
    return err;
}

static enum bst_err commit_there(struct rank *k, struct commit *c, bool drop)
{
    BST_TRY(k->comm->ops->barrier(k->comm));
    enum bst_err err = bst_rank_commit_there(k, c, drop);
    if (err)
        atomic_store(&k->t->broken, true);
    return err;
}

/* Gradients are complete on every rank. A failure from the optimizer on leaves ranks apart. */
static enum bst_err finish(struct rank *k, struct job *job, const double *tally)
{
    struct commit c = {
        .req = job->req, .first_nonfinite = -1, .last_nonfinite = -1, .loss_scale = 1};
    const bool drop = tally[T_BAD_STATS] > 0;
    if (!job->req->only_matmul) {
        BST_TRY(k->comm->ops->all_reduce(k->comm, k->grad, k->params->trained_bytes));
        /* Evaluation uses rank 0's statistics: they become everybody's. A collective that fails
         * does so here, while nothing has moved and nothing that moves is on its way. */
        BST_TRY(k->comm->ops->broadcast(k->comm, k->staged, k->params->state_bytes, 0));
        BST_TRY(k->comm->ops->settle(k->comm));
        BST_TRY(k->t->cfg.backend->commit ? commit_there(k, &c, drop) : commit_here(k, &c, drop));
    }
    if (bst_rank_is_first(k)) {
        report(k, job, &c, tally);
        job->after = c.after;
    }
    return BST_OK;
}

/* A running variance overflows before any gradient does, since batch norm divides by its root;
 * kept, it would spoil the state that the run could go back to. */
static enum bst_err check_stats(struct rank *k, double *tally)
{
    double q = 0;
    size_t bytes = k->params->state_bytes;
    if (bytes)
        BST_TRY(k->t->cfg.backend->sum_squares(k->be, k->staged, bytes, &q));
    tally[T_BAD_STATS] = !isfinite(q);
    return BST_OK;
}

static enum bst_err update_job(struct rank *k, void *arg)
{
    struct job *job = arg;
    double tally[T_ALL] = {0};
    double waited = bst_loader_waited(k->loader[BST_TRAIN]);
    const struct bst_param_table *p = k->params;
    if (p->state_bytes)
        BST_TRY(k->t->cfg.backend->copy(k->be, k->staged, (char *)k->weight + p->trained_bytes,
                                        p->state_bytes));
    double start = bst_clock_now();
    enum bst_err err = run_micros(k, job, tally);
    tally[T_BUSY] = bst_clock_now() - start;
    if (!err && tally[T_SAMPLES] == 0)
        err = zero_gradients(k);
    else if (!err && measures(k, job, false))
        err = measure_part(k, job, tally[T_SAMPLES], tally);
    if (err && err != BST_E_CANCELLED)
        return err;
    tally[T_CANCELLED] = err == BST_E_CANCELLED;
    BST_TRY(check_stats(k, tally));
    tally[T_WAIT] = bst_loader_waited(k->loader[BST_TRAIN]) - waited;
    tally[T_BUSY] -= tally[T_WAIT];
    BST_TRY(agree(k, tally));
    return finish(k, job, tally);
}

static enum bst_err check_req(const struct bst_trainer *t, const struct bst_update_req *req)
{
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    if (!isfinite(req->lr) || !isfinite(req->momentum) || !isfinite(req->weight_decay) ||
        !isfinite(req->momentum_factor) || !isfinite(req->max_grad_norm) ||
        !(req->label_smoothing >= 0 && req->label_smoothing < 1))
        return bst_fail(BST_E_RANGE,
                        "an update with rate %g, momentum %g, weight decay %g, momentum factor "
                        "%g, clipping %g, smoothing %g",
                        req->lr, req->momentum, req->weight_decay, req->momentum_factor,
                        req->max_grad_norm, req->label_smoothing);
    return BST_OK;
}

enum bst_err bst_trainer_update(struct bst_trainer *t, const struct bst_update_req *req,
                                const atomic_int *stop, struct bst_update_result *out)
{
    double start = bst_clock_now();
    struct job job = {.req = req, .stop = stop, .targets = (double)req->batch, .out = out};
    const struct crew_request r = {.op = CREW_UPDATE, .u.update = *req};
    *out = (struct bst_update_result){0};
    BST_TRY(check_req(t, req));
    BST_TRY(bst_crew_lead(t, &r));
    if (bst_dataset_info(t->data)->streams) {
        int64_t tokens, targets;
        bst_order_count(t->order, req->first, req->batch, &tokens, &targets);
        job.targets = (double)targets;
    }
    const struct split_plan *s = &t->plan;
    if (s->asked_batch != req->batch || s->asked_micros != req->micro_batches)
        BST_TRY(bst_swap_split(t, req->batch, req->micro_batches, NULL));
    bst_trace_room(t, req->batch);
    t->stop = stop;
    enum bst_err err = bst_ranks_all(t, update_job, &job);
    t->stop = NULL;
    BST_TRY(err);
    if (!req->only_matmul) {
        t->commits = job.after;
        t->weight_norms = false;
        for (int i = 0; i < t->ranks[0].params->n_trained; i++)
            t->layers[i].grad_norm = sqrt(t->ranks[0].sum_squares[i]);
        bst_trace_write(t, req);
    }
    out->seconds = bst_clock_now() - start;
    return BST_OK;
}
