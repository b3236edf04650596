/* The kernels on the host: the bodies of kern_body.h, for the fakes. One call does what a whole
 * grid does; sums over rows have the grid's chunks, and within one a single order where the device
 * has a tree. Linked into tests, and as a library for the fakes that a finished bstune runs on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cuda/kern_body.h"
#include "core/backend/cuda/kern_update_body.h"
#include "tests/fakes/fake.h"

enum { GROUP = KERN_GROUP };

void kern_host_group(const void *p, enum kern_type type, size_t i)
{
    const char *at = (const char *)p + i * (type == KERN_F32 ? 4 : 2);

    if ((uintptr_t)at % 16 == 0)
        return;
    fprintf(stderr, "a kernel takes a group at %p, element %zu of %p: not a multiple of 16\n",
            (const void *)at, i, p);
    abort();
}

static void image(enum kern_type type, const struct kern_image *a)
{
    for (int64_t i = 0; i < a->pixels; i++)
        kern_image_pixel(a, type, i);
}

static void rows_of_chunk(int64_t rows, int chunks, int k, int64_t *from, int64_t *to)
{
    const int64_t each = (rows + chunks - 1) / chunks;

    *from = each * k < rows ? each * k : rows;
    *to = *from + each < rows ? *from + each : rows;
}

static void put(float *partial, int chunk, int channels, int c, struct kern_pair s)
{
    partial[(size_t)(2 * chunk) * (size_t)channels + (size_t)c] = s.a;
    partial[(size_t)(2 * chunk + 1) * (size_t)channels + (size_t)c] = s.b;
}

static void bn_stats(enum kern_type type, const struct kern_bn_stats *a)
{
    for (int k = 0; k < a->chunks; k++) {
        int64_t from, to;

        rows_of_chunk(a->rows, a->chunks, k, &from, &to);
        for (int c = 0; c < a->c; c++) {
            const float x0 = kern_load(a->x, type, (size_t)c);
            struct kern_pair s = {0, 0};

            for (int64_t r = from; r < to; r++)
                kern_bn_stats_add(&s, kern_load(a->x, type, (size_t)(r * a->c + c)), x0);
            put(a->partial, k, a->c, c, s);
        }
    }
}

static void bn_finish(enum kern_type type, const struct kern_bn_finish *a)
{
    for (int c = 0; c < a->c; c++)
        kern_bn_finish_channel(a, type, c);
}

/* Coefficients of the elements [i, i + n), and how many there are. */
static int group_at(int64_t count, int64_t i, int channels, const struct kern_bn_coef *bn,
                    struct kern_affine f[GROUP])
{
    const int n = count - i < GROUP ? (int)(count - i) : GROUP;

    for (int k = 0; k < n; k++)
        f[k] = kern_affine_of(bn, (int)((i + k) % channels));
    return n;
}

static void bn_apply(enum kern_type type, const struct kern_bn_apply *a)
{
    const int64_t count = a->rows * a->c;
    struct kern_affine f[GROUP];

    for (int64_t i = 0; i < count; i += GROUP) {
        const int n = group_at(count, i, a->c, &a->bn, f);

        kern_bn_apply_oct(a, type, (size_t)i, n, f);
    }
}

static void bn_bwd_sums(enum kern_type type, const struct kern_bn_bwd_sums *a)
{
    for (int k = 0; k < a->chunks; k++) {
        int64_t from, to;

        rows_of_chunk(a->rows, a->chunks, k, &from, &to);
        for (int c = 0; c < a->c; c++) {
            const struct kern_affine f[GROUP] = {kern_affine_of(&a->g.bn, c)};
            struct kern_pair s = {0, 0};
            struct kern_oct x, d;

            for (int64_t r = from; r < to; r++) {
                kern_bn_grad_oct(&a->g, type, (size_t)(r * a->c + c), 1, f, &x, &d);
                kern_bn_bwd_add(&s, f, x.v[0], d.v[0]);
            }
            put(a->partial, k, a->c, c, s);
        }
    }
}

static void bn_bwd_finish(enum kern_type type, const struct kern_bn_bwd_finish *a)
{
    (void)type;
    for (int c = 0; c < a->c; c++)
        kern_bn_bwd_finish_channel(a, c);
}

static void bn_bwd_apply(enum kern_type type, const struct kern_bn_bwd_apply *a)
{
    const int64_t count = a->rows * a->c;
    struct kern_affine f[GROUP];
    struct kern_pair m[GROUP];

    for (int64_t i = 0; i < count; i += GROUP) {
        const int n = group_at(count, i, a->c, &a->g.bn, f);

        for (int k = 0; k < n; k++) {
            const int64_t c = (i + k) % a->c;

            m[k] = (struct kern_pair){a->means[c], a->means[a->c + c]};
        }
        kern_bn_bwd_apply_oct(a, type, (size_t)i, n, f, m);
    }
}

static void pointwise(enum kern_type type, const struct kern_pointwise *a)
{
    for (int64_t i = 0; i < a->count; i += GROUP)
        kern_pointwise_oct(a, type, (size_t)i, a->count - i < GROUP ? (int)(a->count - i) : GROUP);
}

static void cast(enum kern_type type, const struct kern_cast *a)
{
    for (int64_t i = 0; i < a->count; i += GROUP)
        kern_cast_oct(a, type, (size_t)i, a->count - i < GROUP ? (int)(a->count - i) : GROUP);
}

static void max_pool(enum kern_type type, const struct kern_max_pool *a)
{
    for (int64_t n = 0; n < a->w.n; n++)
        for (int y = 0; y < a->w.oh; y++)
            for (int x = 0; x < a->w.ow; x++)
                for (int c = 0; c < a->w.c; c++)
                    kern_max_pool_at(a, type, n, y, x, c);
}

static void max_pool_bwd(enum kern_type type, const struct kern_max_pool_bwd *a)
{
    for (int64_t n = 0; n < a->w.n; n++)
        for (int y = 0; y < a->w.ih; y++)
            for (int x = 0; x < a->w.iw; x++)
                for (int c = 0; c < a->w.c; c++)
                    kern_max_pool_bwd_at(a, type, n, y, x, c);
}

static void avg_pool(enum kern_type type, const struct kern_avg_pool *a)
{
    for (int64_t n = 0; n < a->n; n++)
        for (int c = 0; c < a->c; c++)
            kern_avg_pool_at(a, type, n, c);
}

static void avg_pool_bwd(enum kern_type type, const struct kern_avg_pool_bwd *a)
{
    for (int64_t i = 0; i < a->n * a->pixels; i++)
        for (int c = 0; c < a->c; c++)
            kern_avg_pool_bwd_at(a, type, i, c);
}

static void softmax_row(const struct kern_softmax *a, enum kern_type type, int64_t row,
                        struct kern_row *out)
{
    const size_t at = (size_t)row * (size_t)a->classes;
    float most = kern_load(a->z, type, at); /* dz may take z's place */
    int arg_max = 0;
    double sum = 0;

    for (int i = 1; i < a->classes; i++) {
        const float v = kern_load(a->z, type, at + (size_t)i);

        arg_max = v > most ? i : arg_max;
        most = v > most ? v : most;
    }
    for (int i = 0; i < a->classes; i++)
        sum += (double)expf(kern_load(a->z, type, at + (size_t)i) - most);
    for (int i = 0; i < a->classes; i++)
        out->loss += kern_softmax_class(a, type, row, i, most, log(sum));
    out->correct = arg_max == a->labels[row];
}

static void softmax(enum kern_type type, const struct kern_softmax *a)
{
    for (int64_t row = 0; row < a->n; row++) {
        struct kern_row out = {0, 0, (int32_t)kern_softmax_kind(a, row)};

        if (out.kind == KERN_ROW_COUNTS)
            softmax_row(a, type, row, &out);
        for (int i = 0; out.kind == KERN_ROW_IGNORED && a->dz && i < a->classes; i++)
            kern_store(a->dz, type, (size_t)(row * a->classes + i), 0);
        a->row[row] = out;
    }
}

static void loss_sum(enum kern_type type, const struct kern_loss_sum *a)
{
    struct kern_loss sum = {.bad_row = -1};
    int64_t targets = 0, right = 0; /* of a sample */

    (void)type;
    for (int64_t i = 0; i < a->n; i++) {
        sum.sum += a->row[i].loss;
        targets += a->row[i].kind == KERN_ROW_COUNTS;
        right += a->row[i].correct;
        if (a->row[i].kind == KERN_ROW_BAD_LABEL && sum.bad_row < 0)
            sum.bad_row = i;
        if ((i + 1) % a->per_sample)
            continue;
        sum.exact += targets && right == targets;
        sum.targets += targets;
        sum.correct += right;
        targets = right = 0;
    }
    kern_loss_put(a, &sum);
}

static void reorder(enum kern_type type, const struct kern_reorder *a)
{
    (void)type;
    for (int64_t i = 0; i < a->n * a->pixels * a->c_dst; i++)
        kern_reorder_at(a, i);
}

static void sgd(enum kern_type type, const struct kern_sgd *a)
{
    (void)type;
    for (int64_t i = 0; i < a->count; i++)
        kern_sgd_at(a, i);
}

static double block_of_squares(const float *x, int64_t count, int block)
{
    const int64_t threads = (int64_t)KERN_SQUARES_BLOCKS * KERN_THREADS;
    double sum = 0;

    for (int64_t from = (int64_t)block * KERN_THREADS; from < count; from += threads)
        for (int64_t i = from; i < count && i < from + KERN_THREADS; i++)
            sum += (double)x[i] * (double)x[i];
    return sum;
}

static void sum_squares(enum kern_type type, const struct kern_sum_squares *a)
{
    (void)type;
    for (int t = 0; t < a->n; t++)
        for (int b = 0; b < KERN_SQUARES_BLOCKS; b++)
            a->partial[t * KERN_SQUARES_BLOCKS + b] = block_of_squares(a->x[t], a->count[t], b);
}

static void grad_squares(enum kern_type type, const struct kern_grad_squares *a)
{
    (void)type;
    for (int t = 0; t < a->n; t++)
        for (int b = 0; b < KERN_SQUARES_BLOCKS; b++)
            a->partial[(size_t)t * KERN_SQUARES_BLOCKS + (size_t)b] =
                block_of_squares(a->grad + a->param[t].offset, a->param[t].count, b);
}

static void decide(enum kern_type type, const struct kern_decide *a)
{
    const double unscale = 1 / a->scaler->scale;
    double total = 0;
    int first = -1, last = -1, zeros = 0;

    (void)type;
    for (int i = 0; i < a->n; i++) {
        double sum = 0;

        for (int k = 0; k < KERN_SQUARES_BLOCKS; k++)
            sum += a->partial[(size_t)i * KERN_SQUARES_BLOCKS + (size_t)k];
        sum *= unscale * unscale;
        a->sum[i] = sum;
        if (a->param[i].frozen)
            continue;
        total += sum;
        zeros += sum == 0;
        if (!kern_is_finite(sum)) {
            first = first < 0 ? i : first;
            last = i;
        }
    }
    kern_decide_all(a, total, first, last, zeros);
}

/* A span's sums for the elements that one block of the grid takes. */
static void block_of_norms(const struct kern_optim *a, const struct kern_part *p,
                           const struct kern_span *s, int block, double *out)
{
    const int64_t threads = (int64_t)KERN_SQUARES_BLOCKS * KERN_THREADS;

    out[0] = out[1] = 0;
    for (int64_t from = (int64_t)block * KERN_THREADS; from < p->count; from += threads)
        for (int64_t i = from; i < p->count && i < from + KERN_THREADS; i++)
            kern_norms_at(a, p, s, i, &out[0], &out[1]);
}

static float ratio_of(const struct kern_optim *a, const struct kern_span *s, const double *part)
{
    double ww = 0, mm = 0;

    for (int b = 0; b < KERN_SQUARES_BLOCKS; b++) {
        ww += part[2 * b];
        mm += part[2 * b + 1];
    }
    return kern_ratio(a->rules, s, ww, mm);
}

static void optim(enum kern_type type, const struct kern_optim *a)
{
    (void)type;
    for (int t = 0; t < a->n && !a->decision->skip; t++) {
        const struct kern_span *s = &a->span[t];
        const struct kern_part p = kern_part_of(a, s);
        double *part = a->partial + (size_t)2 * (size_t)t * KERN_SQUARES_BLOCKS;

        if (a->sweep == KERN_SWEEP_NORMS) {
            for (int b = 0; b < KERN_SQUARES_BLOCKS; b++)
                block_of_norms(a, &p, s, b, part + (size_t)2 * (size_t)b);
            continue;
        }
        const float ratio = a->sweep == KERN_SWEEP_WEIGHTS ? ratio_of(a, s, part) : 1;
        for (int64_t i = 0; i < p.count; i++)
            kern_optim_at(a, &p, s, ratio, i);
    }
}

static void keep(enum kern_type type, const struct kern_keep *a)
{
    (void)type;
    if (!a->decision->skip)
        memcpy(a->dst, a->src, (size_t)a->count * sizeof *a->dst);
}

static void sum_doubles(enum kern_type type, const struct kern_sum_doubles *a)
{
    (void)type;
    for (int t = 0; t < a->n; t++) {
        a->sum[t] = 0;
        for (int b = 0; b < KERN_SQUARES_BLOCKS; b++)
            a->sum[t] += a->partial[t * KERN_SQUARES_BLOCKS + b];
    }
}

static void scale(enum kern_type type, const struct kern_scale *a)
{
    (void)type;
    for (int64_t i = 0; i < a->count; i++)
        a->x[i] *= a->factor;
}

static void accumulate(enum kern_type type, const struct kern_accumulate *a)
{
    (void)type;
    for (int64_t i = 0; i < a->count; i++)
        a->dst[i] += a->src[i];
}

#include "tests/cuda/kern_host_attn.h"
#include "tests/cuda/kern_host_seq.h"

#define RUN(name, suffix, type)                                                                    \
    static void run_##name##suffix(dim3 grid, dim3 block, void *const *args)                       \
    {                                                                                              \
        (void)grid;                                                                                \
        (void)block;                                                                               \
        name(type, args[0]);                                                                       \
    }
#define RUN_1(name) RUN(name, _f32, KERN_F32) RUN(name, _f16, KERN_F16) RUN(name, _bf16, KERN_BF16)
#define RUN_0(name) RUN(name, , KERN_F32)
#define X(name, typed) RUN_##typed(name)
KERN_LIST(X)
#undef X

#define ENTRY(name, suffix)                                                                        \
    {"bst_" #name #suffix, run_##name##suffix, 1, {sizeof(struct kern_##name)}},
#define ENTRY_1(name) ENTRY(name, _f32) ENTRY(name, _f16) ENTRY(name, _bf16)
#define ENTRY_0(name) ENTRY(name, )
#define X(name, typed) ENTRY_##typed(name)
__attribute__((visibility("default"))) const struct fake_kernel fake_kernels[] = {
    KERN_LIST(X){0},
};
#undef X
