/* The weights' gradient of a 3×3 convolution of one-channel images. oneDNN wants the image padded
 * to eight channels for it, which is a reorder and eight times the work; here it is nine dot
 * products. */
#include <string.h>

#include "core/backend/cpu/be.h"

enum { TAPS = 9 };

/* The image with its border of zeros. */
static size_t padded_row(const struct cpu_handle *h, const struct bst_window *win)
{
    return (size_t)(h->act.w + 2 * win->pad);
}

static size_t padded_count(const struct cpu_handle *h, const struct bst_window *win)
{
    return (padded_row(h, win) * (size_t)(h->act.h + 2 * win->pad) + 15) / 16 * 16;
}

/* A thread's sums: [channel block][lane group of 8][tap][lane]. */
static size_t sums_count(const struct cpu_handle *h)
{
    return (size_t)h->out.n_cb * (size_t)h->out.block * TAPS;
}

bool cpu_grey_fits(const struct bst_program *p, const struct bst_instr *in,
                   const struct bst_wants *w)
{
    const struct bst_shape *x = &p->values[in->src[0]].shape;
    int block = shim_layout_block(w->src[1]);

    return in->window.kernel == 3 && x->d[1] == 1 && w->src[0] == BST_LAYOUT_PLAIN && block >= 8 &&
           w->dst[0] == shim_layout_of_grey_filter(block);
}

enum bst_err cpu_grey_describe(struct bst_be *be, const struct bst_program *p,
                               const struct bst_instr *in, struct bst_wants *w,
                               struct cpu_handle *h)
{
    BST_TRY(cpu_act_init(&h->act, &p->values[in->src[0]].shape, w->src[0]));
    BST_TRY(cpu_act_init(&h->out, &p->values[in->src[1]].shape, w->src[1]));
    h->grey = true;
    w->scratch_bytes = (size_t)be->threads * (padded_count(h, &in->window) * sizeof(float) +
                                              sums_count(h) * sizeof(double));
    return BST_OK;
}

static void pad(const struct cpu_handle *h, const struct bst_window *win, const float *x, float *to)
{
    size_t row = padded_row(h, win), p = (size_t)win->pad;

    for (size_t i = 0; i < (size_t)h->act.h; i++)
        memcpy(to + (i + p) * row + p, x + i * (size_t)h->act.w, (size_t)h->act.w * sizeof *x);
}

/* Samples [n0, n1) into one thread's sums. */
static void part(const struct bst_be *be, const struct cpu_handle *h, const struct bst_call *c,
                 int n0, int n1, float *image, double *sums)
{
    const struct bst_window *win = &c->in->window;
    const struct cpu_act *o = &h->out;

    memset(image, 0, padded_count(h, win) * sizeof *image);
    memset(sums, 0, sums_count(h) * sizeof *sums);
    for (int n = n0; n < n1; n++) {
        pad(h, win, (const float *)c->src[0] + (size_t)n * h->act.plane, image);
        for (int cb = 0; cb < o->n_cb; cb++) {
            const float *dy =
                (const float *)c->src[1] + ((size_t)n * (size_t)o->n_cb + (size_t)cb) * o->plane;

            for (int l = 0; l < o->block; l += 8)
                be->vec->grey_gradient(sums + (cb * o->block + l) * TAPS, image, padded_row(h, win),
                                       dy + l, o->block, o->h, o->w, win->stride);
        }
    }
}

/* The layout of the filter is [block][tap][channel in block]. */
static void gather(const struct cpu_handle *h, const double *sums, int team, bool add, float *dw)
{
    int block = h->out.block;
    size_t n = sums_count(h);

    for (size_t i = 0; i < n; i++) {
        size_t group = i / (8 * TAPS), tap = i / 8 % TAPS, cb = group * 8 / (size_t)block;
        float *to = dw + (cb * TAPS + tap) * (size_t)block + group * 8 % (size_t)block + i % 8;
        double s = 0;

        for (int t = 0; t < team; t++)
            s += sums[(size_t)t * n + i];
        *to = (float)s + (add ? *to : 0);
    }
}

enum bst_err cpu_grey_run(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    int n = h->act.n, team = be->threads;
    double *sums = c->scratch;
    float *images = (float *)(sums + (size_t)team * sums_count(h));
    size_t room = padded_count(h, &c->in->window);

    if ((size_t)n * h->out.plane * (size_t)h->out.n_cb < CPU_SMALL)
        team = 1;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++)
        part(be, h, c, (int)((int64_t)n * t / team), (int)((int64_t)n * (t + 1) / team),
             images + (size_t)t * room, sums + (size_t)t * sums_count(h));
    gather(h, sums, team, cpu_adds(c, 0), c->dst[0]);
    return BST_OK;
}
