/* Runs a program: addresses from offsets, and the backend does the rest. */
#include "core/backend/backend.h"

static bool is_matmul(enum bst_instr_op op)
{
    return op == BST_I_CONV_FWD || op == BST_I_CONV_BWD_DATA || op == BST_I_CONV_BWD_WEIGHT ||
           op == BST_I_LINEAR_FWD || op == BST_I_LINEAR_BWD_DATA || op == BST_I_LINEAR_BWD_WEIGHT;
}

static enum bst_err run_one(const struct bst_backend *b, const struct bst_program *p,
                            const struct bst_bindings *m, const struct bst_step *step, int i)
{
    void *src[BST_MAX_SRC], *dst[BST_MAX_DST];
    const struct bst_instr *in = &p->instrs[i];
    for (int k = 0; k < in->n_src; k++)
        src[k] = bst_program_address(p, m, in->src[k]);
    for (int k = 0; k < in->n_dst; k++)
        dst[k] = bst_program_address(p, m, in->dst[k]);
    void *scratch = in->scratch < 0 ? NULL : bst_program_address(p, m, in->scratch);
    enum bst_err err = b->run(p->be, p, in, src, dst, scratch, step);
    return err ? bst_fail_in(err, "%s: %s", in->name, bst_instr_op_name(in->op)) : BST_OK;
}

static enum bst_err run_all(const struct bst_backend *b, const struct bst_program *p,
                            const struct bst_bindings *m, const struct bst_step *step, int from,
                            int to, const atomic_int *stop)
{
    BST_ASSERT(from >= 0 && from <= to && to <= p->n_instrs);
    for (int i = from, next; i < to; i = next) {
        if (stop && atomic_load_explicit(stop, memory_order_relaxed))
            return bst_fail(BST_E_CANCELLED, "stopped before %s", p->instrs[i].name);
        next = i;
        if (b->run_some && !step->only_matmul)
            BST_TRY(b->run_some(p->be, p, m, step, i, to, &next));
        if (next > i)
            continue;
        next = i + 1;
        if (!step->only_matmul || is_matmul(p->instrs[i].op))
            BST_TRY(run_one(b, p, m, step, i));
    }
    return BST_OK;
}

/* What was asked for is waited for even after a failure: it reads the caller's images. The failure
 * that came first is the one to be told. */
enum bst_err bst_program_run(const struct bst_backend *b, const struct bst_program *p,
                             const struct bst_bindings *m, const struct bst_step *step, int from,
                             int to, const atomic_int *stop)
{
    enum bst_err err = b->begin && !step->result ? b->begin(p->be, step) : BST_OK;

    if (!err)
        err = run_all(b, p, m, step, from, to, stop);

    if (!b->finish)
        return err;
    if (!err)
        return b->finish(p->be, step);
    const struct bst_failure first = bst_err_keep(err);
    struct bst_step_result dropped = {0};
    struct bst_step rest = *step;
    rest.result = &dropped;
    enum bst_err late = b->finish(p->be, &rest);
    /* A stop is no failure of the device; one that shows up behind it is. */
    return late && err == BST_E_CANCELLED ? late : bst_err_restore(&first);
}
