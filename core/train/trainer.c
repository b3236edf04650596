#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/train/host.h"
#include "core/train/rank.h"
#include "core/tune/loss_scale.h"

/* A rank's end of what all ranks meet in by the host's means. */
static struct bst_comm *host_end(const struct rank *k)
{
    const struct bst_trainer *t = k->t;
    const int i = k->rank - t->first;
    return t->wide ? bst_comm_wide_at(t->wide, i) : bst_comm_local_at(t->group, i);
}

static enum bst_err alloc_blocks(struct rank *k)
{
    const struct bst_backend *b = k->t->cfg.backend;
    size_t trained = k->params->trained_bytes, state = k->params->state_bytes;
    BST_TRY(b->alloc(k->be, trained + state, &k->weight));
    BST_TRY(b->alloc(k->be, trained, &k->grad));
    BST_TRY(b->alloc(k->be, k->t->optim_bytes, &k->optim));
    if (state)
        BST_TRY(b->alloc(k->be, state, &k->staged));
    /* Untouched, hence without pages, until the first hold. */
    BST_TRY(b->alloc(k->be, trained + state, &k->hold_weight));
    return b->alloc(k->be, k->t->optim_bytes, &k->hold_optim);
}

static enum bst_err open_job(struct rank *k, void *arg)
{
    (void)arg;
    const struct bst_train_cfg *t = &k->t->cfg;
    const int here = k->rank - k->t->first;
    struct bst_be_cfg cfg = {.rank = k->t->on_host * k->t->ranks_here + here,
                             .device = t->devices ? t->devices[here] : NULL,
                             .wait_seconds = t->wait_seconds,
                             .threads = k->t->threads,
                             .precision = t->precision,
                             .autotune = t->autotune,
                             .capture = t->capture,
                             .plan_for = t->plan_for};
    BST_TRY(t->backend->open(&cfg, &k->be));
    t->backend->info(k->be, &k->info);
    return BST_OK;
}

static enum bst_err build_job(struct rank *k, void *arg)
{
    const struct bst_train_cfg *t = &k->t->cfg;
    (void)arg;
    bst_comm_use(k->comm, t->backend, k->be);
    if (t->backend->link && t->ranks > 1 && !t->plan_only) {
        BST_TRY(bst_comm_device_open(k->comm, &k->device_comm));
        k->comm = k->device_comm;
    }
    /* What the libraries have taken by now is not there for the plan. */
    if (t->backend->memory)
        BST_TRY(t->backend->memory(k->be, &k->device_free));
    BST_TRY(bst_rank_build(k));
    k->sum_squares = bst_xcalloc((size_t)k->params->n_trained + 1, sizeof *k->sum_squares);
    k->weight_squares = bst_xcalloc((size_t)k->params->n_trained + 1, sizeof *k->weight_squares);
    return BST_OK;
}

static enum bst_err blocks_job(struct rank *k, void *arg)
{
    (void)arg;
    k->spans = bst_xcalloc((size_t)k->t->n_runs + 1, sizeof *k->spans);
    BST_TRY(alloc_blocks(k));
    const struct bst_backend *b = k->t->cfg.backend;
    if (b->commit_room)
        BST_TRY(b->commit_room(k->be, k->params->n_trained, k->t->n_runs));
    if (k->rank == 0)
        BST_TRY(bst_init_all(k));
    return bst_state_share(k, NULL);
}

/* `arg`: whether blocks are in the hands of MPI still; then they stay until the process ends, which
 * it does for the same reason. */
static enum bst_err close_job(struct rank *k, void *arg)
{
    const struct bst_backend *b = k->t->cfg.backend;
    bst_rank_drop_split(k);
    bst_rank_drop_programs(k);
    if (k->params && !*(const bool *)arg) {
        size_t trained = k->params->trained_bytes, state = k->params->state_bytes;
        b->free(k->be, k->weight, trained + state);
        b->free(k->be, k->grad, trained);
        b->free(k->be, k->optim, k->t->optim_bytes);
        b->free(k->be, k->staged, state);
        b->free(k->be, k->hold_weight, trained + state);
        b->free(k->be, k->hold_optim, k->t->optim_bytes);
    }
    bst_param_table_free(k->params);
    bst_free(k->sum_squares);
    bst_free(k->weight_squares);
    bst_free(k->spans);
    k->comm = host_end(k);
    bst_comm_device_close(k->device_comm);
    if (k->be)
        b->close(k->be);
    k->be = NULL;
    return BST_OK;
}

/* Every rank leads a team of its own. oneDNN 2.6 hangs when the runtime gives it fewer threads. */
static enum bst_err choose_threads(struct bst_trainer *t)
{
    int cores = bst_host_cores();
    t->threads = t->cfg.threads > 0 ? t->cfg.threads : cores / (t->ranks_here * t->sharing);
    if (t->threads < 1)
        t->threads = 1;
    if (omp_get_thread_limit() < t->threads)
        return bst_fail(BST_E_ARG,
                        "OMP_THREAD_LIMIT is %d, a rank's team has %d threads: unset it or set "
                        "devices.threads",
                        omp_get_thread_limit(), t->threads);
    return BST_OK;
}

/* What the caller left open is the data's own. */
static enum bst_err fit_net(struct bst_trainer *t)
{
    struct bst_net_cfg *n = &t->cfg.net_cfg;
    const struct bst_data_info *d = bst_dataset_info(t->data);
    n->height = n->height ? n->height : d->height;
    n->width = n->width ? n->width : d->width;
    n->in_channels = n->in_channels ? n->in_channels : d->channels;
    n->classes = n->classes ? n->classes : d->classes;
    if (d->n[BST_TRAIN] < 1)
        return bst_fail(BST_E_ARG, "the data set has no training samples");
    for (int k = 0; k < BST_MAX_STREAMS; k++)
        n->length[k] = d->length[k];
    if (d->streams)
        return n->classes < d->classes
                   ? bst_fail(BST_E_SHAPE, "the data have a vocabulary of %d, the net knows %d",
                              d->classes, n->classes)
                   : BST_OK;
    if (t->cfg.net->input != BST_INPUT_IMAGES)
        return bst_fail(BST_E_ARG, "%s is a set of images, the net takes sequences of tokens",
                        t->cfg.data.format);
    if (n->in_channels != d->channels || n->height != d->height || n->width != d->width)
        return bst_fail(BST_E_SHAPE, "images are %d×%d×%d, the net takes %d×%d×%d", d->height,
                        d->width, d->channels, n->height, n->width, n->in_channels);
    if (n->classes < d->classes)
        return bst_fail(BST_E_SHAPE, "the data set has %d classes, the net tells %d apart",
                        d->classes, n->classes);
    return BST_OK;
}

/* Where memory is the devices', the smallest decides, less what libraries still take of it. */
static void limit_by_devices(struct bst_trainer *t)
{
    uint64_t least = UINT64_MAX;
    if (t->cfg.memory_per_rank || !t->cfg.backend->memory)
        return;
    for (int r = 0; r < (t->cfg.plan_only ? 1 : t->ranks_here); r++)
        if (t->ranks[r].device_free < least)
            least = t->ranks[r].device_free;
    t->limit = least / 16 * 15;
}

static const struct bst_device_info *device_of(const struct bst_trainer *t, int rank)
{
    return t->wide ? &t->shown[rank].info : &t->ranks[rank].info;
}

/* However they were named. */
static enum bst_err check_devices(const struct bst_trainer *t)
{
    for (int r = 1; r < t->cfg.ranks; r++)
        for (int q = 0; q < r; q++)
            if (device_of(t, r)->uuid[0] && !strcmp(device_of(t, r)->uuid, device_of(t, q)->uuid))
                return bst_fail(BST_E_ARG, "ranks %d and %d are both to have %s", q, r,
                                device_of(t, r)->uuid);
    return BST_OK;
}

/* Ranks are alike: of a trainer that only plans the first one does it for all. */
static enum bst_err on_all(struct bst_trainer *t, rank_job *job)
{
    return t->cfg.plan_only ? bst_ranks_do(t, 1, job, NULL) : bst_ranks_all(t, job, NULL);
}

static enum bst_err open_ranks(struct bst_trainer *t)
{
    BST_TRY(on_all(t, open_job));
    BST_TRY(bst_crew_show_devices(t));
    BST_TRY(check_devices(t));
    BST_TRY(on_all(t, build_job));
    limit_by_devices(t);
    BST_TRY(bst_crew_least_limit(t));
    BST_TRY(bst_groups_resolve(t));
    const struct bst_param_table *p = t->ranks[0].params;
    int n_blocks = bst_optimizer_info(t->cfg.optim.kind)->n_blocks;
    if (!bst_mul_size(p->trained_bytes, (size_t)n_blocks, &t->optim_bytes))
        return bst_fail(BST_E_NOMEM, "more bytes of optimizer state than can be");
    t->layers = bst_xcalloc((size_t)p->n_trained + 1, sizeof *t->layers);
    for (int i = 0; i < p->n_trained; i++)
        t->layers[i] = (struct bst_layer_norm){.name = p->slots[i].name, .weight_norm = NAN};
    return t->cfg.plan_only ? BST_OK : bst_ranks_all(t, blocks_job, NULL);
}

static enum bst_err check_optim(const struct bst_train_cfg *cfg)
{
    const struct bst_optim_cfg *o = &cfg->optim;
    const struct bst_optimizer_info *info = bst_optimizer_info(o->kind);
    if (o->kind != BST_OPTIMIZER_SGD && !cfg->backend->optimize)
        return bst_fail(BST_E_UNSUPPORTED, "backend %s has no %s", cfg->backend->name, info->name);
    if (info->adaptive && !(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 &&
                            o->epsilon > 0 && isfinite(o->epsilon)))
        return bst_fail(BST_E_RANGE, "%s with beta1 %g, beta2 %g, epsilon %g", info->name, o->beta1,
                        o->beta2, o->epsilon);
    if (o->kind == BST_OPTIMIZER_LARS && !(o->trust > 0 && isfinite(o->trust)))
        return bst_fail(BST_E_RANGE, "lars with a trust coefficient of %g", o->trust);
    return BST_OK;
}

static enum bst_err check_precision(const struct bst_train_cfg *cfg)
{
    return BST_HAS_PRECISION(cfg->backend, cfg->precision)
               ? BST_OK
               : bst_fail(BST_E_UNSUPPORTED,
                          "precision: the %s backend computes in fp32, not in %s",
                          cfg->backend->name, bst_precision_name(cfg->precision));
}

static void make_ranks(struct bst_trainer *t)
{
    int on_host = 1; /* processes */
    t->ranks_here = t->cfg.ranks;
    t->sharing = 1;
    if (t->cfg.cluster) {
        const struct bst_cluster_info *info = bst_cluster_info(t->cfg.cluster);
        t->ranks_here = t->cfg.ranks / info->n_processes;
        t->first = info->process * t->ranks_here;
        t->on_host = info->on_host;
        on_host = info->n_on_host;
    }
    t->limit = t->cfg.memory_per_rank ? t->cfg.memory_per_rank
                                      : bst_trainer_memory_default(t->ranks_here * on_host);
    t->group = bst_comm_local_new(t->ranks_here);
    t->ranks = bst_xcalloc((size_t)t->ranks_here, sizeof *t->ranks);
    for (int r = 0; r < t->ranks_here; r++) {
        t->ranks[r].t = t;
        t->ranks[r].rank = t->first + r;
    }
}

/* All that a process can do without the others. */
static enum bst_err open_here(struct bst_trainer *t)
{
    enum bst_err err = bst_trace_open(t);
    if (!err)
        err = bst_dataset_open(&t->cfg.data, &t->data);
    if (err == BST_E_CORRUPT || err == BST_E_NOTFOUND)
        return bst_fail_in(err, "BST-504");
    if (!err)
        err = fit_net(t);
    if (err)
        return err;
    t->order = bst_order_new(t->data, BST_TRAIN, t->cfg.shuffle, t->cfg.seed);
    BST_TRY(choose_threads(t));
    return bst_ranks_start(t);
}

static enum bst_err open_all(struct bst_trainer *t)
{
    BST_TRY(bst_crew_join(t));
    for (int r = 0; r < t->ranks_here; r++)
        t->ranks[r].comm = host_end(&t->ranks[r]);
    BST_TRY(bst_ranks_agree(t, open_here(t)));
    BST_TRY(bst_crew_same_data(t));
    return open_ranks(t);
}

static enum bst_err check_ranks(const struct bst_train_cfg *cfg)
{
    int n = cfg->cluster ? bst_cluster_info(cfg->cluster)->n_processes : 1;
    if (cfg->ranks < 1 || cfg->ranks > 256)
        return bst_fail(BST_E_RANGE, "%d ranks; 1 to 256 are possible", cfg->ranks);
    if (cfg->ranks % n || (n > 1 && cfg->ranks / n > BST_WIDE_LOCAL))
        return bst_fail(BST_E_ARG,
                        "devices.count: %d devices cannot be dealt in equal parts to %d processes",
                        cfg->ranks, n);
    if (cfg->cluster && cfg->trace_path)
        return bst_fail(BST_E_UNSUPPORTED,
                        "samples are traced by one process, and this run has several");
    return BST_OK;
}

enum bst_err bst_trainer_open(const struct bst_train_cfg *cfg, struct bst_trainer **out)
{
    *out = NULL;
    BST_TRY(check_precision(cfg));
    BST_TRY(check_optim(cfg));
    BST_TRY(check_ranks(cfg));
    struct bst_trainer *t = bst_xalloc(sizeof *t);
    t->cfg = *cfg;
    t->scales_loss = cfg->precision == BST_PRECISION_FP16 && cfg->backend->commit;
    t->commits.loss_scale = t->scales_loss ? BST_LOSS_SCALE_START : 1;
    t->trace_fd = -1;
    make_ranks(t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->posted, NULL);
    pthread_cond_init(&t->done, NULL);
    t->cfg.data.input = cfg->net->input;
    enum bst_err err = open_all(t);
    if (err) {
        bst_trainer_close(t);
        return err;
    }
    t->opened = true;
    *out = t;
    return BST_OK;
}

void bst_trainer_close(struct bst_trainer *t)
{
    if (!t)
        return;
    const struct crew_request over = {.op = CREW_CLOSE};
    int n_started = 0;
    /* Whoever cannot be told any more is not there to be told. */
    if (t->opened && bst_crew_lead(t, &over))
        bst_log(BST_LOG_WARN, "%s", bst_err_text());
    while (n_started < t->ranks_here && t->ranks[n_started].started)
        n_started++;
    bool owes = t->wide && bst_cluster_owes(t->cfg.cluster);
    if (bst_ranks_do(t, n_started, close_job, &owes))
        BST_ASSERT(!"closing a rank cannot fail");
    bst_ranks_stop(t);
    bst_order_free(t->order);
    bst_dataset_close(t->data);
    bst_trace_close(t);
    bst_comm_wide_free(t->wide);
    bst_comm_local_free(t->group);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->posted);
    pthread_mutex_destroy(&t->lock);
    bst_free(t->factor);
    bst_free(t->runs);
    bst_free(t->layers);
    bst_free(t->shown);
    bst_free(t->ranks);
    bst_free(t);
}

static enum bst_err weight_norms_job(struct rank *k, void *arg)
{
    double *q = arg;
    BST_TRY(bst_rank_squares(k, k->weight, q));
    for (int i = 0; i < k->params->n_trained; i++)
        k->t->layers[i].weight_norm = sqrt(q[i]);
    return BST_OK;
}

const struct bst_layer_norm *bst_trainer_layers(struct bst_trainer *t, int *n)
{
    /* Weights' norms are taken when somebody looks, not at every update. */
    *n = t->ranks[0].params->n_trained;
    if (!t->weight_norms && !t->n_sent) {
        double *q = bst_xcalloc((size_t)*n + 1, sizeof *q);
        t->weight_norms = !bst_ranks_do(t, 1, weight_norms_job, q);
        bst_free(q);
    }
    return t->layers;
}

bool bst_trainer_intact(const struct bst_trainer *t)
{
    return !atomic_load(&t->broken) && !t->ranks[0].lost;
}

static enum bst_err choices_job(struct rank *k, void *arg)
{
    k->t->cfg.backend->choices(k->be, arg);
    return BST_OK;
}

void bst_trainer_choices(struct bst_trainer *t, struct bst_sb *out)
{
    if (t->cfg.backend->choices && bst_ranks_do(t, 1, choices_job, out))
        BST_ASSERT(!"saying what was chosen cannot fail");
}

static enum bst_err take_choices_job(struct rank *k, void *arg)
{
    k->t->cfg.backend->take_choices(k->be, arg);
    return BST_OK;
}

void bst_trainer_take_choices(struct bst_trainer *t, const char *text)
{
    const struct crew_request r = {.op = CREW_CHOICES, .u.bytes = strlen(text) + 1};
    char *copy = bst_xstrdup(text);
    enum bst_err err = BST_OK;
    if (t->cfg.backend->take_choices) {
        err = bst_crew_lead(t, &r);
        if (!err && t->wide && t->first == 0)
            err = bst_cluster_tell(t->cfg.cluster, text, r.u.bytes);
        if (!err)
            err = bst_ranks_all(t, take_choices_job, copy);
    }
    BST_ASSERT(!err || err == BST_E_PEER); /* taking them cannot fail; whoever is next finds that */
    bst_free(copy);
}

int64_t bst_trainer_batch(const struct bst_trainer *t)
{
    return (int64_t)t->plan.split.batch;
}

uint64_t bst_trainer_epoch_tokens(const struct bst_trainer *t)
{
    const struct bst_data_info *d = bst_dataset_info(t->data);
    uint64_t n = 0;
    if (!d->streams || d->each.tokens)
        return (uint64_t)d->each.tokens * (uint64_t)d->n[BST_TRAIN];
    for (int64_t i = 0; i < d->n[BST_TRAIN]; i++)
        n += (uint64_t)bst_dataset_count(t->data, BST_TRAIN, i).tokens;
    return n;
}

const struct bst_data_info *bst_trainer_data(const struct bst_trainer *t)
{
    return bst_dataset_info(t->data);
}

int64_t bst_trainer_n_parameters(const struct bst_trainer *t)
{
    const struct bst_param_table *p = t->ranks[0].params;
    int64_t n = 0;
    for (int i = 0; i < p->n_trained; i++)
        n += bst_shape_count(&p->slots[i].shape);
    return n;
}

uint64_t bst_trainer_optim_steps(const struct bst_trainer *t)
{
    return t->commits.steps;
}

bool bst_trainer_has_batch_norm(const struct bst_trainer *t)
{
    return t->ranks[0].params->state_bytes > 0; /* nothing else has statistics of its own */
}

int bst_trainer_classes(const struct bst_trainer *t)
{
    return t->cfg.net_cfg.classes;
}

bool bst_trainer_bad_sample(const struct bst_trainer *t, int64_t i, struct bst_data_bad *out)
{
    return bst_dataset_bad(t->data, i, out);
}

void bst_trainer_memory(const struct bst_trainer *t, int rank, struct bst_rank_memory *out)
{
    BST_ASSERT(rank >= 0 && rank < t->cfg.ranks);
    bst_memory_table(t, &t->plan, out);
    out->held = t->wide ? t->shown[rank].held : t->ranks[rank].held;
}

void bst_trainer_device(const struct bst_trainer *t, int rank, struct bst_device_info *out)
{
    BST_ASSERT(rank >= 0 && rank < t->cfg.ranks);
    *out = *device_of(t, rank);
}

int bst_trainer_ranks_here(const struct bst_trainer *t)
{
    return t->ranks_here;
}

static enum bst_err hold_job(struct rank *k, void *arg)
{
    const struct bst_backend *b = k->t->cfg.backend;
    size_t all = k->params->trained_bytes + k->params->state_bytes;
    bool back = *(const bool *)arg;
    BST_TRY(
        b->copy(k->be, back ? k->weight : k->hold_weight, back ? k->hold_weight : k->weight, all));
    BST_TRY(b->copy(k->be, back ? k->optim : k->hold_optim, back ? k->hold_optim : k->optim,
                    k->t->optim_bytes));
    return back ? bst_state_push_commits(k) : BST_OK;
}

enum bst_err bst_trainer_hold(struct bst_trainer *t)
{
    const struct crew_request r = {.op = CREW_HOLD};
    bool back = false;
    BST_TRY(bst_none_sent(t));
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    BST_TRY(bst_made_alike(t));
    BST_TRY(bst_crew_lead(t, &r));
    BST_TRY(bst_ranks_all(t, hold_job, &back));
    t->hold_commits = t->commits;
    t->have_hold = true;
    return BST_OK;
}

enum bst_err bst_trainer_rewind(struct bst_trainer *t)
{
    const struct crew_request r = {.op = CREW_REWIND};
    bool back = true;
    BST_TRY(bst_none_sent(t));
    if (!t->have_hold)
        return bst_fail(BST_E_STATE, "no earlier state is held");
    BST_TRY(bst_crew_lead(t, &r));
    t->commits = t->hold_commits;
    BST_TRY(bst_ranks_all(t, hold_job, &back));
    t->weight_norms = false;
    atomic_store(&t->broken, false);
    return BST_OK;
}
