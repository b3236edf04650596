/* Reverse mode over the graph: walks the nodes backwards, hands each the gradient of its result and
 * appends what computes the gradients of its inputs and parameters. */
#include "core/graph/passes.h"

#include "core/base/alloc.h"

struct diff {
    struct bst_pass *c;
    bool *needs; /* graph value → depends on a trained parameter; the image does not */
    int *saved;  /* graph value → raw value its forward instruction left for backward, or -1 */
};

static void find_needs(struct diff *d)
{
    const struct bst_graph *g = d->c->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct bst_node *n = &g->nodes[i];
        if (n->out < 0)
            continue;
        d->needs[n->out] = n->params[0] >= 0;
        for (int k = 0; k < 2 && n->in[k] >= 0; k++)
            d->needs[n->out] |= d->needs[n->in[k]];
    }
}

static void find_saved(struct diff *d)
{
    const struct bst_graph *g = d->c->g;
    for (int i = 0; i < g->n_nodes; i++) { /* forward instruction i is that of node i */
        const struct bst_instr *in = &d->c->p->instrs[i];
        if (g->nodes[i].out >= 0)
            d->saved[g->nodes[i].out] = in->n_dst > 1 ? in->dst[1] : -1;
    }
}

static int new_grad(struct diff *d, int value)
{
    int v = bst_pass_add_value(d->c, &d->c->g->values[value]);
    d->c->info[v].forward = d->c->value_of[value];
    return v;
}

/* `part` is one consumer's share of the gradient of `value`. */
static void give(struct diff *d, int value, int part, const char *name)
{
    int *grad = &d->c->grad_of[value];
    if (!d->needs[value])
        return;
    if (*grad < 0) {
        *grad = part;
        return;
    }
    int sum = new_grad(d, value);
    struct bst_instr *in = bst_pass_add_instr(d->c, BST_I_ADD, name);
    bst_instr_read(in, *grad);
    bst_instr_read(in, part);
    bst_instr_write(in, sum);
    *grad = sum;
}

/* Weight first: its input dies there, and the data gradient can take the place. */
static void diff_matmul(struct diff *d, const struct bst_node *n, int dy, bool conv)
{
    struct bst_pass *c = d->c;
    struct bst_instr *in =
        bst_pass_add_instr(c, conv ? BST_I_CONV_BWD_WEIGHT : BST_I_LINEAR_BWD_WEIGHT, n->name);
    in->window = n->window;
    bst_instr_read(in, c->value_of[n->in[0]]);
    bst_instr_read(in, dy);
    for (int i = 0; i < 2 && n->params[i] >= 0; i++)
        bst_instr_write(in, bst_pass_second(c, c->slot_of[n->params[i]]));
    if (!d->needs[n->in[0]])
        return;
    int dx = new_grad(d, n->in[0]);
    in = bst_pass_add_instr(c, conv ? BST_I_CONV_BWD_DATA : BST_I_LINEAR_BWD_DATA, n->name);
    in->window = n->window;
    bst_instr_read(in, dy);
    bst_instr_read(in, c->slot_of[n->params[0]]);
    bst_instr_write(in, dx);
    give(d, n->in[0], dx, n->name);
}

static void diff_batch_norm(struct diff *d, const struct bst_node *n, int dy)
{
    struct bst_pass *c = d->c;
    int scale = c->slot_of[n->params[0]], shift = c->slot_of[n->params[1]];
    int dx = new_grad(d, n->in[0]);
    struct bst_instr *in = bst_pass_add_instr(c, BST_I_BN_BWD, n->name);
    bst_instr_read(in, c->value_of[n->in[0]]);
    bst_instr_read(in, dy);
    bst_instr_read(in, scale);
    bst_instr_read(in, shift);
    bst_instr_read(in, d->saved[n->out]);
    bst_instr_write(in, dx);
    bst_instr_write(in, bst_pass_second(c, scale));
    bst_instr_write(in, bst_pass_second(c, shift));
    give(d, n->in[0], dx, n->name);
}

/* Operations without parameters: dx <- dy[, extra]. */
static void diff_plain(struct diff *d, const struct bst_node *n, int dy, enum bst_instr_op op,
                       int extra)
{
    if (!d->needs[n->in[0]])
        return;
    int dx = new_grad(d, n->in[0]);
    struct bst_instr *in = bst_pass_add_instr(d->c, op, n->name);
    in->window = n->window;
    bst_instr_read(in, dy);
    if (extra >= 0)
        bst_instr_read(in, extra);
    bst_instr_write(in, dx);
    give(d, n->in[0], dx, n->name);
}

static void diff_node(struct diff *d, const struct bst_node *n)
{
    int dy = n->out >= 0 ? d->c->grad_of[n->out] : -1;
    if (dy < 0)
        return;
    switch (n->op) {
    case BST_OP_CONV2D:
        diff_matmul(d, n, dy, true);
        break;
    case BST_OP_LINEAR:
        diff_matmul(d, n, dy, false);
        break;
    case BST_OP_BATCH_NORM:
        diff_batch_norm(d, n, dy);
        break;
    case BST_OP_RELU:
        diff_plain(d, n, dy, BST_I_RELU_BWD, d->c->value_of[n->out]);
        break;
    case BST_OP_MAX_POOL:
        diff_plain(d, n, dy, BST_I_MAX_POOL_BWD, d->saved[n->out]);
        break;
    case BST_OP_GLOBAL_AVG_POOL:
        diff_plain(d, n, dy, BST_I_AVG_POOL_BWD, -1);
        break;
    case BST_OP_ADD:
        give(d, n->in[0], dy, n->name);
        give(d, n->in[1], dy, n->name);
        break;
    case BST_OP_IMAGE:
    case BST_OP_SOFTMAX_CE: /* its gradient is written by the forward instruction */
        break;
    }
}

void bst_pass_differentiate(struct bst_pass *c)
{
    size_t n = (size_t)c->g->n_values + 1;
    struct diff d = {c, bst_xcalloc(n, sizeof *d.needs), bst_xcalloc(n, sizeof *d.saved)};
    find_needs(&d);
    find_saved(&d);
    for (int i = c->g->n_nodes - 1; i >= 0; i--)
        diff_node(&d, &c->g->nodes[i]);
    bst_free(d.needs);
    bst_free(d.saved);
}
