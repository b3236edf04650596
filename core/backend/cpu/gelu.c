/* GELU, tanh and dropout: every element alone. */
#include <math.h>

#include "core/backend/cpu/be.h"
#include "core/backend/drop.h"

enum { AT_ONCE = 4096 }; /* elements whose random words are made at one time; a multiple of 8 */

enum bst_err cpu_describe_plain(struct bst_be *be, const struct bst_program *p,
                                const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    for (int i = 0; i < in->n_src; i++)
        w->src[i] = BST_LAYOUT_PLAIN;
    for (int i = 0; i < in->n_dst; i++)
        w->dst[i] = BST_LAYOUT_PLAIN;
    h->count = (size_t)bst_shape_count(&p->values[in->dst[0]].shape);
    return BST_OK;
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                             struct cpu_handle *h)
{
    w->inplace[0] = 0;
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

/* Parts begin at whole vectors, so that where they lie moves no bit. */
static size_t parts(size_t n)
{
    return (n + AT_ONCE - 1) / AT_ONCE;
}

static size_t length(size_t n, size_t part)
{
    return n - part * AT_ONCE < AT_ONCE ? n - part * AT_ONCE : AT_ONCE;
}

static enum bst_err run_gelu_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *x = c->src[0];
    float *y = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t i = 0; i < parts(h->count); i++)
        be->seq->gelu(y + i * AT_ONCE, x + i * AT_ONCE, length(h->count, i), c->in->attr.tanh);
    return BST_OK;
}

static enum bst_err run_gelu_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *dy = c->src[0], *x = c->src[1];
    float *dx = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t i = 0; i < parts(h->count); i++)
        be->seq->gelu_bwd(dx + i * AT_ONCE, dy + i * AT_ONCE, x + i * AT_ONCE, length(h->count, i),
                          c->in->attr.tanh);
    return BST_OK;
}

const struct cpu_op cpu_op_gelu_fwd = {describe, run_gelu_fwd};
const struct cpu_op cpu_op_gelu_bwd = {describe, run_gelu_bwd};

/* One position of a sample goes through it: no loop of its own. */
static enum bst_err run_tanh_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *x = c->src[0];
    float *y = c->dst[0];

    (void)be;
    for (size_t i = 0; i < h->count; i++)
        y[i] = tanhf(x[i]);
    return BST_OK;
}

static enum bst_err run_tanh_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *dy = c->src[0], *y = c->src[1];
    float *dx = c->dst[0];

    (void)be;
    for (size_t i = 0; i < h->count; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
    return BST_OK;
}

const struct cpu_op cpu_op_tanh_fwd = {describe, run_tanh_fwd};
const struct cpu_op cpu_op_tanh_bwd = {describe, run_tanh_bwd};

static enum bst_err run_dropout(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    size_t n = (size_t)cpu_dst_shape(c, 0)->d[0], per_sample = h->count / n;
    size_t per = parts(per_sample);
    uint32_t threshold = bst_drop_threshold(c->in->attr.drop);
    float scale = (float)bst_drop_scale(c->in->attr.drop);
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t i = 0; i < n * per; i++) {
        size_t part = i % per, count = length(per_sample, part);
        size_t at = i / per * per_sample + part * AT_ONCE;
        uint32_t words[AT_ONCE];

        bst_drop_words(c->step, &c->in->attr, (int64_t)(i / per),
                       (int64_t)(part * AT_ONCE / BST_DROP_BLOCK),
                       (int64_t)((count + BST_DROP_BLOCK - 1) / BST_DROP_BLOCK), words);
        be->seq->drop((float *)c->dst[0] + at, (const float *)c->src[0] + at, words, threshold,
                      scale, count);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_dropout = {describe, run_dropout};
