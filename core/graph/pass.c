/* What the passes work on: its storage, and how they add to it. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/passes.h"

static void *grow(void *p, int room, size_t size)
{
    return bst_xrealloc(p, (size_t)room, size);
}

int bst_pass_add_value(struct bst_pass *c, const struct bst_shape *s)
{
    struct bst_program *p = c->p;
    if (p->n_values == c->room_values) {
        c->room_values = c->room_values ? c->room_values * 2 : 256;
        p->values = grow(p->values, c->room_values, sizeof *p->values);
        c->info = grow(c->info, c->room_values, sizeof *c->info);
    }
    p->values[p->n_values] = (struct bst_value){
        .shape = *s,
        .layout = BST_LAYOUT_ANY,
        .memory = BST_MEM_ARENA,
        .param = -1,
        .first = -1,
        .last = -1,
        .alias = -1,
    };
    c->info[p->n_values] = (struct bst_pass_value){.forward = -1};
    return p->n_values++;
}

void bst_pass_put_instr(struct bst_pass *c, const struct bst_instr *in,
                        const int inplace[BST_MAX_DST])
{
    struct bst_program *p = c->p;
    if (p->n_instrs == c->room_instrs) {
        c->room_instrs = c->room_instrs ? c->room_instrs * 2 : 256;
        p->instrs = grow(p->instrs, c->room_instrs, sizeof *p->instrs);
        c->inplace = grow(c->inplace, c->room_instrs, sizeof *c->inplace);
    }
    p->instrs[p->n_instrs] = *in;
    memcpy(c->inplace[p->n_instrs], inplace, sizeof c->inplace[0]);
    p->n_instrs++;
}

struct bst_instr *bst_pass_add_instr(struct bst_pass *c, enum bst_instr_op op, const char *name)
{
    static const int none[BST_MAX_DST] = {-1, -1, -1, -1};
    struct bst_instr in = {.op = op, .scratch = -1, .name = bst_xstrdup(name)};
    bst_pass_put_instr(c, &in, none);
    return &c->p->instrs[c->p->n_instrs - 1];
}

void bst_instr_read(struct bst_instr *in, int value)
{
    BST_ASSERT(in->n_src < BST_MAX_SRC && value >= 0);
    in->src[in->n_src++] = value;
}

void bst_instr_write(struct bst_instr *in, int value)
{
    BST_ASSERT(in->n_dst < BST_MAX_DST && value >= 0);
    in->dst[in->n_dst++] = value;
}

int bst_pass_second(const struct bst_pass *c, int slot)
{
    return c->p->params->n_slots + slot;
}

static void add_param_values(struct bst_pass *c)
{
    const struct bst_param_table *t = c->p->params;
    for (int i = 0; i < t->n_slots; i++)
        bst_pass_add_value(c, &t->slots[i].shape);
    for (int i = 0; i < t->n_slots; i++)
        bst_pass_add_value(c, &t->slots[i].shape);
    for (int i = 0; i < t->n_slots; i++) {
        struct bst_value *w = &c->p->values[i], *second = &c->p->values[bst_pass_second(c, i)];
        w->param = second->param = i;
        w->memory = BST_MEM_WEIGHT;
        second->memory = i < t->n_trained ? BST_MEM_GRAD : BST_MEM_STAGED;
        w->layout = second->layout = c->slot_layout[i] = t->slots[i].layout;
    }
}

/* The table was made from a graph of the same net, at whatever micro-batch. */
static enum bst_err match_params(struct bst_pass *c)
{
    const struct bst_param_table *t = c->p->params;
    int trained = 0, state = t->n_trained;
    if (t->n_slots != c->g->n_params)
        return bst_fail(BST_E_SHAPE, "the net has %d parameters, the table %d", c->g->n_params,
                        t->n_slots);
    c->slot_of = bst_xcalloc((size_t)t->n_slots + 1, sizeof *c->slot_of);
    for (int i = 0; i < t->n_slots; i++) {
        const struct bst_param *p = &c->g->params[i];
        int slot = BST_PARAM_IS_TRAINED(p->kind) ? trained++ : state++;
        if (slot >= t->n_slots || strcmp(p->name, t->slots[slot].name) ||
            !bst_shape_equal(&p->shape, &t->slots[slot].shape))
            return bst_fail(BST_E_SHAPE, "%s: the parameter table is that of another net", p->name);
        c->slot_of[i] = slot;
    }
    return BST_OK;
}

static int *all_none(int n)
{
    int *a = bst_xcalloc((size_t)n + 1, sizeof *a);
    for (int i = 0; i < n; i++)
        a[i] = -1;
    return a;
}

enum bst_err bst_pass_init(struct bst_pass *c, const struct bst_graph *g,
                           const struct bst_describe *d, struct bst_be *be,
                           struct bst_param_table *params, const struct bst_compile_opts *o)
{
    *c = (struct bst_pass){.g = g, .d = d, .be = be, .o = *o};
    c->p = bst_xalloc(sizeof *c->p);
    c->p->training = o->training;
    c->p->params = params;
    c->p->describe = d;
    c->p->be = be;
    c->slot_layout = bst_xcalloc((size_t)params->n_slots + 1, sizeof *c->slot_layout);
    c->relu_of = all_none(params->n_slots);
    add_param_values(c);
    if (!g)
        return BST_OK;
    c->p->micro_batch = g->micro_batch;
    c->p->classes = g->classes;
    memcpy(c->p->length, g->length, sizeof g->length);
    memcpy(c->p->mean, g->mean, sizeof g->mean);
    memcpy(c->p->std, g->std, sizeof g->std);
    c->value_of = all_none(g->n_values);
    c->grad_of = all_none(g->n_values);
    return match_params(c);
}

void bst_pass_fini(struct bst_pass *c)
{
    bst_program_free(c->p);
    bst_free(c->info);
    bst_free(c->inplace);
    bst_free(c->slot_layout);
    bst_free(c->slot_of);
    bst_free(c->value_of);
    bst_free(c->grad_of);
    bst_free(c->relu_of);
    *c = (struct bst_pass){0};
}
