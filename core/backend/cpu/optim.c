/* adamw, lamb and lars over all parameters at once. The spans are cut into pieces of a fixed size,
 * which a team works through; what is summed is summed piece by piece, so that the number of
 * threads moves no bit. */
#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"

enum { PIECE = 16384 }; /* reals: with their state they fit a core's second-level cache */

struct cpu_piece {
    int span;
    size_t at, n; /* reals */
    double q[2];
};

/* What a sweep works on. */
struct sweep {
    struct bst_be *be;
    const struct bst_optim *how;
    const struct bst_span *spans;
    const struct bst_optim_blocks *b;
    int n_pieces;
    float unbias_m, unbias_root_v;
};

static int cut(struct bst_be *be, const struct bst_span *spans, int n_spans)
{
    int n = 0;

    for (int s = 0; s < n_spans; s++)
        n += (int)((spans[s].bytes / sizeof(float) + PIECE - 1) / PIECE);
    if (n > be->n_pieces) {
        be->pieces = bst_xrealloc(be->pieces, (size_t)n, sizeof *be->pieces);
        be->n_pieces = n;
    }
    n = 0;
    for (int s = 0; s < n_spans; s++)
        for (size_t at = 0, all = spans[s].bytes / sizeof(float); at < all; at += PIECE)
            be->pieces[n++] = (struct cpu_piece){.span = s,
                                                 .at = spans[s].offset / sizeof(float) + at,
                                                 .n = all - at < PIECE ? all - at : PIECE};
    return n;
}

/* The rate is the span's, or what the norms made of it. */
static struct cpu_adam_coef adam_coef(const struct sweep *w, const struct bst_span *s, double rate)
{
    const struct bst_optim *how = w->how;

    return (struct cpu_adam_coef){
        .grad_factor = (float)how->grad_factor,
        .rest1 = (float)(1 - how->beta1),
        .rest2 = (float)(1 - how->beta2),
        .unbias_m = w->unbias_m,
        .unbias_root_v = w->unbias_root_v,
        .epsilon = (float)how->epsilon,
        .decay = (float)s->weight_decay,
        .lr = (float)rate,
    };
}

/* First pass: adamw is done after it; the others have their sums. */
static void first_pass(const struct sweep *w, struct cpu_piece *p)
{
    const struct bst_span *s = &w->spans[p->span];
    float *x = (float *)w->b->weight + p->at, *m = (float *)w->b->state[0] + p->at;
    const float *g = (const float *)w->b->grad + p->at;
    const struct cpu_vec_optim *vec = w->be->vec_optim;

    if (w->how->kind == BST_OPTIMIZER_LARS) {
        double f = w->how->grad_factor;

        p->q[0] = w->be->vec->sum_squares(x, p->n);
        p->q[1] = w->be->vec->sum_squares(g, p->n) * f * f;
        return;
    }
    const struct cpu_adam_coef k = adam_coef(w, s, s->lr);
    float *v = (float *)w->b->state[1] + p->at;

    if (w->how->kind == BST_OPTIMIZER_ADAMW)
        vec->adamw(x, m, v, g, p->n, &k);
    else
        vec->lamb_moments(x, m, v, g, p->n, &k, p->q);
}

/* Every piece's q[0] becomes its span's ratio. */
static void settle_ratios(const struct sweep *w)
{
    struct cpu_piece *pieces = w->be->pieces;

    for (int i = 0, next; i < w->n_pieces; i = next) {
        double ww = 0, uu = 0;

        for (next = i; next < w->n_pieces && pieces[next].span == pieces[i].span; next++) {
            ww += pieces[next].q[0];
            uu += pieces[next].q[1];
        }
        double r = bst_optim_ratio(w->how, &w->spans[pieces[i].span], ww, uu);
        for (int j = i; j < next; j++)
            pieces[j].q[0] = r;
    }
}

static void second_pass(const struct sweep *w, const struct cpu_piece *p)
{
    const struct bst_span *s = &w->spans[p->span];
    float *x = (float *)w->b->weight + p->at, *m = (float *)w->b->state[0] + p->at;
    double r = p->q[0];

    if (w->how->kind == BST_OPTIMIZER_LARS) {
        const struct cpu_sgd_coef k = {.lr = (float)s->lr,
                                       .momentum = (float)w->how->momentum,
                                       .weight_decay = (float)(r * s->weight_decay),
                                       .grad_factor = (float)(r * w->how->grad_factor),
                                       .nesterov = w->how->nesterov};

        w->be->vec->sgd(x, m, (const float *)w->b->grad + p->at, p->n, &k);
        return;
    }
    const struct cpu_adam_coef k = adam_coef(w, s, s->lr * r);

    w->be->vec_optim->lamb_apply(x, m, (const float *)w->b->state[1] + p->at, p->n, &k);
}

enum bst_err cpu_optimize(struct bst_be *be, const struct bst_optim *how,
                          const struct bst_span *spans, int n_spans,
                          const struct bst_optim_blocks *blocks)
{
    const struct sweep w = {.be = be,
                            .how = how,
                            .spans = spans,
                            .b = blocks,
                            .n_pieces = cut(be, spans, n_spans),
                            .unbias_m = (float)bst_optim_unbias_m(how),
                            .unbias_root_v = (float)bst_optim_unbias_root_v(how)};

#pragma omp parallel for num_threads(be->threads) schedule(dynamic) if (w.n_pieces > 1)
    for (int i = 0; i < w.n_pieces; i++)
        first_pass(&w, &be->pieces[i]);
    if (how->kind == BST_OPTIMIZER_ADAMW)
        return BST_OK;
    settle_ratios(&w);
#pragma omp parallel for num_threads(be->threads) schedule(dynamic) if (w.n_pieces > 1)
    for (int i = 0; i < w.n_pieces; i++)
        second_pass(&w, &be->pieces[i]);
    return BST_OK;
}
