/* Attention by cuDNN's fused graph, on the instruction's own values. A plan is compiled by cuDNN
 * for a second or two, so the layers of a net share theirs. */
#include <float.h>

#include "core/backend/cuda/attention.h"
#include "core/backend/cuda/plan.h"

enum {
    KEY_BLOCK = 128,
    TILES = 16,     /* of the bound of one kind of scores: what pairs are to take here, */
    TILES_ONE = 64, /* and what they may where fewer samples are none */
    ALIGNED = 4,
};

static size_t mask_bytes(const struct bst_attn *a)
{
    return (size_t)(a->heads * a->q.length * a->k.length) * 2;
}

/* Of one sample what grows with pairs of queries and keys: dropout's mask; and where backward is to
 * be steady the shares that blocks of keys have in dq, which cuDNN then keeps apart. The block is
 * what its plans' workspace was found to go by; only the cut depends on it. */
static size_t pair_bytes(const struct cuda_attn_ask *ask, const struct bst_attn *a)
{
    const int64_t blocks = (a->k.length + KEY_BLOCK - 1) / KEY_BLOCK;
    size_t bytes = ask->drops ? mask_bytes(a) : 0;

    if (ask->backward && ask->steady)
        bytes += (size_t)(blocks * a->heads * a->q.length * a->dim) * sizeof(float);
    return bytes;
}

/* Whether n samples, all runs alike, begin where cuDNN takes a tensor: at whole ALIGNED numbers of
 * 32 bits. */
static bool is_cut(const struct bst_attn *a, int64_t n)
{
    return n == a->n || (a->n % n == 0 && n * a->heads * a->q.length % ALIGNED == 0);
}

/* The most samples at a time that keep to the bound, or the fewest; 0: those are too much. */
static int64_t samples_of(const struct cuda_attn_ask *ask, const struct bst_attn *a)
{
    const size_t each = pair_bytes(ask, a);
    int64_t n = 0;

    for (int64_t i = 1; i <= a->n; i++)
        if (is_cut(a, i) && (!n || (size_t)i * each <= TILES * cuda_attn_tile_most))
            n = i;
    return (size_t)n * each > TILES_ONE * cuda_attn_tile_most ? 0 : n;
}

static void lay_out(struct cuda_attn *at, bool keeps_lse, struct cuda_attn_room *room)
{
    struct cuda_attn_fused *f = &at->by.fused;
    const struct bst_attn *a = &at->a;
    const size_t rows = (size_t)(f->ask.n * a->heads * a->q.length) * sizeof(float);

    f->step = (f->ask.n + ALIGNED - 1) / ALIGNED * ALIGNED;
    const size_t lengths = (size_t)(a->n / f->ask.n * f->step) * sizeof(int32_t);
    f->given_queries = cuda_attn_take(room, lengths);
    f->given_keys = cuda_attn_take(room, lengths);
    if (!keeps_lse)
        f->lse = cuda_attn_take(room, rows);
    if (f->ask.drops)
        f->left = cuda_attn_take(room, (size_t)f->ask.n * mask_bytes(a));
    if (f->ask.backward)
        f->delta = cuda_attn_take(room, rows);
    if (f->ask.backward && !f->ask.steady)
        f->dq_sums = cuda_attn_take(room, rows * (size_t)a->dim);
    f->workspace = cuda_attn_take(room, (size_t)f->plan->workspace);
}

enum bst_err cuda_attn_fused_describe(struct bst_be *be, const struct bst_instr *in,
                                      struct cuda_attn *at, struct cuda_attn_room *room)
{
    struct cuda_attn_fused *f = &at->by.fused;
    const struct bst_attn *a = &at->a;

    if (!cuda_is_mixed(be))
        return bst_fail(BST_E_UNSUPPORTED, "cuDNN fuses attention in 16 bits");
    f->ask = (struct cuda_attn_ask){
        .backward = in->op == BST_I_ATTN_BWD,
        .type = be->type == KERN_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
        .heads = a->heads,
        .tq = a->q.length,
        .tk = a->k.length,
        .dim = a->dim,
        .packed = a->packed,
        .causal = a->causal,
        .padded = a->key_stream >= 0,
        .drops = in->attr.drop > 0,
        .steady = be->is_steady,
    };
    f->ask.n = samples_of(&f->ask, a);
    if (!f->ask.n)
        return bst_fail(BST_E_UNSUPPORTED, "one sample takes %zu bytes", pair_bytes(&f->ask, a));
    BST_TRY(cuda_attn_find(be, &f->ask, &f->plan));
    lay_out(at, f->ask.backward || in->n_dst > 1, room);
    return BST_OK;
}

/* Where samples from `first` on begin in an operand; NULL where there is none. */
static void *samples(const void *x, const struct bst_attn_operand *o, int64_t first)
{
    return x ? (char *)(uintptr_t)x + 2 * (first * o->length * o->row + o->at) : NULL;
}

static float *rows_of(const struct cuda_attn_call *c, const float *x, int64_t first)
{
    return (float *)(uintptr_t)x + first * c->at->a.heads * c->at->a.q.length;
}

static enum bst_err fill_mask(const struct cuda_attn_call *c, int64_t first)
{
    const struct cuda_attn_fused *f = &c->at->by.fused;
    const struct bst_attn *a = &c->at->a;
    const struct kern_attn_left m = {
        .left = cuda_attn_at(c, f->left),
        .drop = c->drop,
        .heads = {first * a->heads, f->ask.n * a->heads, a->n * a->heads, (int)a->heads},
        .tq = a->q.length,
        .tk = (int)a->k.length,
    };

    return cuda_fail(kern_run_attn_left(c->be->stream, c->at->type, &m), "dropout");
}

/* One run of the plan. */
static enum bst_err run_plan(const struct cuda_attn_call *c, int64_t first)
{
    const struct cuda_attn_fused *f = &c->at->by.fused;
    const struct bst_attn *a = &c->at->a;
    float scale = (float)a->scale, least = -FLT_MAX, factor = c->drop.factor, back = 1 / factor;
    const bool backward = f->ask.backward;
    const int64_t lengths = first / f->ask.n * f->step;
    const float *lse = backward ? c->lse_read : c->lse ? c->lse : cuda_attn_at(c, f->lse);
    void *const place[CUDA_ATTN_N] = {
        [CUDA_ATTN_Q] = samples(c->q, &a->q, first),
        [CUDA_ATTN_K] = samples(c->k, &a->k, first),
        [CUDA_ATTN_V] = samples(c->v, &a->v, first),
        [CUDA_ATTN_Y] = samples(backward ? c->y_read : c->y, &a->y, first),
        [CUDA_ATTN_LSE] = backward || c->lse ? rows_of(c, lse, first) : (void *)(uintptr_t)lse,
        [CUDA_ATTN_DY] = samples(c->dy, &a->y, first),
        [CUDA_ATTN_DQ] = samples(c->dq, &a->q, first),
        [CUDA_ATTN_DK] = samples(c->dk, &a->k, first),
        [CUDA_ATTN_DV] = samples(c->dv, &a->v, first),
        [CUDA_ATTN_QUERIES] = (int32_t *)cuda_attn_at(c, f->given_queries) + lengths,
        [CUDA_ATTN_KEYS] = (int32_t *)cuda_attn_at(c, f->given_keys) + lengths,
        [CUDA_ATTN_LEFT] = cuda_attn_at(c, f->left),
        [CUDA_ATTN_DELTA] = cuda_attn_at(c, f->delta),
        [CUDA_ATTN_DQ_SUMS] = cuda_attn_at(c, f->dq_sums),
        [CUDA_ATTN_SCALE] = &scale,
        [CUDA_ATTN_LEAST] = &least,
        [CUDA_ATTN_FACTOR] = &factor,
        [CUDA_ATTN_BACK] = &back,
    };
    int64_t id[CUDA_ATTN_N];
    void *address[CUDA_ATTN_N];
    const int n = cuda_attn_tensors(&f->ask, id);

    for (int i = 0; i < n; i++)
        address[i] = place[id[i]];
    return cuda_dnn_run(c->be->dnn, f->plan, n, id, address, cuda_attn_at(c, f->workspace));
}

static enum bst_err settle_one(const struct cuda_attn_call *c, void *x, int64_t length,
                               int64_t width, int64_t keyed)
{
    const struct kern_attn_settle s = {.x = x,
                                       .keys = c->keys,
                                       .n = c->at->a.n,
                                       .rows = length,
                                       .width = (int)width,
                                       .keyed = (int)keyed};

    return cuda_fail(kern_run_attn_settle(c->be->stream, c->at->type, &s), "padding");
}

/* cuDNN is told of at least one key and leaves open what it writes behind a sample's end. */
static enum bst_err settle(const struct cuda_attn_call *c)
{
    const struct bst_attn *a = &c->at->a;
    const int64_t width = a->y.row;

    if (!c->at->by.fused.ask.backward)
        return settle_one(c, c->y, a->q.length, width, width);
    if (a->packed)
        return settle_one(c, c->dq, a->q.length, 3 * width, width);
    BST_TRY(settle_one(c, c->dq, a->q.length, width, width));
    BST_TRY(settle_one(c, c->dk, a->k.length, width, 0));
    return settle_one(c, c->dv, a->k.length, width, 0);
}

enum bst_err cuda_attn_fused_run(const struct cuda_attn_call *c)
{
    const struct cuda_attn_fused *f = &c->at->by.fused;
    const struct bst_attn *a = &c->at->a;

    for (int64_t first = 0; first < a->n; first += f->ask.n) {
        if (f->ask.drops)
            BST_TRY(fill_mask(c, first));
        BST_TRY(run_plan(c, first));
    }
    return f->ask.padded || c->c->step->n_valid < a->n ? settle(c) : BST_OK;
}
