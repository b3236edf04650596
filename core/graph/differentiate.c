/* Reverse mode over the graph: walks the nodes backwards, hands each the gradient of its result and
 * appends what computes the gradients of its inputs and parameters. */
#include "core/graph/passes.h"

#include "core/base/alloc.h"

struct diff {
    struct bst_pass *c;
    bool *needs; /* graph value → depends on a trained parameter; the image does not */
    int *saved;  /* graph value → raw value its forward instruction left for backward, or -1 */
    bool *given; /* slot → an instruction has written its gradient, the next one adds */
};

static void find_needs(struct diff *d)
{
    const struct bst_graph *g = d->c->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct bst_node *n = &g->nodes[i];
        if (n->out < 0)
            continue;
        d->needs[n->out] = n->params[0] >= 0;
        for (int k = 0; k < BST_MAX_IN && n->in[k] >= 0; k++)
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

static struct bst_instr *add_instr(struct diff *d, const struct bst_node *n, enum bst_instr_op op)
{
    struct bst_instr *in = bst_pass_add_instr(d->c, op, n->name);
    in->window = n->window;
    in->attr = n->attr;
    return in;
}

/* The gradient of a node's parameter as the next result. Where two nodes share it, the second
 * instruction adds to what the first has written; where each has rows of its own, it does not meet
 * it. */
static void write_grad(struct diff *d, struct bst_instr *in, int param)
{
    int slot = d->c->slot_of[param];
    if (d->given[slot] && !in->attr.part)
        in->adds |= 1u << in->n_dst;
    d->given[slot] = true;
    bst_instr_write(in, bst_pass_second(d->c, slot));
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
    struct bst_instr *in = add_instr(d, n, conv ? BST_I_CONV_BWD_WEIGHT : BST_I_LINEAR_BWD_WEIGHT);
    bst_instr_read(in, c->value_of[n->in[0]]);
    bst_instr_read(in, dy);
    for (int i = 0; i < 2 && n->params[i] >= 0; i++)
        write_grad(d, in, n->params[i]);
    if (!d->needs[n->in[0]])
        return;
    int dx = new_grad(d, n->in[0]);
    in = add_instr(d, n, conv ? BST_I_CONV_BWD_DATA : BST_I_LINEAR_BWD_DATA);
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
    write_grad(d, in, n->params[0]);
    write_grad(d, in, n->params[1]);
    give(d, n->in[0], dx, n->name);
}

static void diff_layer_norm(struct diff *d, const struct bst_node *n, int dy)
{
    struct bst_pass *c = d->c;
    int dx = new_grad(d, n->in[0]);
    struct bst_instr *in = add_instr(d, n, BST_I_LN_BWD);
    bst_instr_read(in, dy);
    bst_instr_read(in, c->value_of[n->in[0]]);
    bst_instr_read(in, c->slot_of[n->params[0]]);
    bst_instr_read(in, d->saved[n->out]);
    bst_instr_write(in, dx);
    write_grad(d, in, n->params[0]);
    write_grad(d, in, n->params[1]);
    give(d, n->in[0], dx, n->name);
}

/* dtable <- dy; the rest of a sum passes the gradient on as it is. */
static void diff_table(struct diff *d, const struct bst_node *n, int dy)
{
    bool position = n->op == BST_OP_POSITION;
    struct bst_instr *in = add_instr(d, n, position ? BST_I_POSITION_BWD : BST_I_EMBED_BWD);
    bst_instr_read(in, dy);
    write_grad(d, in, n->params[0]);
    if (position)
        give(d, n->in[0], dy, n->name);
}

static void diff_attention(struct diff *d, const struct bst_node *n, int dy)
{
    struct bst_pass *c = d->c;
    int n_in = n->in[1] < 0 ? 1 : 3, dx[BST_MAX_IN];
    for (int i = 0; i < n_in; i++)
        dx[i] = new_grad(d, n->in[i]);
    struct bst_instr *in = add_instr(d, n, BST_I_ATTN_BWD);
    bst_instr_read(in, dy);
    for (int i = 0; i < n_in; i++)
        bst_instr_read(in, c->value_of[n->in[i]]);
    bst_instr_read(in, c->value_of[n->out]);
    bst_instr_read(in, d->saved[n->out]);
    for (int i = 0; i < n_in; i++)
        bst_instr_write(in, dx[i]);
    for (int i = 0; i < n_in; i++)
        give(d, n->in[i], dx[i], n->name);
}

/* Operations without parameters: dx <- dy[, extra]. */
static void diff_plain(struct diff *d, const struct bst_node *n, int dy, enum bst_instr_op op,
                       int extra)
{
    if (!d->needs[n->in[0]])
        return;
    int dx = new_grad(d, n->in[0]);
    struct bst_instr *in = add_instr(d, n, op);
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
    case BST_OP_EMBEDDING:
    case BST_OP_POSITION:
        diff_table(d, n, dy);
        break;
    case BST_OP_SINUSOID:
        give(d, n->in[0], dy, n->name);
        break;
    case BST_OP_LAYER_NORM:
        diff_layer_norm(d, n, dy);
        break;
    case BST_OP_GELU:
        diff_plain(d, n, dy, BST_I_GELU_BWD, d->c->value_of[n->in[0]]);
        break;
    case BST_OP_TANH:
        diff_plain(d, n, dy, BST_I_TANH_BWD, d->c->value_of[n->out]);
        break;
    case BST_OP_FIRST:
        diff_plain(d, n, dy, BST_I_FIRST_BWD, -1);
        break;
    case BST_OP_DROPOUT:
        diff_plain(d, n, dy, BST_I_DROPOUT, -1);
        break;
    case BST_OP_ATTENTION:
        diff_attention(d, n, dy);
        break;
    case BST_OP_IMAGE:
    case BST_OP_PAIR_CE:
    case BST_OP_SOFTMAX_CE: /* its gradient is written by the forward instruction */
        break;
    }
}

void bst_pass_differentiate(struct bst_pass *c)
{
    size_t n = (size_t)c->g->n_values + 1;
    struct diff d = {c, bst_xcalloc(n, sizeof *d.needs), bst_xcalloc(n, sizeof *d.saved),
                     bst_xcalloc((size_t)c->p->params->n_slots + 1, sizeof *d.given)};
    find_needs(&d);
    find_saved(&d);
    for (int i = c->g->n_nodes - 1; i >= 0; i--)
        diff_node(&d, &c->g->nodes[i]);
    bst_free(d.needs);
    bst_free(d.saved);
    bst_free(d.given);
}
