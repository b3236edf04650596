#include "core/comm/comm.h"

#include "core/base/alloc.h"

void bst_comm_use(struct bst_comm *c, const struct bst_backend *backend, struct bst_be *be)
{
    c->backend = backend;
    c->be = be;
}

enum bst_err bst_comm_sum(struct bst_comm *c, double *x, int n)
{
    if (c->n_ranks == 1)
        return BST_OK;
    double *all = bst_xcalloc((size_t)c->n_ranks * (size_t)n, sizeof *all);
    enum bst_err err = c->ops->gather(c, x, n, all);
    for (int i = 0; !err && i < n; i++) {
        x[i] = all[i];
        for (int r = 1; r < c->n_ranks; r++)
            x[i] += all[r * n + i];
    }
    bst_free(all);
    return err;
}

enum bst_err bst_comm_max(struct bst_comm *c, double *x, int n)
{
    if (c->n_ranks == 1)
        return BST_OK;
    double *all = bst_xcalloc((size_t)c->n_ranks * (size_t)n, sizeof *all);
    enum bst_err err = c->ops->gather(c, x, n, all);
    for (int r = 0; !err && r < c->n_ranks; r++)
        for (int i = 0; i < n; i++)
            if (all[r * n + i] > x[i])
                x[i] = all[r * n + i];
    bst_free(all);
    return err;
}
