/* Blocks by the devices' own library, numbers by the host. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/comm/comm.h"

struct device {
    struct bst_comm comm;
    struct bst_comm *host;
    unsigned resets; /* of the group, when the link was last known to be whole */
};

static enum bst_err device_barrier(struct bst_comm *c)
{
    struct bst_comm *host = ((struct device *)c)->host;
    return host->ops->barrier(host);
}

static enum bst_err device_gather(struct bst_comm *c, const double *mine, int n, double *all)
{
    struct bst_comm *host = ((struct device *)c)->host;
    return host->ops->gather(host, mine, n, all);
}

/* The flag is what every wait on a device looks at, so that each rank leaves by itself. */
static void device_abort(struct bst_comm *c)
{
    struct bst_comm *host = ((struct device *)c)->host;
    host->ops->abort(host);
}

/* Rank 0's bytes to all, as numbers that nobody counts with. */
static enum bst_err share_id(struct device *d, unsigned char id[BST_LINK_ID])
{
    enum { N = BST_LINK_ID / sizeof(double) };
    double mine[N] = {0};
    _Static_assert((int)N <= BST_COMM_SMALL, "an id goes through one gather");
    if (d->comm.rank == 0) {
        BST_TRY(d->comm.backend->link->name(d->comm.be, id));
        memcpy(mine, id, BST_LINK_ID);
    }
    double *all = bst_xcalloc((size_t)d->comm.n_ranks * N, sizeof *all);
    enum bst_err err = device_gather(&d->comm, mine, N, all);
    if (!err)
        memcpy(id, all, BST_LINK_ID);
    bst_free(all);
    return err;
}

static enum bst_err join(struct device *d)
{
    struct bst_link_cfg cfg = {
        .rank = d->comm.rank, .n_ranks = d->comm.n_ranks, .given_up = &d->comm.shared->given_up};
    BST_TRY(share_id(d, cfg.id));
    return d->comm.backend->link->join(d->comm.be, &cfg);
}

/* After a failure anywhere one rank's end may be broken and another's not: all tell, and all join
 * again if any has to. */
static enum bst_err make_whole(struct device *d)
{
    const struct bst_link_ops *link = d->comm.backend->link;
    unsigned resets = atomic_load(&d->comm.shared->resets);
    double broken = 0;
    if (resets == d->resets)
        return BST_OK;
    broken = !link->intact(d->comm.be);
    BST_TRY(bst_comm_max(d->host, &broken, 1));
    if (broken > 0) {
        link->leave(d->comm.be, true);
        BST_TRY(join(d));
    }
    d->resets = resets;
    return BST_OK;
}

static enum bst_err device_all_reduce(struct bst_comm *c, void *block, size_t bytes)
{
    BST_TRY(make_whole((struct device *)c));
    return c->backend->link->all_reduce(c->be, block, bytes);
}

static enum bst_err device_broadcast(struct bst_comm *c, void *block, size_t bytes, int root)
{
    if (!bytes)
        return BST_OK;
    BST_TRY(make_whole((struct device *)c));
    return c->backend->link->broadcast(c->be, block, bytes, root);
}

static enum bst_err device_settle(struct bst_comm *c)
{
    return c->backend->link->settle(c->be);
}

static const struct bst_comm_ops device_ops = {
    .name = "device",
    .barrier = device_barrier,
    .all_reduce = device_all_reduce,
    .broadcast = device_broadcast,
    .gather = device_gather,
    .settle = device_settle,
    .abort = device_abort,
};

enum bst_err bst_comm_device_open(struct bst_comm *host, struct bst_comm **out)
{
    struct device *d = bst_xalloc(sizeof *d);
    *d = (struct device){.comm = *host, .host = host, .resets = atomic_load(&host->shared->resets)};
    d->comm.ops = &device_ops;
    enum bst_err err = join(d);
    if (err) {
        bst_free(d);
        return err;
    }
    *out = &d->comm;
    return BST_OK;
}

void bst_comm_device_close(struct bst_comm *c)
{
    if (!c)
        return;
    struct device *d = (struct device *)c;
    d->comm.backend->link->leave(d->comm.be, false);
    bst_free(d);
}
