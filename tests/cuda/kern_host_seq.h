/* The kernels of sequences on the host; a part of kern_host.c. Sums are taken group by group, in
 * one order where the device has lanes and a tree. */
#ifndef TESTS_CUDA_KERN_HOST_SEQ_H
#define TESTS_CUDA_KERN_HOST_SEQ_H

#include "core/backend/cuda/kern_seq_body.h"

/* Elements taken at a time in rows of this width. */
static int step_of(int64_t width)
{
    return width % GROUP ? 1 : GROUP;
}

static void embed(enum kern_type type, const struct kern_embed *a)
{
    const int step = step_of(a->width);

    for (int64_t i = 0; i < a->rows * a->width; i += step)
        kern_embed_at(a, type, i, step);
}

static void embed_bwd(enum kern_type type, const struct kern_embed_bwd *a)
{
    const int step = step_of(a->width);

    for (int p = 0; p < a->n; p++)
        for (int c = 0; c < a->width; c += step)
            kern_embed_bwd_at(a, type, &a->piece[p], c, step);
}

static void position(enum kern_type type, const struct kern_position *a)
{
    const int step = step_of(a->per_sample);

    for (int64_t i = 0; i < a->count; i += step)
        kern_position_at(a, type, i, step);
}

static void position_bwd(enum kern_type type, const struct kern_position_bwd *a)
{
    const int step = a->count % GROUP ? 1 : step_of(a->per_sample);

    for (int64_t i = 0; i < a->count; i += step)
        kern_position_bwd_at(a, type, i, step);
}

static void sinusoid(enum kern_type type, const struct kern_sinusoid *a)
{
    for (int64_t i = 0; i < (int64_t)a->length * a->width; i++)
        kern_sinusoid_at(a, type, i);
}

static void ln(enum kern_type type, const struct kern_ln *a)
{
    const int step = step_of(a->width);

    for (int64_t r = 0; r < a->rows; r++) {
        const size_t row = (size_t)(r * a->width);
        float sum = 0, squares = 0;

        for (int c = 0; c < a->width; c += step) {
            const struct kern_oct x = kern_load_oct(a->x, type, row + (size_t)c, step);
            sum += kern_oct_sum(&x, step);
        }
        const float mean = sum / (float)a->width;
        for (int c = 0; c < a->width; c += step) {
            const struct kern_oct x = kern_load_oct(a->x, type, row + (size_t)c, step);
            squares += kern_oct_squares(&x, step, mean);
        }
        const float inv = kern_ln_inv(a, squares);
        for (int c = 0; c < a->width; c += step)
            kern_ln_at(a, type, r, c, step, mean, inv);
        if (a->saved) {
            a->saved[2 * r] = mean;
            a->saved[2 * r + 1] = inv;
        }
    }
}

static void ln_bwd(enum kern_type type, const struct kern_ln_bwd *a)
{
    const int step = step_of(a->width);

    for (int64_t r = 0; r < a->rows; r++) {
        struct kern_pair sum = {0, 0};

        for (int c = 0; c < a->width; c += step)
            kern_ln_bwd_add(a, type, r, c, step, &sum);
        for (int c = 0; c < a->width; c += step)
            kern_ln_bwd_at(a, type, r, c, step, &sum);
    }
}

static void ln_sums(enum kern_type type, const struct kern_ln_sums *a)
{
    for (int k = 0; k < a->chunks; k++) {
        int64_t from, to;

        rows_of_chunk(a->rows, a->chunks, k, &from, &to);
        for (int c = 0; c < a->c; c++) {
            struct kern_pair s = {0, 0};

            for (int64_t r = from; r < to; r++) {
                const size_t i = (size_t)(r * a->c + c);
                kern_ln_sums_add(&s, kern_load(a->x, type, i), kern_load(a->dy, type, i),
                                 a->saved[2 * r], a->saved[2 * r + 1]);
            }
            put(a->partial, k, a->c, c, s);
        }
    }
}

static void col_sums(enum kern_type type, const struct kern_col_sums *a)
{
    for (int k = 0; k < a->chunks; k++) {
        int64_t from, to;

        rows_of_chunk(a->rows, a->chunks, k, &from, &to);
        for (int c = 0; c < a->c; c++) {
            struct kern_pair s = {0, 0};

            for (int64_t r = from; r < to; r++)
                s.a += kern_load(a->x, type, (size_t)(r * a->c + c));
            put(a->partial, k, a->c, c, s);
        }
    }
}

static void col_finish(enum kern_type type, const struct kern_col_finish *a)
{
    (void)type;
    for (int c = 0; c < a->c; c++)
        kern_col_finish_at(a, c);
}

static void curve(enum kern_type type, const struct kern_curve *a)
{
    for (int64_t i = 0; i < a->count; i += GROUP)
        kern_curve_oct(a, a->op, type, (size_t)i,
                       a->count - i < GROUP ? (int)(a->count - i) : GROUP);
}

static void draw(enum kern_type type, const struct kern_draw *a)
{
    (void)type;
    *a->dst = a->state;
}

static void dropout(enum kern_type type, const struct kern_dropout *a)
{
    const int step = a->per_sample % GROUP ? 4 : GROUP;

    for (int64_t s = 0; s < a->n; s++)
        for (int64_t i = 0; i < a->per_sample; i += step)
            kern_dropout_at(a, type, s, i / 4,
                            a->per_sample - i < step ? (int)(a->per_sample - i) : step);
}

static void first(enum kern_type type, const struct kern_first *a)
{
    for (int64_t i = 0; i < a->n * a->width; i++)
        kern_first_at(a, type, i);
}

static void first_bwd(enum kern_type type, const struct kern_first_bwd *a)
{
    for (int64_t i = 0; i < a->n * a->length * a->width; i++)
        kern_first_bwd_at(a, type, i);
}

#endif
