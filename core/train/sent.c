/* Updates on their way: asked of the ranks here, and taken later, oldest first, where the devices
 * have queues. What comes of a failure among them: results that are there are still given out, one
 * by one, up to the last update that rank 0 has made; all behind it have not happened, on any rank
 * that answers. */
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/train/rank.h"

_Static_assert((int)BST_UPDATES_LATE < (int)BST_COMMITS, "as many commits may be on their way");

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

/* --- failures --- */

static enum bst_err forget_job(struct rank *k, void *arg)
{
    (void)arg;
    k->t->cfg.backend->forget(k->be);
    return bst_rank_take_back(k, 0);
}

/* Nothing is left on its way; the text of the failure stays. */
static void forget(struct bst_trainer *t)
{
    const struct bst_failure why = bst_err_keep(BST_E_STATE);
    t->n_sent = 0;
    if (bst_ranks_do(t, t->ranks_here, forget_job, NULL))
        BST_ASSERT(!"forgetting cannot fail");
    bst_err_restore(&why);
}

static enum bst_err failed(struct bst_trainer *t, enum bst_err err)
{
    if (!t->cfg.backend->forget || err == BST_E_CANCELLED)
        return err;
    t->apart = true;
    if (!t->n_sent)
        forget(t);
    return err;
}

static void note_cause(struct bst_trainer *t, enum bst_err err, bool is_told)
{
    t->cause = bst_err_keep(err);
    t->cause_is_told = is_told;
}

enum bst_err bst_made_alike(struct bst_trainer *t)
{
    BST_TRY(bst_none_sent(t));
    return t->apart ? bst_state_share_all(t, false) : BST_OK;
}

/* Ranks become alike again, and their link whole. */
static enum bst_err gather_up(struct bst_trainer *t)
{
    enum bst_err owed = t->cause_is_told ? BST_OK : bst_err_restore(&t->cause);
    t->cause.err = BST_OK;
    if (owed)
        return owed;
    return t->apart ? bst_made_alike(t) : BST_OK;
}

/* --- on its way --- */

static enum bst_err follow_split(struct bst_trainer *t, const struct bst_update_req *req)
{
    const struct split_plan *s = &t->plan;
    if (s->asked_batch == req->batch && s->asked_micros == req->micro_batches)
        return BST_OK;
    BST_TRY(bst_none_sent(t));
    return bst_swap_split(t, req->batch, req->micro_batches, NULL);
}

static enum bst_err send(struct bst_trainer *t, const struct bst_update_req *req,
                         const atomic_int *stop, bool waits)
{
    const struct crew_request r = {.op = waits ? CREW_UPDATE : CREW_SEND, .u.update = *req};
    struct sent *s = &t->sent[(t->first_sent + t->n_sent) % BST_COMMITS];
    if (t->n_sent > bst_trainer_late(t))
        return bst_fail(BST_E_STATE, "%d updates are on their way already", t->n_sent);
    *s = (struct sent){.req = *req,
                       .stop = stop,
                       .waits = waits || req->only_matmul,
                       .ahead = !waits,
                       .targets = (double)req->batch,
                       .at = bst_clock_now()};
    if (t->n_sent)
        s->behind = s->at - t->sent[(t->first_sent + t->n_sent - 1) % BST_COMMITS].at;
    BST_TRY(check_req(t, req));
    if (t->first == 0)
        BST_TRY(gather_up(t));
    t->cause.err = BST_OK; /* the first process has said what it was */
    BST_TRY(bst_crew_lead(t, &r));
    if (bst_dataset_info(t->data)->streams) {
        int64_t tokens, targets;
        bst_order_count(t->order, req->first, req->batch, &tokens, &targets);
        s->targets = (double)targets;
    }
    BST_TRY(follow_split(t, req));
    bst_trace_room(t, req->batch);
    t->stop = stop;
    enum bst_err err = bst_ranks_all(t, bst_update_job, s);
    t->stop = NULL;
    if (err) {
        if (err != BST_E_CANCELLED && t->n_sent)
            note_cause(t, err, true);
        return failed(t, err);
    }
    t->n_sent++;
    return BST_OK;
}

int bst_trainer_late(const struct bst_trainer *t)
{
    /* The trace is of one update at a time. */
    return t->cfg.backend->commit && t->trace_fd < 0 ? BST_UPDATES_LATE : 0;
}

int bst_trainer_sent(const struct bst_trainer *t)
{
    return t->n_sent;
}

enum bst_err bst_trainer_send(struct bst_trainer *t, const struct bst_update_req *req,
                              const atomic_int *stop)
{
    return send(t, req, stop, false);
}

/* --- and back --- */

/* What only the device knows, of one rank or added up. */
static const enum tally from_device[] = {T_LOSS, T_CORRECT, T_EXACT,     T_TARGETS,  T_PAIR_LOSS,
                                         T_TOLD, T_PARTS,   T_PART_NORM, T_PART_INV, T_BUSY};
enum { N_FROM_DEVICE = sizeof from_device / sizeof *from_device };

static void fill_tally(const struct rank *k, const struct sent *s,
                       const struct bst_commit_result *r, double *tally)
{
    const struct part *part = &k->parts[s - k->t->sent];
    tally[T_LOSS] = r->step.loss_sum;
    tally[T_CORRECT] = (double)r->step.correct;
    tally[T_EXACT] = (double)r->step.exact;
    tally[T_TARGETS] = (double)r->step.targets;
    tally[T_PAIR_LOSS] = r->step.pair_loss_sum;
    tally[T_TOLD] = (double)bst_split_rank(&k->t->plan.split, (uint64_t)k->rank);
    if (!(tally[T_TOLD] > 0)) /* what the device has is of an earlier update */
        memset(tally, 0, T_ALL * sizeof *tally);
    tally[T_BUSY] = r->busy_seconds;
    if (!(part->samples > 0))
        return;
    const double scale = s->targets / part->targets / r->loss_scale;
    tally[T_PARTS] = 1;
    tally[T_PART_NORM] = r->part_squares * scale * scale;
    tally[T_PART_INV] = 1 / part->samples;
}

static void put_tally(struct sent *s, const double *tally, double busy_most)
{
    for (int i = 0; i < N_FROM_DEVICE; i++)
        s->tally[from_device[i]] = tally[from_device[i]];
    s->tally[T_BUSY_MOST] = busy_most;
}

static enum bst_err take_job(struct rank *k, void *arg)
{
    struct sent *s = arg;
    struct bst_commit_result r = {.sum_squares = k->sum_squares,
                                  .weight_squares = k->weight_squares};
    double tally[T_ALL] = {0};
    BST_TRY(k->t->cfg.backend->committed(k->be, &r));
    fill_tally(k, s, &r, tally);
    double busy_most = tally[T_BUSY];
    if (bst_rank_is_first(k)) { /* for the case that the others say nothing */
        bst_rank_commit_result(&s->c, &r);
        put_tally(s, tally, busy_most);
    }
    if (k->rank == 0)
        k->t->moved = true;
    BST_TRY(bst_comm_sum(k->comm, tally, T_N));
    BST_TRY(bst_comm_max(k->comm, &busy_most, 1));
    if (bst_rank_is_first(k))
        put_tally(s, tally, busy_most);
    return BST_OK;
}

/* The parameter that the trouble began at: from a loss that is no number it is in all of them, and
 * the first of the table stands for the forward half. */
static int culprit(const struct commit *c, double loss)
{
    return isfinite(loss) ? c->last_nonfinite : c->first_nonfinite;
}

static void report(const struct bst_trainer *t, const struct sent *s, struct bst_update_result *out)
{
    const double *tally = s->tally;
    const struct commit *c = &s->c;
    *out = (struct bst_update_result){0};
    out->samples_used = (int64_t)tally[T_SAMPLES];
    out->tokens_used = (int64_t)tally[T_TOKENS];
    out->positions_used = (int64_t)tally[T_POSITIONS];
    out->targets_used = (int64_t)tally[T_TARGETS];
    /* Without a loss, under only_matmul, there are none. */
    out->loss = tally[T_LOSS] / fmax(tally[T_TARGETS], 1) + tally[T_PAIR_LOSS] / tally[T_TOLD];
    out->accuracy = tally[T_CORRECT] / fmax(tally[T_TARGETS], 1);
    out->exact = bst_dataset_info(t->data)->answers ? tally[T_EXACT] / tally[T_TOLD] : NAN;
    out->grad_norm = c->grad_norm;
    out->skipped = c->skipped;
    out->clipped = c->clipped;
    out->nonfinite = c->skipped || !isfinite(out->loss);
    const int bad = culprit(c, out->loss);
    out->overflowed = c->skipped && bad >= 0 && isfinite(out->loss) && c->loss_scale > 1;
    if (bad >= 0)
        out->first_nonfinite = t->ranks[0].params->slots[bad].name;
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
    out->busy_mean = tally[T_BUSY] / t->cfg.ranks;
    out->busy_most = tally[T_BUSY_MOST];
    if (tally[T_PARTS] > 0)
        out->noise = (struct bst_noise_pair){
            .b_small = tally[T_PARTS] / tally[T_PART_INV],
            .g_small = tally[T_PART_NORM] / tally[T_PARTS],
            .b_big = tally[T_SAMPLES],
            .g_big = c->grad_norm * c->grad_norm,
        };
}

/* The time that an update takes is that between two, where they overlap: between their ends, or
 * between their starts where those are what is waited for. When what is on its way is drained its
 * ends come together. */
static void done(struct bst_trainer *t, const struct sent *s, struct bst_update_result *out)
{
    double now = bst_clock_now();
    report(t, s, out);
    out->seconds = fmax(now - fmax(s->at, t->taken_at), s->behind);
    t->taken_at = now;
    if (s->req.only_matmul)
        return;
    t->commits = s->c.after;
    t->weight_norms = s->req.layers && t->cfg.backend->commit;
    for (int i = 0; i < t->ranks[0].params->n_trained; i++) {
        t->layers[i].grad_norm = sqrt(t->ranks[0].sum_squares[i]);
        if (t->weight_norms)
            t->layers[i].weight_norm = sqrt(t->ranks[0].weight_squares[i]);
    }
    bst_trace_write(t, &s->req);
}

/* It has not happened, nor have those behind it. Who first failed says more than who was left. */
static enum bst_err undone(struct bst_trainer *t, enum bst_err err)
{
    if (err == BST_E_STATE && t->cause.err)
        err = bst_err_restore(&t->cause);
    t->cause.err = BST_OK;
    t->n_sent = 0;
    return failed(t, err);
}

enum bst_err bst_trainer_take(struct bst_trainer *t, struct bst_update_result *out)
{
    BST_ASSERT(t->n_sent > 0);
    const struct crew_request r = {.op = CREW_TAKE};
    struct sent *s = &t->sent[t->first_sent];
    bool waits = t->cfg.backend->commit && !s->req.only_matmul;
    /* Where a process cannot be told, what rank 0 has made has happened all the same. */
    if (s->ahead && bst_crew_lead(t, &r))
        bst_log(BST_LOG_DEBUG, "%s", bst_err_text());
    t->moved = false;
    enum bst_err err = waits ? bst_ranks_all(t, take_job, s) : BST_OK;
    if (err && !t->moved)
        return undone(t, err);
    t->first_sent = (t->first_sent + 1) % BST_COMMITS;
    t->n_sent--;
    if (err) {
        note_cause(t, err, false);
        t->apart = true;
    }
    if (!t->n_sent && t->apart)
        forget(t);
    done(t, s, out);
    out->alone = err != BST_OK;
    return BST_OK;
}

enum bst_err bst_trainer_update(struct bst_trainer *t, const struct bst_update_req *req,
                                const atomic_int *stop, struct bst_update_result *out)
{
    *out = (struct bst_update_result){0};
    BST_TRY(bst_none_sent(t));
    BST_TRY(send(t, req, stop, true));
    enum bst_err err = bst_trainer_take(t, out);
    /* Here gradients were whole everywhere: a rank that failed did so in the midst of moving. */
    if (!err && t->cause.err) {
        err = bst_err_restore(&t->cause);
        t->cause.err = BST_OK;
    }
    if (err)
        atomic_store(&t->broken, true);
    return err;
}
