/* The builder's part for sequences. */
#include "core/graph/graph_seq.h"

#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/build.h"

/* What a random counter has room for beside the element (core/backend/drop.h). */
#define MAX_SITES (1 << 24)

static int next_site(struct bst_graph *g, double p, const char *name)
{
    if (!(p >= 0 && p < 1))
        return bst_graph_fail(g, BST_E_RANGE, "%s: a dropout of %g; 0 to below 1 is possible", name,
                              p);
    if (g->n_sites >= MAX_SITES)
        return bst_graph_fail(g, BST_E_RANGE, "%s: the net drops at too many places", name);
    return g->n_sites++;
}

/* All readers of a stream agree on its length. */
static bool takes_stream(struct bst_graph *g, int stream, int length, const char *name)
{
    if (stream < 0 || stream >= BST_MAX_STREAMS) {
        bst_graph_fail(g, BST_E_RANGE, "%s: there is no token stream %d", name, stream);
        return false;
    }
    if (length < 1 || (g->length[stream] && g->length[stream] != length)) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: %d tokens a sample, where the stream has %d", name,
                       length, g->length[stream]);
        return false;
    }
    g->length[stream] = length;
    return true;
}

/* The table of the embedding of that name; -1 with the error kept. */
static int find_table(struct bst_graph *g, const char *embedding, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].op == BST_OP_EMBEDDING && !strcmp(g->nodes[i].name, embedding))
            return g->nodes[i].params[0];
    }
    return bst_graph_fail(g, BST_E_ARG, "%s: there is no embedding %s to share the weight of", name,
                          embedding);
}

/* The same, when it is of that shape. */
static int tied_table(struct bst_graph *g, const char *embedding, const struct bst_shape *w,
                      const char *name)
{
    int p = find_table(g, embedding, name);
    if (p < 0 || bst_shape_equal(&g->params[p].shape, w))
        return p;
    return bst_graph_fail(g, BST_E_SHAPE, "%s: wants a weight of %s, but the table of %s is %s",
                          name, bst_shape_text(w).s, embedding,
                          bst_shape_text(&g->params[p].shape).s);
}

static int own_table(struct bst_graph *g, const struct bst_embedding *e, const struct bst_shape *w,
                     const char *name)
{
    int p = bst_graph_add_param(g, name, "weight", BST_PARAM_EMBEDDING, BST_INIT_NORMAL, w);
    g->params[p].init_scale = e->deviation;
    return p;
}

int bst_graph_embedding(struct bst_graph *g, const struct bst_embedding *e, const char *name)
{
    struct bst_node *n;
    if (g->err || !takes_stream(g, e->stream, e->length, name))
        return -1;
    if (e->rows < 1 || e->width < 1)
        return bst_graph_fail(g, BST_E_RANGE, "%s: a table of %d rows of %d", name, e->rows,
                              e->width);
    struct bst_shape s = {3, {g->micro_batch, e->length, e->width}}, w = {2, {e->rows, e->width}};
    int out = bst_graph_add_node(g, BST_OP_EMBEDDING, name, -1, -1, &s, &n);
    if (out < 0)
        return -1;
    n->attr.stream = e->stream;
    n->attr.scale = e->scale != 0 ? e->scale : 1;
    n->params[0] = e->tied ? tied_table(g, e->tied, &w, name) : own_table(g, e, &w, name);
    return n->params[0] < 0 ? -1 : out;
}

int bst_graph_position(struct bst_graph *g, int x, const struct bst_position *p, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 3, name))
        return -1;
    struct bst_shape s = g->values[x], w = {2, {p->rows, s.d[2]}};
    if (s.d[1] > p->rows)
        return bst_graph_fail(g, BST_E_SHAPE, "%s: sequences of %d, but only %d positions", name,
                              (int)s.d[1], p->rows);
    int out = bst_graph_add_node(g, BST_OP_POSITION, name, x, -1, &s, &n);
    if (out < 0)
        return -1;
    n->params[0] = bst_graph_add_param(g, name, "weight", BST_PARAM_EMBEDDING, BST_INIT_NORMAL, &w);
    g->params[n->params[0]].init_scale = p->deviation;
    return out;
}

/* An operation that keeps the shape and has no parameters. */
static int add_plain(struct bst_graph *g, enum bst_op op, int x, const char *name,
                     struct bst_node **n)
{
    struct bst_shape s = g->values[x];
    return bst_graph_add_node(g, op, name, x, -1, &s, n);
}

int bst_graph_sinusoid(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    return bst_graph_takes(g, x, 3, name) ? add_plain(g, BST_OP_SINUSOID, x, name, &n) : -1;
}

int bst_graph_layer_norm(struct bst_graph *g, int x, double eps, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return -1;
    if (!(eps > 0))
        return bst_graph_fail(g, BST_E_RANGE, "%s: an epsilon of %g", name, eps);
    const struct bst_shape *s = &g->values[x];
    struct bst_shape d = {1, {s->d[s->rank - 1]}};
    int out = add_plain(g, BST_OP_LAYER_NORM, x, name, &n);
    if (out < 0)
        return -1;
    n->attr.eps = eps;
    n->params[0] = bst_graph_add_param(g, name, "weight", BST_PARAM_LN_SCALE, BST_INIT_ONE, &d);
    n->params[1] = bst_graph_add_param(g, name, "bias", BST_PARAM_LN_SHIFT, BST_INIT_ZERO, &d);
    return out;
}

int bst_graph_gelu(struct bst_graph *g, int x, bool tanh, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return -1;
    int out = add_plain(g, BST_OP_GELU, x, name, &n);
    if (out >= 0)
        n->attr.tanh = tanh;
    return out;
}

int bst_graph_tanh(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    return bst_graph_takes(g, x, 0, name) ? add_plain(g, BST_OP_TANH, x, name, &n) : -1;
}

int bst_graph_first(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 3, name))
        return -1;
    struct bst_shape s = {2, {g->values[x].d[0], g->values[x].d[2]}};
    return bst_graph_add_node(g, BST_OP_FIRST, name, x, -1, &s, &n);
}

void bst_graph_pair_ce(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 2, name))
        return;
    bst_graph_add_node(g, BST_OP_PAIR_CE, name, x, -1, NULL, &n);
    n->attr.pair = true;
}

int bst_graph_dropout(struct bst_graph *g, int x, double p, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return -1;
    int site = next_site(g, p, name); /* counted even where p is 0: places keep their numbers */
    if (site < 0 || p == 0)
        return site < 0 ? -1 : x;
    int out = add_plain(g, BST_OP_DROPOUT, x, name, &n);
    if (out < 0)
        return -1;
    n->attr.drop = p;
    n->attr.site = site;
    return out;
}

/* The parameter of that name, which is made where there is none. */
static int shared_param(struct bst_graph *g, const struct bst_linear *l, const char *suffix,
                        enum bst_param_kind kind, const struct bst_shape *s)
{
    char *full = bst_xasprintf("%s_%s", l->part_of, suffix);
    int found = -1;
    for (int i = 0; i < g->n_params && found < 0; i++) {
        if (!strcmp(g->params[i].name, full))
            found = i;
    }
    if (found >= 0) {
        if (!bst_shape_equal(&g->params[found].shape, s))
            found = bst_graph_fail(g, BST_E_SHAPE, "%s: is %s, and wanted as %s", full,
                                   bst_shape_text(&g->params[found].shape).s, bst_shape_text(s).s);
        bst_free(full);
        return found;
    }
    int p = bst_graph_add_param(g, l->part_of, suffix, kind,
                                kind == BST_PARAM_BIAS ? BST_INIT_ZERO : l->init, s);
    bst_free(g->params[p].name);
    g->params[p].name = full;
    g->params[p].init_scale = l->deviation;
    return p;
}

/* Weight and bias of a node whose rows are a part of theirs. Rows of two layers must not meet: each
 * writes its own part of the gradient. */
static bool add_part(struct bst_graph *g, struct bst_node *n, const struct bst_linear *l,
                     int64_t in)
{
    struct bst_shape w = {2, {l->rows, in}}, b = {1, {l->rows}};
    if (l->in_out || l->tied || l->no_bias || l->first < 0 || l->rows - l->first < l->out) {
        bst_graph_fail(g, BST_E_ARG, "%s: rows %d to %d of %d", n->name, l->first,
                       l->first + l->out - 1, l->rows);
        return false;
    }
    n->attr.part = true;
    n->attr.first_row = l->first;
    n->params[0] = shared_param(g, l, "weight", BST_PARAM_LINEAR_WEIGHT, &w);
    n->params[1] = shared_param(g, l, "bias", BST_PARAM_BIAS, &b);
    for (int i = 0; n->params[0] >= 0 && i < g->n_nodes - 1; i++) {
        const struct bst_node *o = &g->nodes[i];
        if (!o->attr.part || o->params[0] != n->params[0])
            continue;
        const struct bst_shape *y = &g->values[o->out];
        int64_t end = o->attr.first_row + y->d[y->rank - 1];
        if (l->first < end && o->attr.first_row < l->first + l->out) {
            bst_graph_fail(g, BST_E_ARG, "%s: its rows are those of %s too", n->name, o->name);
            return false;
        }
    }
    return !g->err;
}

/* The weight: one of its own, or an embedding's. */
static int linear_weight(struct bst_graph *g, const struct bst_linear *l, int64_t in,
                         const char *name)
{
    struct bst_shape w = {2, {l->in_out ? in : l->out, l->in_out ? l->out : in}};
    if (!l->tied) {
        int p = bst_graph_add_param(g, name, "weight", BST_PARAM_LINEAR_WEIGHT, l->init, &w);
        g->params[p].init_scale = l->deviation;
        return p;
    }
    return tied_table(g, l->tied, &w, name);
}

int bst_graph_linear_as(struct bst_graph *g, int x, const struct bst_linear *l, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return -1;
    struct bst_shape s = g->values[x], b = {1, {l->out}};
    if (s.rank != 2 && s.rank != 3)
        return bst_graph_fail(g, BST_E_SHAPE, "%s: wants a matrix or sequences, got %s", name,
                              bst_shape_text(&s).s);
    int64_t in = s.d[s.rank - 1];
    s.d[s.rank - 1] = l->out;
    int out = bst_graph_add_node(g, BST_OP_LINEAR, name, x, -1, &s, &n);
    if (out < 0)
        return -1;
    if (l->part_of)
        return add_part(g, n, l, in) ? out : -1;
    n->attr.in_out = l->in_out;
    n->params[0] = linear_weight(g, l, in, name);
    if (n->params[0] < 0)
        return -1;
    if (!l->no_bias)
        n->params[1] = bst_graph_add_param(g, name, "bias", BST_PARAM_BIAS, BST_INIT_ZERO, &b);
    return out;
}

static bool check_attention(struct bst_graph *g, const int qkv[3], const struct bst_attention *a,
                            const char *name)
{
    bool packed = qkv[1] < 0 && qkv[2] < 0;
    for (int i = 0; i < (packed ? 1 : 3); i++) {
        if (!bst_graph_takes(g, qkv[i], 3, name))
            return false;
    }
    const struct bst_shape *q = &g->values[qkv[0]];
    int64_t width = packed ? q->d[2] / 3 : q->d[2];
    if (a->heads < 1 || width % a->heads || (packed && q->d[2] % 3)) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: %s does not divide into %d heads", name,
                       bst_shape_text(q).s, a->heads);
        return false;
    }
    const struct bst_shape *k = packed ? q : &g->values[qkv[1]];
    const struct bst_shape *v = packed ? q : &g->values[qkv[2]];
    if (!bst_shape_equal(k, v) || k->d[0] != q->d[0] || k->d[2] != q->d[2]) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: queries %s, keys %s and values %s", name,
                       bst_shape_text(q).s, bst_shape_text(k).s, bst_shape_text(v).s);
        return false;
    }
    if (a->causal && k->d[1] != q->d[1]) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: a causal mask wants as many keys as queries", name);
        return false;
    }
    return a->key_stream < 0 || takes_stream(g, a->key_stream, (int)k->d[1], name);
}

int bst_graph_attention(struct bst_graph *g, const int qkv[3], const struct bst_attention *a,
                        const char *name)
{
    struct bst_node *n;
    if (g->err || !check_attention(g, qkv, a, name))
        return -1;
    bool packed = qkv[1] < 0;
    struct bst_shape s = g->values[qkv[0]];
    s.d[2] /= packed ? 3 : 1;
    int site = next_site(g, a->drop, name);
    if (site < 0)
        return -1;
    int out = bst_graph_add_node(g, BST_OP_ATTENTION, name, qkv[0], packed ? -1 : qkv[1], &s, &n);
    if (out < 0)
        return -1;
    n->in[2] = packed ? -1 : qkv[2];
    n->attr = (struct bst_attr){.heads = a->heads,
                                .causal = a->causal,
                                .stream = a->key_stream < 0 ? -1 : a->key_stream,
                                .drop = a->drop,
                                .site = site,
                                .whole_length = g->whole_length};
    return out;
}
