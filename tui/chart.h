/* A chart in an area: axes with readable labels, lines, marks, gaps. Draws from callbacks, so that
 * a run of a million updates needs no copy. No terminal; one thread. */
#ifndef TUI_CHART_H
#define TUI_CHART_H

#include <stdbool.h>
#include <wchar.h>

#include "tui/axis.h"
#include "tui/frame.h"

struct tui_series {
    /* The i-th point; called with i from 0 upwards, several times over. y NaN: a gap there. */
    void (*at)(void *arg, int i, double *x, double *y);
    void *arg;
    int n;
    enum tui_style style;
    int every;      /* 1 a line; 2, 3 dotted */
    wchar_t mark;   /* drawn at each point instead of a line; 0: a line */
    bool show_gaps; /* a `!` on the axis where y was not finite */
};

struct tui_chart_line {
    double at;
    enum tui_style style;
    wchar_t mark; /* upright lines */
    int every;    /* level lines */
};

enum { TUI_CHART_SERIES = 96, TUI_CHART_LINES = 4 };

struct tui_chart {
    struct tui_series series[TUI_CHART_SERIES];
    int n_series;
    struct tui_chart_line level[TUI_CHART_LINES], upright[TUI_CHART_LINES];
    int n_levels, n_uprights;
    double x0, x1;
    bool ahead; /* what lies ahead of x1, up to x2, takes the last part of the width, at a scale of
                   its own behind a double line, unless it is too short to matter */
    double x2;
    enum tui_axis_unit x_unit;
    const char *x_name; /* after the last label: "epoch" */
    bool log;
    bool from_zero;      /* a linear axis starts at 0 */
    bool levels_in_view; /* the level lines are kept within the range */
    double y0, y1;       /* the range; both 0: what the points need */
    enum tui_axis_unit y_unit;
    const char *empty; /* said when there is no finite point */
};

/* There is a double line. */
bool tui_chart_breaks(const struct tui_chart *c);
void tui_chart_draw(const struct tui_chart *c, struct tui_area a);
/* Least and greatest finite y (above 0 when log) of all points that are drawn; false if there are
 * none. */
bool tui_chart_range(const struct tui_chart *c, double *lo, double *hi);

#endif
