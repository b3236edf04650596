/* Parameters between their place in a block and plain host doubles: initialisation, checkpoints. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/backend/cpu/be.h"

/* Reals of one parameter, dense, in the order of its shape. */
static enum bst_err convert(struct bst_be *be, const struct bst_param_slot *slot, uint32_t from,
                            uint32_t to, const void *src, void *dst)
{
    struct shim_op op = {.kind = SHIM_REORDER};
    struct shim_prim *prim;
    void *at[SHIM_N_ROLES] = {0}, *scratch = NULL;
    size_t room;
    enum bst_err err;

    op.t[SHIM_SRC].shape = op.t[SHIM_DST].shape = slot->shape;
    op.t[SHIM_SRC].layout = op.t[SHIM_SRC].now = from;
    op.t[SHIM_DST].layout = op.t[SHIM_DST].now = to;
    BST_TRY(shim_prim_new(be->shim, &op, &prim));
    room = shim_prim_scratch(prim);
    err = bst_alloc(room, &scratch);
    memcpy(&at[SHIM_SRC], &src, sizeof src); /* const: a reorder only reads it */
    at[SHIM_DST] = dst;
    if (!err)
        err = shim_prim_run(prim, at, scratch);
    bst_alloc_free(scratch, room);
    shim_prim_free(prim);
    return err;
}

enum bst_err cpu_export_plain(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                              double *out)
{
    size_t n = (size_t)bst_shape_count(&slot->shape);
    void *dense;
    enum bst_err err;

    BST_TRY(bst_alloc(n * sizeof(float), &dense));
    err = convert(be, slot, slot->layout, BST_LAYOUT_PLAIN, at, dense);
    for (size_t i = 0; i < n && !err; i++)
        out[i] = (double)((const float *)dense)[i];
    bst_alloc_free(dense, n * sizeof(float));
    return err;
}

enum bst_err cpu_import_plain(struct bst_be *be, const struct bst_param_slot *slot,
                              const double *in, void *at)
{
    size_t n = (size_t)bst_shape_count(&slot->shape);
    void *dense;
    enum bst_err err;

    BST_TRY(bst_alloc(n * sizeof(float), &dense));
    for (size_t i = 0; i < n; i++)
        ((float *)dense)[i] = (float)in[i];
    memset(at, 0, slot->bytes);
    err = convert(be, slot, BST_LAYOUT_PLAIN, slot->layout, dense, at);
    bst_alloc_free(dense, n * sizeof(float));
    return err;
}
