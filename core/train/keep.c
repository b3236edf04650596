/* The state set aside while something is tried out: beside the hold, which belongs to the last
 * change. Rank 0's, in blocks of its own; ranks are alike, so all get it back from there. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/train/rank.h"

struct bst_kept {
    struct bst_trainer *t;
    void *weight, *optim;
    struct bst_commit_state commits;
    double *grad_norm; /* of the layers, as the last update left them */
    uint32_t hash;
};

static enum bst_err keep_job(struct rank *k, void *arg)
{
    struct bst_kept *kept = arg;
    const struct bst_backend *b = k->t->cfg.backend;
    size_t all = k->params->trained_bytes + k->params->state_bytes;
    BST_TRY(b->alloc(k->be, all, &kept->weight));
    BST_TRY(b->alloc(k->be, k->t->optim_bytes, &kept->optim));
    BST_TRY(b->copy(k->be, kept->weight, k->weight, all));
    return b->copy(k->be, kept->optim, k->optim, k->t->optim_bytes);
}

static enum bst_err restore_job(struct rank *k, void *arg)
{
    const struct bst_kept *kept = arg;
    const struct bst_backend *b = k->t->cfg.backend;
    size_t all = k->params->trained_bytes + k->params->state_bytes;
    BST_TRY(b->copy(k->be, k->weight, kept->weight, all));
    return b->copy(k->be, k->optim, kept->optim, k->t->optim_bytes);
}

static enum bst_err drop_job(struct rank *k, void *arg)
{
    struct bst_kept *kept = arg;
    const struct bst_backend *b = k->t->cfg.backend;
    size_t all = k->params->trained_bytes + k->params->state_bytes;
    b->free(k->be, kept->weight, all);
    b->free(k->be, kept->optim, k->t->optim_bytes);
    return BST_OK;
}

enum bst_err bst_trainer_keep(struct bst_trainer *t, struct bst_kept **out)
{
    int n = t->ranks[0].params->n_trained;
    *out = NULL;
    BST_TRY(bst_none_sent(t));
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    struct bst_kept *kept = bst_xalloc(sizeof *kept);
    kept->t = t;
    kept->commits = t->commits;
    enum bst_err err = bst_trainer_hash(t, &kept->hash);
    if (!err)
        err = bst_ranks_do(t, 1, keep_job, kept);
    if (err) {
        bst_trainer_kept_free(kept);
        return err;
    }
    kept->grad_norm = bst_xcalloc((size_t)n + 1, sizeof *kept->grad_norm);
    for (int i = 0; i < n; i++)
        kept->grad_norm[i] = t->layers[i].grad_norm;
    *out = kept;
    return BST_OK;
}

enum bst_err bst_trainer_restore(struct bst_kept *kept)
{
    struct bst_trainer *t = kept->t;
    uint32_t hash;
    BST_TRY(bst_none_sent(t));
    t->commits = kept->commits;
    BST_TRY(bst_ranks_do(t, 1, restore_job, kept));
    BST_TRY(bst_state_share_all(t, true));
    t->weight_norms = false;
    for (int i = 0; i < t->ranks[0].params->n_trained; i++)
        t->layers[i].grad_norm = kept->grad_norm[i];
    BST_TRY(bst_trainer_hash(t, &hash));
    if (hash != kept->hash)
        return bst_fail(BST_E_CORRUPT, "the state put back is not the one set aside (%08x, %08x)",
                        hash, kept->hash);
    return BST_OK;
}

void bst_trainer_kept_free(struct bst_kept *kept)
{
    if (!kept)
        return;
    if (bst_ranks_do(kept->t, 1, drop_job, kept))
        BST_ASSERT(!"freeing cannot fail");
    bst_free(kept->grad_norm);
    bst_free(kept);
}
