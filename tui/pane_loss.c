#include <math.h>
#include <stdio.h>

#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

/* The scale of the whole run, so that scrolling does not move it. */
static void fix_scale(struct tui_chart *c, const struct tui_model *m)
{
    struct tui_model all = {
        .now = m->now, .history = m->history, .n_updates = m->n_updates, .n_evals = m->n_evals};
    struct tui_window w;
    struct tui_updates u;
    struct tui_evals e;
    struct tui_chart whole;
    all.view.smooth = m->view.smooth;
    all.view.x = m->view.x;
    tui_chart_over(&whole, &all, &w, TUI_PANE_LOSS);
    whole.log = c->log;
    whole.series[whole.n_series++] = tui_series_updates(&u, &all, &w, TUI_FIELD_LOSS, TUI_TRAIN);
    whole.series[whole.n_series++] = tui_series_evals(&e, &all, &w, TUI_EVAL);
    double lo, hi;
    if (tui_chart_range(&whole, &lo, &hi)) {
        c->y0 = lo;
        c->y1 = hi;
    }
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_window w;
    struct tui_chart c;
    struct tui_updates train;
    struct tui_evals eval;
    tui_chart_over(&c, m, &w, TUI_PANE_LOSS);
    c.series[c.n_series++] = tui_series_updates(&train, m, &w, TUI_FIELD_LOSS, TUI_TRAIN);
    c.series[c.n_series++] = tui_series_evals(&eval, m, &w, TUI_EVAL);
    if (!m->view.autoscale)
        fix_scale(&c, m);
    tui_chart_draw(&c, a);
}

static void title(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[TUI_NUM], how[64];
    struct tui_window w;
    /* Both losses and the perplexity have room in 80 columns when they are brief. */
    bool brief = s->eval_perplexity.valid && m->layout.size < TUI_SIZE_FULL;
    int x = 0, digits = brief ? 3 : 4;
    tui_metric(s->loss, digits, text);
    x = tui_title_item(a, x, s->loss.valid && !isfinite(s->loss.value) ? TUI_BAD : TUI_TRAIN,
                       "train", text);
    tui_metric(s->eval_loss, digits, text);
    x = tui_title_item(a, x, TUI_EVAL, brief ? "◆" : "◆ eval", text);
    if (s->eval_perplexity.valid) {
        tui_metric(s->eval_perplexity, digits, text);
        x = tui_title_item(a, x, TUI_EVAL, brief ? "ppl" : "perplexity", text);
    }
    tui_percent1(s->eval_accuracy, text);
    if (s->eval_accuracy.valid)
        x = tui_title_item(a, x, TUI_EVAL, m->layout.size >= TUI_SIZE_FULL ? "top-1" : "", text);
    tui_percent1(s->eval_exact, text);
    if (s->eval_exact.valid)
        x = tui_title_item(a, x, TUI_EVAL, "exact", text);
    tui_window_make(m, &w);
    int span = tui_smooth_span(m, &w);
    snprintf(how, sizeof how, "mean of %d", span);
    if (span > 1)
        x = tui_title_item(a, x, TUI_DIM, how, "");
    tui_percent1(s->best_accuracy, text);
    if (s->best_accuracy.valid && m->layout.size >= TUI_SIZE_FULL)
        x = tui_title_item(a, x, TUI_NORMAL, "best", text);
    tui_percent1(s->train_accuracy, text);
    if (s->train_accuracy.valid && m->layout.size >= TUI_SIZE_FULL)
        tui_title_item(a, x, TUI_NORMAL, "train top-1", text);
}

const struct tui_pane tui_pane_loss = {
    .name = "loss",
    .chart = true,
    .title = title,
    .draw = draw,
    .csv = tui_csv_window,
};
