#include "core/run/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/json.h"
#include "core/run/field.h"
#include "core/run/start.h"
#include "core/train/host.h"
#include "core/tune/split.h"

/* The two plans behind the textbook's factor. */
enum { FIT_LOW = 8, FIT_HIGH = 16 };
/* No device holds more samples at once; the search starts here and falls at the first plan. */
enum { LARGEST_MOST = 1 << 20 };

/* A trainer that plans, for one precision and way of recomputing. */
struct planner {
    struct bst_preset preset;
    struct bst_start start;
    struct bst_train_cfg cfg;
    struct bst_trainer *t;
    uint64_t capacity;
};

static enum bst_err load(const struct bst_mem_cfg *cfg, const char *precision,
                         const char *recompute, struct bst_preset *out,
                         struct bst_preset_errors *errs)
{
    const char **sets = bst_xcalloc((size_t)cfg->n_sets + 2, sizeof *sets);
    char *own[2] = {NULL, NULL};
    int n = cfg->n_sets;
    for (int i = 0; i < n; i++)
        sets[i] = cfg->sets[i];
    if (precision)
        sets[n++] = own[0] = bst_xasprintf("precision=%s", precision);
    if (recompute)
        sets[n++] = own[1] = bst_xasprintf("recompute=%s", recompute);
    enum bst_err err = bst_preset_load(cfg->presets, cfg->preset, sets, n, out, errs);
    bst_free(own[0]);
    bst_free(own[1]);
    bst_free(sets);
    return err;
}

/* Where the data are not here, generated ones of the same size are planned for. */
static void use_generated(struct planner *p)
{
    struct bst_net_cfg *n = &p->cfg.net_cfg;
    bst_preset_usual_shape(&p->preset, n);
    p->cfg.data.format = "shapes";
    p->cfg.data.path = NULL;
    p->cfg.data.image_size = n->height;
    p->cfg.data.channels = n->in_channels;
    p->cfg.data.classes = 0;
    if (!p->cfg.data.train_count)
        p->cfg.data.train_count = INT32_MAX;
    if (!p->cfg.data.eval_count)
        p->cfg.data.eval_count = INT32_MAX;
}

static enum bst_err open_planner(const struct bst_mem_cfg *cfg, const char *precision,
                                 const char *recompute, struct planner *p, bool *generated,
                                 struct bst_preset_errors *errs)
{
    *p = (struct planner){0};
    BST_TRY(load(cfg, precision, recompute, &p->preset, errs));
    BST_TRY(bst_start_train_cfg(&p->preset, cfg->nets, &p->start, &p->cfg));
    p->cfg.plan_only = true;
    enum bst_err err = bst_trainer_open(&p->cfg, &p->t);
    if (err == BST_E_NOTFOUND) {
        use_generated(p);
        *generated = true;
        err = bst_trainer_open(&p->cfg, &p->t);
    }
    BST_TRY(err);
    p->capacity = cfg->capacity              ? cfg->capacity
                  : p->preset.devices.memory ? p->preset.devices.memory
                                             : bst_trainer_memory_default(p->cfg.ranks);
    /* Every batch is told what it needs, whether it fits or not; only recomputation on demand goes
     * by what there is. */
    bst_trainer_set_limit(p->t, p->cfg.recompute.kind == BST_RECOMPUTE_AUTO ? p->capacity : 0);
    return BST_OK;
}

static void close_planner(struct planner *p)
{
    bst_trainer_close(p->t);
    p->t = NULL;
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
    bst_copy_text(precision, 8, text.data);
    bst_sb_fini(&text);
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
    row->total = m->total;
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

/* Two plans of the net as it is, without recomputation, and what the process takes by then. */
static enum bst_err fit_textbook(const struct bst_mem_cfg *cfg, struct bst_mem_report *r,
                                 struct bst_preset_errors *errs)
{
    struct planner p;
    struct bst_memory_point at[2];
    const int micros[2] = {FIT_LOW, FIT_HIGH};
    BST_TRY(open_planner(cfg, NULL, "none", &p, &r->generated, errs));
    bst_copy_text(r->preset, sizeof r->preset, p.preset.name[0] ? p.preset.name : cfg->preset);
    bst_copy_text(r->net, sizeof r->net, p.preset.model.name);
    bst_copy_text(r->backend, sizeof r->backend, p.cfg.backend->name);
    r->devices = p.cfg.ranks;
    r->capacity = p.capacity;
    r->saving = bst_trainer_save_bytes(p.t);
    const struct bst_data_info *d = bst_trainer_data(p.t);
    r->textbook.parameters = (double)bst_trainer_n_parameters(p.t);
    r->textbook.inputs = (double)d->height * d->width * d->channels;
    r->textbook.outputs = bst_trainer_classes(p.t);
    enum bst_err err = BST_OK;
    for (int i = 0; i < 2 && !err; i++) {
        struct bst_rank_memory m;
        err = bst_trainer_plan(p.t, (int64_t)micros[i] * r->devices, 1, &m);
        at[i] = (struct bst_memory_point){micros[i], (double)m.total};
        if (!i)
            r->process = bst_host_resident();
    }
    if (!err && bst_textbook_fit(&r->textbook, &at[0], &at[1]))
        memcpy(r->fitted, micros, sizeof micros);
    close_planner(&p);
    return err;
}

static enum bst_err add_setting(const struct bst_mem_cfg *cfg, const char *precision,
                                const char *recompute, struct bst_mem_report *r,
                                struct bst_preset_errors *errs)
{
    struct planner p;
    uint64_t usual[4];
    const uint64_t *batches = cfg->batches;
    int n = cfg->n_batches;
    BST_TRY(open_planner(cfg, precision, recompute, &p, &r->generated, errs));
    if (!n) {
        uint64_t own = (uint64_t)p.preset.global_batch_size;
        for (uint64_t part = 4; part; part /= 2)
            if (own / part >= (uint64_t)p.cfg.ranks)
                usual[n++] = own / part;
        usual[n++] = 2 * own;
        batches = usual;
    }
    r->rows = bst_xrealloc(r->rows, (size_t)(r->n_rows + n), sizeof *r->rows);
    for (int i = 0; i < n; i++)
        plan_row(&p, r, batches[i], &r->rows[r->n_rows++]);
    r->largest = bst_xrealloc(r->largest, (size_t)r->n_largest + 1, sizeof *r->largest);
    find_largest(&p, &r->largest[r->n_largest++]);
    close_planner(&p);
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

static void print_row(struct bst_json *j, const struct bst_mem_row *row)
{
    bst_json_open(j, NULL, '{');
    bst_json_uint(j, "global_batch_size", row->batch);
    bst_json_int(j, "micro_batch_size", row->micro);
    bst_json_int(j, "gradient_accumulation_steps", row->micro_batches);
    bst_json_str(j, "precision", row->precision);
    bst_json_str(j, "recompute", row->recompute);
    bst_json_bool(j, "fits", row->fits);
    if (row->known) {
        bst_json_uint(j, "parameters", row->parameters);
        bst_json_uint(j, "gradients", row->gradients);
        bst_json_uint(j, "optimizer", row->optimizer);
        bst_json_uint(j, "rewind", row->rewind);
        bst_json_uint(j, "activations", row->activations);
        bst_json_uint(j, "recomputation", row->recomputation);
        bst_json_uint(j, "data", row->data);
        bst_json_uint(j, "workspace", row->workspace);
        bst_json_uint(j, "total", row->total);
        bst_json_int(j, "recomputed_instructions", row->n_again);
        bst_json_num(j, "recompute_work", row->again_share);
    } else {
        bst_json_null(j, "total");
    }
    if (row->known && row->textbook > 0) {
        bst_json_num(j, "textbook", row->textbook);
        bst_json_num(j, "textbook_error", bst_memory_error(row->textbook, (double)row->total));
    }
    if (row->why[0])
        bst_json_str(j, "why", row->why);
    bst_json_close(j, '}');
}

static void print_textbook(struct bst_json *j, const struct bst_mem_report *r)
{
    bst_json_open(j, "textbook", '{');
    bst_json_num(j, "parameters", r->textbook.parameters);
    bst_json_num(j, "inputs", r->textbook.inputs);
    bst_json_num(j, "outputs", r->textbook.outputs);
    bst_json_num(j, "factor", r->textbook.factor);
    bst_json_open(j, "fitted_from", '[');
    for (int i = 0; i < 2 && r->fitted[0]; i++)
        bst_json_int(j, NULL, r->fitted[i]);
    bst_json_close(j, ']');
    bst_json_close(j, '}');
}

void bst_mem_print_json(const struct bst_mem_report *r, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "preset", r->preset);
    bst_json_str(&j, "net", r->net);
    bst_json_str(&j, "backend", r->backend);
    bst_json_int(&j, "devices", r->devices);
    bst_json_uint(&j, "capacity", r->capacity);
    bst_json_bool(&j, "data_found", !r->generated);
    bst_json_open(&j, "planned", '[');
    for (int i = 0; i < r->n_rows; i++)
        print_row(&j, &r->rows[i]);
    bst_json_close(&j, ']');
    bst_json_open(&j, "largest", '[');
    for (int i = 0; i < r->n_largest; i++) {
        const struct bst_mem_largest *l = &r->largest[i];
        bst_json_open(&j, NULL, '{');
        bst_json_str(&j, "precision", l->precision);
        bst_json_str(&j, "recompute", l->recompute);
        bst_json_int(&j, "micro_batch_size", l->micro);
        bst_json_uint(&j, "global_batch_size", l->batch);
        bst_json_uint(&j, "total", l->total);
        bst_json_close(&j, '}');
    }
    bst_json_close(&j, ']');
    bst_json_uint(&j, "saving", r->saving);
    print_textbook(&j, r);
    bst_json_open(&j, "measured", '{');
    if (r->process)
        bst_json_uint(&j, "process_resident", r->process);
    else
        bst_json_null(&j, "process_resident");
    bst_json_close(&j, '}');
    bst_json_close(&j, '}');
}
