/* The compiler's frame: checks that need the whole graph, the order of passes. */
#include "core/graph/compile.h"

#include "core/graph/passes.h"

/* One value a channel has no variance: its normalised value is 0 whatever the image, and the
 * unbiased running variance divides by 0. PyTorch refuses it too. */
static enum bst_err check_batch_norms(const struct bst_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct bst_node *n = &g->nodes[i];
        if (n->op != BST_OP_BATCH_NORM)
            continue;
        const struct bst_shape *s = &g->values[n->out];
        if (s->d[0] * s->d[2] * s->d[3] == 1)
            return bst_fail(BST_E_SHAPE,
                            "%s: batch norm cannot train on one value a channel (micro-batch 1, "
                            "1x1 pixels); use a micro-batch of at least 2 or larger images",
                            n->name);
    }
    return BST_OK;
}

static enum bst_err check_image(const struct bst_graph *g)
{
    int64_t channels = g->nodes[0].op == BST_OP_IMAGE ? g->values[g->nodes[0].out].d[1] : 0;
    for (int i = 0; i < channels; i++) {
        if (!(g->std[i] > 0) || !(g->mean[i] > -1e6f && g->mean[i] < 1e6f))
            return bst_fail(BST_E_RANGE, "image: mean %g, deviation %g of channel %d", g->mean[i],
                            g->std[i], i);
    }
    return BST_OK;
}

static enum bst_err run_passes(struct bst_pass *c)
{
    bst_pass_lower(c);
    if (c->o.training)
        bst_pass_differentiate(c);
    if (!c->o.no_fuse)
        bst_pass_fuse(c);
    BST_TRY(bst_pass_layout(c));
    bst_pass_settle(c);
    if (c->o.training)
        bst_pass_recompute(c);
    bst_pass_plan(c);
    return BST_OK;
}

enum bst_err bst_compile(const struct bst_graph *g, const struct bst_describe *d, struct bst_be *be,
                         struct bst_param_table *params, const struct bst_compile_opts *o,
                         struct bst_program **out)
{
    struct bst_pass c;
    *out = NULL;
    BST_TRY(bst_graph_check(g));
    BST_TRY(check_image(g));
    if (o->training)
        BST_TRY(check_batch_norms(g));
    BST_TRY(bst_recompute_check(g, &o->recompute));
    enum bst_err err = bst_pass_init(&c, g, d, be, params, o);
    if (!err)
        err = run_passes(&c);
    if (!err) {
        *out = c.p;
        c.p = NULL;
    }
    bst_pass_fini(&c);
    return err;
}
