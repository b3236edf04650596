/* The optimizers, and the end of an update as one: what the host has to say goes over in one copy,
 * then everything runs on the stream, the decision whether to move anything included. Nothing here
 * waits but what has to give numbers back. */
#include <string.h>

#include "core/backend/cuda/be.h"
#include "core/base/alloc.h"

/* What lies in memory in this order: rules and a decision, the parameters, the spans; all written
 * by the host. Behind them, on the device alone, partial sums; then what goes back. */
struct cuda_update {
    int most_params, most_spans; /* room for */
    char *host, *device;
    double *partial;
    double *sums, *sums_host;
    struct kern_decision *decision, *decision_host;
    int n_params; /* of the commit that is pending */
    bool is_pending;
};

struct head {
    struct kern_rules rules;
    struct kern_decision given; /* of an optimizer that is called by itself */
};

static size_t params_at(void)
{
    return cuda_round_up(sizeof(struct head));
}

static size_t spans_at(const struct cuda_update *u)
{
    return params_at() + cuda_round_up((size_t)u->most_params * sizeof(struct kern_param));
}

static size_t all_bytes(const struct cuda_update *u)
{
    return spans_at(u) + (size_t)u->most_spans * sizeof(struct kern_span);
}

void cuda_update_free(struct cuda_update *u)
{
    if (!u)
        return;
    cudaFreeHost(u->host);
    cudaFree(u->device);
    cudaFree(u->partial);
    cudaFree(u->sums);
    cudaFreeHost(u->sums_host);
    cudaFree(u->decision);
    cudaFreeHost(u->decision_host);
    bst_free(u);
}

static cudaError_t pinned(void *out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

static enum bst_err allocate(struct cuda_update *u)
{
    const size_t spans = 2 * (size_t)u->most_spans, params = (size_t)u->most_params;
    const size_t partials = (spans > params ? spans : params) * KERN_SQUARES_BLOCKS + 1;
    const size_t sums = (params + 1) * sizeof(double);
    cudaError_t e = pinned(&u->host, all_bytes(u));

    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->device, all_bytes(u));
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->partial, partials * sizeof *u->partial);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->sums, sums);
    if (e == cudaSuccess)
        e = pinned(&u->sums_host, sums);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->decision, sizeof *u->decision);
    if (e == cudaSuccess)
        e = pinned(&u->decision_host, sizeof *u->decision_host);
    return cuda_fail(e, "room for an update's end");
}

/* Made anew where there is less. */
enum bst_err cuda_commit_room(struct bst_be *be, int n_params, int n_spans)
{
    struct cuda_update *u = be->update;

    if (u && u->most_params >= n_params && u->most_spans >= n_spans)
        return BST_OK;
    BST_TRY(cuda_wait(be));
    const struct cuda_update had = u ? *u : (struct cuda_update){0};
    cuda_update_free(u);
    be->update = u = bst_xalloc(sizeof *u);
    u->most_params = n_params > had.most_params ? n_params : had.most_params;
    u->most_spans = n_spans > had.most_spans ? n_spans : had.most_spans;
    enum bst_err err = allocate(u);
    if (err) {
        cuda_update_free(u);
        be->update = NULL;
    }
    return err;
}

static void write_rules(const struct bst_optim *o, struct kern_rules *r)
{
    *r = (struct kern_rules){
        .kind = (int32_t)o->kind,
        .nesterov = o->nesterov,
        .momentum = (float)o->momentum,
        .v_factor = 1,
        .epsilon = (float)o->epsilon,
        .keep_m = (float)(1 - o->beta1),
        .keep_v = (float)(1 - o->beta2),
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .trust = o->trust,
    };
}

static int64_t floats(size_t bytes)
{
    return (int64_t)(bytes / sizeof(float));
}

/* Returns the largest one's count. */
static int64_t write_spans(const struct bst_span *spans, int n, struct kern_span *out)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++) {
        out[i] = (struct kern_span){
            .offset = floats(spans[i].offset),
            .count = floats(spans[i].bytes),
            .lr = (float)spans[i].lr,
            .weight_decay = (float)spans[i].weight_decay,
            .trusted = spans[i].trusted,
        };
        most = out[i].count > most ? out[i].count : most;
    }
    return most;
}

static void write_params(const struct bst_commit *how, struct kern_param *out)
{
    for (int i = 0; i < how->n_params; i++)
        out[i] = (struct kern_param){.offset = floats(how->params[i].offset),
                                     .count = floats(how->params[i].bytes),
                                     .frozen = !(how->factor[i] > 0)};
}

static enum bst_err send(struct bst_be *be)
{
    const struct cuda_update *u = be->update;

    return cuda_fail(
        cudaMemcpyAsync(u->device, u->host, all_bytes(u), cudaMemcpyHostToDevice, be->stream),
        "an update's numbers to the device");
}

static enum bst_err sweep(struct bst_be *be, struct kern_optim *a, enum kern_sweep which)
{
    a->sweep = which;
    return cuda_fail(kern_run_optim(be->stream, KERN_F32, a), "optimizer");
}

/* Over the spans that were written, as `decision` says. */
static enum bst_err run_optimizer(struct bst_be *be, enum bst_optimizer kind, int n_spans,
                                  int64_t most, const struct bst_optim_blocks *b,
                                  const struct kern_decision *decision)
{
    const struct cuda_update *u = be->update;
    struct kern_optim a = {
        .rules = &((const struct head *)(void *)u->device)->rules,
        .decision = decision,
        .span = (const struct kern_span *)(void *)(u->device + spans_at(u)),
        .w = b->weight,
        .s0 = b->state[0],
        .s1 = b->state[1],
        .g = b->grad,
        .partial = u->partial,
        .most = most,
        .n = n_spans,
    };

    if (!n_spans)
        return BST_OK;
    if (kind != BST_OPTIMIZER_LAMB && kind != BST_OPTIMIZER_LARS)
        return sweep(be, &a, KERN_SWEEP_ALL);
    BST_TRY(sweep(be, &a, KERN_SWEEP_NORMS));
    return sweep(be, &a, KERN_SWEEP_WEIGHTS);
}

enum bst_err cuda_optimize(struct bst_be *be, const struct bst_optim *how,
                           const struct bst_span *spans, int n_spans,
                           const struct bst_optim_blocks *blocks)
{
    BST_TRY(cuda_commit_room(be, 0, n_spans));
    struct cuda_update *u = be->update;
    struct head *head = (struct head *)(void *)u->host;
    const struct kern_decision *given = &((const struct head *)(void *)u->device)->given;

    write_rules(how, &head->rules);
    head->given = (struct kern_decision){.grad_factor = (float)how->grad_factor};
    if (blocks->state[1]) { /* adamw, lamb */
        head->given.unbias_m = (float)bst_optim_unbias_m(how);
        head->given.unbias_root_v = (float)bst_optim_unbias_root_v(how);
    }
    const int64_t most =
        write_spans(spans, n_spans, (struct kern_span *)(void *)(u->host + spans_at(u)));
    BST_TRY(send(be));
    BST_TRY(run_optimizer(be, how->kind, n_spans, most, blocks, given));
    return cuda_wait(be); /* also for `host`, which the next call writes to */
}

static enum bst_err decide(struct bst_be *be, const struct bst_commit *how)
{
    const struct cuda_update *u = be->update;
    const struct kern_param *param = (const struct kern_param *)(void *)(u->device + params_at());
    const struct kern_grad_squares squares = {how->blocks.grad, param, u->partial, how->n_params};
    const struct kern_decide a = {
        .rules = &((const struct head *)(void *)u->device)->rules,
        .param = param,
        .partial = u->partial,
        .sum = u->sums,
        .scaler = be->scaler,
        .out = u->decision,
        .n = how->n_params,
    };

    if (how->n_params)
        BST_TRY(cuda_fail(kern_run_grad_squares(be->stream, KERN_F32, &squares), "norms"));
    return cuda_fail(kern_run_decide(be->stream, KERN_F32, &a), "norms");
}

static enum bst_err keep_statistics(struct bst_be *be, const struct bst_commit *how)
{
    const struct kern_keep a = {be->update->decision, how->statistics, how->staged,
                                floats(how->state_bytes)};

    return how->state_bytes
               ? cuda_fail(kern_run_keep(be->stream, KERN_F32, &a), "running statistics")
               : BST_OK;
}

static enum bst_err ask_back(struct bst_be *be, int n_params)
{
    struct cuda_update *u = be->update;

    BST_TRY(cuda_fail(cudaMemcpyAsync(u->decision_host, u->decision, sizeof *u->decision,
                                      cudaMemcpyDeviceToHost, be->stream),
                      "an update's result"));
    return n_params ? cuda_fail(cudaMemcpyAsync(u->sums_host, u->sums,
                                                (size_t)n_params * sizeof *u->sums,
                                                cudaMemcpyDeviceToHost, be->stream),
                                "an update's result")
                    : BST_OK;
}

/* The kernels keep order by the stream; nothing asks what was decided. */
enum bst_err cuda_commit(struct bst_be *be, const struct bst_commit *how)
{
    BST_TRY(cuda_commit_room(be, how->n_params, how->n_spans));
    struct cuda_update *u = be->update;
    struct kern_rules *rules = &((struct head *)(void *)u->host)->rules;

    BST_ASSERT(!u->is_pending);
    write_rules(&how->optim, rules);
    rules->v_factor = (float)how->momentum_factor;
    rules->max_norm = how->max_grad_norm;
    rules->scales = be->type == KERN_F16;
    rules->drop = how->drop;
    write_params(how, (struct kern_param *)(void *)(u->host + params_at()));
    const int64_t most =
        write_spans(how->spans, how->n_spans, (struct kern_span *)(void *)(u->host + spans_at(u)));
    u->n_params = how->n_params;
    BST_TRY(send(be));
    BST_TRY(decide(be, how));
    BST_TRY(run_optimizer(be, how->optim.kind, how->n_spans, most, &how->blocks, u->decision));
    BST_TRY(keep_statistics(be, how));
    BST_TRY(ask_back(be, how->n_params));
    u->is_pending = true;
    return BST_OK;
}

static struct bst_commit_state state_of(const struct kern_scaler *s)
{
    return (struct bst_commit_state){
        .loss_scale = s->scale, .good = (uint32_t)s->good, .steps = (uint64_t)s->steps};
}

enum bst_err cuda_committed(struct bst_be *be, struct bst_commit_result *out)
{
    struct cuda_update *u = be->update;

    BST_ASSERT(u && u->is_pending);
    u->is_pending = false;
    BST_TRY(cuda_wait(be));
    const struct kern_decision *d = u->decision_host;
    out->grad_norm = d->norm;
    out->first_nonfinite = d->first_bad;
    out->last_nonfinite = d->last_bad;
    out->n_zero = d->n_zero;
    out->skipped = d->skip;
    out->clipped = d->clipped;
    out->loss_scale = d->scale;
    out->after = state_of(&d->after);
    memcpy(out->sum_squares, u->sums_host, (size_t)u->n_params * sizeof *out->sum_squares);
    return BST_OK;
}

enum bst_err cuda_set_commit_state(struct bst_be *be, const struct bst_commit_state *s)
{
    const struct kern_scaler at = {
        .scale = s->loss_scale, .steps = (int64_t)s->steps, .good = (int32_t)s->good};

    return cuda_upload(be, be->scaler, &at, sizeof at);
}
