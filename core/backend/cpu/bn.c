/* Batch norm with what is around it in one instruction. Each channel block is read for its sums
 * and, while it is in cache, again to be normalised. Where there are too few channel blocks for the
 * team, all of it works on each block, a part of the batch a thread. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/backend/cpu/be.h"

#define EPS 1e-5
#define MOMENTUM 0.1

enum { BLOCK_SUMS = 2 }; /* a thread's partial sums of this block and of the one before */

/* Saved: mean, then 1/√(var + eps), of every channel with padding; with a residual and a ReLU then
 * a bit for every real that passed, plane after plane in whole bytes. */
static size_t stats_bytes(const struct cpu_act *a)
{
    return (size_t)a->n_cb * (size_t)a->block * 2 * sizeof(float);
}

static size_t open_bytes(const struct cpu_act *a)
{
    return (a->plane + 7) / 8;
}

static bool keeps_open(const struct bst_instr *in)
{
    return (in->flags & BST_IF_RELU) && (in->flags & BST_IF_RESIDUAL);
}

/* Results larger than this leave the caches before they are read again: written past them, they
 * cost no read of the line that is overwritten. */
#define STREAM_BYTES ((size_t)1 << 20)

static bool streams(const struct cpu_act *a, const void *out, const void *from)
{
    return out != from && a->block > 1 &&
           (size_t)a->n * (size_t)a->n_cb * a->plane * sizeof(float) > STREAM_BYTES;
}

/* How a team shares the blocks. */
struct share {
    bool by_batch; /* all threads on each block */
    int me, team;
    int n0, n1;   /* samples of this thread */
    int cb0, cb1; /* blocks of this thread */
    struct cpu_bn_sums *sums;
};

/* A team whose blocks together are larger than this shares each of them by samples. Convolutions
 * deal samples out in the same way, so that a thread finds in its core's own cache what it wrote
 * last: for resnet8 all of batch norm takes a tenth less than block by block. */
#define CACHE_BYTES ((size_t)1 << 20)

static struct share share_of(const struct cpu_act *a, int n_streams, void *scratch)
{
    struct share s = {.me = omp_get_thread_num(), .team = omp_get_num_threads(), .sums = scratch};
    size_t block_bytes = (size_t)a->n * a->plane * sizeof(float) * (size_t)n_streams;

    s.by_batch = s.team > 1 && ((a->n_cb % s.team && a->n_cb < 8 * s.team) ||
                                (block_bytes * (size_t)s.team > CACHE_BYTES && a->n >= s.team));
    s.n1 = a->n;
    s.cb1 = a->n_cb;
    if (s.by_batch) {
        s.n0 = (int)((int64_t)a->n * s.me / s.team);
        s.n1 = (int)((int64_t)a->n * (s.me + 1) / s.team);
    } else {
        s.cb0 = (int)((int64_t)a->n_cb * s.me / s.team);
        s.cb1 = (int)((int64_t)a->n_cb * (s.me + 1) / s.team);
    }
    return s;
}

/* Where this thread adds up its part of block cb. The other half of the pair may still be read by a
 * thread that is behind, hence two. */
static struct cpu_bn_sums *sums_begin(const struct share *s, int cb)
{
    struct cpu_bn_sums *t = s->sums + s->me * BLOCK_SUMS + cb % BLOCK_SUMS;

    memset(t, 0, sizeof *t);
    return t;
}

/* Sums of all threads in their order, then the lanes that belong to one channel: `block` values. */
static void sums_end(const struct share *s, const struct cpu_act *a, int cb,
                     struct cpu_bn_sums *out)
{
    memset(out, 0, sizeof *out);
    if (s->by_batch) {
#pragma omp barrier
    }
    for (int i = 0; i < s->team; i++) {
        const struct cpu_bn_sums *t = s->sums + i * BLOCK_SUMS + cb % BLOCK_SUMS;

        if (!s->by_batch && i != s->me)
            continue;
        for (int l = 0; l < CPU_LANES; l++) {
            out->s[l % a->block] += t->s[l];
            out->q[l % a->block] += t->q[l];
        }
    }
}

static void spread(const struct cpu_act *a, float v[CPU_LANES])
{
    for (int l = a->block; l < CPU_LANES; l++)
        v[l] = v[l % a->block];
}

/* What (x - mean)·a + b takes, from a block's first lanes to all of them. */
static void spread_affine(const struct cpu_act *a, struct cpu_bn_coef *k)
{
    spread(a, k->mean);
    spread(a, k->a);
    spread(a, k->b);
}

static size_t plane_at(const struct cpu_act *a, int n, int cb)
{
    return ((size_t)n * (size_t)a->n_cb + (size_t)cb) * a->plane;
}

static int team_of(const struct bst_be *be, const struct cpu_act *a)
{
    return (size_t)a->n * (size_t)a->n_cb * a->plane < CPU_SMALL ? 1 : be->threads;
}

static enum bst_err describe_common(struct bst_be *be, const struct bst_program *p,
                                    const struct bst_instr *in, struct bst_wants *w,
                                    struct cpu_handle *h)
{
    const struct bst_value *x = &p->values[in->src[0]];

    BST_TRY(cpu_act_init(&h->act, &x->shape, x->layout));
    for (int i = 1; i < in->n_src; i++)
        w->src[i] = p->values[in->src[i]].shape.rank == 4 ? x->layout : BST_LAYOUT_PLAIN;
    for (int i = 0; i < in->n_dst; i++)
        w->dst[i] = p->values[in->dst[i]].shape.rank == 4 ? x->layout : BST_LAYOUT_PLAIN;
    w->scratch_bytes = (size_t)be->threads * BLOCK_SUMS * sizeof(struct cpu_bn_sums);
    return BST_OK;
}

static enum bst_err describe_train(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cpu_handle *h)
{
    (void)accumulate;
    BST_TRY(describe_common(be, p, in, w, h));
    w->raw_bytes[1] = stats_bytes(&h->act);
    if (keeps_open(in))
        w->raw_bytes[1] += (size_t)h->act.n * (size_t)h->act.n_cb * open_bytes(&h->act);
    w->dst[1] = BST_LAYOUT_PLAIN;
    if (in->flags & BST_IF_RESIDUAL)
        w->inplace[0] = 5;
    return BST_OK;
}

/* The first pixels' mean: close enough to the block's that Σ(x - shift)² loses nothing. */
static void shift_of(const struct cpu_act *a, const float *x, float shift[CPU_LANES])
{
    size_t pixels = a->plane / (size_t)a->block;

    if (pixels > 32)
        pixels = 32;
    for (int l = 0; l < a->block; l++) {
        float s = 0;

        for (size_t i = 0; i < pixels; i++)
            s += x[i * (size_t)a->block + (size_t)l];
        shift[l] = s / (float)pixels;
    }
    spread(a, shift);
}

/* This thread's samples of block cb; *at: where they begin in a tensor. */
static struct cpu_bn_planes planes_of(const struct cpu_act *a, const struct share *s, int cb,
                                      size_t *at)
{
    *at = plane_at(a, s->n0, cb);
    return (struct cpu_bn_planes){.n = a->plane,
                                  .step = (size_t)a->n_cb * a->plane,
                                  .open_step = (size_t)a->n_cb * open_bytes(a),
                                  .count = s->n1 - s->n0};
}

static uint8_t *open_at(const struct cpu_act *a, const struct share *s, int cb, uint8_t *open)
{
    return open ? open + ((size_t)s->n0 * (size_t)a->n_cb + (size_t)cb) * open_bytes(a) : NULL;
}

struct train_args {
    const float *x, *scale, *shift, *residual;
    float *run_mean, *run_var, *y, *saved;
    uint8_t *open;
    bool relu, stream;
};

/* Statistics of block cb into its coefficients, which held the shift as their mean; one thread also
 * saves and stages them. */
static void settle(const struct cpu_act *a, const struct train_args *t, int cb,
                   const struct cpu_bn_sums *sums, bool write, struct cpu_bn_coef *k)
{
    double m = (double)a->n * (double)a->h * (double)a->w;
    float *mean_out = t->saved + cb * a->block, *inv_out = mean_out + a->n_cb * a->block;

    for (int l = 0; l < a->block; l++) {
        int c = cb * a->block + l;
        double d = sums->s[l] / m, mean = (double)k->mean[l] + d, var = sums->q[l] / m - d * d;
        float inv;

        if (var < 0)
            var = 0;
        inv = (float)(1 / sqrt(var + EPS));
        k->mean[l] = (float)mean;
        k->a[l] = c < a->c ? t->scale[c] * inv : 0;
        k->b[l] = c < a->c ? t->shift[c] : 0;
        if (!write)
            continue;
        mean_out[l] = (float)mean;
        inv_out[l] = inv;
        if (c >= a->c)
            continue;
        t->run_mean[c] = (float)((1 - MOMENTUM) * (double)t->run_mean[c] + MOMENTUM * mean);
        t->run_var[c] = (float)((1 - MOMENTUM) * (double)t->run_var[c] +
                                MOMENTUM * (m > 1 ? var * m / (m - 1) : var));
    }
    spread_affine(a, k);
}

static void train_blocks(const struct bst_be *be, const struct cpu_act *a, const struct share *s,
                         const struct train_args *t)
{
    for (int cb = s->cb0; cb < s->cb1; cb++) {
        struct cpu_bn_sums *mine = sums_begin(s, cb), all;
        struct cpu_bn_coef k;
        size_t at;
        struct cpu_bn_planes p = planes_of(a, s, cb, &at);

        p.x = t->x + at;
        p.r = t->residual ? t->residual + at : NULL;
        p.out = t->y + at;
        p.open = open_at(a, s, cb, t->open);
        p.relu = t->relu;
        p.stream = t->stream;
        shift_of(a, t->x + plane_at(a, 0, cb), k.mean);
        be->vec_bn->stats(&p, &k, mine);
        sums_end(s, a, cb, &all);
        settle(a, t, cb, &all, !s->by_batch || s->me == 0, &k);
        be->vec_bn->apply(&p, &k);
    }
    cpu_vec_fence();
}

/* Coefficients as settle() made them, from what it saved. */
static void saved_coef(const struct cpu_act *a, const float *scale, const float *shift,
                       const float *saved, int cb, struct cpu_bn_coef *k)
{
    const float *mean = saved + cb * a->block, *inv = mean + a->n_cb * a->block;

    for (int l = 0; l < a->block; l++) {
        int c = cb * a->block + l;

        k->mean[l] = mean[l];
        k->a[l] = c < a->c ? scale[c] * inv[l] : 0;
        k->b[l] = c < a->c ? shift[c] : 0;
    }
    spread_affine(a, k);
}

static void again_plane(const struct bst_be *be, const struct cpu_act *a, const struct bst_call *c,
                        int n, int cb)
{
    const float *residual = c->in->flags & BST_IF_RESIDUAL ? c->src[5] : NULL;
    size_t at = plane_at(a, n, cb);
    struct cpu_bn_coef k;
    struct cpu_bn_planes p = {.x = (const float *)c->src[0] + at,
                              .r = residual ? residual + at : NULL,
                              .out = (float *)c->dst[0] + at,
                              .n = a->plane,
                              .count = 1,
                              .relu = c->in->flags & BST_IF_RELU,
                              .stream = streams(a, c->dst[0], residual)};

    saved_coef(a, c->src[1], c->src[2], c->src[c->in->n_src - 1], cb, &k);
    be->vec_bn->apply(&p, &k);
}

/* A second run: nothing to add up, and the bits of what the ReLU let through are there already. */
static enum bst_err run_again(struct bst_be *be, const struct cpu_act *a, const struct bst_call *c)
{
    int team = team_of(be, a);

#pragma omp parallel num_threads(team)
    {
#pragma omp for collapse(2) schedule(static)
        for (int n = 0; n < a->n; n++)
            for (int cb = 0; cb < a->n_cb; cb++)
                again_plane(be, a, c, n, cb);
        cpu_vec_fence();
    }
    return BST_OK;
}

static enum bst_err run_train(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    struct train_args t = {.x = c->src[0],
                           .scale = c->src[1],
                           .shift = c->src[2],
                           .run_mean = c->src[3],
                           .run_var = c->src[4],
                           .y = c->dst[0],
                           .saved = c->dst[1],
                           .relu = c->in->flags & BST_IF_RELU};
    int team = team_of(be, a);

    if (c->in->flags & BST_IF_AGAIN)
        return run_again(be, a, c);
    t.residual = c->in->flags & BST_IF_RESIDUAL ? c->src[5] : NULL;
    t.open = keeps_open(c->in) ? (uint8_t *)c->dst[1] + stats_bytes(a) : NULL;
    t.stream = streams(a, t.y, t.residual);
#pragma omp parallel num_threads(team)
    {
        struct share s = share_of(a, 1, c->scratch);

        train_blocks(be, a, &s, &t);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_bn_train = {describe_train, run_train};

static enum bst_err describe_infer(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cpu_handle *h)
{
    (void)accumulate;
    BST_TRY(describe_common(be, p, in, w, h));
    w->scratch_bytes = 0;
    w->inplace[0] = 0;
    return BST_OK;
}

static void infer_coef(const struct cpu_act *a, const struct bst_call *call, int cb,
                       struct cpu_bn_coef *k)
{
    const float *scale = call->src[1], *shift = call->src[2], *mean = call->src[3],
                *var = call->src[4];

    for (int l = 0; l < a->block; l++) {
        int c = cb * a->block + l;
        bool in = c < a->c;

        k->mean[l] = in ? mean[c] : 0;
        k->a[l] = in ? (float)((double)scale[c] / sqrt((double)var[c] + EPS)) : 0;
        k->b[l] = in ? shift[c] : 0;
    }
    spread_affine(a, k);
}

static enum bst_err run_infer(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    const float *residual = c->in->flags & BST_IF_RESIDUAL ? c->src[5] : NULL;
    int team = team_of(be, a);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int cb = 0; cb < a->n_cb; cb++) {
        const struct share all = {.n1 = a->n};
        struct cpu_bn_coef k;
        size_t at;
        struct cpu_bn_planes p = planes_of(a, &all, cb, &at);

        infer_coef(a, c, cb, &k);
        p.x = (const float *)c->src[0] + at;
        p.r = residual ? residual + at : NULL;
        p.out = (float *)c->dst[0] + at;
        p.relu = c->in->flags & BST_IF_RELU;
        be->vec_bn->apply(&p, &k);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_bn_infer = {describe_infer, run_infer};

/* dx over x, whose last use this is; a residual's gradient over dy. */
static enum bst_err describe_bwd(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    (void)accumulate;
    BST_TRY(describe_common(be, p, in, w, h));
    w->src[4] = BST_LAYOUT_PLAIN;
    w->inplace[0] = 0;
    if (in->flags & BST_IF_RESIDUAL)
        w->inplace[3] = 1;
    return BST_OK;
}

struct bwd_args {
    const float *x, *dy, *dy2, *scale, *shift, *saved;
    uint8_t *open;
    float *dx, *dscale, *dshift, *dr;
    bool relu, add_scale, add_shift;
};

static void bwd_settle(const struct cpu_act *a, const struct bwd_args *t, int cb,
                       const struct cpu_bn_sums *sums, bool write, struct cpu_bn_coef *k)
{
    double m = (double)a->n * (double)a->h * (double)a->w;
    const float *inv = t->saved + (a->n_cb + cb) * a->block;

    for (int l = 0; l < a->block; l++) {
        int c = cb * a->block + l;
        double i = (double)inv[l], ka = (double)k->a[l], dscale = sums->q[l] * i;

        k->k0[l] = k->a[l];
        k->k1[l] = (float)(ka * sums->s[l] / m);
        k->k2[l] = (float)(ka * i * dscale / m);
        if (!write || c >= a->c)
            continue;
        t->dscale[c] = (float)dscale + (t->add_scale ? t->dscale[c] : 0);
        t->dshift[c] = (float)sums->s[l] + (t->add_shift ? t->dshift[c] : 0);
    }
    spread(a, k->k0);
    spread(a, k->k1);
    spread(a, k->k2);
}

static void bwd_blocks(const struct bst_be *be, const struct cpu_act *a, const struct share *s,
                       const struct bwd_args *t)
{
    for (int cb = s->cb0; cb < s->cb1; cb++) {
        struct cpu_bn_sums *mine = sums_begin(s, cb), all;
        struct cpu_bn_coef k;
        size_t at;
        struct cpu_bn_planes p = planes_of(a, s, cb, &at);

        p.x = t->x + at;
        p.dy = t->dy + at;
        p.dy2 = t->dy2 ? t->dy2 + at : NULL;
        p.open = open_at(a, s, cb, t->open);
        p.out = t->dx + at;
        p.dr = t->dr ? t->dr + at : NULL;
        p.relu = t->relu;
        saved_coef(a, t->scale, t->shift, t->saved, cb, &k);
        be->vec_bn->bwd_reduce(&p, &k, mine);
        sums_end(s, a, cb, &all);
        bwd_settle(a, t, cb, &all, !s->by_batch || s->me == 0, &k);
        if (t->dr) { /* holds the gradient behind ReLU and sum by now */
            p.dy = p.dr;
            p.dy2 = NULL;
            p.relu = false;
        }
        be->vec_bn->bwd_apply(&p, &k);
    }
}

static enum bst_err run_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    bool residual = c->in->flags & BST_IF_RESIDUAL, two = c->in->flags & BST_IF_DY2;
    struct bwd_args t = {.x = c->src[0],
                         .dy = c->src[1],
                         .scale = c->src[2],
                         .shift = c->src[3],
                         .saved = c->src[4],
                         .dx = c->dst[0],
                         .dscale = c->dst[1],
                         .dshift = c->dst[2],
                         .relu = c->in->flags & BST_IF_RELU,
                         .add_scale = cpu_adds(c, 1),
                         .add_shift = cpu_adds(c, 2)};
    int team = team_of(be, a);

    t.open = keeps_open(c->in) ? (uint8_t *)c->src[4] + stats_bytes(a) : NULL;
    t.dr = residual ? c->dst[3] : NULL;
    t.dy2 = two ? c->src[c->in->n_src - 1] : NULL;
#pragma omp parallel num_threads(team)
    {
        struct share s = share_of(a, two ? 3 : 2, c->scratch);

        bwd_blocks(be, a, &s, &t);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_bn_bwd = {describe_bwd, run_bwd};
