#include "core/run/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/plan_for.h"
#include "core/base/alloc.h"
#include "core/base/thread.h"
#include "core/run/field.h"
#include "core/run/gpu.h"
#include "core/run/start.h"
#include "core/train/host.h"
#include "core/tune/split.h"

/* The two plans behind the textbook's factor; for a GPU, of which each size costs cuDNN some
 * hundred questions, sizes that are asked about anyway. */
enum { FIT_LOW = 8, FIT_HIGH = 16, FIT_GPU_LOW = 32, FIT_GPU_HIGH = 64 };
/* No device holds more samples at once; the search starts here and falls at the first plan. */
enum { LARGEST_MOST = 1 << 20 };

/* A trainer that plans, for one precision and way of recomputing. */
struct planner {
    struct bst_preset preset;
    struct bst_start start;
    struct bst_train_cfg cfg;
    struct bst_trainer *t;
    uint64_t capacity;
    struct bst_gpu gpu;
    struct bst_plan_for plan_for;
};

static enum bst_err load(const struct bst_mem_cfg *cfg, const char *precision,
                         const char *recompute, struct bst_preset *out,
                         struct bst_preset_errors *errs)
{
    const char **sets = bst_xcalloc((size_t)cfg->n_sets + 2, sizeof *sets);
    struct bst_preset_env env = *cfg->presets;
    char *own[2] = {NULL, NULL};
    int n = cfg->n_sets;
    for (int i = 0; i < n; i++)
        sets[i] = cfg->sets[i];
    if (precision && !cfg->device)
        sets[n++] = own[0] = bst_xasprintf("precision=%s", precision);
    if (recompute)
        sets[n++] = own[1] = bst_xasprintf("recompute=%s", recompute);
    if (cfg->device) /* whose precisions it may ask for, whatever this machine computes with */
        env.precisions = NULL;
    enum bst_err err = bst_preset_load(&env, cfg->preset, sets, n, out, errs);
    bst_free(own[0]);
    bst_free(own[1]);
    bst_free(sets);
    return err;
}

/* Where the data are not here, generated ones of the same size are planned for. */
static enum bst_err use_generated(struct planner *p)
{
    struct bst_net_cfg *n = &p->cfg.net_cfg;
    BST_TRY(bst_preset_usual_shape(&p->preset, p->cfg.net->input, n));
    p->cfg.data.format = n->length[0] ? "random" : "shapes";
    p->cfg.data.path = NULL;
    p->cfg.data.length = n->length[0];
    p->cfg.data.image_size = n->height;
    p->cfg.data.channels = n->in_channels;
    p->cfg.data.classes = n->length[0] ? n->classes : 0;
    if (!p->cfg.data.train_count)
        p->cfg.data.train_count = INT32_MAX;
    if (!p->cfg.data.eval_count)
        p->cfg.data.eval_count = INT32_MAX;
    return BST_OK;
}

static void label(const struct planner *p, char recompute[64], char precision[8])
{
    struct bst_sb text;
    bst_sb_init(&text, 4096);
    bst_preset_write_value(&p->preset, BST_PARAM_recompute, &text);
    bst_copy_text(recompute, 64, text.data);
    bst_sb_fini(&text);
    bst_sb_init(&text, 4096);
    bst_preset_write_value(&p->preset, BST_PARAM_precision, &text);
    bst_copy_text(precision, 8, p->cfg.plan_for ? bst_precision_name(p->cfg.precision) : text.data);
    bst_sb_fini(&text);
}

static enum bst_err find_precision(const struct bst_backend *b, const char *name,
                                   enum bst_precision *out)
{
    char all[64] = "fp32";
    for (int i = 0; i < BST_N_PRECISIONS; i++) {
        *out = (enum bst_precision)i;
        if (!BST_HAS_PRECISION(b, *out))
            continue;
        if (!strcmp(name, bst_precision_name(*out)))
            return BST_OK;
        if (*out != BST_PRECISION_FP32)
            snprintf(all + strlen(all), sizeof all - strlen(all), ", %s", bst_precision_name(*out));
    }
    return bst_fail(BST_E_NOTFOUND, "--precision: on a GPU there are %s, not %s", all, name);
}

/* Another backend than the preset's, whatever machine this is. */
static enum bst_err use_gpu(const struct bst_mem_cfg *cfg, const char *precision, struct planner *p)
{
    char own[8], recompute[64];
    label(p, recompute, own);
    BST_TRY(bst_gpu_load(cfg->presets, cfg->device, &p->gpu));
    p->plan_for = (struct bst_plan_for){.properties = p->gpu.properties,
                                        .n_properties = p->gpu.n_properties,
                                        .memory = p->gpu.memory};
    p->cfg.plan_for = &p->plan_for;
    BST_TRY(bst_backend_get_planner(&p->cfg.backend));
    return find_precision(p->cfg.backend, precision ? precision : own, &p->cfg.precision);
}

static void close_planner(struct planner *p)
{
    bst_trainer_close(p->t);
    bst_gpu_fini(&p->gpu);
    p->t = NULL;
}

static uint64_t capacity_of(const struct bst_mem_cfg *cfg, const struct planner *p)
{
    if (cfg->capacity)
        return cfg->capacity;
    if (cfg->device)
        return p->gpu.memory;
    return p->preset.devices.memory ? p->preset.devices.memory
                                    : bst_trainer_memory_default(p->cfg.ranks);
}

static enum bst_err open_trainer(struct planner *p, bool *generated)
{
    enum bst_err err = bst_trainer_open(&p->cfg, &p->t);
    if (err != BST_E_NOTFOUND)
        return err;
    BST_TRY(use_generated(p));
    *generated = true;
    return bst_trainer_open(&p->cfg, &p->t);
}

/* `capacity`: what the report goes by, 0 where nobody has looked yet: what is free changes from one
 * look to the next. */
static enum bst_err open_planner(const struct bst_mem_cfg *cfg, const char *precision,
                                 const char *recompute, uint64_t capacity, struct planner *p,
                                 bool *generated, struct bst_preset_errors *errs)
{
    *p = (struct planner){0};
    BST_TRY(load(cfg, precision, recompute, &p->preset, errs));
    if (cfg->device) /* the preset's own need not be one that this machine has */
        bst_copy_text(p->preset.devices.backend, sizeof p->preset.devices.backend, "auto");
    BST_TRY(bst_start_train_cfg(&p->preset, cfg->nets, &p->start, &p->cfg));
    p->cfg.plan_only = true;
    enum bst_err err = cfg->device ? use_gpu(cfg, precision, p) : BST_OK;
    if (!err) {
        p->capacity = capacity ? capacity : capacity_of(cfg, p);
        p->cfg.memory_per_rank = p->capacity;
        err = open_trainer(p, generated);
    }
    if (err) {
        close_planner(p);
        return err;
    }
    /* Every batch is told what it needs, whether it fits or not; only recomputation on demand goes
     * by what there is. */
    bst_trainer_set_limit(p->t, p->cfg.recompute.kind == BST_RECOMPUTE_AUTO ? p->capacity : 0);
    return BST_OK;
}

static void fill(struct bst_mem_row *row, const struct bst_rank_memory *m)
{
    const struct bst_peak *k = &m->peak;
    row->parameters = m->weights + m->staged;
    row->gradients = m->gradients;
    row->optimizer = m->optimizer;
    row->rewind = m->hold;
    row->activations = k->activations;
    row->recomputation = k->recomputed;
    row->data = m->loader;
    row->workspace = k->gradients + k->scratch + k->gaps;
    row->scratch = k->scratch;
    row->total = m->total;
    row->host = m->host;
    row->n_again = m->n_again;
    row->again_share = m->again_share;
    /* A refusal far over the limit comes before the arena is planned. */
    row->known = k->activations + k->recomputed + row->workspace == m->arena;
}

static void plan_row(const struct planner *p, const struct bst_mem_report *r, uint64_t batch,
                     struct bst_mem_row *row)
{
    struct bst_rank_memory m = {0};
    struct bst_split split;
    struct bst_split_ask ask = {.batch = batch,
                                .ranks = (uint64_t)p->cfg.ranks,
                                .cap = (uint64_t)p->preset.micro_batch_size,
                                .accumulate = (uint64_t)p->preset.gradient_accumulation_steps};
    *row = (struct bst_mem_row){.batch = batch};
    label(p, row->recompute, row->precision);
    enum bst_err err = bst_split_make(&ask, &split);
    if (!err) {
        row->micro = (int)split.micro;
        row->micro_batches = (int)split.accumulate;
        err = bst_trainer_plan(p->t, (int64_t)batch, row->micro_batches, &m);
    }
    if (err && err != BST_E_NOMEM) {
        bst_copy_text(row->why, sizeof row->why, bst_err_text());
        return;
    }
    fill(row, &m);
    row->fits = !err && row->total <= p->capacity;
    if (r->fitted[0])
        row->textbook = bst_textbook_bytes(&r->textbook, row->micro);
}

static void find_largest(const struct planner *p, struct bst_mem_largest *out)
{
    struct bst_rank_memory m = {0};
    *out = (struct bst_mem_largest){0};
    label(p, out->recompute, out->precision);
    bst_trainer_set_limit(p->t, p->capacity);
    if (bst_trainer_largest(p->t, LARGEST_MOST / p->cfg.ranks, 1, &out->micro))
        return;
    out->batch = (uint64_t)out->micro * (uint64_t)p->cfg.ranks;
    if (!bst_trainer_plan(p->t, (int64_t)out->batch, 1, &m))
        out->total = m.total;
}

/* For the rows of this planner, from `from` on, that do not fit in one pass. `most`: that does. */
static void add_parts(const struct planner *p, struct bst_mem_report *r, int from, int most)
{
    struct bst_rank_memory m;
    struct bst_split split;
    int fit = 0, cap = (int)p->preset.micro_batch_size;
    for (int i = from; i < r->n_rows; i++) {
        struct bst_mem_row *row = &r->rows[i];
        if (row->fits || row->why[0] || row->micro < 2 || most < 1 ||
            p->preset.gradient_accumulation_steps)
            continue;
        bst_trainer_set_limit(p->t, p->capacity);
        if (!fit && bst_trainer_largest_micro(p->t, most, &fit))
            return;
        struct bst_split_ask ask = {.batch = row->batch,
                                    .ranks = (uint64_t)p->cfg.ranks,
                                    .cap = (uint64_t)(cap && cap < fit ? cap : fit)};
        if (bst_split_make(&ask, &split) ||
            bst_trainer_plan(p->t, (int64_t)row->batch, (int)split.accumulate, &m))
            continue;
        row->part = (int)split.micro;
        row->n_parts = (int)split.accumulate;
        row->part_total = m.total;
    }
}

/* Two plans of the net as it is, without recomputation, and what the process takes by then. */
static enum bst_err fit_textbook(const struct bst_mem_cfg *cfg, struct bst_mem_report *r,
                                 struct bst_preset_errors *errs)
{
    struct planner p;
    struct bst_memory_point at[2];
    const int micros[2] = {cfg->device ? FIT_GPU_LOW : FIT_LOW,
                           cfg->device ? FIT_GPU_HIGH : FIT_HIGH};
    BST_TRY(open_planner(cfg, NULL, "none", 0, &p, &r->generated, errs));
    bst_copy_text(r->preset, sizeof r->preset, p.preset.name[0] ? p.preset.name : cfg->preset);
    bst_copy_text(r->net, sizeof r->net, p.preset.model.name);
    bst_copy_text(r->backend, sizeof r->backend, p.cfg.backend->name);
    bst_copy_text(r->device, sizeof r->device, p.gpu.title);
    if (cfg->device && bst_backend_cudnn_version(r->cudnn))
        r->cudnn[0] = '\0';
    r->devices = p.cfg.ranks;
    r->capacity = p.capacity;
    r->saving = bst_trainer_save_bytes(p.t);
    const struct bst_data_info *d = bst_trainer_data(p.t);
    r->textbook.parameters = (double)bst_trainer_n_parameters(p.t);
    r->textbook.inputs = (double)d->height * d->width * d->channels + d->length[0] + d->length[1];
    r->textbook.outputs = (double)bst_trainer_classes(p.t) * d->n_labels;
    enum bst_err err = BST_OK;
    for (int i = 0; i < 2 && !err; i++) {
        struct bst_rank_memory m;
        err = bst_trainer_plan(p.t, (int64_t)micros[i] * r->devices, 1, &m);
        at[i] = (struct bst_memory_point){micros[i], (double)m.total};
        if (!i && !cfg->device)
            r->process = bst_host_resident();
    }
    if (!err && bst_textbook_fit(&r->textbook, &at[0], &at[1]))
        memcpy(r->fitted, micros, sizeof micros);
    close_planner(&p);
    return err;
}

/* The search for the largest, with a planner of its own beside that of the rows: for a GPU that
 * nobody asked about before, each of the two has as many questions for cuDNN. */
struct search {
    const struct bst_mem_cfg *cfg;
    const char *precision, *recompute;
    uint64_t capacity;
    struct bst_mem_largest out;
    struct bst_failure why;
};

static void *search_main(void *arg)
{
    struct search *s = arg;
    struct planner p;
    struct bst_preset_errors errs;
    bool generated = false;
    bst_preset_errors_init(&errs);
    enum bst_err err =
        open_planner(s->cfg, s->precision, s->recompute, s->capacity, &p, &generated, &errs);
    s->why = bst_err_keep(err);
    if (!err) {
        find_largest(&p, &s->out);
        close_planner(&p);
    }
    bst_preset_errors_fini(&errs);
    return NULL;
}

static void add_rows(const struct bst_mem_cfg *cfg, struct planner *p, struct bst_mem_report *r)
{
    uint64_t usual[4];
    const uint64_t *batches = cfg->batches;
    int n = cfg->n_batches;
    if (!n) {
        uint64_t own = (uint64_t)p->preset.global_batch_size;
        uint64_t all = bst_trainer_epoch_tokens(p->t);
        if (p->preset.batch_unit == BST_BATCH_TOKENS && all)
            own = bst_split_samples_of_tokens(own, all,
                                              (uint64_t)bst_trainer_data(p->t)->n[BST_TRAIN]);
        for (uint64_t part = 4; part; part /= 2)
            if (own / part >= (uint64_t)p->cfg.ranks)
                usual[n++] = own / part;
        usual[n++] = 2 * own;
        batches = usual;
    }
    r->rows = bst_xrealloc(r->rows, (size_t)(r->n_rows + n), sizeof *r->rows);
    for (int i = 0; i < n; i++)
        plan_row(p, r, batches[i], &r->rows[r->n_rows++]);
}

static enum bst_err add_setting(const struct bst_mem_cfg *cfg, const char *precision,
                                const char *recompute, struct bst_mem_report *r,
                                struct bst_preset_errors *errs)
{
    struct search search = {
        .cfg = cfg, .precision = precision, .recompute = recompute, .capacity = r->capacity};
    struct planner p;
    pthread_t thread;
    BST_TRY(open_planner(cfg, precision, recompute, r->capacity, &p, &r->generated, errs));
    bool beside = cfg->device && !bst_thread_start(&thread, search_main, &search);
    int from = r->n_rows;
    add_rows(cfg, &p, r);
    if (beside)
        pthread_join(thread, NULL);
    else
        find_largest(&p, &search.out);
    if (!search.why.err)
        add_parts(&p, r, from, search.out.micro);
    /* After the other one: what both wrote of cuDNN's answers is then together. */
    close_planner(&p);
    BST_TRY(bst_err_restore(&search.why));
    r->largest = bst_xrealloc(r->largest, (size_t)r->n_largest + 1, sizeof *r->largest);
    r->largest[r->n_largest++] = search.out;
    return BST_OK;
}

enum bst_err bst_mem_make(const struct bst_mem_cfg *cfg, struct bst_mem_report **out,
                          struct bst_preset_errors *errs)
{
    static const char *const own[] = {NULL};
    const char *const *precisions = cfg->n_precisions ? cfg->precisions : own;
    const char *const *recomputes = cfg->n_recomputes ? cfg->recomputes : own;
    int n_precisions = cfg->n_precisions ? cfg->n_precisions : 1;
    int n_recomputes = cfg->n_recomputes ? cfg->n_recomputes : 1;
    struct bst_mem_report *r = bst_xalloc(sizeof *r);
    enum bst_err err = fit_textbook(cfg, r, errs);
    for (int i = 0; i < n_precisions && !err; i++)
        for (int k = 0; k < n_recomputes && !err; k++)
            err = add_setting(cfg, precisions[i], recomputes[k], r, errs);
    if (err) {
        bst_mem_free(r);
        r = NULL;
    }
    *out = r;
    return err;
}

void bst_mem_free(struct bst_mem_report *r)
{
    if (!r)
        return;
    bst_free(r->rows);
    bst_free(r->largest);
    bst_free(r);
}
