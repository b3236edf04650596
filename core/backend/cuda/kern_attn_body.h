/* What the kernels of attention do to one group or one row: kern_body.h's other part, under the
 * same rules. */
#ifndef BST_BACKEND_CUDA_KERN_ATTN_BODY_H
#define BST_BACKEND_CUDA_KERN_ATTN_BODY_H

#include "core/backend/cuda/kern_body.h"
#include "core/base/philox.h"

#ifdef __CUDACC__
#define KERN_ATTN_EACH(k) _Pragma("unroll") for (int k = 0; k < KERN_ATTN_GROUP; k++)
#else
#define KERN_ATTN_EACH(k) for (int k = 0; k < KERN_ATTN_GROUP; k++)
#endif

KERN_INLINE void kern_attn_keys_at(const struct kern_attn_keys *a, int64_t i)
{
    int32_t n = a->tk;

    if (a->lengths && a->lengths[i] < n)
        n = a->lengths[i] < 0 ? 0 : a->lengths[i];
    if (i >= a->n_valid)
        n = 0;
    a->keys[i] = n;
    if (a->given_keys) {
        const int64_t to = i / a->run * a->step + i % a->run;

        a->given_queries[to] = a->tq;
        a->given_keys[to] = n > 0 ? n : 1;
    }
}

/* Where row r of a chunk's head begins in the operand; -1: it is not there. */
KERN_INLINE int64_t kern_attn_place(const struct kern_attn_heads *c, const struct kern_attn_rows *o,
                                    int64_t head, int64_t r)
{
    const int64_t at = c->first + head;

    if (at >= c->all || r >= o->length)
        return -1;
    return (at / c->heads * o->length + r) * o->row + o->at + at % c->heads * o->dim;
}

/* Features [c, c + n) at p + i: a group is aligned where heads are made of whole groups. */
KERN_INLINE struct kern_oct kern_attn_load(const void *p, enum kern_type type, int64_t i, int dim,
                                           int n)
{
    struct kern_oct o = {{0}};

    if (dim % KERN_GROUP == 0)
        return kern_load_oct(p, type, (size_t)i, KERN_GROUP);
    KERN_EACH(k)
    o.v[k] = k < n ? kern_load(p, type, (size_t)(i + k)) : 0;
    return o;
}

/* Group j of the packed chunk. */
KERN_INLINE void kern_attn_pack_oct(const struct kern_attn_pack *a, enum kern_type type, int64_t j)
{
    const int groups = a->dim / KERN_GROUP, c = (int)(j % groups) * KERN_GROUP;
    const int64_t r = j / groups,
                  from = kern_attn_place(&a->heads, &a->from, r / a->rows, r % a->rows);
    const int left = a->from.dim - c;
    struct kern_oct o = {{0}};

    if (from >= 0 && left > 0)
        o = kern_attn_load(a->src, type, from + c, a->from.dim, left);
    kern_store_oct(a->dst, type, (size_t)(j * KERN_GROUP), KERN_GROUP, &o);
}

KERN_INLINE void kern_attn_unpack_oct(const struct kern_attn_unpack *a, enum kern_type type,
                                      int64_t j)
{
    const int groups = a->dim / KERN_GROUP, c = (int)(j % groups) * KERN_GROUP;
    const int64_t r = j / groups, to = kern_attn_place(&a->heads, &a->to, r / a->rows, r % a->rows);
    const int left = a->to.dim - c;

    if (to < 0 || left <= 0)
        return;
    const struct kern_oct o = kern_load_oct(a->src, KERN_F32, (size_t)(j * KERN_GROUP), KERN_GROUP);
    if (a->to.dim % KERN_GROUP == 0) {
        kern_store_oct(a->dst, type, (size_t)(to + c), KERN_GROUP, &o);
        return;
    }
    KERN_EACH(k)
    {
        if (k < left)
            kern_store(a->dst, type, (size_t)(to + c + k), o.v[k]);
    }
}

KERN_INLINE void kern_attn_delta_at(const struct kern_attn_delta *a, enum kern_type type, int64_t r)
{
    const int64_t at = kern_attn_place(&a->heads, &a->at, r / a->rows, r % a->rows);
    float sum = 0;

    for (int c = 0; at >= 0 && c < a->at.dim; c += KERN_GROUP) {
        const int left = a->at.dim - c;
        const struct kern_oct y = kern_attn_load(a->y, type, at + c, a->at.dim, left);
        const struct kern_oct dy = kern_attn_load(a->dy, type, at + c, a->at.dim, left);

        KERN_EACH(k)
        sum = fmaf(dy.v[k], y.v[k], sum);
    }
    a->delta[r] = sum;
}

/* --- rows of scores --- */

struct kern_attn_row { /* one query of one head */
    int64_t head, sample, i;
    int h, sees; /* the first keys; none past the chunk's heads and a head's queries */
};

KERN_INLINE struct kern_attn_row kern_attn_row_of(const struct kern_attn_tile *t, int64_t r)
{
    struct kern_attn_row row = {t->heads.first + r / t->rows, 0, t->first + r % t->rows, 0, 0};

    if (row.head >= t->heads.all || row.i >= t->tq)
        return row;
    row.sample = row.head / t->heads.heads;
    row.h = (int)(row.head % t->heads.heads);
    row.sees = t->keys[row.sample];
    if (t->causal && row.i + 1 < row.sees)
        row.sees = (int)row.i + 1;
    return row;
}

/* Whether the row is one of the batch, padding left aside. */
KERN_INLINE bool kern_attn_is_there(const struct kern_attn_tile *t, const struct kern_attn_row *row)
{
    return row->head < t->heads.all && row->i < t->tq;
}

/* Of keys [j, j + 4): all ones where nothing is dropped. */
KERN_INLINE void kern_attn_words(const struct kern_attn_drop *d, int64_t sample, int h, int64_t i,
                                 int64_t j, uint32_t words[KERN_ATTN_GROUP])
{
    const uint64_t block = (uint64_t)((h * d->queries + i) * d->blocks + j / KERN_ATTN_GROUP);

    if (d->threshold)
        bst_philox_block(d->draw->key, d->draw->position + (uint64_t)sample, d->place | block,
                         words);
    else
        words[0] = words[1] = words[2] = words[3] = 0xffffffffu;
}

/* The group of keys [j, j + 4), of which `sees - j` are seen. */
KERN_INLINE float kern_attn_max4(const float *s, int j, int sees, float most)
{
    KERN_ATTN_EACH(k)
    {
        if (j + k < sees && s[j + k] > most)
            most = s[j + k];
    }
    return most;
}

KERN_INLINE float kern_attn_sum4(const float *s, int j, int sees, float scale, float most)
{
    float sum = 0;

    KERN_ATTN_EACH(k)
    {
        if (j + k < sees)
            sum += expf((s[j + k] - most) * scale);
    }
    return sum;
}

struct kern_quad {
    float v[KERN_ATTN_GROUP];
};

KERN_INLINE struct kern_quad kern_attn_load4(const float *s, int j)
{
    struct kern_quad q;

    KERN_ATTN_EACH(k)
    q.v[k] = s[j + k];
    return q;
}

KERN_INLINE void kern_attn_store4(float *s, enum kern_type type, int j, const struct kern_quad *q)
{
    KERN_ATTN_EACH(k)
    kern_store(s, type, (size_t)(j + k), q->v[k]);
}

/* What of a probability dropout leaves: 0 is 0 even where it was no number. */
KERN_INLINE float kern_attn_kept(const struct kern_attn_drop *d, uint32_t word, float x)
{
    if (!d->threshold)
        return x;
    return word < d->threshold ? 0 : x * d->factor;
}

/* Scores to probabilities; `most` is the row's largest score, not scaled, `inv` 1 / the sum. */
KERN_INLINE void kern_attn_softmax4(const struct kern_attn_softmax *a,
                                    const struct kern_attn_row *row, int j, float most, float inv,
                                    struct kern_quad *s)
{
    const struct kern_attn_tile *t = &a->tile;
    uint32_t words[KERN_ATTN_GROUP] = {0};

    if (j < row->sees)
        kern_attn_words(&t->drop, row->sample, row->h, row->i, j, words);
    KERN_ATTN_EACH(k)
    {
        const float p = j + k < row->sees ? expf((s->v[k] - most) * t->scale) * inv : 0;

        s->v[k] = j + k < row->sees ? kern_attn_kept(&t->drop, words[k], p) : 0;
    }
}

/* s: scores to probabilities after dropout; dp to ds = p·(dp·m - delta)·scale. */
KERN_INLINE void kern_attn_grad4(const struct kern_attn_grad *a, const struct kern_attn_row *row,
                                 int j, float lse, float delta, struct kern_quad *s,
                                 struct kern_quad *dp)
{
    const struct kern_attn_tile *t = &a->tile;
    uint32_t words[KERN_ATTN_GROUP] = {0};

    if (j < row->sees)
        kern_attn_words(&t->drop, row->sample, row->h, row->i, j, words);
    KERN_ATTN_EACH(k)
    {
        const bool seen = j + k < row->sees;
        const float p = seen ? expf(fmaf(s->v[k], t->scale, -lse)) : 0;

        s->v[k] = seen ? kern_attn_kept(&t->drop, words[k], p) : 0;
        dp->v[k] = seen ? p * (kern_attn_kept(&t->drop, words[k], dp->v[k]) - delta) * t->scale : 0;
    }
}

/* --- beside cuDNN --- */

/* Block b of a row's words: keys [4·b, …). */
KERN_INLINE void kern_attn_left4(const struct kern_attn_left *a, enum kern_type type, int64_t r,
                                 int b)
{
    const int64_t head = a->heads.first + r / a->tq, i = r % a->tq;
    const int j = b * KERN_ATTN_GROUP;
    uint32_t words[KERN_ATTN_GROUP];

    kern_attn_words(&a->drop, head / a->heads.heads, (int)(head % a->heads.heads), i, j, words);
    KERN_ATTN_EACH(k)
    {
        if (j + k < a->tk)
            kern_store(a->left, type, (size_t)(r * a->tk + j + k),
                       words[k] < a->drop.threshold ? 0 : 1);
    }
}

/* Group j of x, whose rows are made of whole groups. */
KERN_INLINE void kern_attn_settle_oct(const struct kern_attn_settle *a, enum kern_type type,
                                      int64_t j)
{
    const int64_t at = j * KERN_GROUP, row = at / a->width;
    const int32_t keys = a->keys[row / a->rows];
    const bool by_key = at % a->width >= a->keyed;
    const struct kern_oct none = {{0}};

    if (by_key ? row % a->rows >= keys : keys == 0)
        kern_store_oct(a->x, type, (size_t)at, KERN_GROUP, &none);
}

#endif
