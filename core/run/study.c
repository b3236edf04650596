#include "core/run/study.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/run/field.h"
#include "core/run/run_dir.h"
#include "core/run/standing.h"
#include "core/run/study_curve.h"

enum { FILE_CAP = 1 << 20, VERSION = 1 };

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
    bst_json_num(&j, "epochs", plan->epochs);
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
        err = bst_run_write(plan->dir, "preset.yaml", &text);
    bst_sb_clear(&text);
    print_plan(plan, &text);
    /* Last: a folder with a sweep.json is whole. */
    if (!err)
        err = bst_run_write(plan->dir, "sweep.json", &text);
    bst_sb_fini(&text);
    return err;
}

bool bst_study_is(const char *dir)
{
    char path[768];
    bst_run_path(dir, "sweep.json", path);
    return bst_io_exists(path);
}

/* As `--batch` takes them: whole numbers above 0, none of them twice. */
static enum bst_err read_batches(const json_t *list, struct bst_study_plan *out)
{
    size_t i;
    json_t *batch;
    double most = bst_param_at(BST_PARAM_global_batch_size)->most;
    if (!json_array_size(list) || json_array_size(list) > BST_SWEEP_BATCHES)
        return bst_fail(BST_E_CORRUPT, "\"batches\" is not a list of 1 to %d batches",
                        BST_SWEEP_BATCHES);
    json_array_foreach(list, i, batch)
    {
        json_int_t value = json_integer_value(batch);
        if (!json_is_integer(batch) || value < 1 || (double)value > most)
            return bst_fail(BST_E_CORRUPT,
                            "\"batches\": item %zu is not a whole number from 1 to %.0f", i + 1,
                            most);
        for (int k = 0; k < out->n_batches; k++)
            if (out->batches[k] == (uint64_t)value)
                return bst_fail(BST_E_CORRUPT, "\"batches\": %lld is there twice",
                                (long long)value);
        out->batches[out->n_batches++] = (uint64_t)value;
    }
    return BST_OK;
}

static enum bst_err parse_plan(const json_t *o, struct bst_study_plan *out)
{
    uint64_t repeats = bst_json_count(o, "repeats", 0);
    if (bst_json_count(o, "version", 0) != VERSION)
        return bst_fail(BST_E_CORRUPT, "\"version\" is not %d", VERSION);
    BST_TRY(read_batches(json_object_get(o, "batches"), out));
    if (!repeats || repeats > BST_SWEEP_REPEATS)
        return bst_fail(BST_E_CORRUPT, "\"repeats\" is not 1 to %d", BST_SWEEP_REPEATS);
    bst_copy_clean(out->preset, sizeof out->preset, bst_json_text(o, "preset"));
    out->repeats = (int)repeats;
    out->seed = bst_json_count(o, "seed", 0);
    out->delta = bst_json_real(o, "delta", -1);
    out->target = bst_json_real(o, "target", NAN);
    out->epochs = bst_json_real(o, "epochs", NAN);
    return BST_OK;
}

static enum bst_err read_plan(const char *dir, struct bst_study_plan *out)
{
    char path[768], *text;
    size_t n;
    json_error_t why;
    bst_run_path(dir, "sweep.json", path);
    if (!bst_io_exists(path))
        return bst_fail(BST_E_NOTFOUND, "%s: no sweep there", dir);
    BST_TRY(bst_io_read_file(path, FILE_CAP, &text, &n));
    *out = (struct bst_study_plan){0};
    bst_copy_text(out->dir, sizeof out->dir, dir);
    json_t *o = json_loadb(text, n, 0, &why);
    bst_free(text);
    if (!o)
        return bst_fail(BST_E_CORRUPT, "%s:%d:%d: %s", path, why.line, why.column, why.text);
    enum bst_err err = parse_plan(o, out);
    json_decref(o);
    return err ? bst_fail_in(err, "%s", path) : BST_OK;
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

/* Where a run that nobody trains was when it was left. */
static void read_progress(struct bst_study_run *run)
{
    struct bst_run_info info;
    struct bst_status *s = bst_xalloc(sizeof *s);
    if (!bst_run_info_read(run->dir, &info) && !bst_standing_load(&info, s)) {
        run->epoch = s->epoch;
        run->epochs = s->epochs_total;
    }
    bst_free(s);
}

/* NULL: `why` has been said. */
static enum bst_study_state fail_run(struct bst_study_run *run, const char *why)
{
    if (why)
        bst_copy_text(run->why, sizeof run->why, why);
    bst_study_unfollow(run);
    return BST_STUDY_FAILED;
}

/* What its files say now; `run` still has what they said before. */
static enum bst_study_state find_state(struct bst_study_run *run)
{
    struct bst_run_info info;
    char why[300];
    /* A run that is there speaks for itself, whatever became of an earlier start. */
    if (bst_run_info_read(run->dir, &info))
        return read_failed(run) ? fail_run(run, NULL) : BST_STUDY_TODO;
    if (info.live)
        return BST_STUDY_LIVE;
    if (!strcmp(info.state, "failed")) {
        snprintf(why, sizeof why, "the run failed; its log: %.200s/log", run->dir);
        return fail_run(run, why);
    }
    if (strcmp(info.state, "done"))
        return BST_STUDY_PARTLY;
    return bst_study_conclude(run) ? fail_run(run, bst_err_text()) : BST_STUDY_DONE;
}

static bool is_over(const struct bst_study_run *run)
{
    return run->state == BST_STUDY_DONE || run->state == BST_STUDY_FAILED;
}

static bool poll_run(struct bst_study_run *run)
{
    enum bst_study_state before = run->state;
    if (is_over(run))
        return false;
    run->state = find_state(run);
    bool came = run->state != before;
    if (run->state == BST_STUDY_PARTLY && came)
        read_progress(run);
    if (run->state == BST_STUDY_LIVE || run->state == BST_STUDY_PARTLY)
        came = bst_study_follow(run) || came;
    return came;
}

static void tabulate(struct bst_study *s)
{
    struct bst_sweep_run *done = bst_xcalloc((size_t)s->n_runs, sizeof *done);
    s->n_done = s->n_failed = 0;
    for (int i = 0; i < s->n_runs; i++) {
        if (s->runs[i].state == BST_STUDY_DONE)
            done[s->n_done++] = s->runs[i].result;
        s->n_failed += s->runs[i].state == BST_STUDY_FAILED;
    }
    s->sweep.delta = s->plan.delta;
    s->sweep.target = s->plan.target;
    bst_sweep_table(&s->sweep, done, s->n_done);
    bst_free(done);
}

bool bst_study_poll(struct bst_study *s)
{
    bool came = false, over = false;
    for (int i = 0; i < s->n_runs; i++) {
        if (!poll_run(&s->runs[i]))
            continue;
        came = true;
        over = over || is_over(&s->runs[i]);
    }
    if (over)
        tabulate(s);
    return came;
}

static void make_runs(struct bst_study *s)
{
    const struct bst_study_plan *p = &s->plan;
    s->n_runs = p->n_batches * p->repeats;
    s->runs = bst_xcalloc((size_t)s->n_runs, sizeof *s->runs);
    for (int i = 0; i < s->n_runs; i++) {
        struct bst_study_run *run = &s->runs[i];
        run->batch = p->batches[i % p->n_batches];
        run->seed = p->seed + (uint64_t)(i / p->n_batches);
        run->epoch = run->left = NAN;
        run->epochs = p->epochs;
        snprintf(run->dir, sizeof run->dir, "%s/b%05" PRIu64 "-s%" PRIu64, p->dir, run->batch,
                 run->seed);
    }
}

enum bst_err bst_study_read(const char *dir, struct bst_study **out)
{
    struct bst_study *s = bst_xalloc(sizeof *s);
    enum bst_err err = read_plan(dir, &s->plan);
    if (err) {
        bst_free(s);
        return err;
    }
    make_runs(s);
    bst_study_poll(s);
    tabulate(s);
    *out = s;
    return BST_OK;
}

void bst_study_free(struct bst_study *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_runs; i++) {
        bst_study_unfollow(&s->runs[i]);
        bst_free(s->runs[i].points);
        bst_free(s->runs[i].evals);
    }
    bst_free(s->runs);
    bst_free(s);
}
