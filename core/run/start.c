#include "core/run/start.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/comm/cluster.h"
#include "core/run/field.h"

static enum bst_err find_backend(const char *name, const struct bst_backend **out)
{
    *out = bst_backends[0];
    return strcmp(name, "auto") ? bst_backend_get(name, out) : BST_OK;
}

struct bst_data_cfg bst_start_data_cfg(const struct bst_preset *p)
{
    return (struct bst_data_cfg){
        .format = p->data.format,
        .path = p->data.path[0] ? p->data.path : NULL,
        .image_size = (int)p->data.image_size,
        .classes = (int)p->model.classes,
        .channels = (int)p->model.in_channels,
        .train_count = p->data.train_count,
        .eval_count = p->data.eval_count,
        .augment = p->augment != BST_AUGMENT_NONE,
        .distort = p->augment == BST_AUGMENT_STRONG,
        .seed = (uint64_t)p->seed,
        .threads = (int)p->data.threads,
        .length = (int)p->data.length,
        .token_bytes = (int)p->data.token_bytes,
        .languages = p->data.languages,
        .digits = (int)p->data.digits,
        .bucket = p->data.bucket,
        .special = {(int32_t)p->data.special_tokens.v[0], (int32_t)p->data.special_tokens.v[1],
                    (int32_t)p->data.special_tokens.v[2], (int32_t)p->data.special_tokens.v[3]},
    };
}

enum bst_err bst_start_train_cfg(const struct bst_preset *preset, const struct bst_net_table *nets,
                                 struct bst_start *store, struct bst_train_cfg *out)
{
    *out = (struct bst_train_cfg){
        .net = bst_net_find(nets, preset->model.name),
        .ranks = (int)preset->devices.count,
        .wait_seconds = (double)preset->devices.timeout,
        .threads = (int)preset->devices.threads,
        .precision = (enum bst_precision)preset->precision,
        .autotune = !preset->deterministic,
        .capture = preset->devices.capture,
        .memory_per_rank = preset->devices.memory,
        .data = bst_start_data_cfg(preset),
        .shuffle = preset->shuffle,
        .seed = (uint64_t)preset->seed,
        .groups = store->groups,
        .n_groups = preset->lr_groups.n,
        .optim = {.kind = (enum bst_optimizer)preset->optimizer,
                  .beta1 = preset->beta1,
                  .beta2 = preset->beta2,
                  .epsilon = preset->epsilon,
                  .trust = preset->trust_coefficient},
        .decay_bn_and_bias = preset->weight_decay_all,
    };
    if (!out->net)
        return bst_fail(BST_E_NOTFOUND, "model.name: no net is called %s", preset->model.name);
    enum bst_err err = find_backend(preset->devices.backend, &out->backend);
    if (err)
        return bst_fail_in(err, "devices.backend");
    if (bst_preset_gpus(preset->devices.list, &store->gpus) && store->gpus.n > 0) {
        for (int i = 0; i < store->gpus.n; i++)
            store->devices[i] = store->gpus.word[i];
        if (store->gpus.n >= out->ranks)
            out->devices = store->devices;
    }
    bst_preset_net_cfg(preset, &out->net_cfg);
    bst_preset_recompute(preset, store->layers, &out->recompute);
    for (int i = 0; i < preset->lr_groups.n; i++) {
        const struct bst_preset_group *g = &preset->lr_groups.v[i];
        store->groups[i] = (struct bst_lr_group){g->match, g->factor, g->weight_decay};
    }
    return BST_OK;
}

enum bst_err bst_start_spread(struct bst_cluster *c, const struct bst_start *store,
                              struct bst_train_cfg *cfg)
{
    if (!c)
        return BST_OK;
    const struct bst_cluster_info *info = bst_cluster_info(c);
    const int here = cfg->ranks / info->n_processes;
    cfg->cluster = c;
    if (!store->gpus.n)
        return BST_OK;
    if (store->gpus.n != cfg->ranks && store->gpus.n != here)
        return bst_fail(BST_E_ARG,
                        "devices.list names %d devices; %d processes with %d each need %d or %d",
                        store->gpus.n, info->n_processes, here, here, cfg->ranks);
    cfg->devices = store->devices + (store->gpus.n == cfg->ranks ? info->process * here : 0);
    return BST_OK;
}

/* The batch at which learning_rate is what it says. */
static uint64_t base_batch(const struct bst_preset *p)
{
    if (p->lr_scaling != BST_LR_RULE_SQRT_ACCUMULATE)
        return (uint64_t)p->lr_base_batch_size;
    return (uint64_t)bst_preset_accumulate_base(p);
}

/* `batch`: in samples; the rate follows it in the unit that it is counted in. */
static enum bst_err make_schedule(const struct bst_preset *p, const struct bst_plan_env *env,
                                  uint64_t batch, struct bst_schedule *out)
{
    struct bst_scale scale = {env->dataset, batch, 0};
    struct bst_schedule_spec spec = {
        .kind = (enum bst_schedule_kind)p->lr_scheduler,
        .curve = (enum bst_warmup_curve)p->warmup_curve,
        .peak =
            p->learning_rate * bst_lr_rule_factor((enum bst_lr_rule)p->lr_scaling,
                                                  (uint64_t)p->global_batch_size, base_batch(p)),
        .start_lr = p->warmup_start_lr,
        .min_lr_ratio = p->min_lr_ratio,
        .gamma = p->lr_gamma,
        .warmup = bst_preset_warmup(p),
        .n_milestones = p->lr_milestones.n,
    };
    memcpy(spec.milestones, p->lr_milestones.v, sizeof spec.milestones);
    BST_TRY(bst_interval_samples(bst_preset_length(p), &scale, &scale.total));
    return bst_schedule_make(&spec, &scale, out);
}

/* The rule of a change, said by the key. A warm-up that the run ends in is let be here: a start of
 * two updates to see whether all is there is no mistake. */
static enum bst_err check_room(const struct bst_live *live)
{
    enum bst_diag refused;
    enum bst_err err = bst_plan_check_room(live, 0, &refused);
    if (refused != BST_DIAG_BATCH_RANGE)
        return BST_OK;
    return bst_fail(err,
                    "BST-203: global_batch_size: a batch of %" PRIu64
                    " samples is more than the whole run's %" PRIu64
                    "; set a smaller one, or a longer run",
                    live->batch, live->schedule.total);
}

void bst_start_unfinished(const struct bst_preset *p, const struct bst_plan_env *env,
                          const struct bst_live *live, struct bst_sb *out)
{
    enum bst_diag refused;
    bool steps = bst_preset_warmup(p).unit == BST_UNIT_STEPS;
    double tenth = floor((double)live->schedule.total / 10);
    if (!bst_plan_check_room(live, env->samples, &refused) || refused != BST_DIAG_SCHEDULE_INVALID)
        return;
    bst_sb_addf(out, "the run's %" PRIu64 " samples end within its warm-up of %.0f",
                live->schedule.total, live->schedule.warmup);
    if (steps)
        bst_sb_addf(out, "; for all of the schedule --set warmup_steps=%.0f",
                    fmax(1, floor(tenth / (double)live->batch)));
    else
        bst_sb_addf(out, "; for all of the schedule --set warmup_epochs=%.2g",
                    tenth / (double)env->dataset);
}

enum bst_err bst_start_live(const struct bst_preset *preset, const struct bst_plan_env *env,
                            struct bst_live *out)
{
    uint64_t counted = (uint64_t)preset->global_batch_size, batch = counted;
    bool tokens = preset->batch_unit == BST_BATCH_TOKENS;
    if (tokens && !env->tokens)
        return bst_fail(
            BST_E_ARG,
            "batch_unit: the preset counts its batch in tokens, these data are counted in "
            "samples");
    if (tokens)
        batch = bst_split_samples_of_tokens(counted, env->tokens, env->dataset);
    *out = (struct bst_live){
        .batch = batch,
        .batch_tokens = tokens ? counted : 0,
        .cap = (uint64_t)preset->micro_batch_size,
        .accumulate = (uint64_t)preset->gradient_accumulation_steps,
        .rule = (enum bst_lr_rule)preset->lr_scaling,
        .max_grad_norm = preset->max_grad_norm,
        .clip_interval = (uint64_t)preset->clip_interval,
        .weight_decay = preset->weight_decay,
        .momentum = preset->momentum,
        .label_smoothing = preset->label_smoothing,
    };
    bst_copy_text(out->preset, sizeof out->preset, preset->id);
    BST_TRY(make_schedule(preset, env, batch, &out->schedule));
    BST_TRY(check_room(out));
    return bst_plan_split(out, env);
}

enum bst_err bst_start_check_data(const struct bst_preset *p, const struct bst_data_info *info)
{
    const struct bst_numbers *lists[] = {&p->data.mean, &p->data.std};
    static const char *const keys[] = {"data.mean", "data.std"};
    for (int i = 0; i < 2; i++)
        if (lists[i]->n > 1 && lists[i]->n != info->channels)
            return bst_fail(BST_E_ARG, "%s: %d numbers, but the images have %d channel%s", keys[i],
                            lists[i]->n, info->channels, info->channels == 1 ? "" : "s");
    return BST_OK;
}

struct bst_plan_env bst_start_env(const struct bst_preset *p, const struct bst_train_cfg *cfg,
                                  const struct bst_trainer *t)
{
    return (struct bst_plan_env){
        .dataset = (uint64_t)bst_trainer_data(t)->n[BST_TRAIN],
        .ranks = (uint64_t)cfg->ranks,
        .form = BST_MOMENTUM_RATE_OUTSIDE,
        .tokens = p->batch_unit == BST_BATCH_TOKENS ? bst_trainer_epoch_tokens(t) : 0,
        .no_momentum = !bst_optimizer_info(cfg->optim.kind)->momentum,
    };
}

enum bst_err bst_start_fit(struct bst_trainer *t, const struct bst_plan_env *env,
                           struct bst_live *live)
{
    struct bst_rank_memory m;
    struct bst_plan_env known = *env;
    int fit;
    enum bst_err err = bst_trainer_plan(t, (int64_t)live->batch, (int)live->split.accumulate, &m);
    if (err != BST_E_NOMEM || live->accumulate || live->split.micro <= 1)
        return err;
    err = bst_trainer_largest_micro(t, (int)live->split.micro, &fit);
    if (err == BST_E_NOMEM)
        return bst_fail_in(err, "BST-201: not even one sample at a time fits (devices.memory)");
    BST_TRY(err);
    known.fit = (uint64_t)fit;
    BST_TRY(bst_plan_split(live, &known));
    return bst_trainer_plan(t, (int64_t)live->batch, (int)live->split.accumulate, &m);
}

/* Whether the key asks for more than it does by default, of a backend with devices of its own. */
static bool asks_device(const struct bst_preset *p, enum bst_param_id id)
{
    return (id == BST_PARAM_devices_capture && p->devices.capture) ||
           (id == BST_PARAM_deterministic && !p->deterministic);
}

void bst_start_unused(const struct bst_preset *p, const struct bst_backend *b, struct bst_sb *out)
{
    const char *optimizer = bst_optimizer_info((enum bst_optimizer)p->optimizer)->name;
    for (int i = 0; i < BST_N_PARAMS; i++) {
        const struct bst_param_info *key = bst_param_at((enum bst_param_id)i);
        bool given = p->origin[i] != BST_ORIGIN_DEFAULT;
        const char *sep = out->len ? "; " : "";
        if (given && !b->own_memory && asks_device(p, (enum bst_param_id)i))
            bst_sb_addf(out, "%s%s is for cuda, and changes nothing on %s", sep, key->key, b->name);
        /* A preset's own may stand for when its optimizer is put back. */
        else if (p->origin[i] == BST_ORIGIN_SET && !key->one_of &&
                 !bst_preset_in_force(p, (enum bst_param_id)i))
            bst_sb_addf(out, "%s%s is no setting of %s, and changes nothing", sep, key->key,
                        optimizer);
    }
}

bool bst_start_is_usage(enum bst_err err)
{
    return err == BST_E_ARG || err == BST_E_RANGE || err == BST_E_SHAPE ||
           err == BST_E_UNSUPPORTED || err == BST_E_NOTFOUND;
}

enum bst_err bst_start_say_data(const struct bst_preset *p, enum bst_err err)
{
    const char *text = bst_err_text();
    if (err != BST_E_NOTFOUND || !p->data.path[0] || !strstr(text, p->data.path) ||
        strstr(text, "data.path"))
        return err;
    return bst_fail(err, "%s; where the data are is said by --set data.path=PATH", text);
}
