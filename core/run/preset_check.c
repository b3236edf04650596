/* What no single value shows: contradictions between keys, names that nothing knows. */
#include "core/run/preset_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/comm/cluster.h"

struct check {
    const struct bst_preset_read *r;
    const struct bst_preset *p;
    struct bst_complaints *c;
};

struct bst_place bst_preset_place(const struct bst_preset_read *r, enum bst_param_id id,
                                  enum bst_param_id other)
{
    const unsigned char *origin = r->p->origin;
    bool set = origin[other] == BST_ORIGIN_SET && origin[id] != BST_ORIGIN_SET;
    if (origin[id] != BST_ORIGIN_DEFAULT && !set)
        return r->places[id];
    return origin[other] != BST_ORIGIN_DEFAULT ? r->places[other] : (struct bst_place){0, 0};
}

static struct bst_place at(const struct check *k, enum bst_param_id id, enum bst_param_id other)
{
    return bst_preset_place(k->r, id, other);
}

#define KNOWN(k, ...)                                                                              \
    all_known(k, (const enum bst_param_id[]){__VA_ARGS__},                                         \
              sizeof((const enum bst_param_id[]){__VA_ARGS__}) / sizeof(enum bst_param_id))

static bool all_known(const struct check *k, const enum bst_param_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (k->r->unknown[ids[i]])
            return false;
    return true;
}

static bool warmup_known(const struct check *k)
{
    return KNOWN(k, BST_PARAM_warmup_epochs, BST_PARAM_warmup_steps, BST_PARAM_warmup_ratio);
}

static bool batch_known(const struct check *k)
{
    return KNOWN(k, BST_PARAM_global_batch_size, BST_PARAM_devices_count);
}

static bool split_known(const struct check *k)
{
    return KNOWN(k, BST_PARAM_micro_batch_size, BST_PARAM_gradient_accumulation_steps);
}

static void check_batch(const struct check *k)
{
    const struct bst_preset *p = k->p;
    long long batch = p->global_batch_size, devices = p->devices.count;
    long long micro = p->micro_batch_size, steps = p->gradient_accumulation_steps;
    /* What a batch of tokens comes to in samples, the data tell. */
    if (!batch_known(k) || !KNOWN(k, BST_PARAM_batch_unit) || p->batch_unit == BST_BATCH_TOKENS)
        return;
    if (batch < devices)
        bst_complain(k->c, at(k, BST_PARAM_global_batch_size, BST_PARAM_devices_count),
                     "global_batch_size: %lld samples cannot be divided among %lld devices", batch,
                     devices);
    if (!split_known(k))
        return;
    /* ceil(batch / (devices · steps)) is the largest part. */
    long long parts = devices * (steps ? steps : 1);
    if (steps && micro && (batch + parts - 1) / parts > micro)
        bst_complain(
            k->c, at(k, BST_PARAM_gradient_accumulation_steps, BST_PARAM_micro_batch_size),
            "gradient_accumulation_steps: %lld samples over %lld devices and %lld steps are "
            "%lld a micro-batch, but micro_batch_size allows %lld",
            batch, devices, steps, (batch + parts - 1) / parts, micro);
    else if (steps && batch < parts)
        bst_complain(
            k->c, at(k, BST_PARAM_gradient_accumulation_steps, BST_PARAM_global_batch_size),
            "gradient_accumulation_steps: %lld samples are fewer than %lld devices x %lld steps",
            batch, devices, steps);
}

static void check_gpus(const struct check *k)
{
    const struct bst_preset *p = k->p;
    struct bst_preset_gpus gpus;
    if (!p->devices.list[0] || !KNOWN(k, BST_PARAM_devices_list))
        return;
    if (!bst_preset_gpus(p->devices.list, &gpus))
        bst_complain(
            k->c, at(k, BST_PARAM_devices_list, BST_PARAM_devices_list),
            "devices.list: not a list like 0,2,3 or GPU-8f3c,GPU-77aa: at most %d numbers or "
            "beginnings of UUIDs, each once",
            BST_PRESET_GPUS);
    else if (KNOWN(k, BST_PARAM_devices_count) && gpus.n != p->devices.count &&
             !(bst_cluster_asked() && p->devices.count % gpus.n == 0)) /* each process's own */
        bst_complain(k->c, at(k, BST_PARAM_devices_count, BST_PARAM_devices_list),
                     "devices.count: %lld, but devices.list names %d; leave one of them out",
                     (long long)p->devices.count, gpus.n);
    if (strcmp(p->devices.backend, "cuda") != 0)
        bst_complain(k->c, at(k, BST_PARAM_devices_list, BST_PARAM_devices_backend),
                     "devices.list: names GPUs, but devices.backend is %s", p->devices.backend);
}

static void check_noise(const struct check *k)
{
    const struct bst_preset *p = k->p;
    if (p->noise_scale == BST_MEASURE_SPLIT && p->devices.count == 1 &&
        p->gradient_accumulation_steps == 1)
        bst_complain(k->c, at(k, BST_PARAM_noise_scale, BST_PARAM_gradient_accumulation_steps),
                     "noise_scale: split cuts the batch in two, but gradient_accumulation_steps is "
                     "1");
}

static void check_advice(const struct check *k)
{
    const struct bst_preset *p = k->p;
    if (p->autopilot && p->advise != BST_ADVISE_SHOW)
        bst_complain(k->c, at(k, BST_PARAM_autopilot, BST_PARAM_advise),
                     "autopilot: makes the changes that are advised, but advise is not show");
}

/* The peak at the preset's own batch; 0 where that depends on what will fit. */
static double peak_lr(const struct bst_preset *p)
{
    int64_t base = p->lr_base_batch_size;
    if (p->lr_scaling == BST_LR_RULE_SQRT_ACCUMULATE)
        base = bst_preset_accumulate_base(p);
    return base ? p->learning_rate * bst_lr_rule_factor((enum bst_lr_rule)p->lr_scaling,
                                                        (uint64_t)p->global_batch_size,
                                                        (uint64_t)base)
                : 0;
}

static void check_rate(const struct check *k)
{
    const struct bst_preset *p = k->p;
    bool warms = warmup_known(k) && bst_preset_warmup(p).value > 0;
    bool scaled = KNOWN(k, BST_PARAM_lr_scaling) && split_known(k);
    bool rate = batch_known(k) && KNOWN(k, BST_PARAM_learning_rate, BST_PARAM_lr_base_batch_size);
    bool start = KNOWN(k, BST_PARAM_warmup_start_lr);
    double peak = peak_lr(p);
    if (scaled && p->lr_scaling == BST_LR_RULE_SQRT_ACCUMULATE && !peak)
        bst_complain(k->c, at(k, BST_PARAM_lr_scaling, BST_PARAM_micro_batch_size),
                     "lr_scaling: sqrt-accumulate needs micro_batch_size or "
                     "gradient_accumulation_steps, since memory must not decide the rate");
    if (KNOWN(k, BST_PARAM_lr_scaling, BST_PARAM_batch_unit) &&
        p->lr_scaling == BST_LR_RULE_SQRT_ACCUMULATE && p->batch_unit == BST_BATCH_TOKENS)
        bst_complain(k->c, at(k, BST_PARAM_lr_scaling, BST_PARAM_batch_unit),
                     "lr_scaling: sqrt-accumulate goes by samples, but batch_unit is tokens");
    if (warms && scaled && rate && start && peak > 0 && p->warmup_start_lr > peak)
        bst_complain(k->c, at(k, BST_PARAM_warmup_start_lr, BST_PARAM_learning_rate),
                     "warmup_start_lr: %g is above the peak of %g at a batch of %lld",
                     p->warmup_start_lr, peak, (long long)p->global_batch_size);
    if (warms && start && KNOWN(k, BST_PARAM_warmup_curve) &&
        p->warmup_curve == BST_WARMUP_EXPONENTIAL && !(p->warmup_start_lr > 0))
        bst_complain(k->c, at(k, BST_PARAM_warmup_curve, BST_PARAM_warmup_start_lr),
                     "warmup_curve: an exponential warm-up cannot start at 0; set warmup_start_lr");
    if (KNOWN(k, BST_PARAM_nesterov, BST_PARAM_momentum) &&
        bst_preset_in_force(p, BST_PARAM_nesterov) && p->nesterov && !(p->momentum > 0))
        bst_complain(k->c, at(k, BST_PARAM_nesterov, BST_PARAM_momentum),
                     "nesterov: needs a momentum above 0");
}

static void complain_warmup(const struct check *k, struct bst_interval warmup,
                            struct bst_interval length, bool needs)
{
    bool steps = warmup.unit == BST_UNIT_STEPS;
    enum bst_param_id id = steps ? BST_PARAM_warmup_steps : BST_PARAM_warmup_epochs;
    enum bst_param_id of = steps ? BST_PARAM_max_steps : BST_PARAM_max_epochs;
    double tenth = steps ? floor(length.value / 10) : length.value / 10;
    if (steps && needs)
        tenth = fmax(tenth, 1);
    bst_complain(k->c, at(k, id, of),
                 "%s: a warm-up of %g in a run of %g leaves nothing after it; shorten it, as with "
                 "--set %s=%g",
                 bst_param_at(id)->key, warmup.value, length.value, bst_param_at(id)->key, tenth);
}

static void check_schedule(const struct check *k)
{
    const struct bst_preset *p = k->p;
    struct bst_interval warmup = bst_preset_warmup(p), length = bst_preset_length(p);
    bool kind = KNOWN(k, BST_PARAM_lr_scheduler);
    bool needs =
        p->lr_scheduler == BST_SCHEDULE_INVERSE_SQRT || p->lr_scheduler == BST_SCHEDULE_NOAM;
    if (kind && needs && warmup_known(k) && !(warmup.value > 0))
        bst_complain(k->c, at(k, BST_PARAM_lr_scheduler, BST_PARAM_warmup_epochs),
                     "lr_scheduler: %s needs a warm-up",
                     bst_schedule_name((enum bst_schedule_kind)p->lr_scheduler));
    if (kind && KNOWN(k, BST_PARAM_lr_milestones) && p->lr_scheduler == BST_SCHEDULE_MULTISTEP &&
        !p->lr_milestones.n)
        bst_complain(k->c, at(k, BST_PARAM_lr_scheduler, BST_PARAM_lr_milestones),
                     "lr_scheduler: multistep needs lr_milestones");
    if (warmup_known(k) && KNOWN(k, BST_PARAM_max_epochs, BST_PARAM_max_steps) &&
        warmup.unit == length.unit && warmup.value >= length.value)
        complain_warmup(k, warmup, length, needs);
}

static void check_data(const struct check *k)
{
    const struct bst_preset *p = k->p;
    bool lists[] = {KNOWN(k, BST_PARAM_data_mean), KNOWN(k, BST_PARAM_data_std)};
    int mean = p->data.mean.n, std = p->data.std.n, channels = (int)p->model.in_channels;
    if (lists[0] && lists[1] && mean > 1 && std > 1 && mean != std)
        bst_complain(k->c, at(k, BST_PARAM_data_std, BST_PARAM_data_mean),
                     "data.std: %d numbers, but data.mean has %d", std, mean);
    for (int i = 0; i < 2 && channels && KNOWN(k, BST_PARAM_model_in_channels); i++) {
        enum bst_param_id id = i ? BST_PARAM_data_std : BST_PARAM_data_mean;
        int n = i ? std : mean;
        if (lists[i] && n > 1 && n != channels)
            bst_complain(k->c, at(k, id, BST_PARAM_model_in_channels),
                         "%s: %d numbers, but model.in_channels is %d", bst_param_at(id)->key, n,
                         channels);
    }
    const struct bst_numbers *special = &p->data.special_tokens;
    bool whole = special->n == 4;
    for (int i = 0; i < special->n; i++)
        whole = whole && special->v[i] == floor(special->v[i]);
    if (KNOWN(k, BST_PARAM_data_special_tokens) && !whole)
        bst_complain(k->c, at(k, BST_PARAM_data_special_tokens, BST_PARAM_data_special_tokens),
                     "data.special_tokens: must be four whole numbers: padding, start, separator "
                     "and mask");
    if (KNOWN(k, BST_PARAM_data_token_bytes) && p->data.token_bytes == 3)
        bst_complain(k->c, at(k, BST_PARAM_data_token_bytes, BST_PARAM_data_token_bytes),
                     "data.token_bytes: 3, expected 2 or 4");
    if (KNOWN(k, BST_PARAM_data_format, BST_PARAM_data_path) &&
        strcmp(p->data.format, "imagefolder") == 0 && !*p->data.path)
        bst_complain(
            k->c, at(k, BST_PARAM_data_path, BST_PARAM_data_format),
            "data.path: imagefolder needs the folder of the images: --set data.path=FOLDER");
}

static void check_name(const struct check *k, enum bst_param_id id, const char *found,
                       const char *const *known)
{
    if (!known || k->r->unknown[id])
        return;
    int n = 0;
    for (; known[n]; n++)
        if (strcmp(known[n], found) == 0)
            return;
    struct bst_sb text;
    bst_sb_init(&text, 1024);
    bst_sb_addf(&text, "%s: ", bst_param_at(id)->key);
    bst_quote(&text, found);
    bst_sb_add(&text, " is not ");
    bst_param_list_words(&text, known, n);
    int near = bst_text_nearest(found, known, n);
    if (near >= 0)
        bst_sb_addf(&text, "; did you mean '%s'?", known[near]);
    bst_complain(k->c, at(k, id, id), "%s", text.data);
    bst_sb_fini(&text);
}

/* Of the list of backends; auto is its first. -1: unknown, which is said elsewhere. */
static int backend_at(const struct bst_preset *p, const char *const *backends)
{
    if (!strcmp(p->devices.backend, "auto"))
        return 0;
    for (int i = 0; backends[i]; i++)
        if (!strcmp(backends[i], p->devices.backend))
            return i;
    return -1;
}

static void check_precision(const struct check *k, const struct bst_preset_env *env)
{
    const struct bst_preset *p = k->p;
    if (!env->precisions || !KNOWN(k, BST_PARAM_precision, BST_PARAM_devices_backend))
        return;
    int i = backend_at(p, env->backends);
    if (i < 0 || p->precision == BST_PRECISION_FP32 || env->precisions[i] >> p->precision & 1)
        return;
    bst_complain(k->c, at(k, BST_PARAM_precision, BST_PARAM_devices_backend),
                 "precision: %s needs devices.backend: cuda; %s computes in fp32",
                 bst_precision_name((enum bst_precision)p->precision), env->backends[i]);
}

static void check_net(const struct check *k, const struct bst_net_table *table)
{
    if (table && KNOWN(k, BST_PARAM_model_name, BST_PARAM_model_width, BST_PARAM_model_classes,
                       BST_PARAM_model_in_channels, BST_PARAM_model_stem, BST_PARAM_model_layers,
                       BST_PARAM_model_heads, BST_PARAM_model_hidden, BST_PARAM_model_positions,
                       BST_PARAM_model_dropout, BST_PARAM_model_norm_first, BST_PARAM_data_format,
                       BST_PARAM_data_image_size, BST_PARAM_data_mean, BST_PARAM_data_std,
                       BST_PARAM_data_length, BST_PARAM_data_digits))
        bst_preset_check_net(k->r, table, k->c);
}

void bst_preset_cross_check(const struct bst_preset_read *r, const struct bst_preset_env *env,
                            struct bst_complaints *c)
{
    struct check k = {r, r->p, c};
    check_name(&k, BST_PARAM_model_name, r->p->model.name, env->nets);
    check_name(&k, BST_PARAM_data_format, r->p->data.format, env->formats);
    if (strcmp(r->p->devices.backend, "auto") != 0)
        check_name(&k, BST_PARAM_devices_backend, r->p->devices.backend, env->backends);
    check_batch(&k);
    check_gpus(&k);
    check_noise(&k);
    check_advice(&k);
    check_rate(&k);
    check_schedule(&k);
    check_data(&k);
    check_precision(&k, env);
    check_net(&k, env->table);
}
