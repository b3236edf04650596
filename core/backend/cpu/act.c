/* Element-wise instructions, and the image's way into the first convolution's layout. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"

size_t cpu_layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    (void)be;
    return shim_layout_bytes(layout, s);
}

enum bst_err cpu_act_init(struct cpu_act *a, const struct bst_shape *s, uint32_t layout)
{
    a->block = shim_layout_block(layout);
    if (s->rank != 4 || !a->block)
        return bst_fail(BST_E_UNSUPPORTED, "cpu: rank %d, layout %u", s->rank, layout);
    a->n = (int)s->d[0];
    a->c = (int)s->d[1];
    a->h = (int)s->d[2];
    a->w = (int)s->d[3];
    a->n_cb = (a->c + a->block - 1) / a->block;
    a->plane = (size_t)a->h * (size_t)a->w * (size_t)a->block;
    return BST_OK;
}

/* Thread t of `team`'s part of n reals, in whole cache lines. */
static void part(size_t n, int t, int team, size_t *from, size_t *to)
{
    size_t lines = (n + 15) / 16;

    *from = lines * (size_t)t / (size_t)team * 16;
    *to = lines * (size_t)(t + 1) / (size_t)team * 16;
    if (*to > n)
        *to = n;
}

void cpu_add_into(struct bst_be *be, float *dst, const float *src, size_t n)
{
    int team = n < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t from, to;

        part(n, t, team, &from, &to);
        be->vec->add(dst + from, dst + from, src + from, to - from);
    }
}

/* All operands in the first source's layout; the destination may take over the first source. */
static enum bst_err describe_flat(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    for (int i = 1; i < in->n_src; i++)
        w->src[i] = w->src[0];
    w->dst[0] = w->src[0];
    w->inplace[0] = 0;
    h->count = shim_layout_bytes(w->src[0], &p->values[in->src[0]].shape) / sizeof(float);
    return BST_OK;
}

static enum bst_err run_relu_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *x = c->src[0];
    float *y = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t from, to;

        part(h->count, t, team, &from, &to);
        be->vec->relu(y + from, x + from, to - from);
    }
    return BST_OK;
}

static enum bst_err run_relu_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *dy = c->src[0], *y = c->src[1];
    float *dx = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t from, to;

        part(h->count, t, team, &from, &to);
        be->vec->relu_bwd(dx + from, dy + from, y + from, to - from);
    }
    return BST_OK;
}

static enum bst_err run_add(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const float *x = c->src[0], *y = c->src[1];
    float *z = c->dst[0];
    int team = h->count < CPU_SMALL ? 1 : be->threads;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        size_t from, to;

        part(h->count, t, team, &from, &to);
        be->vec->add(z + from, x + from, y + from, to - from);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_relu_fwd = {describe_flat, run_relu_fwd};
const struct cpu_op cpu_op_relu_bwd = {describe_flat, run_relu_bwd};
const struct cpu_op cpu_op_add = {describe_flat, run_add};

/* The layout a first convolution takes images of these channels in: the library is asked. */
static enum bst_err image_layout(struct bst_be *be, const struct bst_shape *s, uint32_t *layout)
{
    struct shim_op op = {.kind = SHIM_CONV_FWD, .window = {3, 1, 1}};
    struct shim_prim *probe;
    enum bst_err err;

    op.t[SHIM_SRC].shape = op.t[SHIM_DST].shape = *s;
    op.t[SHIM_DST].shape.d[1] = 16;
    op.t[SHIM_WEIGHT].shape = (struct bst_shape){4, {16, s->d[1], 3, 3}};
    for (int r = 0; r < SHIM_N_ROLES; r++)
        op.t[r].layout = op.t[r].now = BST_LAYOUT_ANY;
    err = shim_prim_new(be->shim, &op, &probe);
    if (err && err != BST_E_UNSUPPORTED)
        return err;
    *layout = err ? BST_LAYOUT_PLAIN : op.t[SHIM_SRC].layout;
    shim_prim_free(probe);
    return BST_OK;
}

static enum bst_err describe_image(struct bst_be *be, const struct bst_program *p,
                                   const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                   struct cpu_handle *h)
{
    const struct bst_shape *s = &p->values[in->dst[0]].shape;

    (void)accumulate;
    if (w->dst[0] == BST_LAYOUT_ANY)
        BST_TRY(image_layout(be, s, &w->dst[0]));
    BST_TRY(cpu_act_init(&h->act, s, w->dst[0]));
    if (h->act.c > (int)(sizeof p->mean / sizeof p->mean[0]))
        return bst_fail(BST_E_SHAPE, "%s: %d channels", in->name, h->act.c);
    h->table = bst_xcalloc((size_t)h->act.c * 256, sizeof *h->table);
    for (int c = 0; c < h->act.c; c++)
        for (int v = 0; v < 256; v++)
            h->table[c * 256 + v] = ((float)v / 255.0f - p->mean[c]) / p->std[c];
    return BST_OK;
}

static void image_plane(const struct cpu_act *a, const float *table, const uint8_t *pixels, int cb,
                        float *to)
{
    int n_here = a->c - cb * a->block < a->block ? a->c - cb * a->block : a->block;
    size_t hw = (size_t)a->h * (size_t)a->w, block = (size_t)a->block, n_c = (size_t)a->c;

    if (n_here < a->block)
        memset(to, 0, a->plane * sizeof *to);
    for (int l = 0; l < n_here; l++) {
        size_t c = (size_t)(cb * a->block + l);
        const float *t = table + c * 256;
        const uint8_t *from = pixels + c;
        float *out = to + l;

        for (size_t i = 0; i < hw; i++)
            out[i * block] = t[from[i * n_c]];
    }
}

static enum bst_err run_image(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    size_t bytes = (size_t)a->h * (size_t)a->w * (size_t)a->c;
    int team = (size_t)a->n * bytes < CPU_SMALL ? 1 : be->threads;
    float *out = c->dst[0];

#pragma omp parallel for num_threads(team) schedule(static)
    for (int n = 0; n < a->n; n++)
        for (int cb = 0; cb < a->n_cb; cb++) {
            float *to = out + ((size_t)n * (size_t)a->n_cb + (size_t)cb) * a->plane;

            if (n < c->step->n_valid)
                image_plane(a, h->table, c->step->images + (size_t)n * bytes, cb, to);
            else
                memset(to, 0, a->plane * sizeof *to);
        }
    return BST_OK;
}

const struct cpu_op cpu_op_image = {describe_image, run_image};
