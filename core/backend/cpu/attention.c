/* Attention without its T×T matrix (Dao et al. 2022): tiles of 64 queries by 64 keys pass through
 * the cache, forward with a running maximum and sum for each query, backward with the probabilities
 * worked out again from the logarithm of that sum, which is all that is kept. Operands of a tile
 * are copied side by side first, a head's features padded to whole vectors, so that one product
 * serves every size. A head of a sample, or forward a block of its queries, is one thread's. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/backend/attention.h"
#include "core/backend/cpu/be.h"
#include "core/backend/drop.h"

enum { TILE = 64 };

/* One thread's room, carved from the instruction's scratch. [TILE, wide] where nothing else is
 * said; a `_turned` one is [wide, TILE]. */
struct room {
    float *q, *dy, *k, *v;
    float *k_turned, *v_turned;
    float *p, *dp, *kept; /* [TILE, TILE]: probabilities, their gradient, what dropout left */
    float *acc, *acc2;    /* forward: the result; backward: dk, dv */
    float *dq;            /* [Tq, wide], Tq up to a multiple of 4: the whole of a head's, since all
                             its tiles add to it */
    float *delta;         /* [Tq] Σ p·dp of a query, which is Σ dy·y */
    float *most, *sum;    /* [TILE] running maximum and sum of exponentials */
    uint32_t *words;      /* [TILE] */
};

struct work {
    struct bst_be *be;
    const struct bst_call *c;
    struct bst_attn a;
    int64_t wide; /* features of a head, padded */
    const float *q, *k, *v;
    float *lse; /* [N, H, Tq] */
    struct room r;
    int64_t n, h, keys; /* the head at hand, and its keys that are no padding */
};

static size_t round_up(size_t n)
{
    return (n + 15) / 16 * 16;
}

struct carver {
    float *start; /* NULL: only to count */
    size_t at;
};

static float *carve(struct carver *c, size_t reals)
{
    float *p = c->start ? c->start + c->at : NULL;

    c->at += round_up(reals);
    return p;
}

/* Lays out one thread's room; the reals it takes. */
static size_t lay_out(const struct bst_attn *a, bool backward, struct carver at, struct room *r)
{
    size_t wide = round_up((size_t)a->dim), tq = (size_t)a->q.length;

    memset(r, 0, sizeof *r);
    r->q = carve(&at, TILE * wide);
    r->k_turned = carve(&at, TILE * wide);
    r->v = carve(&at, TILE * wide);
    r->p = carve(&at, TILE * TILE);
    r->acc = carve(&at, TILE * wide);
    r->most = carve(&at, TILE);
    r->sum = carve(&at, TILE);
    r->words = (uint32_t *)carve(&at, TILE);
    if (backward) {
        r->dy = carve(&at, TILE * wide);
        r->k = carve(&at, TILE * wide);
        r->v_turned = carve(&at, TILE * wide);
        r->dp = carve(&at, TILE * TILE);
        r->kept = carve(&at, TILE * TILE);
        r->acc2 = carve(&at, TILE * wide);
        r->dq = carve(&at, (tq + 3) / 4 * 4 * wide);
        r->delta = carve(&at, tq);
    }
    return at.at;
}

static size_t room_reals(const struct bst_attn *a, bool backward)
{
    struct room r;

    return lay_out(a, backward, (struct carver){.start = NULL}, &r);
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cpu_handle *h)
{
    struct bst_attn a = bst_attn_of(p, in);
    bool backward = in->op == BST_I_ATTN_BWD;

    if (backward)
        for (int i = 0; i < in->n_dst; i++)
            w->inplace[i] = 1 + i; /* see head_bwd() */
    else
        w->raw_bytes[1] = (size_t)(a.n * a.heads * a.q.length) * sizeof(float);
    w->scratch_bytes = (size_t)be->threads * room_reals(&a, backward) * sizeof(float);
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

static struct work work_of(struct bst_be *be, const struct bst_call *c)
{
    struct work w = {.be = be, .c = c, .a = bst_attn_of(c->p, c->in)};
    int first = c->in->op == BST_I_ATTN_BWD;

    w.wide = (int64_t)round_up((size_t)w.a.dim);
    w.q = c->src[first];
    w.k = w.a.packed ? w.q : c->src[first + 1];
    w.v = w.a.packed ? w.q : c->src[first + 2];
    w.lse = first ? c->src[c->in->n_src - 1] : c->in->n_dst > 1 ? c->dst[1] : NULL;
    return w;
}

/* Inside a team: this thread's room. */
static void enter(struct work *w, bool backward)
{
    size_t reals = room_reals(&w->a, backward);
    struct carver at = {(float *)w->c->scratch + (size_t)omp_get_thread_num() * reals, 0};

    lay_out(&w->a, backward, at, &w->r);
}

static int64_t tiles(int64_t length)
{
    return (length + TILE - 1) / TILE;
}

static int64_t in_tile(int64_t length, int64_t from)
{
    return length - from < TILE ? length - from : TILE;
}

static size_t at(const struct work *w, const struct bst_attn_operand *o, int64_t i)
{
    return (size_t)bst_attn_at(&w->a, o, w->n, w->h, i);
}

/* Rows from … of an operand, the rest of the tile and of each row 0. */
static void fetch(const struct work *w, float *to, const float *x, const struct bst_attn_operand *o,
                  int64_t from)
{
    int64_t n = in_tile(o->length, from);
    size_t dim = (size_t)w->a.dim, wide = (size_t)w->wide;

    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * wide, x + at(w, o, from + i), dim * sizeof *to);
        memset(to + (size_t)i * wide + dim, 0, (wide - dim) * sizeof *to);
    }
    memset(to + (size_t)n * wide, 0, (size_t)(TILE - n) * wide * sizeof *to);
}

/* [TILE, wide] → [wide, TILE] */
static void turn(const struct work *w, float *to, const float *rows)
{
    w->be->seq->turn(to, TILE, rows, (size_t)w->wide, TILE, (size_t)w->wide);
}

/* [TILE, TILE] = rows · turned */
static void product(const struct work *w, float *c, const float *rows, const float *turned)
{
    w->be->seq->tile(&(struct cpu_tile){.a = rows,
                                        .b = turned,
                                        .c = c,
                                        .a_row = (size_t)w->wide,
                                        .a_col = 1,
                                        .b_row = TILE,
                                        .c_row = TILE,
                                        .m = TILE,
                                        .n = TILE,
                                        .k = (int)w->a.dim});
}

/* c[TILE, wide] += s · rows, or sᵀ · rows. */
static void gather(const struct work *w, float *c, const float *s, bool turned, const float *rows)
{
    w->be->seq->tile(&(struct cpu_tile){.a = s,
                                        .b = rows,
                                        .c = c,
                                        .a_row = turned ? 1 : TILE,
                                        .a_col = turned ? TILE : 1,
                                        .b_row = (size_t)w->wide,
                                        .c_row = (size_t)w->wide,
                                        .m = TILE,
                                        .n = (int)w->wide,
                                        .k = TILE,
                                        .add = true});
}

/* Keys of the tile from j0 on that query i sees. */
static size_t seen(const struct work *w, int64_t i, int64_t j0)
{
    int64_t n = bst_attn_sees(&w->a, w->keys, i) - j0;

    return n < 0 || i >= w->a.q.length ? 0 : n < TILE ? (size_t)n : TILE;
}

/* to = x with dropout for query i and the keys from j0 on. */
static void drop(struct work *w, float *to, const float *x, int64_t i, int64_t j0)
{
    const struct bst_attr *attr = &w->c->in->attr;
    int64_t blocks = bst_drop_row_blocks(w->a.k.length), first = j0 / BST_DROP_BLOCK;
    int64_t n = blocks - first < TILE / BST_DROP_BLOCK ? blocks - first : TILE / BST_DROP_BLOCK;
    size_t count = (size_t)n * BST_DROP_BLOCK;

    bst_drop_words(w->c->step, attr, w->n,
                   bst_drop_first_block(attr, w->h, i, w->a.q.length, w->a.k.length) + first, n,
                   w->r.words);
    w->be->seq->drop(to, x, w->r.words, bst_drop_threshold(attr->drop),
                     (float)bst_drop_scale(attr->drop), count);
    memset(to + count, 0, (TILE - count) * sizeof *to);
}

/* Scores of one query become exp(score - maximum); what was gathered so far is brought to the new
 * maximum. */
static void softmax_row(struct work *w, int64_t i, int64_t row, int64_t j0)
{
    const struct cpu_vec_seq *v = w->be->seq;
    float *p = w->r.p + row * TILE, scale = (float)w->a.scale, most, factor;
    size_t n = seen(w, i, j0);

    memset(p + n, 0, (TILE - n) * sizeof *p);
    if (!n)
        return;
    most = v->max(p, n) * scale;
    if (most <= w->r.most[row]) {
        most = w->r.most[row];
    } else {
        factor = expf(w->r.most[row] - most);
        w->r.most[row] = most;
        w->r.sum[row] *= factor;
        v->affine(w->r.acc + row * w->wide, factor, 0.0f, (size_t)w->wide);
    }
    w->r.sum[row] += (float)v->exp_sum(p, p, scale, most, n);
    if (w->c->in->attr.drop > 0)
        drop(w, p, p, i, j0);
}

static void finish_row(struct work *w, int64_t i, int64_t row)
{
    float sum = w->r.sum[row];
    bool none = !bst_attn_sees(&w->a, w->keys, i);

    w->be->seq->copy_scaled((float *)w->c->dst[0] + at(w, &w->a.y, i), w->r.acc + row * w->wide,
                            none ? 0.0f : 1.0f / sum, (size_t)w->a.dim);
    if (w->lse)
        w->lse[(w->n * w->a.heads + w->h) * w->a.q.length + i] =
            none ? 0.0f : w->r.most[row] + logf(sum);
}

/* Queries from i0 on of the head at hand. */
static void queries_fwd(struct work *w, int64_t i0)
{
    int64_t n = in_tile(w->a.q.length, i0);
    int64_t keys = bst_attn_sees(&w->a, w->keys, i0 + n - 1);
    struct room *r = &w->r;

    fetch(w, r->q, w->q, &w->a.q, i0);
    memset(r->acc, 0, (size_t)(TILE * w->wide) * sizeof *r->acc);
    for (int i = 0; i < TILE; i++) {
        r->most[i] = -INFINITY;
        r->sum[i] = 0;
    }
    for (int64_t j0 = 0; j0 < keys; j0 += TILE) {
        fetch(w, r->v, w->k, &w->a.k, j0); /* only in passing */
        turn(w, r->k_turned, r->v);
        fetch(w, r->v, w->v, &w->a.v, j0);
        product(w, r->p, r->q, r->k_turned);
        for (int64_t i = 0; i < TILE; i++)
            softmax_row(w, i0 + i, i, j0);
        gather(w, r->acc, r->p, false, r->v);
    }
    for (int64_t i = 0; i < n; i++)
        finish_row(w, i0 + i, i);
}

static enum bst_err run_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct work whole = work_of(be, c);
    int64_t per_head = tiles(whole.a.q.length), n = whole.a.n * whole.a.heads * per_head;
    int team = h->count < CPU_SMALL / 4 ? 1 : be->threads;

#pragma omp parallel num_threads(team)
    {
        struct work w = whole;

        enter(&w, false);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) {
            w.n = i / per_head / w.a.heads;
            w.h = i / per_head % w.a.heads;
            w.keys = bst_attn_keys(&w.a, c->step, w.n);
            queries_fwd(&w, i % per_head * TILE);
        }
    }
    return BST_OK;
}

const struct cpu_op cpu_op_attn_fwd = {describe, run_fwd};

/* p, what dropout leaves of it, and ds of one query over one tile of keys. */
static void scores_bwd(struct work *w, int64_t i, int64_t row, int64_t j0)
{
    const struct cpu_vec_seq *v = w->be->seq;
    float *p = w->r.p + row * TILE, *dp = w->r.dp + row * TILE, *kept = w->r.kept + row * TILE;
    float scale = (float)w->a.scale;
    size_t n = seen(w, i, j0);

    memset(p + n, 0, (TILE - n) * sizeof *p);
    if (n)
        v->exp_sum(p, p, scale, w->lse[(w->n * w->a.heads + w->h) * w->a.q.length + i], n);
    if (w->c->in->attr.drop > 0 && n) {
        drop(w, kept, p, i, j0);
        drop(w, dp, dp, i, j0);
    } else if (w->c->in->attr.drop > 0) {
        memset(kept, 0, TILE * sizeof *kept);
    }
}

/* One tile: adds to acc (dk), acc2 (dv) and the head's dq. */
static void tile_bwd(struct work *w, int64_t i0, int64_t j0)
{
    struct room *r = &w->r;
    float *dq = r->dq + i0 * w->wide;
    int64_t n = in_tile(w->a.q.length, i0);

    fetch(w, r->q, w->q, &w->a.q, i0);
    fetch(w, r->dy, w->c->src[0], &w->a.y, i0);
    product(w, r->p, r->q, r->k_turned);
    product(w, r->dp, r->dy, r->v_turned);
    for (int64_t i = 0; i < TILE; i++)
        scores_bwd(w, i0 + i, i, j0);
    gather(w, r->acc2, w->c->in->attr.drop > 0 ? r->kept : r->p, true, r->dy);
    for (int64_t i = 0; i < n; i++)
        w->be->seq->softmax_bwd(r->p + i * TILE, r->dp + i * TILE, r->delta[i0 + i],
                                (float)w->a.scale, TILE);
    gather(w, r->acc, r->p, true, r->q);
    w->be->seq->tile(&(struct cpu_tile){.a = r->p,
                                        .b = r->k,
                                        .c = dq,
                                        .a_row = TILE,
                                        .a_col = 1,
                                        .b_row = (size_t)w->wide,
                                        .c_row = (size_t)w->wide,
                                        .m = (int)(n + 3) / 4 * 4,
                                        .n = (int)w->wide,
                                        .k = TILE,
                                        .add = true});
}

static void write_rows(const struct work *w, float *to, const struct bst_attn_operand *o,
                       const float *rows, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + at(w, o, from + i), rows + i * w->wide, (size_t)w->a.dim * sizeof *to);
}

/* The gradients may lie where queries, keys and values do: a block of keys is written once all
 * queries have met it, and dq at the end. */
static void head_bwd(struct work *w)
{
    const struct bst_attn *a = &w->a;
    float *dq = w->c->dst[0], *dk = a->packed ? dq : w->c->dst[1],
          *dv = a->packed ? dq : w->c->dst[2];
    const float *dy = w->c->src[0], *y = w->c->src[w->c->in->n_src - 2];
    size_t acc_bytes = (size_t)(TILE * w->wide) * sizeof(float);
    struct room *r = &w->r;

    BST_ASSERT(w->lse); /* only inference keeps none */
    memset(r->dq, 0, (size_t)((a->q.length + 3) / 4 * 4 * w->wide) * sizeof *r->dq);
    for (int64_t i = 0; i < a->q.length; i++)
        r->delta[i] = w->be->seq->dot(dy + at(w, &a->y, i), y + at(w, &a->y, i), (size_t)a->dim);
    for (int64_t j0 = 0; j0 < a->k.length; j0 += TILE) {
        memset(r->acc, 0, acc_bytes);
        memset(r->acc2, 0, acc_bytes);
        fetch(w, r->v, w->v, &a->v, j0);
        turn(w, r->v_turned, r->v);
        fetch(w, r->k, w->k, &a->k, j0);
        turn(w, r->k_turned, r->k);
        /* With a causal mask the queries before a key's do not see it. */
        for (int64_t i0 = a->causal ? j0 : 0; i0 < a->q.length && j0 < w->keys; i0 += TILE)
            tile_bwd(w, i0, j0);
        write_rows(w, dk, &a->k, r->acc, j0, in_tile(a->k.length, j0));
        write_rows(w, dv, &a->v, r->acc2, j0, in_tile(a->k.length, j0));
    }
    write_rows(w, dq, &a->q, r->dq, 0, a->q.length);
}

static enum bst_err run_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct work whole = work_of(be, c);
    int64_t n = whole.a.n * whole.a.heads;
    int team = h->count < CPU_SMALL / 4 ? 1 : be->threads;

#pragma omp parallel num_threads(team)
    {
        struct work w = whole;

        enter(&w, true);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) {
            w.n = i / w.a.heads;
            w.h = i % w.a.heads;
            w.keys = bst_attn_keys(&w.a, c->step, w.n);
            head_bwd(&w);
        }
    }
    return BST_OK;
}

const struct cpu_op cpu_op_attn_bwd = {describe, run_bwd};
