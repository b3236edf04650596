/* Poolings. A maximum remembers its place in the window as one byte, in the layout of its output.
 */
#include <math.h>
#include <string.h>

#include "core/backend/cpu/be.h"

static size_t plane_at(const struct cpu_act *a, int n, int cb)
{
    return ((size_t)n * (size_t)a->n_cb + (size_t)cb) * a->plane;
}

static int team_of(const struct bst_be *be, const struct cpu_act *a)
{
    return (size_t)a->n * (size_t)a->n_cb * a->plane < CPU_SMALL ? 1 : be->threads;
}

/* h->act: the side of x; h->out: the side of y. Both have the layout of what is read. */
static enum bst_err describe_max(const struct bst_program *p, const struct bst_instr *in, int x,
                                 int y, uint32_t layout, struct cpu_handle *h)
{
    if (in->window.kernel * in->window.kernel > 256 || in->window.pad >= in->window.kernel)
        return bst_fail(BST_E_UNSUPPORTED, "%s: window of %d", in->name, in->window.kernel);
    BST_TRY(cpu_act_init(&h->act, &p->values[x].shape, layout));
    return cpu_act_init(&h->out, &p->values[y].shape, layout);
}

static enum bst_err describe_max_fwd(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    BST_TRY(describe_max(p, in, in->src[0], in->dst[0], w->src[0], h));
    w->dst[0] = w->src[0];
    if (in->n_dst > 1) {
        w->dst[1] = BST_LAYOUT_PLAIN;
        w->raw_bytes[1] = (size_t)h->out.n * (size_t)h->out.n_cb * h->out.plane;
    } else {
        w->scratch_bytes = (size_t)be->threads * (size_t)h->out.w * (size_t)h->out.block;
    }
    return BST_OK;
}

/* Rows of the window at output row o that lie inside the image. */
static int rows_of(const struct cpu_act *x, const struct bst_window *win, int o, int *k0, int *k1)
{
    int top = o * win->stride - win->pad;

    *k0 = top < 0 ? -top : 0;
    *k1 = top + win->kernel > x->h ? x->h - top : win->kernel;
    return top;
}

/* One channel a plane (plain layout). */
static void max_row_plain(float *y, uint8_t *index, const float *x, int w, int ow,
                          const struct bst_window *win, int k0, int k1)
{
    for (int o = 0; o < ow; o++) {
        int at = o * win->stride - win->pad;
        float best = 0;
        int where = -1;

        for (int i = k0; i < k1; i++)
            for (int j = at < 0 ? -at : 0; j < win->kernel && at + j < w; j++) {
                float v = x[(ptrdiff_t)i * w + at + j];

                if (where >= 0 && !(v > best) && !isnan(v))
                    continue;
                best = v;
                where = i * win->kernel + j;
            }
        y[o] = best;
        index[o] = (uint8_t)where;
    }
}

static void max_plane(const struct bst_be *be, const struct cpu_handle *h,
                      const struct bst_window *win, const float *x, float *y, uint8_t *index,
                      size_t index_step)
{
    int block = h->act.block;

    for (int o = 0; o < h->out.h; o++) {
        int k0, k1, top = rows_of(&h->act, win, o, &k0, &k1);
        const float *from = x + (ptrdiff_t)top * h->act.w * block;
        float *to = y + (size_t)o * (size_t)(h->out.w * block);
        uint8_t *ix = index + (size_t)o * index_step;

        if (block == 1) {
            max_row_plain(to, ix, from, h->act.w, h->out.w, win, k0, k1);
            continue;
        }
        for (int l = 0; l < block; l += 8)
            be->vec->max_pool_row(to + l, ix + l, from + l, h->act.w, h->out.w, block, win->kernel,
                                  win->stride, win->pad, k0, k1);
    }
}

static enum bst_err run_max_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    int planes = h->act.n * h->act.n_cb, team = team_of(be, &h->act);
    bool keep = c->in->n_dst > 1;
    size_t row = (size_t)(h->out.w * h->out.block);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        int from = (int)((int64_t)planes * t / team), to = (int)((int64_t)planes * (t + 1) / team);

        for (int i = from; i < to; i++) {
            /* Without a backward pass the places go to one row that nobody reads. */
            uint8_t *index = keep ? (uint8_t *)c->dst[1] + (size_t)i * h->out.plane
                                  : (uint8_t *)c->scratch + (size_t)t * row;

            max_plane(be, h, &c->in->window, (const float *)c->src[0] + (size_t)i * h->act.plane,
                      (float *)c->dst[0] + (size_t)i * h->out.plane, index, keep ? row : 0);
        }
    }
    return BST_OK;
}

const struct cpu_op cpu_op_max_pool_fwd = {describe_max_fwd, run_max_fwd};

/* The places were written in the layout that y had; dy comes in it too, dx goes out in it. */
static enum bst_err describe_max_bwd(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    if (w->dst[0] != BST_LAYOUT_ANY)
        w->src[0] = w->dst[0];
    w->dst[0] = w->src[0];
    w->src[1] = BST_LAYOUT_PLAIN;
    return describe_max(p, in, in->dst[0], in->src[0], w->src[0], h);
}

static void max_row_plain_bwd(float *dx, const float *dy, const uint8_t *index, int w, int ow,
                              const struct bst_window *win)
{
    for (int o = 0; o < ow; o++) {
        int i = index[o] / win->kernel, j = index[o] % win->kernel;

        dx[(ptrdiff_t)i * w + o * win->stride - win->pad + j] += dy[o];
    }
}

static enum bst_err run_max_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct bst_window *win = &c->in->window;
    int planes = h->act.n * h->act.n_cb, team = team_of(be, &h->act), block = h->act.block;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int i = 0; i < planes; i++) {
        float *dx = (float *)c->dst[0] + (size_t)i * h->act.plane;

        memset(dx, 0, h->act.plane * sizeof *dx);
        for (int o = 0; o < h->out.h; o++) {
            size_t at = (size_t)i * h->out.plane + (size_t)o * (size_t)(h->out.w * block);
            const float *dy = (const float *)c->src[0] + at;
            const uint8_t *index = (const uint8_t *)c->src[1] + at;
            int k0, k1, top = rows_of(&h->act, win, o, &k0, &k1);
            float *to = dx + (ptrdiff_t)top * h->act.w * block;

            if (block == 1) {
                max_row_plain_bwd(to, dy, index, h->act.w, h->out.w, win);
                continue;
            }
            for (int l = 0; l < block; l += 8)
                be->vec->max_pool_row_bwd(to + l, dy + l, index + l, h->act.w, h->out.w, block,
                                          win->kernel, win->stride, win->pad, k0, k1);
        }
    }
    return BST_OK;
}

const struct cpu_op cpu_op_max_pool_bwd = {describe_max_bwd, run_max_bwd};

static enum bst_err describe_avg_fwd(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    w->dst[0] = BST_LAYOUT_PLAIN;
    return cpu_act_init(&h->act, &p->values[in->src[0]].shape, w->src[0]);
}

static enum bst_err run_avg_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    static const struct cpu_bn_coef zero;
    float *y = c->dst[0];
    int planes = a->n * a->n_cb, team = team_of(be, a);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int i = 0; i < planes; i++) {
        int n = i / a->n_cb, c0 = i % a->n_cb * a->block;
        struct cpu_bn_sums t = {{0}, {0}};
        struct cpu_bn_planes p = {
            .x = (const float *)c->src[0] + (size_t)i * a->plane, .n = a->plane, .count = 1};

        be->vec_bn->stats(&p, &zero, &t);
        for (int l = a->block; l < CPU_LANES; l++)
            t.s[l % a->block] += t.s[l];
        for (int l = 0; l < a->block && c0 + l < a->c; l++)
            y[(size_t)n * (size_t)a->c + (size_t)(c0 + l)] = (float)(t.s[l] / (a->h * a->w));
    }
    return BST_OK;
}

const struct cpu_op cpu_op_avg_pool_fwd = {describe_avg_fwd, run_avg_fwd};

static enum bst_err describe_avg_bwd(struct bst_be *be, const struct bst_program *p,
                                     const struct bst_instr *in, bool accumulate,
                                     struct bst_wants *w, struct cpu_handle *h)
{
    (void)be;
    (void)accumulate;
    w->src[0] = BST_LAYOUT_PLAIN;
    if (!shim_layout_block(w->dst[0]))
        w->dst[0] = BST_LAYOUT_PLAIN;
    return cpu_act_init(&h->act, &p->values[in->dst[0]].shape, w->dst[0]);
}

static enum bst_err run_avg_bwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_act *a = &h->act;
    const float *dy = c->src[0];
    int planes = a->n * a->n_cb, team = team_of(be, a);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int i = 0; i < planes; i++) {
        int n = i / a->n_cb, c0 = i % a->n_cb * a->block;
        float g[CPU_LANES] = {0}, *dx = (float *)c->dst[0] + plane_at(a, n, i % a->n_cb);

        for (int l = 0; l < a->block && c0 + l < a->c; l++)
            g[l] = dy[(size_t)n * (size_t)a->c + (size_t)(c0 + l)] / (float)(a->h * a->w);
        for (size_t j = 0; j < a->plane; j += (size_t)a->block)
            memcpy(dx + j, g, (size_t)a->block * sizeof *g);
    }
    return BST_OK;
}

const struct cpu_op cpu_op_avg_pool_bwd = {describe_avg_bwd, run_avg_bwd};
