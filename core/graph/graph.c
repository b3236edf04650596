/* The graph as data: storage, names, the first error. The builder functions are in build.c. */
#include "core/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/build.h"

int64_t bst_shape_count(const struct bst_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->d[i] < 0 || __builtin_mul_overflow(n, s->d[i], &n))
            return -1;
    }
    return n;
}

bool bst_shape_equal(const struct bst_shape *a, const struct bst_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->d[i] != b->d[i])
            return false;
    }
    return true;
}

struct bst_graph *bst_graph_new(int micro_batch)
{
    struct bst_graph *g = bst_xalloc(sizeof *g);
    g->micro_batch = micro_batch;
    for (int i = 0; i < 4; i++)
        g->std[i] = 1;
    if (micro_batch < 1)
        bst_graph_fail(g, BST_E_ARG, "a micro-batch of %d samples; at least 1 is needed",
                       micro_batch);
    return g;
}

void bst_graph_free(struct bst_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_nodes; i++)
        bst_free(g->nodes[i].name);
    for (int i = 0; i < g->n_params; i++)
        bst_free(g->params[i].name);
    bst_free(g->nodes);
    bst_free(g->values);
    bst_free(g->params);
    bst_free(g);
}

int bst_graph_fail(struct bst_graph *g, enum bst_err err, const char *fmt, ...)
{
    if (g->err)
        return -1;
    g->err = err;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->err_text, sizeof g->err_text, fmt, ap);
    va_end(ap);
    return -1;
}

/* A value nobody reads is a mistake of the net's builder: its parameters would never get a
 * gradient. */
static enum bst_err check_all_used(const struct bst_graph *g)
{
    bool *used = bst_xcalloc((size_t)g->n_values + 1, sizeof *used);
    enum bst_err err = BST_OK;
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < BST_MAX_IN; k++) {
            if (g->nodes[i].in[k] >= 0)
                used[g->nodes[i].in[k]] = true;
        }
    }
    for (int i = 0; i < g->n_nodes && !err; i++) {
        const struct bst_node *n = &g->nodes[i];
        if (n->out >= 0 && !used[n->out])
            err = bst_fail(BST_E_ARG, "%s: its result is used by nothing", n->name);
    }
    bst_free(used);
    return err;
}

/* A row that no layer has would never get a gradient. */
static enum bst_err check_parts(const struct bst_graph *g)
{
    enum bst_err err = BST_OK;
    for (int i = 0; i < g->n_nodes && !err; i++) {
        int p = g->nodes[i].attr.part ? g->nodes[i].params[0] : -1;
        int64_t rows = 0;
        for (int k = 0; p >= 0 && k < g->n_nodes; k++) {
            const struct bst_node *n = &g->nodes[k];
            if (n->attr.part && n->params[0] == p)
                rows += g->values[n->out].d[g->values[n->out].rank - 1];
        }
        if (p >= 0 && rows != g->params[p].shape.d[0])
            err = bst_fail(BST_E_ARG, "%s: %d of its %d rows are used", g->params[p].name,
                           (int)rows, (int)g->params[p].shape.d[0]);
    }
    return err;
}

enum bst_err bst_graph_check(const struct bst_graph *g)
{
    if (g->err)
        return bst_fail(g->err, "%s", g->err_text);
    if (!g->n_nodes || g->nodes[g->n_nodes - 1].op != BST_OP_SOFTMAX_CE)
        return bst_fail(BST_E_ARG, "the net does not end in a loss");
    BST_TRY(check_parts(g));
    return check_all_used(g);
}
