#include "core/run/study.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/run/field.h"
#include "core/run/history.h"
#include "core/run/run_dir.h"
#include "core/run/status.h"

enum { FILE_CAP = 1 << 20, VERSION = 1 };

static enum bst_err write_file(const char *dir, const char *name, const struct bst_sb *text)
{
    char path[768];
    bst_run_path(dir, name, path);
    return bst_io_replace_file(path, text->data, text->len);
}

static void print_plan(const struct bst_study_plan *plan, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_int(&j, "version", VERSION);
    bst_json_str(&j, "preset", plan->preset);
    bst_json_open(&j, "batches", '[');
    for (int i = 0; i < plan->n_batches; i++)
        bst_json_uint(&j, NULL, plan->batches[i]);
    bst_json_close(&j, ']');
    bst_json_int(&j, "repeats", plan->repeats);
    bst_json_uint(&j, "seed", plan->seed);
    bst_json_num(&j, "delta", plan->delta);
    bst_json_num(&j, "target", plan->target);
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}

enum bst_err bst_study_create(const struct bst_study_plan *plan, const struct bst_preset *preset)
{
    struct bst_sb text;
    bst_sb_init(&text, FILE_CAP);
    bst_preset_write(preset, &text);
    enum bst_err err = bst_io_make_dirs(plan->dir, 0755);
    if (!err)
        err = write_file(plan->dir, "preset.yaml", &text);
    bst_sb_clear(&text);
    print_plan(plan, &text);
    /* Last: a folder with a sweep.json is whole. */
    if (!err)
        err = write_file(plan->dir, "sweep.json", &text);
    bst_sb_fini(&text);
    return err;
}

bool bst_study_is(const char *dir)
{
    char path[768];
    bst_run_path(dir, "sweep.json", path);
    return bst_io_exists(path);
}

static enum bst_err read_plan(const char *dir, struct bst_study_plan *out)
{
    char path[768], *text;
    size_t n, i;
    json_t *batch;
    bst_run_path(dir, "sweep.json", path);
    if (!bst_io_exists(path))
        return bst_fail(BST_E_NOTFOUND, "%s: no sweep there", dir);
    BST_TRY(bst_io_read_file(path, FILE_CAP, &text, &n));
    json_t *o = json_loadb(text, n, 0, NULL);
    bst_free(text);
    *out = (struct bst_study_plan){0};
    bst_copy_text(out->dir, sizeof out->dir, dir);
    bst_copy_clean(out->preset, sizeof out->preset, bst_json_text(o, "preset"));
    json_array_foreach(json_object_get(o, "batches"), i, batch)
    {
        json_int_t value = json_integer_value(batch);
        if (out->n_batches < BST_SWEEP_BATCHES && value > 0)
            out->batches[out->n_batches++] = (uint64_t)value;
    }
    uint64_t repeats = bst_json_count(o, "repeats", 0);
    out->repeats = repeats <= BST_SWEEP_REPEATS ? (int)repeats : 0;
    out->seed = bst_json_count(o, "seed", 0);
    out->delta = bst_json_real(o, "delta", -1);
    out->target = bst_json_real(o, "target", NAN);
    bool good = bst_json_count(o, "version", 0) == VERSION && out->n_batches && out->repeats;
    json_decref(o);
    return good ? BST_OK : bst_fail(BST_E_CORRUPT, "%s: damaged, or of another version", path);
}

static void failed_path(const struct bst_study_run *run, char out[600])
{
    snprintf(out, 600, "%s.failed", run->dir);
}

enum bst_err bst_study_fail(const struct bst_study_run *run, const char *why)
{
    char path[600];
    failed_path(run, path);
    return bst_io_replace_file(path, why, strlen(why));
}

static bool read_failed(struct bst_study_run *run)
{
    char path[600], *text;
    size_t n;
    failed_path(run, path);
    if (!bst_io_exists(path) || bst_io_read_file(path, FILE_CAP, &text, &n))
        return false;
    text[strcspn(text, "\n")] = '\0';
    bst_copy_clean(run->why, sizeof run->why, text);
    bst_free(text);
    return true;
}

/* Seconds an update took, of training alone. */
static double update_seconds(const struct bst_history_update *u, double samples)
{
    return u->samples_per_sec > 0 ? samples / u->samples_per_sec : NAN;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct walk { /* over the updates of a run */
    double seconds, epoch_seconds;
    double *epochs; /* whole ones */
    int n_epochs;
    bool whole;
};

static void take_update(struct walk *w, const struct bst_history_update *u, double before)
{
    double seconds = update_seconds(u, u->samples - before);
    w->seconds += seconds;
    w->epoch_seconds += seconds;
    w->whole &= u->accumulation == 1;
}

static void end_epoch(struct walk *w)
{
    w->epochs[w->n_epochs++] = w->epoch_seconds;
    w->epoch_seconds = 0;
}

static double median(double *x, int n)
{
    if (!n)
        return NAN;
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Evaluations with the training time up to them; epochs by the updates that cross their ends. */
static void walk_run(const struct bst_history *h, double per_epoch, struct bst_study_run *run)
{
    struct walk w = {.whole = true};
    struct bst_sweep_run *out = &run->result;
    struct bst_sweep_eval *evals = bst_xcalloc((size_t)h->n_evals + 1, sizeof *evals);
    double before = 0, next = per_epoch;
    int eval = 0;
    w.epochs = bst_xcalloc((size_t)h->n_updates + 1, sizeof *w.epochs);
    for (int i = 0; i < h->n_updates; i++) {
        const struct bst_history_update *u = &h->updates[i];
        take_update(&w, u, before);
        before = u->samples;
        if (u->samples >= next) {
            end_epoch(&w);
            next += per_epoch;
        }
        for (; eval < h->n_evals && h->evals[eval].samples <= u->samples; eval++)
            evals[eval] =
                (struct bst_sweep_eval){h->evals[eval].samples, w.seconds, h->evals[eval].accuracy};
    }
    out->evals = run->evals = evals;
    out->n_evals = eval;
    out->whole = w.whole;
    out->epoch_seconds = median(w.epochs, w.n_epochs);
    out->samples_per_sec = per_epoch / out->epoch_seconds;
    bst_free(w.epochs);
}

static double value(struct bst_metric m)
{
    return m.valid ? m.value : NAN;
}

static enum bst_err read_result(struct bst_study_run *run)
{
    struct bst_history *h;
    struct bst_status *s = bst_xalloc(sizeof *s);
    enum bst_err err = bst_history_open(run->dir, &h);
    if (err) {
        bst_free(s);
        return err;
    }
    while (bst_history_poll(h)) {
    }
    err = bst_status_load(run->dir, s);
    if (!err && !h->n_evals)
        err = bst_fail(BST_E_STATE, "%s: was never evaluated", run->dir);
    if (!err) {
        struct bst_sweep_run *r = &run->result;
        walk_run(h, (double)s->samples_per_epoch, run);
        r->batch = run->batch;
        r->accuracy = h->evals[h->n_evals - 1].accuracy;
        r->loss = h->evals[h->n_evals - 1].loss;
        r->best_accuracy = value(s->best_accuracy);
        r->eval_samples = (double)s->eval_samples;
        r->memory_planned = s->n_devices ? value(s->devices[0].memory_planned) : NAN;
        r->memory_peak = s->n_devices ? value(s->devices[0].memory_peak) : NAN;
    }
    bst_history_close(h);
    bst_free(s);
    return err;
}

static void read_progress(struct bst_study_run *run)
{
    struct bst_status *s = bst_xalloc(sizeof *s);
    run->epoch = run->epochs = NAN;
    if (!bst_status_load(run->dir, s)) {
        run->epoch = s->epoch;
        run->epochs = s->epochs_total;
    }
    bst_free(s);
}

static void read_run(struct bst_study_run *run)
{
    struct bst_run_info info;
    run->state = BST_STUDY_TODO;
    if (read_failed(run)) {
        run->state = BST_STUDY_FAILED;
        return;
    }
    if (bst_run_info_read(run->dir, &info))
        return;
    read_progress(run);
    if (info.live) {
        run->state = BST_STUDY_LIVE;
    } else if (!strcmp(info.state, "failed")) {
        run->state = BST_STUDY_FAILED;
        snprintf(run->why, sizeof run->why, "the run failed; its log: %.200s/log", run->dir);
    } else if (strcmp(info.state, "done")) {
        run->state = BST_STUDY_PARTLY;
    } else if (read_result(run)) {
        run->state = BST_STUDY_FAILED;
        bst_copy_text(run->why, sizeof run->why, bst_err_text());
    } else {
        run->state = BST_STUDY_DONE;
    }
}

static void read_runs(struct bst_study *s)
{
    const struct bst_study_plan *p = &s->plan;
    struct bst_sweep_run *done;
    s->n_runs = p->n_batches * p->repeats;
    s->runs = bst_xcalloc((size_t)s->n_runs, sizeof *s->runs);
    done = bst_xcalloc((size_t)s->n_runs, sizeof *done);
    for (int i = 0; i < s->n_runs; i++) {
        struct bst_study_run *run = &s->runs[i];
        run->batch = p->batches[i % p->n_batches];
        run->seed = p->seed + (uint64_t)(i / p->n_batches);
        snprintf(run->dir, sizeof run->dir, "%s/b%05" PRIu64 "-s%" PRIu64, p->dir, run->batch,
                 run->seed);
        read_run(run);
        if (run->state == BST_STUDY_DONE)
            done[s->n_done++] = run->result;
        s->n_failed += run->state == BST_STUDY_FAILED;
    }
    s->sweep.delta = p->delta;
    s->sweep.target = p->target;
    bst_sweep_table(&s->sweep, done, s->n_done);
    bst_free(done);
}

enum bst_err bst_study_read(const char *dir, struct bst_study **out)
{
    struct bst_study *s = bst_xalloc(sizeof *s);
    enum bst_err err = read_plan(dir, &s->plan);
    if (err) {
        bst_free(s);
        return err;
    }
    read_runs(s);
    *out = s;
    return BST_OK;
}

void bst_study_free(struct bst_study *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_runs; i++)
        bst_free(s->runs[i].evals);
    bst_free(s->runs);
    bst_free(s);
}
