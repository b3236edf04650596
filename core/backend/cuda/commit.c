/* The end of an update as one: the decision whether to move anything is the device's, and what came
 * of it goes back in one copy. Nothing here waits but what has to give numbers back. */
#include <string.h>

#include "core/backend/cuda/update.h"

enum bst_err cuda_commits_open(struct bst_be *be)
{
    cudaError_t e = cudaSuccess;

    for (int i = 0; i < BST_COMMITS && e == cudaSuccess; i++) {
        struct cuda_commit_slot *c = &be->commits[i];

        e = cudaEventCreate(&c->began);
        if (e == cudaSuccess)
            e = cudaEventCreate(&c->ended);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&c->done, cudaEventDisableTiming);
    }
    return cuda_fail(e, "cuda: events");
}

void cuda_commits_close(struct bst_be *be)
{
    for (int i = 0; i < BST_COMMITS; i++) {
        cudaEvent_t events[] = {be->commits[i].began, be->commits[i].ended, be->commits[i].done};

        for (int k = 0; k < 3; k++)
            if (events[k])
                cudaEventDestroy(events[k]);
    }
}

enum bst_err cuda_update_begins(struct bst_be *be)
{
    struct cuda_commit_slot *c = &be->commits[be->n_commits % BST_COMMITS];

    BST_ASSERT(be->n_commits - be->n_fetched < BST_COMMITS);
    return cuda_fail(cudaEventRecord(c->began, be->stream), "an update's beginning");
}

enum bst_err cuda_update_goes_on(struct bst_be *be)
{
    struct cuda_commit_slot *c = &be->commits[be->n_commits % BST_COMMITS];

    c->is_timed = true;
    return cuda_fail(cudaEventRecord(c->ended, be->stream), "an update's steps");
}

static void write_params(const struct bst_commit *how, struct kern_param *out)
{
    for (int i = 0; i < how->n_params; i++)
        out[i] = (struct kern_param){.offset = cuda_floats(how->params[i].offset),
                                     .count = cuda_floats(how->params[i].bytes),
                                     .frozen = !(how->factor[i] > 0)};
}

/* Σ x² of n tensors into sum[n]; `partial` has room for KERN_SQUARES_BLOCKS of each. */
static enum bst_err squares(struct bst_be *be, struct kern_sum_squares *parts, double *sum)
{
    const struct kern_sum_doubles all = {parts->partial, sum, parts->n};

    BST_TRY(cuda_fail(kern_run_sum_squares(be->stream, KERN_F32, parts), "norm"));
    return cuda_fail(kern_run_sum_doubles(be->stream, KERN_F32, &all), "norm");
}

static enum bst_err look_at_statistics(struct bst_be *be, const struct bst_commit *how)
{
    struct kern_sum_squares all = {.partial = be->update->stats + 1, .n = 1};

    all.x[0] = how->staged;
    all.count[0] = cuda_floats(how->state_bytes);
    return how->state_bytes ? squares(be, &all, be->update->stats) : BST_OK;
}

static enum bst_err decide(struct bst_be *be, const struct bst_commit *how)
{
    const struct cuda_update *u = be->update;
    const struct kern_param *param =
        (const struct kern_param *)(void *)(u->device + cuda_params_at());
    const struct kern_grad_squares grads = {how->blocks.grad, param, u->partial, how->n_params};
    const struct kern_decide a = {
        .gate = cuda_link_gate(be),
        .stats = how->state_bytes ? u->stats : NULL,
        .loss = be->loss,
        .end = cuda_end_at(u, u->back),
        .rules = &((const struct cuda_update_head *)(void *)u->device)->rules,
        .param = param,
        .partial = u->partial,
        .sum = cuda_sums_at(u->back),
        .scaler = be->scaler,
        .out = cuda_decision_at(u->back),
        .n = how->n_params,
    };

    BST_TRY(look_at_statistics(be, how));
    if (how->n_params)
        BST_TRY(cuda_fail(kern_run_grad_squares(be->stream, KERN_F32, &grads), "norms"));
    return cuda_fail(kern_run_decide(be->stream, KERN_F32, &a), "norms");
}

static enum bst_err keep_statistics(struct bst_be *be, const struct bst_commit *how)
{
    const struct kern_keep a = {cuda_decision_at(be->update->back), how->statistics, how->staged,
                                cuda_floats(how->state_bytes)};

    return how->state_bytes
               ? cuda_fail(kern_run_keep(be->stream, KERN_F32, &a), "running statistics")
               : BST_OK;
}

/* The partial sums are free again: what was made of them is behind. The same sums as
 * cuda_sum_squares_each() makes, so that who asks later sees the same bits. */
static enum bst_err weigh(struct bst_be *be, const struct bst_commit *how)
{
    const struct cuda_update *u = be->update;
    const struct kern_grad_squares each = {
        how->blocks.weight, (const struct kern_param *)(void *)(u->device + cuda_params_at()),
        u->partial, how->n_params};
    const struct kern_sum_doubles all = {u->partial, cuda_weights_at(u, u->back), how->n_params};

    if (!how->weighs || !how->n_params)
        return BST_OK;
    BST_TRY(cuda_fail(kern_run_grad_squares(be->stream, KERN_F32, &each), "weights' norms"));
    return cuda_fail(kern_run_sum_doubles(be->stream, KERN_F32, &all), "weights' norms");
}

static enum bst_err ask_back(struct bst_be *be, cudaEvent_t done)
{
    struct cuda_update *u = be->update;

    BST_TRY(cuda_fail(cudaMemcpyAsync(cuda_back_of(be, be->n_commits), u->back, cuda_back_bytes(u),
                                      cudaMemcpyDeviceToHost, be->stream),
                      "an update's result"));
    return cuda_fail(cudaEventRecord(done, be->stream), "an update's result");
}

/* By spans: what is frozen has no part in it. */
enum bst_err cuda_measure(struct bst_be *be, const struct bst_commit *how)
{
    BST_TRY(cuda_commit_room(be, how->n_params, how->n_spans));
    const struct cuda_update *u = be->update;
    struct kern_sum_squares some = {.partial = be->sums + KERN_SQUARES_TENSORS};

    for (int from = 0; from < how->n_spans; from += some.n) {
        const int left = how->n_spans - from;

        some.n = left < KERN_SQUARES_TENSORS ? left : KERN_SQUARES_TENSORS;
        for (int i = 0; i < some.n; i++) {
            const struct bst_span *s = &how->spans[from + i];
            some.x[i] = (const float *)how->blocks.grad + cuda_floats(s->offset);
            some.count[i] = cuda_floats(s->bytes);
        }
        BST_TRY(squares(be, &some, cuda_parts_at(u, u->back) + from));
    }
    be->commits[be->n_commits % BST_COMMITS].n_parts = how->n_spans;
    return BST_OK;
}

/* The kernels keep order by the stream; nothing asks what was decided. */
enum bst_err cuda_commit(struct bst_be *be, const struct bst_commit *how)
{
    BST_TRY(cuda_commit_room(be, how->n_params, how->n_spans));
    struct cuda_update *u = be->update;
    char *host = cuda_update_host(be);
    struct kern_rules *rules = &((struct cuda_update_head *)(void *)host)->rules;
    struct cuda_commit_slot *slot = &be->commits[be->n_commits % BST_COMMITS];

    BST_ASSERT(be->n_commits - be->n_fetched < BST_COMMITS);
    cuda_write_rules(&how->optim, rules);
    rules->v_factor = (float)how->momentum_factor;
    rules->max_norm = how->max_grad_norm;
    rules->scales = be->type == KERN_F16;
    rules->number = (double)(be->n_commits + 1);
    write_params(how, (struct kern_param *)(void *)(host + cuda_params_at()));
    const int64_t most = cuda_write_spans(how->spans, how->n_spans,
                                          (struct kern_span *)(void *)(host + cuda_spans_at(u)));
    slot->n_params = how->n_params;
    slot->weighs = how->weighs;
    slot->n_calls = cuda_link_calls(be);
    BST_TRY(cuda_update_send(be));
    BST_TRY(decide(be, how));
    BST_TRY(cuda_update_optimizer(be, how->optim.kind, how->n_spans, most, &how->blocks,
                                  cuda_decision_at(u->back)));
    BST_TRY(keep_statistics(be, how));
    BST_TRY(weigh(be, how));
    BST_TRY(ask_back(be, slot->done));
    be->n_commits++;
    return BST_OK;
}

static struct bst_commit_state state_of(const struct kern_scaler *s)
{
    return (struct bst_commit_state){
        .loss_scale = s->scale, .good = (uint32_t)s->good, .steps = (uint64_t)s->steps};
}

/* Behind a collective that this rank has left the queue goes on, and says so itself. Of a device
 * that has died since, what had come by then is here all the same; both ends are looked at, since
 * the copy may have been cut. */
static enum bst_err wait_for_result(struct bst_be *be, cudaEvent_t done, char *back, double number)
{
    enum bst_err err = cuda_wait_event(be, done);

    if (!err)
        return BST_OK;
    const struct bst_failure why = bst_err_keep(err);
    if (err != BST_E_CONTEXT && err != BST_E_DEVICE && !be->is_hung && !cuda_wait(be)) {
        cuda_link_owes(be);
        return BST_OK;
    }
    if (cuda_decision_at(back)->number == number && *cuda_end_at(be->update, back) == number)
        return BST_OK;
    return bst_err_restore(&why);
}

static double seconds_between(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;

    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return (double)ms * 1e-3;
}

static void take(const struct bst_be *be, const struct cuda_commit_slot *slot, char *back,
                 struct bst_commit_result *out)
{
    const struct kern_decision *d = cuda_decision_at(back);
    double *const sums = out->sum_squares, *const weights = out->weight_squares;

    *out = (struct bst_commit_result){
        .grad_norm = d->norm,
        .first_nonfinite = d->first_bad,
        .last_nonfinite = d->last_bad,
        .n_zero = d->n_zero,
        .skipped = d->skip,
        .clipped = d->clipped,
        .loss_scale = d->scale,
        .sum_squares = sums,
        .weight_squares = weights,
        .after = state_of(&d->after),
        .step = {.loss_sum = d->loss[0].sum,
                 .correct = d->loss[0].correct,
                 .targets = d->loss[0].targets,
                 .exact = d->loss[0].exact,
                 .pair_loss_sum = d->loss[1].sum,
                 .pair_correct = d->loss[1].correct},
    };
    memcpy(sums, cuda_sums_at(back), (size_t)slot->n_params * sizeof *sums);
    if (slot->weighs)
        memcpy(weights, cuda_weights_at(be->update, back),
               (size_t)slot->n_params * sizeof *weights);
    for (int i = 0; i < slot->n_parts; i++)
        out->part_squares += cuda_parts_at(be->update, back)[i];
    if (slot->is_timed)
        out->busy_seconds = seconds_between(slot->began, slot->ended);
}

/* For the next one that has its place; a rank without samples has no steps. */
static void clear(struct cuda_commit_slot *slot)
{
    slot->is_timed = slot->weighs = false;
    slot->n_parts = 0;
}

enum bst_err cuda_committed(struct bst_be *be, struct bst_commit_result *out)
{
    BST_ASSERT(be->n_fetched < be->n_commits);
    const uint64_t n = be->n_fetched++;
    struct cuda_commit_slot *slot = &be->commits[n % BST_COMMITS];
    char *back = cuda_back_of(be, n);

    BST_TRY(wait_for_result(be, slot->done, back, (double)(n + 1)));
    if (cuda_decision_at(back)->closed)
        return cuda_link_why(be);
    cuda_link_is_over(be, slot->n_calls);
    take(be, slot, back, out);
    clear(slot);
    return BST_OK;
}

void cuda_forget(struct bst_be *be)
{
    cuda_link_give_up(be);
    if (be->is_hung || cuda_wait(be))
        be->steps.n_done = be->steps.n_begun; /* nothing comes of them any more */
    be->n_fetched = be->n_commits;
    for (int i = 0; i < BST_COMMITS; i++)
        clear(&be->commits[i]);
}

enum bst_err cuda_set_commit_state(struct bst_be *be, const struct bst_commit_state *s)
{
    const struct kern_scaler at = {
        .scale = s->loss_scale, .steps = (int64_t)s->steps, .good = (int32_t)s->good};

    return cuda_upload(be, be->scaler, &at, sizeof at);
}
