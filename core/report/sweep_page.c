#include "core/report/sweep_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/text.h"
#include "core/report/plot.h"
#include "core/report/sweep_table.h"
#include "core/run/run_dir.h"

enum { PAGE_CAP = 16 << 20, CURVE_ROOM = 10 /* points of accuracy */ };

struct columns { /* of the rows, for plots */
    int n;
    double batch[BST_SWEEP_BATCHES], accuracy[BST_SWEEP_BATCHES], low[BST_SWEEP_BATCHES],
        high[BST_SWEEP_BATCHES], best[BST_SWEEP_BATCHES], speed[BST_SWEEP_BATCHES];
};

static struct columns columns_of(const struct bst_sweep *w)
{
    struct columns c = {.n = w->n_rows};
    for (int i = 0; i < w->n_rows; i++) {
        const struct bst_sweep_row *row = &w->rows[i];
        c.batch[i] = (double)row->batch;
        c.accuracy[i] = 100 * row->accuracy;
        c.low[i] = 100 * (row->accuracy - 2 * row->error);
        c.high[i] = 100 * (row->accuracy + 2 * row->error);
        c.best[i] = 100 * row->best_accuracy;
        c.speed[i] = row->samples_per_sec;
    }
    return c;
}

/* With room for the first and the last point. */
static struct bst_plot_axis batch_axis(const struct columns *c)
{
    return (struct bst_plot_axis){
        .label = "batch",
        .log = true,
        .low = c->batch[0] / 1.2,
        .high = c->batch[c->n - 1] * 1.2,
    };
}

static struct bst_plot *plot_accuracy(const struct bst_sweep *w, const struct columns *c)
{
    const struct bst_plot_cfg cfg = {
        .title = "Accuracy by batch",
        .x = batch_axis(c),
        .y = {.label = "accuracy, %"},
    };
    struct bst_plot *p = bst_plot_new(&cfg);
    bst_plot_band(p, "two standard errors", BST_PLOT_BLUE, c->batch, c->low, c->high, c->n);
    bst_plot_line(p, "final", BST_PLOT_BLUE, c->batch, c->accuracy, c->n);
    bst_plot_points(p, NULL, BST_PLOT_BLUE, c->batch, c->accuracy, c->n);
    bst_plot_dashes(p, "best", BST_PLOT_ORANGE, c->batch, c->best, c->n);
    for (int i = 0; i < w->n_rows; i++)
        if (w->rows[i].choice)
            bst_plot_upright(p, "choice", BST_PLOT_GREEN, c->batch[i]);
    return p;
}

/* From zero, and with each run's: how far two of one batch are apart says what a difference between
 * batches is worth. */
static struct bst_plot *plot_speed(const struct bst_study *s, const struct columns *c)
{
    double *x = bst_xcalloc((size_t)s->n_runs, 2 * sizeof *x), *y = x + s->n_runs, most = 0;
    int n = 0;
    for (int i = 0; i < s->n_runs; i++) {
        if (s->runs[i].state != BST_STUDY_DONE)
            continue;
        x[n] = (double)s->runs[i].batch;
        y[n] = s->runs[i].result.samples_per_sec;
        most = fmax(most, y[n++]);
    }
    const struct bst_plot_cfg cfg = {
        .title = "Samples per second by batch",
        .x = batch_axis(c),
        .y = {.label = "samples/s", .high = 1.05 * most},
    };
    struct bst_plot *p = bst_plot_new(&cfg);
    bst_plot_line(p, "median", BST_PLOT_BLUE, c->batch, c->speed, c->n);
    bst_plot_points(p, "a run", BST_PLOT_ORANGE, x, y, n);
    bst_free(x);
    return p;
}

/* From ten points under the target up: what is decided, is decided there. */
static struct bst_plot_axis accuracy_axis(const struct bst_sweep *w)
{
    struct bst_plot_axis y = {.label = "accuracy, %"};
    double target = 100 * w->target_used, best = target;
    for (int i = 0; i < w->n_rows; i++)
        best = fmax(best, 100 * w->rows[i].best_accuracy);
    if (isfinite(target) && target > CURVE_ROOM) {
        y.low = floor(target - CURVE_ROOM);
        y.high = fmin(100, ceil(best + 1));
    }
    return y;
}

/* Evaluations of the first seed of each batch over training time: what the time goes into. */
static struct bst_plot *plot_curves(const struct bst_study *s)
{
    const struct bst_plot_cfg cfg = {
        .title = "Accuracy over training time, first seed",
        .x = {.label = "training time, s"},
        .y = accuracy_axis(&s->sweep),
    };
    struct bst_plot *p = bst_plot_new(&cfg);
    for (int i = 0; i < s->plan.n_batches; i++) {
        const struct bst_study_run *run = &s->runs[i];
        char label[32];
        if (run->state != BST_STUDY_DONE)
            continue;
        double *x = bst_xcalloc((size_t)run->result.n_evals, 2 * sizeof *x);
        double *y = x + run->result.n_evals;
        for (int k = 0; k < run->result.n_evals; k++) {
            x[k] = run->evals[k].seconds;
            y[k] = 100 * run->evals[k].accuracy;
        }
        snprintf(label, sizeof label, "batch %" PRIu64, run->batch);
        bst_plot_line(p, label, bst_plot_colour_at(i), x, y, run->result.n_evals);
        bst_plot_points(p, NULL, bst_plot_colour_at(i), x, y, run->result.n_evals);
        bst_free(x);
    }
    if (isfinite(s->sweep.target_used))
        bst_plot_level(p, "target", BST_PLOT_GREY, 100 * s->sweep.target_used);
    return p;
}

/* Text from a preset or a path may hold anything. */
static void put_escaped(struct bst_sb *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        const char *as = *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : *p == '&' ? "&amp;" : NULL;
        if (*p == '"')
            as = "&quot;";
        if (as)
            bst_sb_add(out, as);
        else
            bst_sb_addc(out, *p);
    }
}

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;"
    "overflow-x:auto}\n"
    "th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #8884;"
    "white-space:nowrap}\n"
    "th:last-child,td:last-child{text-align:left}\n"
    "tr.choice{font-weight:bold}\n"
    ".notes{white-space:pre-line}\n"
    "svg{max-width:100%;height:auto}\n"
    "</style>\n";

static void put_cell(struct bst_sb *out, double x, int digits)
{
    if (isfinite(x))
        bst_sb_addf(out, "<td>%.*f</td>", digits, x);
    else
        bst_sb_add(out, "<td>n/a</td>");
}

static void put_seconds(struct bst_sb *out, double seconds)
{
    put_cell(out, seconds, seconds < 10 ? 2 : 1);
}

static void put_bytes(struct bst_sb *out, double bytes)
{
    char text[32] = "n/a";
    if (isfinite(bytes))
        bst_text_bytes((uint64_t)bytes, text);
    bst_sb_addf(out, "<td>%s</td>", text);
}

static void put_row(struct bst_sb *out, const struct bst_sweep_row *row)
{
    bst_sb_addf(out, "<tr%s><td>%" PRIu64 "</td><td>%d</td>", row->choice ? " class=choice" : "",
                row->batch, row->runs);
    put_cell(out, 100 * row->accuracy, 2);
    put_cell(out, 100 * row->error, 2);
    put_cell(out, 100 * row->best_accuracy, 2);
    put_cell(out, row->loss, 4);
    put_cell(out, row->samples_per_sec, 0);
    put_seconds(out, row->epoch_seconds);
    put_bytes(out, row->memory_planned);
    put_bytes(out, row->memory_peak);
    put_cell(out, row->efficiency, 2);
    put_seconds(out, row->seconds_to_target);
    bst_sb_add(out, "<td>");
    bst_sweep_marks(row, out);
    bst_sb_add(out, "</td></tr>\n");
}

static void put_explained(struct bst_sb *out, const struct bst_sweep *w)
{
    struct bst_sb text;
    bst_sb_init(&text, PAGE_CAP);
    bst_sweep_explain(w, &text);
    bst_sb_addf(out, "<p class=notes>%s</p>\n", text.data);
    bst_sb_fini(&text);
}

static void put_table(struct bst_sb *out, const struct bst_study *s)
{
    static const char *const titles[] = {
        "batch",    "runs",           "accuracy, %", "± error", "best, %",   "loss", "samples/s",
        "epoch, s", "memory planned", "memory peak", "eff",     "target, s", ""};
    bst_sb_add(out, "<table>\n<tr>");
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        bst_sb_addf(out, "<th>%s</th>", titles[i]);
    bst_sb_add(out, "</tr>\n");
    for (int i = 0; i < s->sweep.n_rows; i++)
        put_row(out, &s->sweep.rows[i]);
    bst_sb_add(out, "</table>\n");
    put_explained(out, &s->sweep);
}

static void put_failed(struct bst_sb *out, const struct bst_study *s)
{
    for (int i = 0; i < s->n_runs; i++) {
        const struct bst_study_run *run = &s->runs[i];
        if (run->state == BST_STUDY_DONE)
            continue;
        bst_sb_addf(out, "<p>Batch %" PRIu64 ", seed %" PRIu64 ": ", run->batch, run->seed);
        put_escaped(out, run->state == BST_STUDY_FAILED ? run->why : "not finished");
        bst_sb_add(out, "</p>\n");
    }
}

static enum bst_err put_plot(struct bst_sb *out, const struct bst_plot *p, const char *dir,
                             const char *name)
{
    static const char *const ends[] = {"svg", "png"};
    struct bst_sb svg;
    char file[64], path[768];
    enum bst_err err = BST_OK;
    for (int i = 0; i < 2 && !err; i++) {
        snprintf(file, sizeof file, "%s.%s", name, ends[i]);
        bst_run_path(dir, file, path);
        err = bst_plot_write(p, path);
    }
    bst_sb_init(&svg, PAGE_CAP);
    if (!err)
        err = bst_plot_svg(p, &svg);
    const char *from = err ? NULL : strstr(svg.data, "<svg");
    if (from)
        bst_sb_add(out, from);
    bst_sb_fini(&svg);
    return err;
}

static enum bst_err put_plots(struct bst_sb *out, const struct bst_study *s, const char *dir)
{
    struct columns c = columns_of(&s->sweep);
    struct bst_plot *plots[] = {plot_accuracy(&s->sweep, &c), plot_speed(s, &c), plot_curves(s)};
    static const char *const names[] = {"accuracy", "speed", "curves"};
    enum bst_err err = BST_OK;
    for (int i = 0; i < 3; i++) {
        if (!err)
            err = put_plot(out, plots[i], dir, names[i]);
        bst_plot_free(plots[i]);
    }
    return err;
}

enum bst_err bst_sweep_report(const struct bst_study *s, const char *dir)
{
    struct bst_sb page, csv;
    if (!s->n_done)
        return bst_fail(BST_E_STATE, "%s: no run of it is done yet", s->plan.dir);
    BST_TRY(bst_io_make_dirs(dir, 0755));
    bst_sb_init(&page, PAGE_CAP);
    bst_sb_init(&csv, PAGE_CAP);
    bst_sb_add(&page, head);
    bst_sb_add(&page, "<title>Batch sweep of ");
    put_escaped(&page, s->plan.preset);
    bst_sb_add(&page, "</title></head><body>\n<h1>Batch sweep of ");
    put_escaped(&page, s->plan.preset);
    bst_sb_addf(&page, "</h1>\n<p>%d of %d runs done.</p>\n", s->n_done, s->n_runs);
    put_table(&page, s);
    put_failed(&page, s);
    enum bst_err err = put_plots(&page, s, dir);
    bst_sb_add(&page, "</body></html>\n");
    bst_sweep_print_csv(s, &csv);
    if (!err)
        err = bst_run_write(dir, "report.html", &page);
    if (!err)
        err = bst_run_write(dir, "report.csv", &csv);
    bst_sb_fini(&csv);
    bst_sb_fini(&page);
    return err;
}
