/* What a kernel does to one element, one group of eight, one channel or one row, written once:
 * kern.cu runs it for the device, the tests' host versions for the fakes. A multiply-add is written
 * as fmaf() and nvcc is told to make none of its own, so that both come to the same bits where the
 * order of a sum plays no part. */
#ifndef BST_BACKEND_CUDA_KERN_BODY_H
#define BST_BACKEND_CUDA_KERN_BODY_H

#include <math.h>

#include "core/backend/cuda/kern.h"

#define KERN_BN_EPS 1e-5
#define KERN_BN_MOMENTUM 0.1

/* Over a group, unrolled: an index that is not known would put the group into local memory. */
#ifdef __CUDACC__
#define KERN_EACH(k) _Pragma("unroll") for (int k = 0; k < KERN_GROUP; k++)
#else
#define KERN_EACH(k) for (int k = 0; k < KERN_GROUP; k++)
/* Ends the program where the device, which takes a whole group 16 bytes at a time, would fault. */
void kern_host_group(const void *p, enum kern_type type, size_t i);
#endif

struct kern_oct { /* a group of elements as floats */
    float v[KERN_GROUP];
};

KERN_INLINE struct kern_oct kern_load_oct(const void *p, enum kern_type type, size_t i, int n)
{
    struct kern_oct o;
#ifdef __CUDACC__
    if (n == KERN_GROUP && type == KERN_F32) { /* two and one loads of 16 bytes */
        const float4 a = ((const float4 *)p)[i / 4], b = ((const float4 *)p)[i / 4 + 1];
        o.v[0] = a.x, o.v[1] = a.y, o.v[2] = a.z, o.v[3] = a.w;
        o.v[4] = b.x, o.v[5] = b.y, o.v[6] = b.z, o.v[7] = b.w;
        return o;
    }
    if (n == KERN_GROUP) {
        const uint4 a = ((const uint4 *)p)[i / 8];
        const uint32_t u[4] = {a.x, a.y, a.z, a.w};
        KERN_EACH(k)
        {
            const uint16_t h = (uint16_t)(u[k / 2] >> 16 * (k % 2));
            o.v[k] = type == KERN_F16 ? kern_from_f16(h) : kern_from_bf16(h);
        }
        return o;
    }
#else
    if (n == KERN_GROUP)
        kern_host_group(p, type, i);
#endif
    KERN_EACH(k)
    o.v[k] = k < n ? kern_load(p, type, i + (size_t)k) : 0;
    return o;
}

KERN_INLINE void kern_store_oct(void *p, enum kern_type type, size_t i, int n,
                                const struct kern_oct *o)
{
#ifdef __CUDACC__
    if (n == KERN_GROUP && type == KERN_F32) {
        ((float4 *)p)[i / 4] = make_float4(o->v[0], o->v[1], o->v[2], o->v[3]);
        ((float4 *)p)[i / 4 + 1] = make_float4(o->v[4], o->v[5], o->v[6], o->v[7]);
        return;
    }
    if (n == KERN_GROUP) {
        uint32_t u[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float low = o->v[2 * k], high = o->v[2 * k + 1];
            u[k] = type == KERN_F16 ? kern_to_f16(low) | (uint32_t)kern_to_f16(high) << 16
                                    : kern_to_bf16(low) | (uint32_t)kern_to_bf16(high) << 16;
        }
        ((uint4 *)p)[i / 8] = make_uint4(u[0], u[1], u[2], u[3]);
        return;
    }
#else
    if (n == KERN_GROUP)
        kern_host_group(p, type, i);
#endif
    KERN_EACH(k)
    {
        if (k < n)
            kern_store(p, type, i + (size_t)k, o->v[k]);
    }
}

/* NaN passes, as in PyTorch: a diverged net must not look healthy. */
KERN_INLINE bool kern_passes(float x)
{
    return !(x <= 0);
}

KERN_INLINE void kern_image_pixel(const struct kern_image *a, enum kern_type type, int64_t i)
{
    for (int c = 0; c < a->c_dst; c++) {
        const bool there = c < a->c_src && i < a->valid;
        const float x = there ? (float)a->src[i * a->c_src + c] : 0;

        kern_store(a->dst, type, (size_t)(i * a->c_dst + c),
                   there ? fmaf(x, a->factor[c], a->offset[c]) : 0);
    }
}

/* --- batch norm --- */

struct kern_affine { /* one channel's coefficients */
    float mean, inv, scale, shift;
};

KERN_INLINE struct kern_affine kern_affine_of(const struct kern_bn_coef *bn, int c)
{
    struct kern_affine a = {bn->mean[c], bn->inv[c], bn->scale[c], bn->shift[c]};

    if (bn->inv_is_var)
        a.inv = 1 / sqrtf(a.inv + (float)KERN_BN_EPS);
    return a;
}

KERN_INLINE float kern_normal(const struct kern_affine *a, float x)
{
    return (x - a->mean) * a->inv;
}

KERN_INLINE float kern_normalised(const struct kern_affine *a, float x)
{
    return fmaf(kern_normal(a, x), a->scale, a->shift);
}

struct kern_pair { /* two sums that are taken together */
    float a, b;
};

KERN_INLINE void kern_bn_stats_add(struct kern_pair *s, float x, float x0)
{
    const float d = x - x0;

    s->a += d;
    s->b = fmaf(d, d, s->b);
}

/* Sums of channel c over the chunks, in their order. */
KERN_INLINE void kern_chunk_sums(const float *partial, int chunks, int channels, int c, double *a,
                                 double *b)
{
    *a = *b = 0;
    for (int k = 0; k < chunks; k++) {
        *a += (double)partial[(size_t)(2 * k) * (size_t)channels + (size_t)c];
        *b += (double)partial[(size_t)(2 * k + 1) * (size_t)channels + (size_t)c];
    }
}

KERN_INLINE void kern_bn_finish_channel(const struct kern_bn_finish *a, enum kern_type type, int c)
{
    const double n = (double)a->rows, kept = 1 - KERN_BN_MOMENTUM;
    double sum, squares;

    kern_chunk_sums(a->partial, a->chunks, a->c, c, &sum, &squares);
    const double off = sum / n, x0 = a->x ? (double)kern_load(a->x, type, (size_t)c) : 0;
    const double mean = x0 + off;
    double var = squares / n - off * off;
    var = var < 0 ? 0 : var; /* NaN stays */
    a->saved[c] = (float)mean;
    a->saved[a->c + c] = (float)(1 / sqrt(var + KERN_BN_EPS));
    a->run_mean[c] = (float)(kept * (double)a->run_mean[c] + KERN_BN_MOMENTUM * mean);
    a->run_var[c] = (float)(kept * (double)a->run_var[c] + KERN_BN_MOMENTUM * (var * n / (n - 1)));
}

/* Elements [i, i + n) lie in the channels from c on; f[k] are the coefficients of element i + k. */
KERN_INLINE void kern_bn_apply_oct(const struct kern_bn_apply *a, enum kern_type type, size_t i,
                                   int n, const struct kern_affine f[KERN_GROUP])
{
    struct kern_oct x = kern_load_oct(a->x, type, i, n), r = {{0}};
    unsigned bits = 0;

    if (a->residual)
        r = kern_load_oct(a->residual, type, i, n);
    KERN_EACH(k)
    {
        float y = k < n ? kern_normalised(&f[k], x.v[k]) : 0;

        if (a->residual)
            y += r.v[k];
        if (a->relu && !kern_passes(y))
            y = 0;
        else
            bits |= 1u << k;
        x.v[k] = y;
    }
    if (a->mask)
        a->mask[i / KERN_GROUP] = (uint8_t)bits;
    kern_store_oct(a->y, type, i, n, &x);
}

/* The gradient g of element k of a group; `bits` are its mask's. */
KERN_INLINE float kern_bn_grad_at(const struct kern_bn_grad *g, const struct kern_affine *f,
                                  float x, float d, unsigned bits, int k)
{
    bool open = true;

    if (g->relu)
        open = g->mask ? bits >> k & 1u : kern_passes(kern_normalised(f, x));
    return open ? d : 0;
}

/* x and g of elements [i, i + n). */
KERN_INLINE void kern_bn_grad_oct(const struct kern_bn_grad *g, enum kern_type type, size_t i,
                                  int n, const struct kern_affine f[KERN_GROUP], struct kern_oct *x,
                                  struct kern_oct *d)
{
    unsigned bits = 0;

    *x = kern_load_oct(g->x, type, i, n);
    *d = kern_load_oct(g->dy, type, i, n);
    if (g->dy2) {
        struct kern_oct more = kern_load_oct(g->dy2, type, i, n);

        KERN_EACH(k)
        d->v[k] += more.v[k];
    }
    if (g->mask) /* a group of fewer starts anywhere in its byte's eight, but lies within it */
        bits = (unsigned)g->mask[i / KERN_GROUP] >> i % KERN_GROUP;
    KERN_EACH(k)
    {
        if (k < n)
            d->v[k] = kern_bn_grad_at(g, &f[k], x->v[k], d->v[k], bits, k);
    }
}

KERN_INLINE void kern_bn_bwd_add(struct kern_pair *s, const struct kern_affine *f, float x, float d)
{
    s->a += d;
    s->b = fmaf(d, kern_normal(f, x), s->b);
}

KERN_INLINE void kern_bn_bwd_finish_channel(const struct kern_bn_bwd_finish *a, int c)
{
    double sum, sum_x;

    kern_chunk_sums(a->partial, a->chunks, a->c, c, &sum, &sum_x);
    a->dscale[c] = (float)(a->add_scale ? (double)a->dscale[c] + sum_x : sum_x);
    a->dshift[c] = (float)(a->add_shift ? (double)a->dshift[c] + sum : sum);
    a->means[c] = (float)(sum / (double)a->rows);
    a->means[a->c + c] = (float)(sum_x / (double)a->rows);
}

KERN_INLINE void kern_bn_bwd_apply_oct(const struct kern_bn_bwd_apply *a, enum kern_type type,
                                       size_t i, int n, const struct kern_affine f[KERN_GROUP],
                                       const struct kern_pair m[KERN_GROUP])
{
    struct kern_oct x, d;

    kern_bn_grad_oct(&a->g, type, i, n, f, &x, &d);
    KERN_EACH(k)
    {
        if (k < n)
            x.v[k] =
                f[k].inv * f[k].scale * fmaf(-kern_normal(&f[k], x.v[k]), m[k].b, d.v[k] - m[k].a);
    }
    kern_store_oct(a->dx, type, i, n, &x);
    if (a->dresidual)
        kern_store_oct(a->dresidual, type, i, n, &d);
}

/* --- the rest of a net --- */

KERN_INLINE void kern_pointwise_oct(const struct kern_pointwise *p, enum kern_type type, size_t i,
                                    int n)
{
    struct kern_oct a = kern_load_oct(p->a, type, i, n), b = {{0}};

    if (p->op != KERN_RELU)
        b = kern_load_oct(p->b, type, i, n);
    KERN_EACH(k)
    {
        if (p->op == KERN_ADD)
            a.v[k] += b.v[k];
        else if (!kern_passes(p->op == KERN_RELU ? a.v[k] : b.v[k]))
            a.v[k] = 0;
    }
    kern_store_oct(p->dst, type, i, n, &a);
}

/* Where a pixel's channel lies in x, and in y. */
KERN_INLINE size_t kern_window_in(const struct kern_windows *w, int64_t n, int iy, int ix, int c)
{
    return (size_t)(((n * w->ih + iy) * w->iw + ix) * w->c + c);
}

KERN_INLINE size_t kern_window_out(const struct kern_windows *w, int64_t n, int oy, int ox, int c)
{
    return (size_t)(((n * w->oh + oy) * w->ow + ox) * w->c + c);
}

/* The first of the largest wins, and a NaN over all. */
KERN_INLINE void kern_max_pool_at(const struct kern_max_pool *p, enum kern_type type, int64_t n,
                                  int oy, int ox, int c)
{
    const struct kern_windows *w = &p->w;
    const size_t to = kern_window_out(w, n, oy, ox, c);
    const int y0 = oy * w->stride - w->pad, x0 = ox * w->stride - w->pad;
    float best = 0;
    int tap = -1;

    for (int ky = 0; ky < w->kernel; ky++) {
        for (int kx = 0; kx < w->kernel; kx++) {
            const int iy = y0 + ky, ix = x0 + kx;

            if (iy < 0 || iy >= w->ih || ix < 0 || ix >= w->iw)
                continue;
            const float v = kern_load(p->x, type, kern_window_in(w, n, iy, ix, c));
            if (tap < 0 || v > best || v != v) {
                best = v;
                tap = ky * w->kernel + kx;
            }
        }
    }
    kern_store(p->y, type, to, best);
    if (p->tap)
        p->tap[to] = (uint8_t)tap;
}

KERN_INLINE int kern_window_first(int i, int kernel, int stride, int pad)
{
    const int from = i + pad - kernel + 1;

    return from <= 0 ? 0 : (from + stride - 1) / stride;
}

KERN_INLINE int kern_window_last(int i, int stride, int pad, int n_out)
{
    const int last = (i + pad) / stride;

    return last < n_out ? last : n_out - 1;
}

KERN_INLINE void kern_max_pool_bwd_at(const struct kern_max_pool_bwd *p, enum kern_type type,
                                      int64_t n, int iy, int ix, int c)
{
    const struct kern_windows *w = &p->w;
    const int oy1 = kern_window_last(iy, w->stride, w->pad, w->oh);
    const int ox1 = kern_window_last(ix, w->stride, w->pad, w->ow);
    float sum = 0;

    for (int oy = kern_window_first(iy, w->kernel, w->stride, w->pad); oy <= oy1; oy++) {
        for (int ox = kern_window_first(ix, w->kernel, w->stride, w->pad); ox <= ox1; ox++) {
            const size_t o = kern_window_out(w, n, oy, ox, c);
            const int ky = iy + w->pad - oy * w->stride, kx = ix + w->pad - ox * w->stride;

            if (p->tap[o] == ky * w->kernel + kx)
                sum += kern_load(p->dy, type, o);
        }
    }
    kern_store(p->dx, type, kern_window_in(w, n, iy, ix, c), sum);
}

KERN_INLINE void kern_avg_pool_at(const struct kern_avg_pool *p, enum kern_type type, int64_t n,
                                  int c)
{
    float sum = 0;

    for (int i = 0; i < p->pixels; i++)
        sum += kern_load(p->x, type, (size_t)((n * p->pixels + i) * p->c + c));
    p->y[n * p->c + c] = sum / (float)p->pixels;
}

KERN_INLINE void kern_avg_pool_bwd_at(const struct kern_avg_pool_bwd *p, enum kern_type type,
                                      int64_t pixel, int c)
{
    kern_store(p->dx, type, (size_t)(pixel * p->c + c),
               p->dy[pixel / p->pixels * p->c + c] / (float)p->pixels);
}

KERN_INLINE enum kern_row_kind kern_softmax_kind(const struct kern_softmax *a, int64_t row)
{
    if (row >= a->n_valid || a->labels[row] == a->ignored)
        return KERN_ROW_IGNORED;
    return a->labels[row] < 0 || a->labels[row] >= a->classes ? KERN_ROW_BAD_LABEL
                                                              : KERN_ROW_COUNTS;
}

/* Class i of a row whose largest logit is `most` and whose Σ exp(z - most) has the logarithm
 * `log_sum`. Returns its part of the loss. */
KERN_INLINE double kern_softmax_class(const struct kern_softmax *a, enum kern_type type,
                                      int64_t row, int i, float most, double log_sum)
{
    const size_t at = (size_t)row * (size_t)a->classes + (size_t)i;
    const double target = a->every + (i == a->labels[row] ? a->own : 0);
    const double log_p = (double)(kern_load(a->z, type, at) - most) - log_sum;

    if (a->dz)
        kern_store(a->dz, type, at,
                   (float)(((double)expf((float)log_p) - target) * a->grad_scale *
                           (a->scaler ? a->scaler->scale : 1)));
    return -target * log_p;
}

KERN_INLINE void kern_loss_put(const struct kern_loss_sum *a, const struct kern_loss *of)
{
    struct kern_loss all = *of;

    if (a->add) {
        all.sum = a->loss->sum + of->sum;
        all.correct += a->loss->correct;
        all.targets += a->loss->targets;
        all.exact += a->loss->exact;
    }
    *a->loss = all;
}

/* Element i of the destination, in its order in memory. */
KERN_INLINE void kern_reorder_at(const struct kern_reorder *a, int64_t i)
{
    int64_t n, c, pixel;

    if (a->dst_last) {
        c = i % a->c_dst;
        pixel = i / a->c_dst % a->pixels;
        n = i / a->c_dst / a->pixels;
    } else {
        pixel = i % a->pixels;
        c = i / a->pixels % a->c_dst;
        n = i / a->pixels / a->c_dst;
    }
    const int64_t from = a->src_last ? (n * a->pixels + pixel) * a->c_src + c
                                     : (n * a->c_src + c) * a->pixels + pixel;
    float v = c < a->c ? kern_load(a->src, a->src_type, (size_t)from) : 0;
    if (a->add)
        v += kern_load(a->dst, a->dst_type, (size_t)i);
    kern_store(a->dst, a->dst_type, (size_t)i, v);
}

KERN_INLINE void kern_cast_oct(const struct kern_cast *a, enum kern_type type, size_t i, int n)
{
    const enum kern_type from = a->widen ? type : KERN_F32, to = a->widen ? KERN_F32 : type;

    if (((uintptr_t)a->src | (uintptr_t)a->dst) % 16) { /* a part of a parameter */
        for (int k = 0; k < n; k++) {
            const float v = kern_load(a->src, from, i + (size_t)k);

            kern_store(a->dst, to, i + (size_t)k,
                       a->add ? v + kern_load(a->dst, to, i + (size_t)k) : v);
        }
        return;
    }
    struct kern_oct o = kern_load_oct(a->src, from, i, n);

    if (a->add) {
        const struct kern_oct there = kern_load_oct(a->dst, to, i, n);

        KERN_EACH(k)
        o.v[k] += there.v[k];
    }
    kern_store_oct(a->dst, to, i, n, &o);
}

#endif
