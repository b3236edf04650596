/* Attention's kernels on the host; a part of kern_host.c. */
#ifndef TESTS_CUDA_KERN_HOST_ATTN_H
#define TESTS_CUDA_KERN_HOST_ATTN_H

#include "core/backend/cuda/kern_attn_body.h"

static void attn_keys(enum kern_type type, const struct kern_attn_keys *a)
{
    (void)type;
    for (int64_t i = 0; i < a->n; i++)
        kern_attn_keys_at(a, i);
}

static void attn_pack(enum kern_type type, const struct kern_attn_pack *a)
{
    for (int64_t j = 0; j < a->heads.n * a->rows * (a->dim / KERN_GROUP); j++)
        kern_attn_pack_oct(a, type, j);
}

static void attn_unpack(enum kern_type type, const struct kern_attn_unpack *a)
{
    for (int64_t j = 0; j < a->heads.n * a->rows * (a->dim / KERN_GROUP); j++)
        kern_attn_unpack_oct(a, type, j);
}

static void attn_delta(enum kern_type type, const struct kern_attn_delta *a)
{
    for (int64_t r = 0; r < a->heads.n * a->rows; r++)
        kern_attn_delta_at(a, type, r);
}

static void softmax_of_scores(enum kern_type type, const struct kern_attn_softmax *a, int64_t r)
{
    const struct kern_attn_tile *t = &a->tile;
    const struct kern_attn_row row = kern_attn_row_of(t, r);
    float *s = a->scores + r * t->width, most = -INFINITY, sum = 0;

    for (int j = 0; j < row.sees; j += KERN_ATTN_GROUP)
        most = kern_attn_max4(s, j, row.sees, most);
    for (int j = 0; j < row.sees; j += KERN_ATTN_GROUP)
        sum += kern_attn_sum4(s, j, row.sees, t->scale, most);
    for (int j = 0; j < t->width; j += KERN_ATTN_GROUP) {
        struct kern_quad q = kern_attn_load4(s, j);

        kern_attn_softmax4(a, &row, j, most, 1 / sum, &q);
        kern_attn_store4(s, type, j, &q);
    }
    if (a->lse && kern_attn_is_there(t, &row))
        a->lse[row.head * t->tq + row.i] = row.sees ? fmaf(most, t->scale, logf(sum)) : 0;
}

static void attn_softmax(enum kern_type type, const struct kern_attn_softmax *a)
{
    for (int64_t r = 0; r < a->tile.heads.n * a->tile.rows; r++)
        softmax_of_scores(type, a, r);
}

static void grad_of_scores(enum kern_type type, const struct kern_attn_grad *a, int64_t r)
{
    const struct kern_attn_tile *t = &a->tile;
    const struct kern_attn_row row = kern_attn_row_of(t, r);
    float *s = a->scores + r * t->width, *dp = a->dp + r * t->width;
    const float lse = row.sees ? a->lse[row.head * t->tq + row.i] : 0;
    const float delta = row.sees ? a->delta[r / t->rows * a->delta_rows + row.i] : 0;

    for (int j = 0; j < t->width; j += KERN_ATTN_GROUP) {
        struct kern_quad p = kern_attn_load4(s, j), d = kern_attn_load4(dp, j);

        kern_attn_grad4(a, &row, j, lse, delta, &p, &d);
        kern_attn_store4(s, type, j, &p);
        kern_attn_store4(dp, type, j, &d);
    }
}

static void attn_grad(enum kern_type type, const struct kern_attn_grad *a)
{
    for (int64_t r = 0; r < a->tile.heads.n * a->tile.rows; r++)
        grad_of_scores(type, a, r);
}

static void attn_left(enum kern_type type, const struct kern_attn_left *a)
{
    const int blocks = (a->tk + KERN_ATTN_GROUP - 1) / KERN_ATTN_GROUP;

    for (int64_t r = 0; r < a->heads.n * a->tq; r++)
        for (int b = 0; b < blocks; b++)
            kern_attn_left4(a, type, r, b);
}

static void attn_settle(enum kern_type type, const struct kern_attn_settle *a)
{
    for (int64_t j = 0; j < a->n * a->rows * (a->width / KERN_GROUP); j++)
        kern_attn_settle_oct(a, type, j);
}

#endif
