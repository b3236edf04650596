#include "tui/chart.h"

#include <math.h>
#include <string.h>

#include "tui/raster.h"

/* The width: the window's axis, and behind it that of what lies ahead. */
struct across {
    struct tui_axis here, ahead;
    double part; /* of the width that the window has; 1: all of it */
};

static const double least_part = 0.6, worth_showing = 0.97;

static double across_at(const struct across *x, double v)
{
    if (x->part >= 1)
        return tui_axis_at(&x->here, v);
    if (v <= x->here.hi)
        return x->part * tui_axis_at(&x->here, v);
    return x->part + (1 - x->part) * tui_axis_at(&x->ahead, v);
}

/* Of the width that x0…x1 has; 1: nothing is ahead. */
static double part_of(const struct tui_chart *c)
{
    double natural = (c->x1 - c->x0) / (c->x2 - c->x0);
    return c->ahead && c->x2 > c->x1 && natural < worth_showing ? fmax(least_part, natural) : 1;
}

bool tui_chart_breaks(const struct tui_chart *c)
{
    return part_of(c) < 1;
}

static void across_make(struct across *x, const struct tui_chart *c, int width)
{
    x->part = part_of(c);
    int here = (int)(x->part * width);
    tui_axis_make(&x->here, c->x0, c->x1, false, c->x_unit, here / 9 + 1);
    if (x->part < 1)
        tui_axis_make(&x->ahead, c->x1, c->x2, false, c->x_unit, (width - here) / 9 + 1);
}

static bool counts(const struct tui_chart *c, double x, double y)
{
    return isfinite(y) && x >= c->x0 && x <= (c->ahead ? fmax(c->x1, c->x2) : c->x1) &&
           (!c->log || y > 0);
}

static void widen(double v, double *lo, double *hi)
{
    *lo = fmin(*lo, v);
    *hi = fmax(*hi, v);
}

bool tui_chart_range(const struct tui_chart *c, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int s = 0; s < c->n_series; s++)
        for (int i = 0; i < c->series[s].n; i++) {
            double x, y;
            c->series[s].at(c->series[s].arg, i, &x, &y);
            if (counts(c, x, y))
                widen(y, lo, hi);
        }
    return *lo <= *hi;
}

/* To round values outside: a scale that stands still while the curve grows, which is easier on the
 * eye and on a slow line, and a maximum just under a round value still gets its label. */
static void round_range(bool log, double *lo, double *hi)
{
    if (log) {
        *lo = pow(10, floor(log10(*lo) * 5) / 5);
        *hi = pow(10, ceil(log10(*hi) * 5) / 5);
    } else if (*hi - *lo > fmax(fabs(*hi), fabs(*lo)) * 1e-9) {
        double step = tui_axis_step((*hi - *lo) / 16, TUI_AXIS_NUMBER);
        *lo = floor(*lo / step) * step;
        *hi = ceil(*hi / step) * step;
    }
}

static bool find_range(const struct tui_chart *c, double *lo, double *hi)
{
    bool any = tui_chart_range(c, lo, hi);
    if (c->y0 < c->y1) {
        *lo = c->y0;
        *hi = c->y1;
    }
    for (int i = 0; any && c->levels_in_view && i < c->n_levels; i++)
        if (!c->log || c->level[i].at > 0)
            widen(c->level[i].at, lo, hi);
    if (any && c->y0 >= c->y1)
        round_range(c->log, lo, hi);
    if (c->from_zero && !c->log && *lo > 0)
        *lo = 0;
    return any;
}

static int widest(const struct tui_axis *y)
{
    int most = 0;
    for (int i = 0; i < y->n; i++) {
        int n = (int)strlen(y->label[i]);
        most = n > most ? n : most;
    }
    return most;
}

static void draw_y(const struct tui_axis *y, struct tui_area a, int columns, int rows)
{
    int dots = a.f->symbols == TUI_DOTS_BRAILLE ? 4 : 2, taken = -1;
    tui_vline(a, columns, 0, rows, TUI_RULE);
    for (int i = y->n - 1; i >= 0; i--) {
        double at = tui_axis_at(y, y->tick[i]);
        int row = (int)lround((1 - at) * (rows * dots - 1)) / dots;
        if (row < 0 || row >= rows || row <= taken)
            continue;
        taken = row;
        tui_put_right(a, columns, row, TUI_DIM, y->label[i]);
        tui_cell_put(a, columns, row, TUI_RULE, L'┤');
    }
}

/* Labels within the columns [from, limit); returns where the last one ends. */
static int draw_ticks(const struct tui_axis *x, struct tui_area a, int from, int width, int limit,
                      int row)
{
    int next = from;
    for (int i = 0; i < x->n; i++) {
        int n = (int)strlen(x->label[i]);
        int at = from + (int)lround(tui_axis_at(x, x->tick[i]) * (width - 1)) - n / 2;
        at = at < from ? from : at;
        if (at < next || at + n > limit)
            continue;
        tui_put(a, at, row, TUI_DIM, x->label[i]);
        next = at + n + 1;
    }
    return next;
}

static void draw_x(const struct tui_chart *c, const struct across *x, struct tui_area a, int from,
                   int row)
{
    int width = a.w - from, name = c->x_name ? tui_columns(a.f, c->x_name) : 0;
    int limit = a.w, here = (int)lround(x->part * width);
    /* How far it goes ahead says more than what it is counted in, which the others say as well. */
    bool narrow = x->part < 1 && width - here < name + 8;
    if (name && name + 8 < width && !narrow) {
        tui_put_right(a, a.w, row, TUI_DIM, c->x_name);
        limit = a.w - name - 1;
    }
    int first = from + here < limit ? from + here : limit;
    draw_ticks(&x->here, a, from, here, first, row);
    if (x->part < 1)
        draw_ticks(&x->ahead, a, from + here + 1, width - here - 1, limit, row);
}

static void draw_series(const struct tui_series *s, struct tui_raster *r, const struct across *x,
                        const struct tui_axis *y)
{
    struct tui_pen pen = {.style = s->style, .every = s->every};
    for (int i = 0; i < s->n; i++) {
        double vx, vy;
        s->at(s->arg, i, &vx, &vy);
        double fx = across_at(x, vx), fy = tui_axis_at(y, vy);
        if (!(fx >= 0 && fx <= 1)) {
            /* One point outside still says where the line comes from. */
            pen.down = false;
            continue;
        }
        if (!isfinite(vy) && s->show_gaps)
            tui_raster_mark(r, fx, 0, L'!', TUI_BAD);
        if (s->mark)
            tui_raster_mark(r, fx, isfinite(vy) ? fy : NAN, s->mark, s->style);
        else
            tui_raster_line(r, &pen, fx, fy);
    }
}

static void draw_plot(const struct tui_chart *c, struct tui_area a, const struct across *x,
                      const struct tui_axis *y)
{
    struct tui_raster r;
    tui_raster_init(&r, a.f->symbols, a.w, a.h);
    for (int i = 0; i < c->n_levels; i++)
        tui_raster_hline(&r, tui_axis_at(y, c->level[i].at), c->level[i].every, c->level[i].style);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < c->n_series; i++)
            if (pass == (c->series[i].mark != 0))
                draw_series(&c->series[i], &r, x, y);
    if (x->part < 1)
        tui_raster_vline(&r, x->part, L'║', TUI_RULE);
    for (int i = 0; i < c->n_uprights; i++)
        tui_raster_vline(&r, across_at(x, c->upright[i].at), c->upright[i].mark,
                         c->upright[i].style);
    tui_raster_draw(&r, a);
    tui_raster_fini(&r);
}

void tui_chart_draw(const struct tui_chart *c, struct tui_area a)
{
    double lo, hi;
    struct tui_axis y;
    struct across x;
    if (a.w < 1 || a.h < 1)
        return;
    bool any = find_range(c, &lo, &hi);
    bool x_labels = a.h >= 4, y_labels = a.w >= 24 && a.h >= 2;
    int rows = a.h - x_labels;
    tui_axis_make(&y, any ? lo : 0, any ? hi : 1, c->log, c->y_unit,
                  (rows < 16 ? rows / 2 : rows / 3) + 1);
    int from = y_labels ? widest(&y) + 1 : 0;
    across_make(&x, c, a.w - from);
    struct tui_area plot = tui_area_sub(a, from, 0, a.w - from, rows);
    if (y_labels && any)
        draw_y(&y, a, from - 1, rows);
    if (any && x_labels)
        draw_x(c, &x, a, from, a.h - 1);
    if (any)
        draw_plot(c, plot, &x, &y);
    else if (c->empty)
        tui_put_cut(
            a,
            (a.w - tui_columns(a.f, c->empty)) / 2 > 0 ? (a.w - tui_columns(a.f, c->empty)) / 2 : 0,
            a.h / 2, a.w, TUI_DIM, c->empty);
}
