#include "core/data/resample.h"

#include <math.h>
#include <string.h>

#include "core/base/alloc.h"

enum { ONE = 16384, SLACK = 64 };

void bst_resampler_fini(struct bst_resampler *r)
{
    bst_block_free(&r->tables);
    bst_block_free(&r->row);
}

/* The window is as wide as two steps, between whole pixels. */
static int most_taps(const struct bst_resample_axis *a)
{
    double scale = a->length / a->total;
    return (int)ceil(2 * (scale > 1 ? scale : 1) + 1e-6);
}

/* Weights of output pixel i in 1/16384, adding up to one exactly so that an even area stays as it
 * is. Window and filter as in Pillow (Resample.c, precompute_coeffs). */
static int weigh(const struct bst_resample_axis *a, int i, int16_t *weight, int *start)
{
    double scale = a->length / a->total, support = scale > 1 ? scale : 1;
    double centre = a->origin + (a->first + (a->mirror ? a->n - 1 - i : i) + 0.5) * scale;
    int from = (int)floor(centre - support + 0.5), to = (int)floor(centre + support + 0.5);
    from = from < a->low ? a->low : from > a->high - 1 ? a->high - 1 : from;
    to = to > a->high ? a->high : to <= from ? from + 1 : to;
    double sum = 0;
    for (int k = from; k < to; k++)
        sum += fmax(0, 1 - fabs((k + 0.5 - centre) / support));
    int left = ONE, largest = 0;
    for (int k = from; k < to; k++) {
        double w = fmax(0, 1 - fabs((k + 0.5 - centre) / support));
        weight[k - from] = sum > 0 ? (int16_t)lrint(w / sum * ONE) : 0;
        left -= weight[k - from];
        if (weight[k - from] > weight[largest])
            largest = k - from;
    }
    weight[largest] = (int16_t)(weight[largest] + left);
    *start = from;
    return to - from;
}

struct tables {
    int16_t *taps;   /* of one output pixel or row */
    int32_t *start;  /* [x.n, made even] */
    int16_t *weight; /* blocks of 32: see bst_resample_weight_at() */
    size_t n_weights;
    int groups;
};

static enum bst_err carve(struct bst_resampler *r, const struct bst_resample_axis *x,
                          const struct bst_resample_axis *y, struct tables *t)
{
    size_t pairs = ((size_t)x->n + 1) / 2, row = ((size_t)x->high - (size_t)x->low) * 3 + SLACK;
    size_t taps = (size_t)(most_taps(x) > most_taps(y) ? most_taps(x) : most_taps(y)), bytes = 0;
    t->groups = (most_taps(x) + 3) / 4;
    if (!bst_mul_size(pairs * BST_RESAMPLE_BLOCK, (size_t)t->groups, &t->n_weights) ||
        !bst_mul_size(t->n_weights, sizeof *t->weight, &bytes) ||
        !bst_add_size(bytes, 2 * pairs * sizeof *t->start + taps * sizeof *t->taps, &bytes))
        return bst_fail(BST_E_NOMEM, "resample: a table of more bytes than can be");
    BST_TRY(bst_block_reserve(&r->tables, bytes));
    BST_TRY(bst_block_reserve(&r->row, row));
    t->weight = r->tables.p;
    t->start = (int32_t *)(void *)(t->weight + t->n_weights);
    t->taps = (int16_t *)(void *)(t->start + 2 * pairs);
    return BST_OK;
}

static void fill_x(const struct bst_resample_axis *x, struct tables *t)
{
    memset(t->weight, 0, t->n_weights * sizeof *t->weight);
    t->start[x->n - 1 + x->n % 2] = 0;
    for (int i = 0; i < x->n; i++) {
        int start = 0, n = weigh(x, i, t->taps, &start);
        t->start[i] = (start - x->low) * 3;
        for (int k = 0; k < n; k++) {
            int16_t *w = t->weight + bst_resample_weight_at(i, k, t->groups);
            w[0] = w[2] = w[4] = t->taps[k];
        }
    }
}

enum bst_err bst_resample(struct bst_resampler *r, const uint8_t *src, size_t stride,
                          const struct bst_resample_axis *x, const struct bst_resample_axis *y,
                          uint8_t *dst)
{
    struct tables t = {0};
    const struct bst_resample_loops *loops = r->loops ? r->loops : bst_resample_fastest();
    BST_TRY(carve(r, x, y, &t));
    fill_x(x, &t);
    for (int i = 0; i < y->n; i++) {
        int start = 0, n = weigh(y, i, t.taps, &start);
        loops->blend_rows(src + (size_t)(start - y->low) * stride, stride, t.taps, n, r->row.p,
                          (x->high - x->low) * 3);
        loops->blend_pixels(r->row.p, t.start, t.weight, t.groups,
                            dst + (size_t)i * (size_t)x->n * 3, x->n);
    }
    return BST_OK;
}
