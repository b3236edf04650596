/* A trainer whose ranks are spread over processes. The first process's session calls the trainer;
 * before each call that concerns the others it tells them, and they make the same call. From there
 * on all go the same way by themselves: what decides it is agreed at the end of every job (rank.c),
 * or was compared at the start. */
#include <sched.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/train/rank.h"

/* What a process says of itself before anything is shared out. */
struct self {
    int host;
    cpu_set_t cores;
};

/* Of what the data are: a sample is the same number on all. */
struct data_said {
    int64_t n[2];
    int32_t height, width, channels, classes, streams, labels, length[BST_DATA_STREAMS];
};

enum bst_err bst_crew_join(struct bst_trainer *t)
{
    struct bst_cluster *c = t->cfg.cluster;
    if (!c)
        return BST_OK;
    const struct bst_cluster_info *info = bst_cluster_info(c);
    struct self mine, *all = bst_xcalloc((size_t)info->n_processes, sizeof *all);
    memset(&mine, 0, sizeof mine);
    mine.host = info->host;
    if (sched_getaffinity(0, sizeof mine.cores, &mine.cores))
        CPU_ZERO(&mine.cores);
    bst_cluster_set_wait(c, t->cfg.wait_seconds);
    enum bst_err err = bst_cluster_gather(c, &mine, all, sizeof mine);
    t->sharing = 0; /* this process is among them */
    for (int p = 0; p < info->n_processes; p++)
        t->sharing += all[p].host == mine.host && CPU_EQUAL(&all[p].cores, &mine.cores);
    bst_free(all);
    if (err)
        return err;
    t->wide = bst_comm_wide_new(c, t->group, t->ranks_here);
    t->shown = bst_xcalloc((size_t)t->cfg.ranks, sizeof *t->shown);
    return BST_OK;
}

static struct data_said say_data(const struct bst_data_info *d)
{
    struct data_said s;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < 2; i++)
        s.n[i] = d->n[i];
    s.height = d->height;
    s.width = d->width;
    s.channels = d->channels;
    s.classes = d->classes;
    s.streams = d->streams;
    s.labels = d->n_labels;
    for (int i = 0; i < BST_DATA_STREAMS; i++)
        s.length[i] = d->length[i];
    return s;
}

enum bst_err bst_crew_same_data(struct bst_trainer *t)
{
    if (!t->wide)
        return BST_OK;
    const int n = bst_cluster_info(t->cfg.cluster)->n_processes;
    const struct data_said mine = say_data(bst_dataset_info(t->data));
    struct data_said *all = bst_xcalloc((size_t)n, sizeof *all);
    enum bst_err err = bst_cluster_gather(t->cfg.cluster, &mine, all, sizeof mine);
    for (int p = 1; p < n && !err; p++)
        if (memcmp(&all[p], &all[0], sizeof *all) != 0)
            err = bst_fail(BST_E_ARG,
                           "data: process %d has other data than process 0 (%lld samples to train "
                           "on and %lld to evaluate, against %lld and %lld)",
                           p, (long long)all[p].n[0], (long long)all[p].n[1],
                           (long long)all[0].n[0], (long long)all[0].n[1]);
    bst_free(all);
    return err;
}

enum bst_err bst_crew_show_devices(struct bst_trainer *t)
{
    if (!t->wide)
        return BST_OK;
    struct bst_device_info mine[BST_WIDE_LOCAL], *all;
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < t->ranks_here; i++)
        mine[i] = t->ranks[i].info;
    all = bst_xcalloc((size_t)t->cfg.ranks, sizeof *all);
    enum bst_err err =
        bst_cluster_gather(t->cfg.cluster, mine, all, (size_t)t->ranks_here * sizeof *mine);
    for (int r = 0; r < t->cfg.ranks && !err; r++)
        t->shown[r].info = all[r];
    bst_free(all);
    return err;
}

enum bst_err bst_crew_least_limit(struct bst_trainer *t)
{
    if (!t->wide)
        return BST_OK;
    const int n = bst_cluster_info(t->cfg.cluster)->n_processes;
    uint64_t *all = bst_xcalloc((size_t)n, sizeof *all), least = 0;
    enum bst_err err = bst_cluster_gather(t->cfg.cluster, &t->limit, all, sizeof t->limit);
    for (int p = 0; p < n; p++)
        if (all[p] && (!least || all[p] < least)) /* 0: that process knows of none */
            least = all[p];
    if (!err)
        t->limit = least;
    bst_free(all);
    return err;
}

enum bst_err bst_crew_lead(struct bst_trainer *t, const struct crew_request *r)
{
    if (!t->wide || t->first > 0)
        return BST_OK;
    return bst_cluster_tell(t->cfg.cluster, r, sizeof *r);
}

static enum bst_err share(struct bst_trainer *t, const struct crew_request *r)
{
    t->commits = r->u.share.commits;
    return bst_state_share_all(t, r->u.share.whole);
}

static enum bst_err take_choices(struct bst_trainer *t, size_t bytes)
{
    char *text = bst_xalloc(bytes + 1);
    enum bst_err err = bst_cluster_hear(t->cfg.cluster, text, bytes);
    if (!err)
        bst_trainer_take_choices(t, text);
    bst_free(text);
    return err;
}

/* The results are the first process's to use. */
static enum bst_err make_call(struct bst_trainer *t, const struct crew_request *r)
{
    struct bst_rank_memory memory;
    struct bst_update_result updated;
    struct bst_eval_result evaluated;
    int fit;
    atomic_store(&t->told_stop, 0);
    switch (r->op) {
    case CREW_PLAN:
        return bst_trainer_plan(t, r->u.split.batch, r->u.split.micro_batches, &memory);
    case CREW_LARGEST:
        return bst_trainer_largest(t, r->u.largest.most, r->u.largest.k, &fit);
    case CREW_SPLIT:
        return bst_trainer_set_split(t, r->u.split.batch, r->u.split.micro_batches, NULL);
    case CREW_UPDATE:
        return bst_trainer_update(t, &r->u.update, &t->told_stop, &updated);
    case CREW_SEND:
        return bst_trainer_send(t, &r->u.update, &t->told_stop);
    case CREW_TAKE:
        return bst_trainer_take(t, &updated);
    case CREW_EVAL:
        return r->u.some ? bst_trainer_eval_some(t, &t->told_stop, &evaluated)
                         : bst_trainer_eval(t, &t->told_stop, &evaluated);
    case CREW_SHARE:
        return share(t, r);
    case CREW_HOLD:
        return bst_trainer_hold(t);
    case CREW_REWIND:
        return bst_trainer_rewind(t);
    case CREW_CHOICES:
        return take_choices(t, r->u.bytes);
    case CREW_COMPARE:
        return bst_trainer_compare_ranks(t);
    case CREW_CLOSE:
        break;
    }
    return BST_OK;
}

/* The first process counts those of all, and can only name its own. */
static void say_bad_samples(const struct bst_trainer *t, int64_t *said)
{
    struct bst_data_bad bad;
    for (; bst_trainer_bad_sample(t, *said, &bad); ++*said)
        bst_log(BST_LOG_WARN, "process %d: another image stands in for %s",
                bst_cluster_info(t->cfg.cluster)->process, bad.reason);
}

enum bst_err bst_trainer_follow(struct bst_trainer *t)
{
    struct crew_request r = {.op = CREW_PLAN};
    int64_t n_bad_said = 0;
    BST_ASSERT(t->wide && t->first > 0);
    for (;;) {
        BST_TRY(bst_cluster_hear(t->cfg.cluster, &r, sizeof r));
        if (r.op == CREW_CLOSE)
            return BST_OK;
        /* Any other error all processes have, and the first one deals with it. */
        if (make_call(t, &r) == BST_E_PEER)
            return bst_cluster_check(t->cfg.cluster);
        say_bad_samples(t, &n_bad_said);
    }
}
