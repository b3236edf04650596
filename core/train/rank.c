#include "core/train/rank.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/thread.h"

enum { NOTICE_MS = 20 }; /* between looks at what other processes say in the middle of a job */

/* What a library could not do is worth another try, unless the device itself has come to its end:
 * then that is the failure. */
static enum bst_err look_behind(struct rank *k, enum bst_err err)
{
    const struct bst_backend *b = k->t->cfg.backend;
    uint64_t unused;
    if ((err != BST_E_LIBRARY && err != BST_E_UNSUPPORTED) || !b->memory || !k->be)
        return err;
    const struct bst_failure met = bst_err_keep(err);
    enum bst_err own = b->memory(k->be, &unused);
    return own == BST_E_CONTEXT || own == BST_E_DEVICE ? own : bst_err_restore(&met);
}

static void run_job(struct rank *k)
{
    enum bst_err err = look_behind(k, k->job(k, k->arg));
    k->text[0] = '\0';
    k->lost |= err == BST_E_CONTEXT || err == BST_E_DEVICE;
    if ((err == BST_E_CONTEXT || err == BST_E_DEVICE) && k->info.uuid[0])
        err = bst_fail_in(err, "%s", k->info.uuid);
    if (err) {
        size_t n = strnlen(bst_err_text(), sizeof k->text - 1);
        memcpy(k->text, bst_err_text(), n);
        k->text[n] = '\0';
        if (k->t->meets) /* the others may wait for this rank in a collective */
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

/* Words between processes in the middle of a job. */
enum { NOTICE_STOP = 1, NOTICE_FAILED };

/* What the first process is asked to stop the others do not see, and a rank that waits on its
 * device for one that has failed elsewhere would wait in vain. `told`: the first was passed on. */
static void exchange_notices(struct bst_trainer *t, bool *told)
{
    struct bst_notice n;
    if (!*told && t->first == 0 && t->stop && atomic_load(t->stop)) {
        *told = true;
        bst_cluster_notify(t->cfg.cluster, &(struct bst_notice){NOTICE_STOP, t->job});
    }
    while (bst_cluster_noticed(t->cfg.cluster, &n)) {
        if (n.job != t->job) /* of one that is over */
            continue;
        if (n.kind == NOTICE_STOP)
            atomic_store(&t->told_stop, 1);
        else
            t->ranks[0].comm->ops->abort(t->ranks[0].comm);
    }
}

/* A process that is lost does not come to where the others wait, and in a job of rank 0 alone
 * notices are of what is over. */
static void look_at_others(struct bst_trainer *t, bool *told)
{
    struct bst_comm *group = bst_comm_local_at(t->group, 0);
    if (bst_cluster_check(t->cfg.cluster))
        group->ops->abort(group);
    else if (t->meets)
        exchange_notices(t, told);
}

/* With the lock held. */
static void wait_done(struct bst_trainer *t, bool *told)
{
    struct timespec until;
    if (!t->wide) {
        pthread_cond_wait(&t->done, &t->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NOTICE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&t->done, &t->lock, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&t->lock);
    look_at_others(t, told);
    pthread_mutex_lock(&t->lock);
}

/* The rank whose error tells most. */
static const struct rank *run_here(struct bst_trainer *t, int n_ranks, rank_job *job, void *arg)
{
    bool told = false;
    pthread_mutex_lock(&t->lock);
    for (int r = 0; r < n_ranks; r++) {
        t->ranks[r].job = job;
        t->ranks[r].arg = arg;
    }
    pthread_cond_broadcast(&t->posted);
    for (int r = 0; r < n_ranks; r++)
        while (t->ranks[r].job)
            wait_done(t, &told);
    const struct rank *worst = &t->ranks[0];
    for (int r = 1; r < n_ranks; r++)
        if (weight_of(t->ranks[r].err) > weight_of(worst->err))
            worst = &t->ranks[r];
    pthread_mutex_unlock(&t->lock);
    return worst;
}

static enum bst_err say(const struct bst_trainer *t, enum bst_err err, int rank, const char *text)
{
    if (t->cfg.ranks == 1 || rank < 0)
        return bst_fail(err, "%s", text);
    return bst_fail(err, "rank %d: %s", rank, text);
}

/* Of a job of all ranks, on every process. */
static enum bst_err failed(struct bst_trainer *t, enum bst_err err, int rank, const char *text)
{
    bst_comm_local_reset(t->group);
    return say(t, err, rank, text);
}

/* Whoever has no part in it is not to notice how it ended: the group stays as it is. */
enum bst_err bst_ranks_do(struct bst_trainer *t, int n_ranks, rank_job *job, void *arg)
{
    const struct rank *worst = run_here(t, n_ranks, job, arg);
    return worst->err ? say(t, worst->err, worst->rank, worst->text) : BST_OK;
}

static void take_endings(struct bst_trainer *t, const struct bst_ending *all, int n)
{
    struct program_need *need = &t->ranks[0].need;
    t->moved = all[0].moved;
    for (int p = 0; p < n; p++) {
        if (all[p].broken)
            atomic_store(&t->broken, true);
        need->arena = all[p].most[0] > need->arena ? all[p].most[0] : need->arena;
        if (all[p].most[1] > need->activations)
            need->activations = all[p].most[1];
        for (int i = 0; i < t->ranks_here; i++)
            t->shown[p * t->ranks_here + i].held = all[p].held[i];
    }
}

/* The error of all processes' that tells most, on every one of them. Where a process is lost only
 * now, this one's part is done: an update that has moved the state is not to look as if it had not,
 * and whatever comes next fails. */
static enum bst_err end_with_all(struct bst_trainer *t, struct bst_ending *mine)
{
    const int n = bst_cluster_info(t->cfg.cluster)->n_processes;
    struct bst_ending *all = bst_xcalloc((size_t)n, sizeof *all), *worst = all;
    if (mine->weight > weight_of(BST_E_STATE))
        bst_cluster_notify(t->cfg.cluster, &(struct bst_notice){NOTICE_FAILED, t->job});
    enum bst_err err = bst_comm_wide_over(t->wide, mine, all);
    if (err) {
        err = mine->err ? failed(t, err, -1, bst_err_text()) : BST_OK;
        bst_free(all);
        return err;
    }
    take_endings(t, all, n);
    for (int p = 1; p < n; p++)
        if (all[p].weight > worst->weight)
            worst = &all[p];
    if (worst->err)
        err = failed(t, (enum bst_err)worst->err, worst->rank, worst->text);
    bst_free(all);
    return err;
}

static enum bst_err do_with_all(struct bst_trainer *t, int n_here, rank_job *job, void *arg)
{
    struct bst_ending mine = {.rank = -1};
    t->job++;
    t->meets = true;
    const struct rank *worst = run_here(t, n_here, job, arg);
    t->meets = false;
    if (!t->wide)
        return worst->err ? failed(t, worst->err, worst->rank, worst->text) : BST_OK;
    mine.err = (int)worst->err;
    mine.weight = weight_of(worst->err);
    mine.rank = worst->rank;
    mine.broken = atomic_load(&t->broken);
    mine.moved = t->moved;
    mine.most[0] = t->ranks[0].need.arena;
    mine.most[1] = t->ranks[0].need.activations;
    for (int i = 0; i < t->ranks_here; i++)
        mine.held[i] = t->ranks[i].held;
    snprintf(mine.text, sizeof mine.text, "%.*s", (int)sizeof mine.text - 1, worst->text);
    return end_with_all(t, &mine);
}

enum bst_err bst_ranks_all(struct bst_trainer *t, rank_job *job, void *arg)
{
    return do_with_all(t, t->ranks_here, job, arg);
}

enum bst_err bst_ranks_first(struct bst_trainer *t, rank_job *job, void *arg)
{
    return do_with_all(t, 1, job, arg);
}

enum bst_err bst_ranks_agree(struct bst_trainer *t, enum bst_err err)
{
    struct bst_ending mine = {.rank = -1, .err = (int)err, .weight = weight_of(err)};
    if (!t->wide)
        return err;
    t->job++;
    if (err)
        snprintf(mine.text, sizeof mine.text, "process %d: %s",
                 bst_cluster_info(t->cfg.cluster)->process, bst_err_text());
    return end_with_all(t, &mine);
}

enum bst_err bst_ranks_start(struct bst_trainer *t)
{
    for (int r = 0; r < t->ranks_here; r++) {
        struct rank *k = &t->ranks[r];
        enum bst_err err = bst_thread_start(&k->thread, rank_main, k);
        k->started = !err;
        if (err)
            return bst_fail_in(err, "rank %d", k->rank);
    }
    return BST_OK;
}

void bst_ranks_stop(struct bst_trainer *t)
{
    pthread_mutex_lock(&t->lock);
    for (int r = 0; r < t->ranks_here; r++)
        t->ranks[r].quit = true;
    pthread_cond_broadcast(&t->posted);
    pthread_mutex_unlock(&t->lock);
    for (int r = 0; r < t->ranks_here; r++)
        if (t->ranks[r].started)
            pthread_join(t->ranks[r].thread, NULL);
}
