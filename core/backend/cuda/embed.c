/* Where sequences begin: rows of a table by token, and what tells positions apart; and the first
 * position alone, where one may end.
 *
 * Tokens come from the host, which sees that each is a row of the table. For backward it sorts
 * their places by token, so that each row of the gradient has one owner, that adds in the order of
 * the batch: no atomics, and the same bits each time. */
#include <string.h>

#include "core/backend/cuda/be.h"
#include "core/backend/tokens.h"
#include "core/base/alloc.h"

struct cuda_sorted {
    int32_t *start; /* [table + 1] */
    /* What goes to the device: the order of places, then pieces; for each step that may be on its
     * way, from page-locked memory. */
    char *block;
    size_t start_bytes, block_bytes;
};

void cuda_seq_layouts(const struct bst_be *be, const struct bst_program *p,
                      const struct bst_instr *in, struct bst_wants *w)
{
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = cuda_seq_layout(be, cuda_src_shape(p, in, k));
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = cuda_seq_layout(be, cuda_dst_shape(p, in, k));
}

static enum bst_err to_device(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    return cuda_fail(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, be->stream),
                     "tokens to the device");
}

static enum bst_err embed_fwd_describe(struct bst_be *be, const struct bst_program *p,
                                       const struct bst_instr *in, bool accumulate,
                                       struct bst_wants *w, struct cuda_handle *h)
{
    (void)accumulate;
    (void)h;
    cuda_seq_layouts(be, p, in, w);
    w->scratch_bytes = (size_t)cuda_rows(cuda_dst_shape(p, in, 0)) * sizeof(int32_t);
    return BST_OK;
}

static enum bst_err embed_fwd_run(struct bst_be *be, struct cuda_handle *h,
                                  const struct bst_call *c)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    struct kern_embed a = {
        .table = c->src[0],
        .y = c->dst[0],
        .rows = cuda_rows(s),
        .width = (int)cuda_width(s),
        .scale = c->in->attr.scale,
    };
    const int32_t *tokens;

    (void)h;
    BST_TRY(bst_step_tokens(c->step, c->in->attr.stream, s, cuda_src_shape(c->p, c->in, 0)->d[0],
                            &tokens, &a.valid));
    a.token = cuda_input(be, c->step, tokens);
    if (!a.token) {
        BST_TRY(to_device(be, c->scratch, tokens, (size_t)a.valid * sizeof *tokens));
        a.token = c->scratch;
    }
    return cuda_fail(kern_run_embed(be->stream, be->type, &a), "embedding");
}

static size_t order_bytes(int64_t rows)
{
    return cuda_round_up((size_t)rows * sizeof(int32_t));
}

/* Of `rows` places: each piece has one at least, and one that joins others' sums stands for more
 * places than there are pieces. */
static size_t sorted_bytes(int64_t rows)
{
    return order_bytes(rows) + cuda_round_up((size_t)rows * sizeof(struct kern_embed_piece));
}

/* A token with more places than a piece takes has at most twice the pieces that its places fill. */
static size_t partial_bytes(int64_t rows, int64_t width)
{
    return (size_t)(2 * rows / KERN_EMBED_PIECE) * (size_t)width * sizeof(float);
}

void cuda_sorted_free(struct bst_be *be, struct cuda_sorted *s)
{
    if (!s)
        return;
    bst_alloc_free(s->start, s->start_bytes);
    cuda_free_host(be, s->block, 0);
    bst_free(s);
}

static enum bst_err sorted_new(int64_t rows, int64_t table, struct cuda_sorted **out)
{
    struct cuda_sorted *s = bst_xalloc(sizeof *s);
    void *start = NULL, *block = NULL;

    *s = (struct cuda_sorted){.start_bytes = (size_t)(table + 1) * sizeof *s->start,
                              .block_bytes = sorted_bytes(rows)};
    *out = s;
    BST_TRY(bst_alloc(s->start_bytes, &start));
    s->start = start;
    BST_TRY(cuda_fail(cudaHostAlloc(&block, BST_STEP_SLOTS * s->block_bytes, cudaHostAllocDefault),
                      "page-locked memory"));
    s->block = block;
    return BST_OK;
}

static enum bst_err embed_bwd_describe(struct bst_be *be, const struct bst_program *p,
                                       const struct bst_instr *in, bool accumulate,
                                       struct bst_wants *w, struct cuda_handle *h)
{
    const struct bst_shape *s = cuda_src_shape(p, in, 0);
    const int64_t rows = cuda_rows(s);

    (void)accumulate;
    cuda_seq_layouts(be, p, in, w);
    w->scratch_bytes = sorted_bytes(rows) + partial_bytes(rows, cuda_width(s));
    return be->answers ? BST_OK : sorted_new(rows, cuda_dst_shape(p, in, 0)->d[0], &h->sorted);
}

/* Places by token: afterwards those of t end at start[t]. */
static void sort(const int32_t *tokens, int64_t rows, int64_t table, int32_t *start, int32_t *order)
{
    memset(start, 0, (size_t)(table + 1) * sizeof *start);
    for (int64_t r = 0; r < rows; r++)
        start[tokens[r] + 1]++;
    for (int64_t t = 0; t < table; t++)
        start[t + 1] += start[t];
    for (int64_t r = 0; r < rows; r++)
        order[start[tokens[r]]++] = (int32_t)r;
}

struct cut {
    int n_pieces, n_joins, n_partial;
};

/* Pieces of one token, into the partial sums' next rows where there are several. */
static void cut_token(struct cut *n, int32_t token, int32_t from, int32_t to,
                      struct kern_embed_piece *piece)
{
    const bool several = to - from > KERN_EMBED_PIECE;

    for (; from < to; from += KERN_EMBED_PIECE) {
        const int32_t end = to - from > KERN_EMBED_PIECE ? from + KERN_EMBED_PIECE : to;
        const int32_t partial = several ? n->n_partial++ : -1;

        piece[n->n_pieces++] = (struct kern_embed_piece){token, from, end, partial};
    }
}

/* The pieces, and behind them those that join the sums of the tokens that have several. */
static struct cut cut(const int32_t *end, int64_t table, struct kern_embed_piece *piece)
{
    struct cut n = {0};

    for (int64_t t = 0; t < table; t++)
        cut_token(&n, (int32_t)t, t ? end[t - 1] : 0, end[t], piece);
    for (int i = 0; i < n.n_pieces; i++) {
        const struct kern_embed_piece p = piece[i];
        struct kern_embed_piece *last = &piece[n.n_pieces + n.n_joins - 1];

        if (p.partial < 0)
            continue;
        if (n.n_joins && last->token == p.token)
            last->to++;
        else
            piece[n.n_pieces + n.n_joins++] =
                (struct kern_embed_piece){p.token, p.partial, p.partial + 1, -1};
    }
    return n;
}

static enum bst_err embed_bwd_run(struct bst_be *be, struct cuda_handle *h,
                                  const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const int64_t table = cuda_dst_shape(c->p, c->in, 0)->d[0], all = cuda_rows(s);
    char *there = c->scratch;
    char *block = h->sorted->block + cuda_step_slot(be) * h->sorted->block_bytes;
    const int32_t *tokens;
    int64_t rows;

    BST_TRY(bst_step_tokens(c->step, c->in->attr.stream, s, table, &tokens, &rows));
    sort(tokens, rows, table, h->sorted->start, (int32_t *)(void *)block);
    const struct cut n = cut(h->sorted->start, table, (void *)(block + order_bytes(all)));
    struct kern_embed_bwd a = {
        .dy = c->src[0],
        .order = (const int32_t *)(void *)there,
        .piece = (const struct kern_embed_piece *)(void *)(there + order_bytes(all)),
        .dtable = c->dst[0],
        .partial = (float *)(void *)(there + sorted_bytes(all)),
        .n = n.n_pieces,
        .width = (int)cuda_width(s),
        .scale = c->in->attr.scale,
        .add = cuda_adds(c, 0),
    };
    BST_TRY(to_device(be, there, block,
                      order_bytes(all) +
                          (size_t)(n.n_pieces + n.n_joins) * sizeof(struct kern_embed_piece)));
    if (!a.add)
        BST_TRY(cuda_fail(
            cudaMemsetAsync(a.dtable, 0, (size_t)(table * a.width) * sizeof(float), be->stream),
            "a table's gradient"));
    if (a.n)
        BST_TRY(cuda_fail(kern_run_embed_bwd(be->stream, be->type, &a), "a table's gradient"));
    if (!n.n_joins)
        return BST_OK;
    a.dy = a.partial;
    a.order = NULL;
    a.piece += n.n_pieces;
    a.n = n.n_joins;
    return cuda_fail(kern_run_embed_bwd(be->stream, KERN_F32, &a), "a table's gradient");
}

/* y of the same shape as x, in its place where that is free; no scratch. */
static enum bst_err plain_describe(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cuda_handle *h)
{
    (void)accumulate;
    (void)h;
    cuda_seq_layouts(be, p, in, w);
    if (in->op == BST_I_POSITION_FWD || in->op == BST_I_SINUSOID)
        w->inplace[0] = 0;
    return BST_OK;
}

static enum bst_err position_fwd_run(struct bst_be *be, struct cuda_handle *h,
                                     const struct bst_call *c)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    const struct kern_position a = {c->src[0], c->src[1], c->dst[0], bst_shape_count(s),
                                    s->d[1] * s->d[2]};

    (void)h;
    return cuda_fail(kern_run_position(be->stream, be->type, &a), "positions");
}

static enum bst_err position_bwd_run(struct bst_be *be, struct cuda_handle *h,
                                     const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const struct kern_position_bwd a = {c->src[0],
                                        c->dst[0],
                                        s->d[0],
                                        s->d[1] * s->d[2],
                                        bst_shape_count(cuda_dst_shape(c->p, c->in, 0)),
                                        cuda_adds(c, 0)};

    (void)h;
    return cuda_fail(kern_run_position_bwd(be->stream, be->type, &a), "positions' gradient");
}

static enum bst_err sinusoid_run(struct bst_be *be, struct cuda_handle *h, const struct bst_call *c)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    const struct kern_sinusoid a = {c->src[0], c->dst[0], s->d[0], (int)s->d[1], (int)s->d[2]};

    (void)h;
    return cuda_fail(kern_run_sinusoid(be->stream, be->type, &a), "positions");
}

static enum bst_err first_fwd_run(struct bst_be *be, struct cuda_handle *h,
                                  const struct bst_call *c)
{
    const struct bst_shape *s = cuda_src_shape(c->p, c->in, 0);
    const struct kern_first a = {c->src[0], c->dst[0], s->d[0], (int)s->d[1], (int)s->d[2]};

    (void)h;
    return cuda_fail(kern_run_first(be->stream, be->type, &a), "first position");
}

static enum bst_err first_bwd_run(struct bst_be *be, struct cuda_handle *h,
                                  const struct bst_call *c)
{
    const struct bst_shape *s = cuda_dst_shape(c->p, c->in, 0);
    const struct kern_first_bwd a = {c->src[0], c->dst[0], s->d[0], (int)s->d[1], (int)s->d[2]};

    (void)h;
    return cuda_fail(kern_run_first_bwd(be->stream, be->type, &a), "first position's gradient");
}

const struct cuda_op cuda_op_embed_fwd = {embed_fwd_describe, embed_fwd_run};
const struct cuda_op cuda_op_embed_bwd = {embed_bwd_describe, embed_bwd_run};
const struct cuda_op cuda_op_position_fwd = {plain_describe, position_fwd_run};
const struct cuda_op cuda_op_position_bwd = {plain_describe, position_bwd_run};
const struct cuda_op cuda_op_sinusoid = {plain_describe, sinusoid_run};
const struct cuda_op cuda_op_first_fwd = {plain_describe, first_fwd_run};
const struct cuda_op cuda_op_first_bwd = {plain_describe, first_bwd_run};
