/* The optimizers: what the host has to say goes over in one copy, then everything runs on the
 * stream. */
#include <string.h>

#include "core/backend/cuda/update.h"
#include "core/base/alloc.h"

void cuda_update_free(struct cuda_update *u)
{
    if (!u)
        return;
    cudaFreeHost(u->host);
    cudaFree(u->device);
    cudaFree(u->partial);
    cudaFree(u->stats);
    cudaFree(u->back);
    cudaFreeHost(u->back_host);
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
    cudaError_t e = pinned(&u->host, BST_COMMITS * cuda_update_bytes(u));

    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->device, cuda_update_bytes(u));
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->partial, partials * sizeof *u->partial);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->stats, (KERN_SQUARES_BLOCKS + 1) * sizeof *u->stats);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&u->back, cuda_back_bytes(u));
    if (e == cudaSuccess)
        e = pinned(&u->back_host, BST_COMMITS * cuda_round_up(cuda_back_bytes(u)));
    if (e == cudaSuccess)
        memset(u->back_host, 0, BST_COMMITS * cuda_round_up(cuda_back_bytes(u)));
    return cuda_fail(e, "room for an update's end");
}

/* Made anew where there is less. */
enum bst_err cuda_commit_room(struct bst_be *be, int n_params, int n_spans)
{
    struct cuda_update *u = be->update;

    if (u && u->most_params >= n_params && u->most_spans >= n_spans)
        return BST_OK;
    BST_ASSERT(be->n_commits == be->n_fetched); /* what they came to would be lost */
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

void cuda_write_rules(const struct bst_optim *o, struct kern_rules *r)
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

int64_t cuda_write_spans(const struct bst_span *spans, int n, struct kern_span *out)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++) {
        out[i] = (struct kern_span){
            .offset = cuda_floats(spans[i].offset),
            .count = cuda_floats(spans[i].bytes),
            .lr = (float)spans[i].lr,
            .weight_decay = (float)spans[i].weight_decay,
            .trusted = spans[i].trusted,
        };
        most = out[i].count > most ? out[i].count : most;
    }
    return most;
}

enum bst_err cuda_update_send(struct bst_be *be)
{
    const struct cuda_update *u = be->update;

    return cuda_fail(cudaMemcpyAsync(u->device, cuda_update_host(be), cuda_update_bytes(u),
                                     cudaMemcpyHostToDevice, be->stream),
                     "an update's numbers to the device");
}

static enum bst_err sweep(struct bst_be *be, struct kern_optim *a, enum kern_sweep which)
{
    a->sweep = which;
    return cuda_fail(kern_run_optim(be->stream, KERN_F32, a), "optimizer");
}

enum bst_err cuda_update_optimizer(struct bst_be *be, enum bst_optimizer kind, int n_spans,
                                   int64_t most, const struct bst_optim_blocks *b,
                                   const struct kern_decision *decision)
{
    const struct cuda_update *u = be->update;
    struct kern_optim a = {
        .rules = &((const struct cuda_update_head *)(void *)u->device)->rules,
        .decision = decision,
        .span = (const struct kern_span *)(void *)(u->device + cuda_spans_at(u)),
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
    struct cuda_update_head *head = (struct cuda_update_head *)(void *)cuda_update_host(be);
    const struct kern_decision *given =
        &((const struct cuda_update_head *)(void *)u->device)->given;

    cuda_write_rules(how, &head->rules);
    head->given = (struct kern_decision){.grad_factor = (float)how->grad_factor};
    if (blocks->state[1]) { /* adamw, lamb */
        head->given.unbias_m = (float)bst_optim_unbias_m(how);
        head->given.unbias_root_v = (float)bst_optim_unbias_root_v(how);
    }
    const int64_t most = cuda_write_spans(
        spans, n_spans, (struct kern_span *)(void *)(cuda_update_host(be) + cuda_spans_at(u)));
    BST_TRY(cuda_update_send(be));
    BST_TRY(cuda_update_optimizer(be, how->kind, n_spans, most, blocks, given));
    return cuda_wait(be); /* also for `host`, which the next call writes to */
}
