/* Attention as its formula says: for every query all scores, their softmax, dropout on it, and the
 * sum of the values. What training saves is the logarithm of each row's sum of exponentials, a
 * double; backward works the row out again from it. */
#include <math.h>
#include <string.h>

#include "core/backend/attention.h"
#include "core/backend/drop.h"
#include "core/backend/ref/ref_real.h"

struct head { /* one head of one sample */
    struct bst_attn a;
    int64_t n, h;
    int64_t keys; /* that are no padding */
    const real *q, *k, *v;
    double *p, *dp;  /* [Tk] probabilities of the query at hand, and their gradient */
    double *keep;    /* [Tk] 0 where dropout drops, else its factor */
    uint32_t *words; /* for keep */
    double *dk, *dv; /* [Tk, dim] */
};

size_t REF(attn_saved_bytes)(const struct bst_program *p, const struct bst_instr *in)
{
    struct bst_attn a = bst_attn_of(p, in);
    return (size_t)(a.n * a.heads * a.q.length) * sizeof(double);
}

static size_t words_bytes(const struct bst_attn *a)
{
    return (size_t)bst_drop_row_blocks(a->k.length) * BST_DROP_BLOCK * sizeof(uint32_t);
}

size_t REF(attn_scratch_bytes)(const struct bst_program *p, const struct bst_instr *in)
{
    struct bst_attn a = bst_attn_of(p, in);
    int64_t doubles = in->op == BST_I_ATTN_FWD ? 2 : 3 + 2 * a.dim;
    return (size_t)(doubles * a.k.length) * sizeof(double) + words_bytes(&a);
}

static struct head head_of(const struct ref_call *c)
{
    struct head e = {.a = bst_attn_of(c->p, c->in)};
    int first = c->in->op == BST_I_ATTN_FWD ? 0 : 1;
    double *room = c->scratch;
    e.q = c->src[first];
    e.k = e.a.packed ? e.q : c->src[first + 1];
    e.v = e.a.packed ? e.q : c->src[first + 2];
    e.p = room;
    e.keep = room + e.a.k.length;
    room += 2 * e.a.k.length;
    if (first) {
        e.dp = room;
        e.dk = e.dp + e.a.k.length;
        e.dv = e.dk + e.a.k.length * e.a.dim;
        room = e.dv + e.a.k.length * e.a.dim;
    }
    e.words = (uint32_t *)(void *)room;
    return e;
}

static void set_keep(const struct ref_call *c, struct head *e, int64_t i, int64_t sees)
{
    double drop = c->in->attr.drop;
    int64_t blocks = bst_drop_row_blocks(e->a.k.length);
    if (drop > 0)
        bst_drop_words(c->step, &c->in->attr, e->n,
                       bst_drop_first_block(&c->in->attr, e->h, i, e->a.q.length, e->a.k.length),
                       blocks, e->words);
    for (int64_t j = 0; j < sees; j++) {
        bool dropped = drop > 0 && e->words[j] < bst_drop_threshold(drop);
        e->keep[j] = dropped ? 0 : bst_drop_scale(drop);
    }
}

/* What is dropped is 0 even where it was no number. */
static double kept(const struct head *e, int64_t j, double x)
{
    return e->keep[j] == 0 ? 0 : e->keep[j] * x;
}

static const real *row(const struct head *e, const real *x, const struct bst_attn_operand *o,
                       int64_t i)
{
    return x + bst_attn_at(&e->a, o, e->n, e->h, i);
}

static double dot(const real *x, const real *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Scores of query i into p; the logarithm of the sum of their exponentials. */
static double scores(struct head *e, int64_t i, int64_t sees)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < sees; j++) {
        e->p[j] = e->a.scale * dot(row(e, e->q, &e->a.q, i), row(e, e->k, &e->a.k, j), e->a.dim);
        most = e->p[j] > most ? e->p[j] : most;
    }
    for (int64_t j = 0; j < sees; j++)
        sum += exp(e->p[j] - most);
    return most + log(sum);
}

static void head_fwd(const struct ref_call *c, struct head *e, double *lse)
{
    for (int64_t i = 0; i < e->a.q.length; i++) {
        int64_t sees = bst_attn_sees(&e->a, e->keys, i);
        real *y = (real *)c->dst[0] + bst_attn_at(&e->a, &e->a.y, e->n, e->h, i);
        double log_sum = scores(e, i, sees);
        set_keep(c, e, i, sees);
        for (int64_t j = 0; j < sees; j++)
            e->p[j] = kept(e, j, exp(e->p[j] - log_sum));
        for (int64_t d = 0; d < e->a.dim; d++) {
            double sum = 0;
            for (int64_t j = 0; j < sees; j++)
                sum += e->p[j] * (double)row(e, e->v, &e->a.v, j)[d];
            y[d] = (real)sum;
        }
        if (lse)
            lse[i] = log_sum;
    }
}

enum bst_err REF(attn_fwd)(const struct ref_call *c)
{
    struct head e = head_of(c);
    double *lse = c->in->n_dst > 1 ? c->dst[1] : NULL;
    for (e.n = 0; e.n < e.a.n; e.n++) {
        e.keys = bst_attn_keys(&e.a, c->step, e.n);
        for (e.h = 0; e.h < e.a.heads; e.h++)
            head_fwd(c, &e, lse ? lse + (e.n * e.a.heads + e.h) * e.a.q.length : NULL);
    }
    return BST_OK;
}

/* With p the softmax and m dropout's factors: dv = (p∘m)ᵀ·dy, dp = (dy·vᵀ)∘m,
 * ds = p∘(dp - Σ p∘dp), dq = scale·ds·k, dk = scale·dsᵀ·q. dq is written last: it may lie where q
 * does. */
static void query_bwd(const struct ref_call *c, struct head *e, int64_t i, double lse, real *dq)
{
    int64_t sees = bst_attn_sees(&e->a, e->keys, i), dim = e->a.dim;
    const real *dy = (const real *)c->src[0] + bst_attn_at(&e->a, &e->a.y, e->n, e->h, i);
    const real *q = row(e, e->q, &e->a.q, i);
    double all = 0;
    scores(e, i, sees);
    set_keep(c, e, i, sees);
    for (int64_t j = 0; j < sees; j++) {
        e->p[j] = exp(e->p[j] - lse);
        e->dp[j] = kept(e, j, dot(dy, row(e, e->v, &e->a.v, j), dim));
        all += e->p[j] * e->dp[j];
    }
    for (int64_t j = 0; j < sees; j++) {
        double ds = e->p[j] * (e->dp[j] - all) * e->a.scale;
        for (int64_t d = 0; d < dim; d++) {
            e->dv[j * dim + d] += kept(e, j, e->p[j]) * (double)dy[d];
            e->dk[j * dim + d] += ds * (double)q[d];
        }
        e->dp[j] = ds;
    }
    for (int64_t d = 0; d < dim; d++) {
        double sum = 0;
        for (int64_t j = 0; j < sees; j++)
            sum += e->dp[j] * (double)row(e, e->k, &e->a.k, j)[d];
        dq[d] = (real)sum;
    }
}

static void head_bwd(const struct ref_call *c, struct head *e, const double *lse)
{
    real *dq = c->dst[0], *dk = e->a.packed ? dq : c->dst[1], *dv = e->a.packed ? dq : c->dst[2];
    int64_t dim = e->a.dim;
    memset(e->dk, 0, (size_t)(2 * e->a.k.length * dim) * sizeof *e->dk);
    for (int64_t i = 0; i < e->a.q.length; i++)
        query_bwd(c, e, i, lse[i], dq + bst_attn_at(&e->a, &e->a.q, e->n, e->h, i));
    for (int64_t j = 0; j < e->a.k.length; j++) {
        for (int64_t d = 0; d < dim; d++) {
            dk[bst_attn_at(&e->a, &e->a.k, e->n, e->h, j) + d] = (real)e->dk[j * dim + d];
            dv[bst_attn_at(&e->a, &e->a.v, e->n, e->h, j) + d] = (real)e->dv[j * dim + d];
        }
    }
}

enum bst_err REF(attn_bwd)(const struct ref_call *c)
{
    struct head e = head_of(c);
    const double *lse = c->src[c->in->n_src - 1];
    for (e.n = 0; e.n < e.a.n; e.n++) {
        e.keys = bst_attn_keys(&e.a, c->step, e.n);
        for (e.h = 0; e.h < e.a.heads; e.h++)
            head_bwd(c, &e, lse + (e.n * e.a.heads + e.h) * e.a.q.length);
    }
    return BST_OK;
}
