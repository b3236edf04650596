#include "core/train/rank.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/thread.h"

/* What a library could not do is worth another try, unless the device itself has come to its end:
 * then that is the failure. */
static enum bst_err look_behind(struct rank *k, enum bst_err err)
{
    const struct bst_backend *b = k->t->cfg.backend;
    char text[400];
    uint64_t unused;
    if ((err != BST_E_LIBRARY && err != BST_E_UNSUPPORTED) || !b->memory || !k->be)
        return err;
    snprintf(text, sizeof text, "%s", bst_err_text());
    enum bst_err own = b->memory(k->be, &unused);
    return own == BST_E_CONTEXT || own == BST_E_DEVICE ? own : bst_fail(err, "%s", text);
}

static void run_job(struct rank *k)
{
    enum bst_err err = look_behind(k, k->job(k, k->arg));
    k->text[0] = '\0';
    if ((err == BST_E_CONTEXT || err == BST_E_DEVICE) && k->info.uuid[0])
        err = bst_fail_in(err, "%s", k->info.uuid);
    if (err) {
        size_t n = strnlen(bst_err_text(), sizeof k->text - 1);
        memcpy(k->text, bst_err_text(), n);
        k->text[n] = '\0';
        /* The others may wait for this rank in a collective. */
        k->comm->ops->abort(k->comm);
    }
    const struct bst_backend *b = k->t->cfg.backend;
    k->held = b->held && k->be ? b->held(k->be) : (uint64_t)bst_alloc_held_here();
    k->err = err;
}

static void *rank_main(void *arg)
{
    struct rank *k = arg;
    struct bst_trainer *t = k->t;
    pthread_setname_np(pthread_self(), "bst-rank"); /* its team inherits that */
    /* This thread leads a team of its own; the numbers are this thread's alone. */
    omp_set_dynamic(0);
    omp_set_num_threads(t->threads);
    pthread_mutex_lock(&t->lock);
    while (!k->quit) {
        if (!k->job) {
            pthread_cond_wait(&t->posted, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        run_job(k);
        pthread_mutex_lock(&t->lock);
        k->job = NULL;
        pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* A rank that was woken or called off says less than the one that caused it, and a library that met
 * another rank's failure less than that rank. */
static int weight_of(enum bst_err err)
{
    switch (err) {
    case BST_OK:
        return 0;
    case BST_E_STATE:
        return 1;
    case BST_E_CANCELLED:
        return 2;
    case BST_E_LIBRARY:
        return 3;
    default:
        return 4;
    }
}

enum bst_err bst_ranks_do(struct bst_trainer *t, int n_ranks, rank_job *job, void *arg)
{
    pthread_mutex_lock(&t->lock);
    for (int r = 0; r < n_ranks; r++) {
        t->ranks[r].job = job;
        t->ranks[r].arg = arg;
    }
    pthread_cond_broadcast(&t->posted);
    for (int r = 0; r < n_ranks; r++)
        while (t->ranks[r].job)
            pthread_cond_wait(&t->done, &t->lock);
    const struct rank *worst = &t->ranks[0];
    for (int r = 1; r < n_ranks; r++)
        if (weight_of(t->ranks[r].err) > weight_of(worst->err))
            worst = &t->ranks[r];
    pthread_mutex_unlock(&t->lock);
    if (!worst->err)
        return BST_OK;
    bst_comm_local_reset(t->group);
    if (t->cfg.ranks == 1)
        return bst_fail(worst->err, "%s", worst->text);
    return bst_fail(worst->err, "rank %d: %s", worst->rank, worst->text);
}

enum bst_err bst_ranks_start(struct bst_trainer *t)
{
    for (int r = 0; r < t->cfg.ranks; r++) {
        struct rank *k = &t->ranks[r];
        enum bst_err err = bst_thread_start(&k->thread, rank_main, k);
        k->started = !err;
        if (err)
            return bst_fail_in(err, "rank %d", r);
    }
    return BST_OK;
}

void bst_ranks_stop(struct bst_trainer *t)
{
    pthread_mutex_lock(&t->lock);
    for (int r = 0; r < t->cfg.ranks; r++)
        t->ranks[r].quit = true;
    pthread_cond_broadcast(&t->posted);
    pthread_mutex_unlock(&t->lock);
    for (int r = 0; r < t->cfg.ranks; r++)
        if (t->ranks[r].started)
            pthread_join(t->ranks[r].thread, NULL);
}
