/* The curves of a sweep's view: one for each batch, over samples and over training time. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "tui/chart.h"
#include "tui/study.h"

enum { SIDE_BY_SIDE = 72, LETTERS = 5, GAP = 2 };
#define SMOOTH (1.0 / 20) /* of the run: losses of an update are noise, and hide one another */

/* A run's curve as a series of the chart. */
struct curve {
    const struct bst_study_run *run;
    enum tui_study_y y;
    bool time;
    int n, every, phase; /* points; of its letters, in points */
    double *loss;        /* smoothed; of each point */
};

struct curves {
    struct curve at[2 * (BST_SWEEP_BATCHES + BST_SWEEP_REPEATS)];
    int n;
};

static void point(void *arg, int i, double *x, double *y)
{
    const struct curve *c = arg;
    if (c->y == TUI_STUDY_ACCURACY) {
        const struct bst_sweep_eval *e = &c->run->evals[i];
        *x = c->time ? e->seconds : e->samples / c->run->samples_per_epoch;
        *y = 100 * e->accuracy;
    } else {
        const struct bst_study_point *p = &c->run->points[i];
        *x = c->time ? p->seconds : p->samples / c->run->samples_per_epoch;
        *y = c->loss[i];
    }
}

/* The last one, and so many before it that a line is known without its colour. */
static void letter(void *arg, int i, double *x, double *y)
{
    const struct curve *c = arg;
    int at = c->n - 1 - i * c->every - (i ? c->phase : 0);
    point(arg, at < 0 ? 0 : at, x, y);
    if (at < 0)
        *y = NAN;
}

/* Means over what there is, exponential ones once that is more than the share. */
static double *smooth(const struct bst_study_run *run)
{
    double *out = bst_xcalloc((size_t)run->n_points, sizeof *out);
    double epochs = run->points[run->n_points - 1].samples / run->samples_per_epoch;
    double share = isfinite(run->epochs) ? run->n_points * run->epochs / epochs : run->n_points;
    double mean = 0, weight = 0;
    for (int i = 0; i < run->n_points; i++) {
        if (!isfinite(run->points[i].loss)) {
            out[i] = NAN;
            continue;
        }
        mean = (mean * weight + run->points[i].loss) / (weight + 1);
        weight = fmin(weight + 1, fmax(share * SMOOTH - 1, 0));
        out[i] = mean;
    }
    return out;
}

static void add_curve(struct tui_chart *chart, struct curves *all, const struct tui_study *v,
                      int row, const struct bst_study_run *run, bool time)
{
    struct curve c = {.run = run, .y = v->y, .time = time};
    c.n = v->y == TUI_STUDY_ACCURACY ? run->n_evals : run->n_points;
    if (!c.n)
        return;
    c.every = c.n <= LETTERS ? 1 : c.n / LETTERS;
    c.phase = c.every > 1 ? row * c.every / v->study->plan.n_batches : 0;
    if (v->y == TUI_STUDY_LOSS)
        c.loss = smooth(run);
    struct curve *kept = &all->at[all->n++];
    *kept = c;
    bool faint = v->selected >= 0 && v->selected != row;
    chart->series[chart->n_series++] = (struct tui_series){
        .at = point, .arg = kept, .n = c.n, .style = tui_study_style(row), .every = faint ? 3 : 1};
    chart->series[chart->n_series++] = (struct tui_series){
        .at = letter,
        .arg = kept,
        .n = (c.n + c.every - 1) / c.every,
        .style = row == v->selected ? TUI_STRONG : tui_study_style(row),
        .mark = tui_study_letter(row),
    };
}

/* One for each batch: the run that trains, else that of the first seed; of the selected batch all,
 * and last, so that they lie above the others. */
static void add_curves(struct tui_chart *chart, struct curves *all, const struct tui_study *v,
                       bool time)
{
    for (int row = 0; row < v->study->plan.n_batches; row++) {
        const struct bst_study_run *first = tui_study_run(v, row, 0);
        const struct bst_study_run *live = tui_study_live(v, row);
        if (row == v->selected)
            continue;
        add_curve(chart, all, v, row, first->n_points || !live ? first : live, time);
    }
    for (int i = 0; v->selected >= 0 && i < v->study->plan.repeats; i++)
        add_curve(chart, all, v, v->selected, tui_study_run(v, v->selected, i), time);
}

static void find_width(struct tui_chart *chart, const struct curves *all)
{
    chart->x1 = 0;
    for (int i = 0; i < all->n; i++) {
        double x, y;
        point((void *)&all->at[i], all->at[i].n - 1, &x, &y);
        if (x > chart->x1)
            chart->x1 = x;
    }
    if (!(chart->x1 > 0))
        chart->x1 = 1;
}

static void draw_title(const struct tui_study *v, struct tui_area a, bool time, double target)
{
    static const char *const names[] = {"accuracy %", "train loss"};
    char text[96], full[128];
    snprintf(text, sizeof text, " %s over %s%s ", names[v->y], time ? "training time" : "epochs",
             v->log ? ", log" : "");
    snprintf(full, sizeof full, "%.*s, target %.2f ", (int)strlen(text) - 1, text, target);
    bool fits = isfinite(target) && tui_columns(a.f, full) + 2 <= a.w;
    tui_hline(a, 0, 0, a.w, TUI_RULE);
    tui_put_cut(a, 1, 0, a.w - 2, TUI_TITLE, fits ? full : text);
}

static void draw_chart(const struct tui_study *v, struct tui_area a, bool time)
{
    static const char *const empty[] = {"no evaluation yet", "no update yet"};
    struct curves all = {.n = 0};
    struct tui_chart c = {
        .x_unit = time ? TUI_AXIS_TIME : TUI_AXIS_NUMBER,
        .log = v->log,
        .empty = empty[v->y],
    };
    add_curves(&c, &all, v, time);
    find_width(&c, &all);
    double target = 100 * v->study->sweep.target_used;
    if (v->y == TUI_STUDY_ACCURACY && isfinite(target))
        c.level[c.n_levels++] = (struct tui_chart_line){.at = target, .style = TUI_DIM, .every = 4};
    draw_title(v, a, time, c.n_levels ? target : NAN);
    tui_chart_draw(&c, tui_area_sub(a, 0, 1, a.w, a.h - 1));
    for (int i = 0; i < all.n; i++)
        bst_free(all.at[i].loss);
}

void tui_study_charts_draw(const struct tui_study *v, struct tui_area a)
{
    int half = (a.w - GAP) / 2;
    if (a.h < 3)
        return;
    if (v->x != TUI_STUDY_BOTH || a.w < SIDE_BY_SIDE) {
        draw_chart(v, a, v->x == TUI_STUDY_TIME);
        return;
    }
    draw_chart(v, tui_area_sub(a, 0, 0, half, a.h), false);
    draw_chart(v, tui_area_sub(a, half + GAP, 0, a.w - half - GAP, a.h), true);
}
