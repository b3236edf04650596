/* A chart as a file: axes, lines, points, bands and marks, drawn by cairo as SVG or PNG. The
 * colours can be read on white and on black alike, and an SVG has no background of its own, so that
 * the same file serves light and dark pages. Only this file's implementation knows cairo.
 *
 * What is added is copied. A plot is owned by whoever made it; one thread. */
#ifndef BST_REPORT_PLOT_H
#define BST_REPORT_PLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/sb.h"

enum bst_plot_colour {
    BST_PLOT_BLUE,
    BST_PLOT_ORANGE,
    BST_PLOT_GREEN,
    BST_PLOT_PURPLE,
    BST_PLOT_RED,
    BST_PLOT_TEAL,
    BST_PLOT_BROWN,
    BST_PLOT_GREY, /* of axes and text */
    BST_PLOT_COLOURS
};
/* Of the i-th series: every colour but grey in turn. */
enum bst_plot_colour bst_plot_colour_at(int i);
/* Red, green and blue, 0…1. */
void bst_plot_rgb(enum bst_plot_colour c, double rgb[3]);

struct bst_plot_axis {
    const char *label; /* NULL: none */
    bool log;          /* values ≤ 0 are left out */
    double low, high;  /* both 0: what is plotted, with a margin */
};

struct bst_plot_cfg {
    const char *title; /* NULL: none */
    struct bst_plot_axis x, y;
    int width, height; /* in pixels; 0: 720 × 440 */
};

struct bst_plot;

struct bst_plot *bst_plot_new(const struct bst_plot_cfg *cfg);
void bst_plot_free(struct bst_plot *p);

/* `label` is the legend's; NULL: no entry. A y that is not finite is a gap in a line, and left out
 * elsewhere. */
void bst_plot_line(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                   const double *y, int n);
/* The same, thin and dashed. */
void bst_plot_dashes(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                     const double *y, int n);
void bst_plot_points(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                     const double *y, int n);
/* The area between `low` and `high`, pale. */
void bst_plot_band(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                   const double *low, const double *high, int n);
/* An upright or level line across the whole plot, with words at its end (NULL: none): those of the
 * first upright line on its left, of the second on its right, in turn. It does not widen the axes.
 */
void bst_plot_upright(struct bst_plot *p, const char *words, enum bst_plot_colour c, double x);
void bst_plot_level(struct bst_plot *p, const char *words, enum bst_plot_colour c, double y);
/* A few words beside a point. */
void bst_plot_words(struct bst_plot *p, enum bst_plot_colour c, double x, double y,
                    const char *words);

/* An <svg> element with its XML head; to be put into a page, skip to "<svg". */
BST_MUST_USE enum bst_err bst_plot_svg(const struct bst_plot *p, struct bst_sb *out);
/* By the ending of `path`, .svg or .png (on white); written whole or not at all. BST_E_ARG: another
 * ending. */
BST_MUST_USE enum bst_err bst_plot_write(const struct bst_plot *p, const char *path);

#endif
