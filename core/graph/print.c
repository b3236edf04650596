/* A program as text, an instruction a line. */
#include <inttypes.h>

#include "core/base/sb.h"
#include "core/graph/compile.h"

static void print_value(const struct bst_program *p, int v, struct bst_sb *out)
{
    static const char *const memory[BST_MEM_N] = {"weight", "grad", "staged", "arena"};
    const struct bst_value *x = &p->values[v];
    bst_sb_addf(out, " v%d[", v);
    for (int i = 0; i < x->shape.rank; i++)
        bst_sb_addf(out, "%s%" PRId64, i ? "x" : "", x->shape.d[i]);
    if (x->raw)
        bst_sb_add(out, "raw");
    else
        bst_sb_addf(out, " L%" PRIu32, x->layout);
    bst_sb_addf(out, " %zu @%s+%zu", x->bytes, memory[x->memory], x->offset);
    if (x->alias >= 0)
        bst_sb_addf(out, " over v%d", x->alias);
    bst_sb_addc(out, ']');
}

static void print_instr(const struct bst_program *p, int i, struct bst_sb *out)
{
    const struct bst_instr *in = &p->instrs[i];
    bst_sb_addf(out, "%4d %s %s", i, bst_instr_op_name(in->op), in->name);
    if (in->again)
        bst_sb_add(out, " again");
    if (in->flags & BST_IF_RESIDUAL)
        bst_sb_add(out, " +residual");
    if (in->flags & BST_IF_RELU)
        bst_sb_add(out, " +relu");
    if (in->flags & BST_IF_DY2)
        bst_sb_add(out, " +dy2");
    if (in->flags & BST_IF_SUM)
        bst_sb_add(out, " +sum");
    if (in->flags & BST_IF_STATS)
        bst_sb_add(out, " +stats");
    if (in->flags & BST_IF_GELU)
        bst_sb_add(out, " +gelu");
    if (in->adds)
        bst_sb_add(out, " adds");
    if (in->window.kernel)
        bst_sb_addf(out, " %d/%d+%d", in->window.kernel, in->window.stride, in->window.pad);
    bst_sb_addc(out, ':');
    for (int k = 0; k < in->n_dst; k++)
        print_value(p, in->dst[k], out);
    bst_sb_add(out, " <-");
    for (int k = 0; k < in->n_src; k++)
        print_value(p, in->src[k], out);
    if (in->scratch >= 0) {
        bst_sb_add(out, " scratch");
        print_value(p, in->scratch, out);
    }
    bst_sb_addc(out, '\n');
}

void bst_program_print(const struct bst_program *p, struct bst_sb *out)
{
    bst_sb_addf(out, "micro-batch %d, %s, arena %zu, activations %zu, scratch %zu\n",
                p->micro_batch, p->training ? "training" : "evaluation", p->arena_bytes,
                p->activation_bytes, p->scratch_bytes);
    for (int i = 0; i < p->n_instrs; i++) {
        if (i == p->n_forward)
            bst_sb_add(out, "     backward\n");
        print_instr(p, i, out);
    }
}
