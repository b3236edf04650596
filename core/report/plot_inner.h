/* What was added to a plot, in order. Private to plot*.c; the plot's thread. */
#ifndef BST_REPORT_PLOT_INNER_H
#define BST_REPORT_PLOT_INNER_H

#include <cairo.h>

#include "core/report/plot.h"
#include "core/report/plot_axis.h"

enum bst_plot_kind {
    PLOT_LINE,
    PLOT_DASHES,
    PLOT_POINTS,
    PLOT_BAND,
    PLOT_UPRIGHT,
    PLOT_LEVEL,
    PLOT_WORDS
};

struct bst_plot_item {
    enum bst_plot_kind kind;
    enum bst_plot_colour colour;
    char *label; /* the legend's, or the words; NULL: none */
    int n;
    double *x, *y, *high; /* `high` of a band; x or y alone of a line across */
};

struct bst_plot {
    struct bst_plot_cfg cfg; /* its strings are copies */
    struct bst_plot_item *items;
    int n_items;
};

/* Whether an item widens the axes. */
static inline bool bst_plot_counts(const struct bst_plot_item *it)
{
    return it->kind <= PLOT_BAND;
}

void bst_plot_draw(const struct bst_plot *p, cairo_t *cr);

#endif
