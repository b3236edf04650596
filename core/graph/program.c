#include "core/graph/program.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/describe.h"

const char *bst_instr_op_name(enum bst_instr_op op)
{
    static const char *const names[BST_I_N_OPS] = {
        [BST_I_IMAGE] = "image",
        [BST_I_CONV_FWD] = "conv_fwd",
        [BST_I_CONV_BWD_DATA] = "conv_bwd_data",
        [BST_I_CONV_BWD_WEIGHT] = "conv_bwd_weight",
        [BST_I_BN_TRAIN] = "bn_train",
        [BST_I_BN_INFER] = "bn_infer",
        [BST_I_BN_BWD] = "bn_bwd",
        [BST_I_RELU_FWD] = "relu_fwd",
        [BST_I_RELU_BWD] = "relu_bwd",
        [BST_I_ADD] = "add",
        [BST_I_MAX_POOL_FWD] = "max_pool_fwd",
        [BST_I_MAX_POOL_BWD] = "max_pool_bwd",
        [BST_I_AVG_POOL_FWD] = "avg_pool_fwd",
        [BST_I_AVG_POOL_BWD] = "avg_pool_bwd",
        [BST_I_LINEAR_FWD] = "linear_fwd",
        [BST_I_LINEAR_BWD_DATA] = "linear_bwd_data",
        [BST_I_LINEAR_BWD_WEIGHT] = "linear_bwd_weight",
        [BST_I_SOFTMAX_CE] = "softmax_ce",
        [BST_I_EMBED_FWD] = "embed_fwd",
        [BST_I_EMBED_BWD] = "embed_bwd",
        [BST_I_POSITION_FWD] = "position_fwd",
        [BST_I_POSITION_BWD] = "position_bwd",
        [BST_I_SINUSOID] = "sinusoid",
        [BST_I_LN_FWD] = "ln_fwd",
        [BST_I_LN_BWD] = "ln_bwd",
        [BST_I_GELU_FWD] = "gelu_fwd",
        [BST_I_GELU_BWD] = "gelu_bwd",
        [BST_I_TANH_FWD] = "tanh_fwd",
        [BST_I_TANH_BWD] = "tanh_bwd",
        [BST_I_FIRST_FWD] = "first_fwd",
        [BST_I_FIRST_BWD] = "first_bwd",
        [BST_I_DROPOUT] = "dropout",
        [BST_I_ATTN_FWD] = "attn_fwd",
        [BST_I_ATTN_BWD] = "attn_bwd",
        [BST_I_REORDER] = "reorder",
    };
    return (unsigned)op < BST_I_N_OPS ? names[op] : "?";
}

void bst_program_free(struct bst_program *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].again)
            continue;
        if (p->instrs[i].handle && p->describe->release)
            p->describe->release(p->be, p->instrs[i].handle);
        bst_free((void *)p->instrs[i].name);
    }
    bst_free(p->instrs);
    bst_free(p->values);
    bst_free(p);
}

struct bst_param_table *bst_param_table_new(const struct bst_graph *g)
{
    struct bst_param_table *t = bst_xalloc(sizeof *t);
    t->slots = bst_xcalloc((size_t)g->n_params + 1, sizeof *t->slots);
    for (int trained = 1; trained >= 0; trained--) {
        for (int i = 0; i < g->n_params; i++) {
            const struct bst_param *p = &g->params[i];
            if (BST_PARAM_IS_TRAINED(p->kind) != trained)
                continue;
            t->slots[t->n_slots++] = (struct bst_param_slot){
                .name = bst_xstrdup(p->name),
                .kind = p->kind,
                .init = p->init,
                .init_scale = p->init_scale,
                .shape = p->shape,
                .layout = BST_LAYOUT_ANY,
            };
            t->n_trained += trained;
        }
    }
    return t;
}

void bst_param_table_free(struct bst_param_table *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_slots; i++)
        bst_free(t->slots[i].name);
    bst_free(t->slots);
    bst_free(t);
}

int bst_param_table_find(const struct bst_param_table *t, const char *name)
{
    for (int i = 0; i < t->n_slots; i++) {
        if (!strcmp(t->slots[i].name, name))
            return i;
    }
    return -1;
}
