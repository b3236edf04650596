/* Where the ticks of a plot's axis are and what they say. Pure. */
#ifndef BST_REPORT_PLOT_AXIS_H
#define BST_REPORT_PLOT_AXIS_H

#include <stdbool.h>

enum { BST_PLOT_TICKS = 32 };

struct bst_plot_scale {
    bool log;
    double low, high; /* low < high; above 0 when log */
    int n;
    double tick[BST_PLOT_TICKS];
    char label[BST_PLOT_TICKS][16]; /* "" for a minor one */
};

/* Brings low … high into a range that can be drawn, and, unless `fixed`, a little wider, to round
 * ends on a linear axis; about `most` ticks with a label. */
void bst_plot_scale_make(struct bst_plot_scale *s, double low, double high, bool log, bool fixed,
                         int most);
/* 0 at low, 1 at high; NaN where the axis has no place for v. */
double bst_plot_scale_at(const struct bst_plot_scale *s, double v);

#endif
