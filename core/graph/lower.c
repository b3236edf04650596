/* Graph → forward instructions, one a node (in training; evaluation has no dropout), and nothing
 * clever. */
#include "core/graph/passes.h"

static int new_value(struct bst_pass *c, const struct bst_shape *s, bool raw)
{
    int v = bst_pass_add_value(c, s);
    c->p->values[v].raw = raw;
    return v;
}

/* Statistics: training reads and moves the staged copy, evaluation reads the committed one. */
static void lower_batch_norm(struct bst_pass *c, const struct bst_node *n, struct bst_instr *in)
{
    const struct bst_shape none = {0, {0}};
    for (int i = 0; i < 4; i++) {
        int slot = c->slot_of[n->params[i]];
        bst_instr_read(in, i >= 2 && c->o.training ? bst_pass_second(c, slot) : slot);
    }
    if (c->o.training)
        bst_instr_write(in, new_value(c, &none, true));
}

static void lower_loss(struct bst_pass *c, const struct bst_node *n, struct bst_instr *in)
{
    if (!c->o.training)
        return;
    int d = new_value(c, &c->g->values[n->in[0]], false);
    c->info[d].forward = c->value_of[n->in[0]];
    c->grad_of[n->in[0]] = d;
    bst_instr_write(in, d);
}

static enum bst_instr_op op_of(const struct bst_node *n, bool training)
{
    static const enum bst_instr_op ops[] = {
        [BST_OP_IMAGE] = BST_I_IMAGE,           [BST_OP_CONV2D] = BST_I_CONV_FWD,
        [BST_OP_RELU] = BST_I_RELU_FWD,         [BST_OP_ADD] = BST_I_ADD,
        [BST_OP_MAX_POOL] = BST_I_MAX_POOL_FWD, [BST_OP_GLOBAL_AVG_POOL] = BST_I_AVG_POOL_FWD,
        [BST_OP_LINEAR] = BST_I_LINEAR_FWD,     [BST_OP_SOFTMAX_CE] = BST_I_SOFTMAX_CE,
        [BST_OP_EMBEDDING] = BST_I_EMBED_FWD,   [BST_OP_POSITION] = BST_I_POSITION_FWD,
        [BST_OP_SINUSOID] = BST_I_SINUSOID,     [BST_OP_LAYER_NORM] = BST_I_LN_FWD,
        [BST_OP_GELU] = BST_I_GELU_FWD,         [BST_OP_DROPOUT] = BST_I_DROPOUT,
        [BST_OP_ATTENTION] = BST_I_ATTN_FWD,    [BST_OP_FIRST] = BST_I_FIRST_FWD,
        [BST_OP_TANH] = BST_I_TANH_FWD,         [BST_OP_PAIR_CE] = BST_I_SOFTMAX_CE,
    };
    if (n->op == BST_OP_BATCH_NORM)
        return training ? BST_I_BN_TRAIN : BST_I_BN_INFER;
    return ops[n->op];
}

/* What forward leaves for backward beside its result: statistics, the log-sum-exp of a row. */
static void lower_saved(struct bst_pass *c, struct bst_instr *in)
{
    const struct bst_shape none = {0, {0}};
    if (c->o.training)
        bst_instr_write(in, new_value(c, &none, true));
}

static void lower_node(struct bst_pass *c, const struct bst_node *n)
{
    if (n->op == BST_OP_DROPOUT && !c->o.training) { /* drops nothing */
        c->value_of[n->out] = c->value_of[n->in[0]];
        return;
    }
    struct bst_instr *in = bst_pass_add_instr(c, op_of(n, c->o.training), n->name);
    in->window = n->window;
    in->attr = n->attr;
    if (!c->o.training)
        in->attr.drop = 0;
    for (int i = 0; i < BST_MAX_IN && n->in[i] >= 0; i++)
        bst_instr_read(in, c->value_of[n->in[i]]);
    if (n->out >= 0) {
        c->value_of[n->out] = new_value(c, &c->g->values[n->out], false);
        bst_instr_write(in, c->value_of[n->out]);
    }
    switch (n->op) {
    case BST_OP_BATCH_NORM:
        lower_batch_norm(c, n, in);
        break;
    case BST_OP_SOFTMAX_CE:
    case BST_OP_PAIR_CE:
        lower_loss(c, n, in);
        break;
    case BST_OP_MAX_POOL:
        if (c->o.training)
            bst_instr_write(in, new_value(c, &c->g->values[n->out], true));
        break;
    case BST_OP_ATTENTION:
        lower_saved(c, in);
        break;
    case BST_OP_LAYER_NORM:
        lower_saved(c, in);
        /* fall through */
    default:
        for (int i = 0; i < 2 && n->params[i] >= 0; i++)
            bst_instr_read(in, c->slot_of[n->params[i]]);
    }
}

void bst_pass_lower(struct bst_pass *c)
{
    for (int i = 0; i < c->g->n_nodes; i++)
        lower_node(c, &c->g->nodes[i]);
    c->p->n_forward = c->p->n_instrs;
}
