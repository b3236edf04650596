/* A rank's part in an update: every rank runs its micro-batches, all agree that it is complete,
 * gradients are added up, and only then does anything move that a checkpoint would hold. A device
 * with a queue is asked for all of that, and nothing of it is waited for here. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/train/rank.h"

/* What the device's queue is for, the host does not wait for. */
static bool has_queue(const struct rank *k)
{
    return k->t->cfg.backend->commit;
}

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

/* Labels that count, before any program has seen them. */
static double count_targets(const struct rank *k, const struct bst_batch *b)
{
    const struct bst_data_info *info = bst_dataset_info(k->t->data);
    double n = 0;
    if (!info->streams)
        return b->n;
    const int64_t all = (int64_t)b->n * (info->padded ? b->length : info->n_labels);
    for (int64_t i = 0; i < all; i++)
        n += b->labels[i] != BST_LABEL_IGNORED;
    return n;
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
static enum bst_err run_batch(struct rank *k, const struct sent *job, struct bst_batch *b,
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
        .pair_scale = 1.0 / (double)job->req.batch,
        .n_valid = b->n,
        .grad_scale = 1.0 / job->targets,
        .label_smoothing = job->req.label_smoothing,
        .seed = cfg->seed,
        .position = first,
        .accumulate = accumulate,
        .only_matmul = job->req.only_matmul,
        .result = has_queue(k) ? NULL : &result,
        .block = b->block,
        .block_bytes = b->block_bytes,
        .input = k->input,
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
    tally[T_TOLD] += b->n;
    tally[T_TOKENS] += count_tokens(k, b);
    tally[T_POSITIONS] += (double)b->n * b->length * bst_dataset_info(k->t->data)->streams;
    tally[T_TARGETS] += has_queue(k) ? count_targets(k, b) : (double)result.targets;
    tally[T_BAD] += b->n_bad;
    tally[T_LARGEST] = fmax(tally[T_LARGEST], b->n);
    tally[T_MICROS]++;
    return BST_OK;
}

/* On the queue: the rest is worked out when the commit behind it has come. */
static enum bst_err measure_later(struct rank *k, const struct sent *job, double n,
                                  const double *tally)
{
    struct commit c = {.req = &job->req};
    struct bst_commit how;
    k->parts[job - k->t->sent] = (struct part){n, tally[T_TARGETS]};
    bst_rank_commit_how(k, &c, &how);
    return k->t->cfg.backend->measure(k->be, &how);
}

/* What the gradient block holds at this moment as the gradient of `n` samples, all that this rank
 * has run: its squared norm over the parameters being trained. The loss has divided by the update's
 * targets already. */
static enum bst_err measure_part(struct rank *k, const struct sent *job, double n, double *tally)
{
    const struct bst_trainer *t = k->t;
    double start = bst_clock_now(), sum = 0;
    double scale = job->targets / tally[T_TARGETS] / t->commits.loss_scale;
    if (has_queue(k))
        return measure_later(k, job, n, tally);
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
static bool measures(const struct rank *k, const struct sent *job, bool first_of_several)
{
    if (!job->req.noise || job->req.only_matmul)
        return false;
    return first_of_several == (k->t->cfg.ranks == 1);
}

enum bst_err bst_rank_take_back(struct rank *k, int most)
{
    if (k->n_lent > most)
        BST_TRY(k->t->cfg.backend->steps_left(k->be, most));
    while (k->n_lent > most) {
        bst_loader_give_back(k->loader[BST_TRAIN], &k->lent[0]);
        memmove(k->lent, k->lent + 1, (size_t)--k->n_lent * sizeof *k->lent);
    }
    return BST_OK;
}

/* After a failure the device has nothing of the program left (bst_program_run). */
static void hand_over(struct rank *k, const struct bst_batch *b, enum bst_err err)
{
    if (has_queue(k) && !err) {
        k->lent[k->n_lent++] = *b;
        return;
    }
    for (int i = 0; i < k->n_lent; i++)
        bst_loader_give_back(k->loader[BST_TRAIN], &k->lent[i]);
    k->n_lent = 0;
    bst_loader_give_back(k->loader[BST_TRAIN], b);
}

static enum bst_err run_micros(struct rank *k, const struct sent *job, double *tally)
{
    uint64_t n = bst_split_n_micro(&k->t->plan.split, (uint64_t)k->rank);
    for (uint64_t i = 0; i < n; i++) {
        struct range r = range_at(k, &job->req, i);
        struct bst_batch b;
        if (job->stop && atomic_load(job->stop))
            return bst_fail(BST_E_CANCELLED, "stopped");
        BST_TRY(bst_rank_take_back(k, BST_STEP_SLOTS - 1));
        BST_TRY(bst_loader_take(k->loader[BST_TRAIN], r.first, r.n, job->stop, &b));
        ask_ahead(k, &job->req, i);
        trace_batch(k, &job->req, &b, r.first);
        enum bst_err err = run_batch(k, job, &b, r.first, i > 0, tally);
        hand_over(k, &b, err);
        if (!err && i == 0 && n > 1 && measures(k, job, true))
            err = measure_part(k, job, r.n, tally);
        if (err)
            return err;
    }
    return job->waits ? bst_rank_take_back(k, 0) : BST_OK;
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

/* What fails in a collective that is not waited for leaves the commit behind it undone. */
static enum bst_err commit_there(struct rank *k, struct commit *c)
{
    struct bst_commit how;
    BST_TRY(k->comm->ops->barrier(k->comm));
    bst_rank_commit_how(k, c, &how);
    enum bst_err err = k->t->cfg.backend->commit(k->be, &how);
    if (err)
        atomic_store(&k->t->broken, true);
    return err;
}

/* Gradients are complete on every rank. A failure from the optimizer on leaves ranks apart. */
static enum bst_err finish(struct rank *k, struct sent *job, const double *tally)
{
    struct commit c = {
        .req = &job->req, .first_nonfinite = -1, .last_nonfinite = -1, .loss_scale = 1};
    const bool drop = tally[T_BAD_STATS] > 0;
    if (!job->req.only_matmul) {
        BST_TRY(k->comm->ops->all_reduce(k->comm, k->grad, k->params->trained_bytes));
        /* Evaluation uses rank 0's statistics: they become everybody's. A collective that fails
         * does so here, while nothing has moved and nothing that moves is on its way. */
        BST_TRY(k->comm->ops->broadcast(k->comm, k->staged, k->params->state_bytes, 0));
        if (job->waits)
            BST_TRY(k->comm->ops->settle(k->comm));
        BST_TRY(has_queue(k) ? commit_there(k, &c) : commit_here(k, &c, drop));
    }
    if (bst_rank_is_first(k)) {
        memcpy(job->tally, tally, sizeof job->tally);
        job->c = c;
    }
    return BST_OK;
}

/* A running variance overflows before any gradient does, since batch norm divides by its root;
 * kept, it would spoil the state that the run could go back to. A commit on a queue looks for
 * itself, at those of rank 0, which all have by then. */
static enum bst_err check_stats(struct rank *k, double *tally)
{
    double q = 0;
    size_t bytes = k->params->state_bytes;
    if (bytes && !has_queue(k))
        BST_TRY(k->t->cfg.backend->sum_squares(k->be, k->staged, bytes, &q));
    tally[T_BAD_STATS] = !isfinite(q);
    return BST_OK;
}

static enum bst_err stage_statistics(struct rank *k)
{
    const struct bst_backend *b = k->t->cfg.backend;
    const struct bst_param_table *p = k->params;
    const void *now = (char *)k->weight + p->trained_bytes;
    if (!p->state_bytes)
        return BST_OK;
    return has_queue(k) ? b->copy_later(k->be, k->staged, now, p->state_bytes)
                        : b->copy(k->be, k->staged, now, p->state_bytes);
}

enum bst_err bst_update_job(struct rank *k, void *arg)
{
    struct sent *job = arg;
    const struct bst_link_ops *link = k->t->cfg.backend->link;
    double tally[T_ALL] = {0};
    double waited = bst_loader_waited(k->loader[BST_TRAIN]);
    k->parts[job - k->t->sent] = (struct part){0};
    if (k->device_comm)
        BST_TRY(link->owed(k->be));
    BST_TRY(stage_statistics(k));
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
