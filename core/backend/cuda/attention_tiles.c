/* Attention by matrix products and kernels of ours, for fp32, for TF32, and for what cuDNN does not
 * take. A chunk of heads is packed first, [head][row][dim] in the factors' type, padded with zeros
 * to what tensor cores take; that lets one batched product serve heads of all samples, and any
 * size. Then tile by tile: scores of some queries with all keys, a softmax by rows in place, the
 * product with the values. Backward makes the probabilities again from the logarithms kept (Dao et
 * al. 2022); the shares of several tiles in a key's gradient are added up one after another, always
 * alike.
 *
 * Matrices are by columns, as cuBLASLt counts: a packed head is dim × rows, a tile of scores
 * width × rows. */
#include "core/backend/cuda/attention.h"

enum { ROWS_MULTIPLE = 16, MULTIPLE = KERN_GROUP };

size_t cuda_attn_tile_most = 16 << 20; /* two of them stay in the cache of a large device */

static int64_t up_to(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t parts(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

static int64_t n_heads(const struct bst_attn *a)
{
    return a->n * a->heads;
}

/* As many heads at a time as the bound allows, in chunks of about one size; of a head that alone is
 * more, as many queries. */
static void cut(const struct bst_attn *a, struct cuda_attn_tiles *t)
{
    const int64_t all_rows = up_to(a->q.length, ROWS_MULTIPLE);

    t->width = up_to(a->k.length, MULTIPLE);
    t->dim = up_to(a->dim, MULTIPLE);
    const int64_t row_bytes = t->width * (int64_t)sizeof(float);
    const int64_t most = (int64_t)cuda_attn_tile_most / row_bytes; /* rows */
    if (most >= all_rows) {
        const int64_t chunks = parts(n_heads(a), most / all_rows);

        t->heads = parts(n_heads(a), chunks);
        t->rows = t->n_rows = all_rows;
        return;
    }
    const int64_t fit = most < ROWS_MULTIPLE ? ROWS_MULTIPLE : most / ROWS_MULTIPLE * ROWS_MULTIPLE;
    const int64_t tiles = parts(all_rows, fit);
    t->heads = 1;
    t->rows = up_to(parts(all_rows, tiles), ROWS_MULTIPLE);
    t->n_rows = tiles * t->rows;
}

static size_t factor_bytes(const struct bst_be *be)
{
    return cuda_is_mixed(be) ? 2 : sizeof(float);
}

/* From one row of probabilities to the next, in factors: they lie where fp32 scores did. */
static int64_t row_step(const struct bst_be *be, const struct cuda_attn_tiles *t)
{
    return t->width * (int64_t)(sizeof(float) / factor_bytes(be));
}

static enum bst_err make_products(struct bst_be *be, bool backward, struct cuda_attn_tiles *t,
                                  size_t *workspace)
{
    const int64_t step = row_step(be, t), rows = t->n_rows * t->dim, keys = t->width * t->dim;
    const struct cuda_product_ask scores = {.transpose_a = true,
                                            .m = t->width,
                                            .n = t->rows,
                                            .k = t->dim,
                                            .batch = t->heads,
                                            .step_a = keys,
                                            .step_b = rows,
                                            .step_d = t->rows * t->width};
    const struct cuda_product_ask by_row = {.m = t->dim,
                                            .n = t->rows,
                                            .k = t->width,
                                            .batch = t->heads,
                                            .ld_b = step,
                                            .step_a = keys,
                                            .step_b = t->rows * step,
                                            .step_d = rows};
    const struct cuda_product_ask by_key = {.transpose_b = true,
                                            .m = t->dim,
                                            .n = t->width,
                                            .k = t->rows,
                                            .batch = t->heads,
                                            .ld_b = step,
                                            .step_a = rows,
                                            .step_b = t->rows * step,
                                            .step_d = keys};

    BST_TRY(cuda_product_init(be, &scores, &t->scores));
    BST_TRY(cuda_product_init(be, &by_row, &t->by_row));
    if (backward)
        BST_TRY(cuda_product_init(be, &by_key, &t->by_key));
    *workspace = t->scores.workspace;
    if (t->by_row.workspace > *workspace)
        *workspace = t->by_row.workspace;
    if (t->by_key.workspace > *workspace)
        *workspace = t->by_key.workspace;
    return BST_OK;
}

enum bst_err cuda_attn_tiles_describe(struct bst_be *be, bool backward, struct cuda_attn *at,
                                      struct cuda_attn_room *room)
{
    struct cuda_attn_tiles *t = &at->by.tiles;
    size_t workspace = 0;

    cut(&at->a, t);
    BST_TRY(make_products(be, backward, t, &workspace));
    const size_t by_row = (size_t)(t->heads * t->n_rows * t->dim);
    const size_t by_key = (size_t)(t->heads * t->width * t->dim);
    const size_t scores = (size_t)(t->heads * t->rows * t->width) * sizeof(float);
    t->q = cuda_attn_take(room, by_row * factor_bytes(be));
    t->k = cuda_attn_take(room, by_key * factor_bytes(be));
    t->v = cuda_attn_take(room, by_key * factor_bytes(be));
    t->s = cuda_attn_take(room, scores);
    if (backward) {
        t->dy = cuda_attn_take(room, by_row * factor_bytes(be));
        t->delta = cuda_attn_take(room, (size_t)(t->heads * t->n_rows) * sizeof(float));
        t->dp = cuda_attn_take(room, scores);
        t->dq = cuda_attn_take(room, by_row * sizeof(float));
        t->dk = cuda_attn_take(room, by_key * sizeof(float));
        t->dv = cuda_attn_take(room, by_key * sizeof(float));
    } else {
        t->y = cuda_attn_take(room, by_row * sizeof(float));
    }
    t->workspace = cuda_attn_take(room, workspace);
    return BST_OK;
}

struct chunk {
    const struct cuda_attn_call *c;
    const struct cuda_attn_tiles *t;
    struct kern_attn_heads heads;
};

static enum bst_err pack(const struct chunk *h, const void *src, const struct bst_attn_operand *o,
                         size_t to, int64_t rows)
{
    const struct kern_attn_pack a = {.src = src,
                                     .dst = cuda_attn_at(h->c, to),
                                     .from = cuda_attn_rows(&h->c->at->a, o),
                                     .heads = h->heads,
                                     .rows = rows,
                                     .dim = (int)h->t->dim};

    return cuda_fail(kern_run_attn_pack(h->c->be->stream, h->c->at->type, &a), "heads");
}

static enum bst_err unpack(const struct chunk *h, size_t from, void *dst,
                           const struct bst_attn_operand *o, int64_t rows)
{
    const struct kern_attn_unpack a = {.src = cuda_attn_at(h->c, from),
                                       .dst = dst,
                                       .to = cuda_attn_rows(&h->c->at->a, o),
                                       .heads = h->heads,
                                       .rows = rows,
                                       .dim = (int)h->t->dim};

    return cuda_fail(kern_run_attn_unpack(h->c->be->stream, h->c->at->type, &a), "heads");
}

static enum bst_err pack_qkv(const struct chunk *h)
{
    const struct bst_attn *a = &h->c->at->a;

    BST_TRY(pack(h, h->c->q, &a->q, h->t->q, h->t->n_rows));
    BST_TRY(pack(h, h->c->k, &a->k, h->t->k, h->t->width));
    return pack(h, h->c->v, &a->v, h->t->v, h->t->width);
}

/* Row `first` of each head's, of factors or of results. */
static void *row_of(const struct chunk *h, size_t packed, int64_t first, size_t bytes)
{
    return cuda_attn_at(h->c, packed + (size_t)(first * h->t->dim) * bytes);
}

static enum bst_err multiply(const struct chunk *h, const struct cuda_product *p, const void *a,
                             const void *b, void *d, bool add)
{
    return cuda_product_run(h->c->be, p, a, b, d, NULL, add, cuda_attn_at(h->c, h->t->workspace));
}

static struct kern_attn_tile tile_at(const struct chunk *h, int64_t first)
{
    const struct bst_attn *a = &h->c->at->a;

    return (struct kern_attn_tile){.heads = h->heads,
                                   .drop = h->c->drop,
                                   .keys = h->c->keys,
                                   .first = first,
                                   .rows = h->t->rows,
                                   .tq = a->q.length,
                                   .width = (int)h->t->width,
                                   .causal = a->causal,
                                   .scale = (float)a->scale};
}

static enum bst_err tile_fwd(const struct chunk *h, int64_t first)
{
    const struct cuda_attn_tiles *t = h->t;
    const size_t bytes = factor_bytes(h->c->be);
    const struct kern_attn_softmax a = {
        .tile = tile_at(h, first), .scores = cuda_attn_at(h->c, t->s), .lse = h->c->lse};

    BST_TRY(multiply(h, &t->scores, cuda_attn_at(h->c, t->k), row_of(h, t->q, first, bytes),
                     a.scores, false));
    BST_TRY(cuda_fail(kern_run_attn_softmax(h->c->be->stream, h->c->at->type, &a), "softmax"));
    return multiply(h, &t->by_row, cuda_attn_at(h->c, t->v), a.scores,
                    row_of(h, t->y, first, sizeof(float)), false);
}

static enum bst_err chunk_fwd(const struct chunk *h)
{
    BST_TRY(pack_qkv(h));
    for (int64_t first = 0; first < h->t->n_rows; first += h->t->rows)
        BST_TRY(tile_fwd(h, first));
    return unpack(h, h->t->y, h->c->y, &h->c->at->a.y, h->t->n_rows);
}

/* dv and dk gather from all tiles; dq is the tile's own. */
static enum bst_err tile_bwd(const struct chunk *h, int64_t first)
{
    const struct cuda_attn_tiles *t = h->t;
    const size_t bytes = factor_bytes(h->c->be);
    void *q = row_of(h, t->q, first, bytes), *dy = row_of(h, t->dy, first, bytes);
    const struct kern_attn_grad a = {.tile = tile_at(h, first),
                                     .scores = cuda_attn_at(h->c, t->s),
                                     .dp = cuda_attn_at(h->c, t->dp),
                                     .lse = h->c->lse_read,
                                     .delta = cuda_attn_at(h->c, t->delta),
                                     .delta_rows = t->n_rows};

    BST_TRY(multiply(h, &t->scores, cuda_attn_at(h->c, t->k), q, a.scores, false));
    BST_TRY(multiply(h, &t->scores, cuda_attn_at(h->c, t->v), dy, a.dp, false));
    BST_TRY(
        cuda_fail(kern_run_attn_grad(h->c->be->stream, h->c->at->type, &a), "softmax backward"));
    BST_TRY(multiply(h, &t->by_key, dy, a.scores, cuda_attn_at(h->c, t->dv), first > 0));
    BST_TRY(multiply(h, &t->by_key, q, a.dp, cuda_attn_at(h->c, t->dk), first > 0));
    return multiply(h, &t->by_row, cuda_attn_at(h->c, t->k), a.dp,
                    row_of(h, t->dq, first, sizeof(float)), false);
}

/* All of a chunk is read before its gradients are written: they may lie where its heads do. */
static enum bst_err chunk_bwd(const struct chunk *h)
{
    const struct bst_attn *a = &h->c->at->a;
    const struct kern_attn_delta delta = {.dy = h->c->dy,
                                          .y = h->c->y_read,
                                          .delta = cuda_attn_at(h->c, h->t->delta),
                                          .at = cuda_attn_rows(a, &a->y),
                                          .heads = h->heads,
                                          .rows = h->t->n_rows};

    BST_TRY(pack_qkv(h));
    BST_TRY(pack(h, h->c->dy, &a->y, h->t->dy, h->t->n_rows));
    BST_TRY(cuda_fail(kern_run_attn_delta(h->c->be->stream, h->c->at->type, &delta),
                      "softmax backward"));
    for (int64_t first = 0; first < h->t->n_rows; first += h->t->rows)
        BST_TRY(tile_bwd(h, first));
    BST_TRY(unpack(h, h->t->dq, h->c->dq, &a->q, h->t->n_rows));
    BST_TRY(unpack(h, h->t->dk, h->c->dk, &a->k, h->t->width));
    return unpack(h, h->t->dv, h->c->dv, &a->v, h->t->width);
}

enum bst_err cuda_attn_tiles_run(const struct cuda_attn_call *c, bool backward)
{
    const struct bst_attn *a = &c->at->a;
    struct chunk h = {.c = c, .t = &c->at->by.tiles};

    for (int64_t first = 0; first < n_heads(a); first += h.t->heads) {
        h.heads = (struct kern_attn_heads){first, h.t->heads, n_heads(a), (int)a->heads};
        BST_TRY(backward ? chunk_bwd(&h) : chunk_fwd(&h));
    }
    return BST_OK;
}
