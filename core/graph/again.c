/* Second runs. A forward instruction that is marked leaves nothing for the backward half; where
 * that half first reads a result of it, a second run is put in front, and before it those of the
 * marked instructions that it reads from in turn. None runs a third time: what a second run made
 * stays until its last reader. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/graph/passes.h"

struct again {
    const struct bst_pass *from;
    struct bst_pass *to;
    const bool *marked;
    int *maker;  /* value → forward instruction that writes it, or -1 */
    int *remade; /* value → the one made by a second run, or -1 */
};

static int copy_value(struct again *a, int v)
{
    const struct bst_value *x = &a->from->p->values[v];
    int to = bst_pass_add_value(a->to, &x->shape);
    a->to->p->values[to] = *x;
    a->to->info[to] = a->from->info[v];
    a->to->info[to].again = true;
    return to;
}

static void run_again(struct again *a, int i);

/* The value that the backward half reads in place of v. */
static int remake(struct again *a, int v)
{
    int i = a->maker[v];
    if (i < 0 || !a->marked[i])
        return v;
    if (a->remade[v] < 0)
        run_again(a, i);
    return a->remade[v] >= 0 ? a->remade[v] : v;
}

/* Saved statistics are two numbers a channel: kept, they spare the second run its sums, and the
 * running statistics a second step. */
static void run_again(struct again *a, int i)
{
    struct bst_instr in = a->from->p->instrs[i];
    if (in.op == BST_I_BN_TRAIN && in.flags & BST_IF_STATS) {
        in.flags &= ~(unsigned)BST_IF_STATS;
        in.n_src--;
    }
    for (int k = 0; k < in.n_src; k++)
        in.src[k] = remake(a, in.src[k]);
    if (in.op == BST_I_BN_TRAIN) {
        in.flags |= BST_IF_AGAIN;
        bst_instr_read(&in, in.dst[--in.n_dst]);
    }
    for (int k = 0; k < in.n_dst; k++) {
        int v = copy_value(a, in.dst[k]);
        a->remade[in.dst[k]] = v;
        in.dst[k] = v;
    }
    if (in.scratch >= 0)
        in.scratch = copy_value(a, in.scratch);
    in.again = true;
    bst_pass_put_instr(a->to, &in, a->from->inplace[i]);
    a->to->p->n_again++;
}

void bst_again_init(struct bst_pass *t, const struct bst_pass *c)
{
    *t = (struct bst_pass){.g = c->g, .d = c->d, .be = c->be, .o = c->o};
    t->p = bst_xalloc(sizeof *t->p);
}

static void copy_values(struct bst_pass *t, const struct bst_pass *c)
{
    const struct bst_program *from = c->p;
    struct bst_program *p = t->p;
    struct bst_program whole = *from;
    whole.values = p->values;
    whole.instrs = p->instrs;
    whole.n_values = whole.n_instrs = 0;
    *p = whole;
    for (int v = 0; v < from->n_values; v++) {
        bst_pass_add_value(t, &from->values[v].shape);
        p->values[v] = from->values[v];
        t->info[v] = c->info[v];
    }
}

static int *all_none(int n)
{
    int *a = bst_xcalloc((size_t)n + 1, sizeof *a);
    memset(a, 0xff, ((size_t)n + 1) * sizeof *a);
    return a;
}

void bst_again_make(struct bst_pass *t, const struct bst_pass *c, const bool *again)
{
    const struct bst_program *from = c->p;
    struct again a = {c, t, again, all_none(from->n_values), all_none(from->n_values)};
    copy_values(t, c);
    for (int i = 0; i < from->n_instrs; i++) {
        struct bst_instr in = from->instrs[i];
        for (int k = 0; k < in.n_dst && i < from->n_forward; k++)
            a.maker[in.dst[k]] = i;
        for (int k = 0; k < in.n_src && i >= from->n_forward; k++)
            in.src[k] = remake(&a, in.src[k]);
        bst_pass_put_instr(t, &in, c->inplace[i]);
    }
    bst_free(a.maker);
    bst_free(a.remade);
}

static void free_storage(struct bst_pass *c)
{
    bst_free(c->p->values);
    bst_free(c->p->instrs);
    bst_free(c->info);
    bst_free(c->inplace);
}

void bst_again_take(struct bst_pass *c, struct bst_pass *t)
{
    free_storage(c);
    *c->p = *t->p;
    c->info = t->info;
    c->inplace = t->inplace;
    c->room_values = t->room_values;
    c->room_instrs = t->room_instrs;
    t->p->values = NULL;
    t->p->instrs = NULL;
    t->info = NULL;
    t->inplace = NULL;
    t->room_values = t->room_instrs = 0;
}

void bst_again_fini(struct bst_pass *t)
{
    free_storage(t);
    bst_free(t->p);
    *t = (struct bst_pass){0};
}
