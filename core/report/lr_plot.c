#include "core/report/lr_plot.h"

#include <math.h>
#include <stdio.h>

/* Room above the first loss, below which the blow-up at the end would press the rest. */
#define ABOVE 1.3

struct points {
    double x[BST_LR_RANGE_MOST], smooth[BST_LR_RANGE_MOST], low[BST_LR_RANGE_MOST],
        high[BST_LR_RANGE_MOST];
    int n;
};

/* The range of the passes, each smoothed by itself. */
static void fill(const struct bst_lr_result *r, struct points *p)
{
    double one[BST_LR_RANGE_MOST];
    p->n = bst_lr_range_smooth(&r->range, r->curves, r->repeats, p->smooth);
    for (int i = 0; i < p->n; i++) {
        p->x[i] = bst_lr_range_rate(&r->range, i);
        p->low[i] = INFINITY;
        p->high[i] = -INFINITY;
    }
    for (int k = 0; k < r->repeats; k++) {
        int n = bst_lr_range_smooth(&r->range, &r->curves[k], 1, one);
        for (int i = 0; i < n && i < p->n; i++) {
            p->low[i] = fmin(p->low[i], one[i]);
            p->high[i] = fmax(p->high[i], one[i]);
        }
    }
}

static void mark(struct bst_plot *plot, const char *what, enum bst_plot_colour c, double rate)
{
    char words[64];
    if (!(rate > 0))
        return;
    snprintf(words, sizeof words, "%s %.3g", what, rate);
    bst_plot_upright(plot, words, c, rate);
}

static void add_losses(struct bst_plot *plot, const struct bst_lr_result *r)
{
    double x[BST_LR_RANGE_MOST];
    for (int k = 0; k < r->repeats; k++) {
        for (int i = 0; i < r->curves[k].n; i++)
            x[i] = bst_lr_range_rate(&r->range, i);
        bst_plot_points(plot, k ? NULL : "loss of an update", BST_PLOT_GREY, x, r->curves[k].loss,
                        r->curves[k].n);
    }
}

struct bst_plot *bst_lr_plot(const struct bst_lr_result *r, const char *title)
{
    struct points p = {.n = 0};
    struct bst_plot_cfg cfg = {
        .title = title, .x = {.label = "learning rate", .log = true}, .y = {.label = "loss"}};
    fill(r, &p);
    cfg.x.low = r->range.start;
    cfg.x.high = r->range.end;
    for (int i = 0; i < p.n; i++) {
        cfg.y.low = !i || p.low[i] < cfg.y.low ? p.low[i] : cfg.y.low;
        cfg.y.high =
            fmin(!i || p.high[i] > cfg.y.high ? p.high[i] : cfg.y.high, ABOVE * p.smooth[0]);
    }
    cfg.y.low = cfg.y.low > 0 ? 0.9 * cfg.y.low : cfg.y.low;
    struct bst_plot *plot = bst_plot_new(&cfg);
    add_losses(plot, r);
    if (r->repeats > 1)
        bst_plot_band(plot, "range of the repeats", BST_PLOT_BLUE, p.x, p.low, p.high, p.n);
    bst_plot_line(plot, "smoothed, without lag", BST_PLOT_BLUE, p.x, p.smooth, p.n);
    /* From left to right, so that the words do not meet. */
    bool valley_first = r->s.valley < r->s.steepest;
    if (valley_first)
        mark(plot, "valley", BST_PLOT_GREEN, r->s.valley);
    mark(plot, "steepest fall", BST_PLOT_ORANGE, r->s.steepest);
    if (!valley_first)
        mark(plot, "valley", BST_PLOT_GREEN, r->s.valley);
    return plot;
}
