/* A plot onto a cairo context: title and legend above, axes around, what was added inside. */
#include <math.h>

#include "core/report/plot_inner.h"

enum { TEXT = 12, TITLE = 15, GAP = 8, TICK = 4, KEY = 18, ACROSS = 90, DOWN = 45 };

struct frame { /* of the plotted area, in pixels */
    double left, top, width, height;
    struct bst_plot_scale x, y;
};

static void ink(cairo_t *cr, enum bst_plot_colour c, double alpha)
{
    double rgb[3];
    bst_plot_rgb(c, rgb);
    cairo_set_source_rgba(cr, rgb[0], rgb[1], rgb[2], alpha);
}

static double width_of(cairo_t *cr, const char *s)
{
    cairo_text_extents_t e;
    cairo_text_extents(cr, s, &e);
    return e.x_advance;
}

/* x: where the text's `share` (0 its start, 1 its end) stands. */
static void text(cairo_t *cr, double x, double y, double share, const char *s)
{
    cairo_move_to(cr, x - share * width_of(cr, s), y);
    cairo_show_text(cr, s);
}

static void font(cairo_t *cr, double size, bool bold)
{
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

static double px(const struct frame *f, double x)
{
    return f->left + f->width * bst_plot_scale_at(&f->x, x);
}

static double py(const struct frame *f, double y)
{
    return f->top + f->height * (1 - bst_plot_scale_at(&f->y, y));
}

static void widen(double v, bool log, double *low, double *high)
{
    if (!isfinite(v) || (log && v <= 0))
        return;
    *low = isnan(*low) || v < *low ? v : *low;
    *high = isnan(*high) || v > *high ? v : *high;
}

static void fit(const struct bst_plot *p, const struct bst_plot_axis *a, bool of_x, int most,
                struct bst_plot_scale *out)
{
    double low = NAN, high = NAN;
    bool fixed = a->low != 0 || a->high != 0;
    for (int i = 0; i < p->n_items; i++) {
        const struct bst_plot_item *it = &p->items[i];
        for (int k = 0; k < it->n && bst_plot_counts(it); k++) {
            widen(of_x ? it->x[k] : it->y[k], a->log, &low, &high);
            if (!of_x && it->high)
                widen(it->high[k], a->log, &low, &high);
        }
    }
    bst_plot_scale_make(out, fixed ? a->low : low, fixed ? a->high : high, a->log, fixed, most);
}

static bool in_legend(const struct bst_plot_item *it)
{
    return it->label && bst_plot_counts(it);
}

static void key(cairo_t *cr, const struct bst_plot_item *it, double x, double y)
{
    ink(cr, it->colour, it->kind == PLOT_BAND ? 0.25 : 1);
    if (it->kind == PLOT_BAND) {
        cairo_rectangle(cr, x, y - 9, KEY, 10);
        cairo_fill(cr);
    } else if (it->kind == PLOT_POINTS) {
        cairo_arc(cr, x + KEY / 2.0, y - 4, 3, 0, 2 * M_PI);
        cairo_fill(cr);
    } else {
        double dash[] = {4, 3};
        cairo_set_line_width(cr, it->kind == PLOT_DASHES ? 1.2 : 2);
        cairo_set_dash(cr, dash, it->kind == PLOT_DASHES ? 2 : 0, 0);
        cairo_move_to(cr, x, y - 4);
        cairo_line_to(cr, x + KEY, y - 4);
        cairo_stroke(cr);
        cairo_set_dash(cr, NULL, 0, 0);
    }
}

/* Entries side by side, in as many rows as it takes; gives the y below the last. */
static double legend(cairo_t *cr, const struct bst_plot *p, double left, double y)
{
    double x = left;
    bool any = false;
    font(cr, TEXT, false);
    for (int i = 0; i < p->n_items; i++) {
        const struct bst_plot_item *it = &p->items[i];
        if (!in_legend(it))
            continue;
        double need = KEY + 5 + width_of(cr, it->label) + 2 * GAP;
        if (any && x + need > p->cfg.width - GAP) {
            x = left;
            y += TEXT + 6;
        }
        any = true;
        key(cr, it, x, y + TEXT);
        ink(cr, BST_PLOT_GREY, 1);
        text(cr, x + KEY + 5, y + TEXT, 0, it->label);
        x += need;
    }
    return any ? y + TEXT + 6 : y;
}

static double widest_label(cairo_t *cr, const struct bst_plot_scale *s)
{
    double w = 0;
    for (int i = 0; i < s->n; i++)
        w = fmax(w, width_of(cr, s->label[i]));
    return w;
}

static void grid(cairo_t *cr, const struct frame *f)
{
    cairo_set_line_width(cr, 1);
    for (int i = 0; i < f->x.n; i++) {
        double x = px(f, f->x.tick[i]);
        ink(cr, BST_PLOT_GREY, f->x.label[i][0] ? 0.22 : 0.1);
        cairo_move_to(cr, x, f->top);
        cairo_line_to(cr, x, f->top + f->height);
        cairo_stroke(cr);
        ink(cr, BST_PLOT_GREY, 1);
        text(cr, x, f->top + f->height + TICK + TEXT, 0.5, f->x.label[i]);
    }
    for (int i = 0; i < f->y.n; i++) {
        double y = py(f, f->y.tick[i]);
        ink(cr, BST_PLOT_GREY, f->y.label[i][0] ? 0.22 : 0.1);
        cairo_move_to(cr, f->left, y);
        cairo_line_to(cr, f->left + f->width, y);
        cairo_stroke(cr);
        ink(cr, BST_PLOT_GREY, 1);
        text(cr, f->left - TICK - 2, y + TEXT / 3.0, 1, f->y.label[i]);
    }
    ink(cr, BST_PLOT_GREY, 1);
    cairo_move_to(cr, f->left, f->top);
    cairo_line_to(cr, f->left, f->top + f->height);
    cairo_line_to(cr, f->left + f->width, f->top + f->height);
    cairo_stroke(cr);
}

static void axis_labels(cairo_t *cr, const struct bst_plot *p, const struct frame *f)
{
    ink(cr, BST_PLOT_GREY, 1);
    if (p->cfg.x.label)
        text(cr, f->left + f->width / 2, f->top + f->height + TICK + 2 * TEXT + 6, 0.5,
             p->cfg.x.label);
    if (!p->cfg.y.label)
        return;
    cairo_save(cr);
    cairo_translate(cr, GAP + TEXT, f->top + f->height / 2);
    cairo_rotate(cr, -M_PI / 2);
    text(cr, 0, 0, 0.5, p->cfg.y.label);
    cairo_restore(cr);
}

static void draw_line(cairo_t *cr, const struct frame *f, const struct bst_plot_item *it)
{
    double dash[] = {5, 4};
    bool dashed = it->kind == PLOT_DASHES, down = false;
    cairo_set_line_width(cr, dashed ? 1.2 : 2);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(cr, dash, dashed ? 2 : 0, 0);
    for (int i = 0; i < it->n; i++) {
        double x = px(f, it->x[i]), y = py(f, it->y[i]);
        if (isnan(x) || isnan(y))
            down = false;
        else if (down)
            cairo_line_to(cr, x, y);
        else
            cairo_move_to(cr, x, y);
        down = !isnan(x) && !isnan(y);
    }
    cairo_stroke(cr);
    cairo_set_dash(cr, NULL, 0, 0);
}

static void draw_points(cairo_t *cr, const struct frame *f, const struct bst_plot_item *it)
{
    double radius = it->n > 60 ? 1.6 : 3.2;
    for (int i = 0; i < it->n; i++) {
        double x = px(f, it->x[i]), y = py(f, it->y[i]);
        if (isnan(x) || isnan(y))
            continue;
        cairo_new_sub_path(cr);
        cairo_arc(cr, x, y, radius, 0, 2 * M_PI);
    }
    cairo_fill(cr);
}

static bool has_band(const struct frame *f, const struct bst_plot_item *it, int i)
{
    return !isnan(px(f, it->x[i])) && !isnan(py(f, it->y[i])) && !isnan(py(f, it->high[i]));
}

/* Each stretch without a gap on its own. */
static void draw_band(cairo_t *cr, const struct frame *f, const struct bst_plot_item *it)
{
    for (int i = 0; i < it->n;) {
        int end = i;
        while (end < it->n && has_band(f, it, end))
            end++;
        for (int k = i; k < end; k++)
            cairo_line_to(cr, px(f, it->x[k]), py(f, it->high[k]));
        for (int k = end - 1; k >= i; k--)
            cairo_line_to(cr, px(f, it->x[k]), py(f, it->y[k]));
        cairo_close_path(cr);
        cairo_fill(cr);
        i = end + 1;
    }
}

/* `after`: the words stand on the right of an upright line, not on its left. */
static void draw_across(cairo_t *cr, const struct frame *f, const struct bst_plot_item *it,
                        bool after)
{
    double dash[] = {2, 3};
    bool upright = it->kind == PLOT_UPRIGHT;
    double share =
        upright ? bst_plot_scale_at(&f->x, it->x[0]) : bst_plot_scale_at(&f->y, it->y[0]);
    if (!(share >= 0 && share <= 1))
        return;
    double x = f->left + f->width * share, y = f->top + f->height * (1 - share);
    cairo_set_line_width(cr, 1.4);
    cairo_set_dash(cr, dash, 2, 0);
    cairo_move_to(cr, upright ? x : f->left, upright ? f->top : y);
    cairo_line_to(cr, upright ? x : f->left + f->width, upright ? f->top + f->height : y);
    cairo_stroke(cr);
    cairo_set_dash(cr, NULL, 0, 0);
    if (!it->label)
        return;
    if (!upright) {
        text(cr, f->left + f->width - 4, y - 4, 1, it->label);
        return;
    }
    cairo_save(cr);
    cairo_translate(cr, after ? x + TEXT + 1 : x - 4, f->top + 4);
    cairo_rotate(cr, -M_PI / 2);
    text(cr, 0, 0, 1, it->label);
    cairo_restore(cr);
}

static void draw_words(cairo_t *cr, const struct frame *f, const struct bst_plot_item *it)
{
    double x = px(f, it->x[0]), y = py(f, it->y[0]);
    if (isnan(x) || isnan(y) || !it->label)
        return;
    bool right = x + 6 + width_of(cr, it->label) > f->left + f->width;
    text(cr, right ? x - 6 : x + 6, y - 6, right ? 1 : 0, it->label);
}

/* Whether an odd number of upright lines came before: their words take sides in turn. */
static bool is_second(const struct bst_plot *p, const struct bst_plot_item *it)
{
    int n = 0;
    for (const struct bst_plot_item *at = p->items; at < it; at++)
        n += at->kind == PLOT_UPRIGHT;
    return n % 2;
}

static void draw_item(cairo_t *cr, const struct frame *f, const struct bst_plot *p,
                      const struct bst_plot_item *it)
{
    ink(cr, it->colour, it->kind == PLOT_BAND ? 0.25 : 1);
    switch (it->kind) {
    case PLOT_LINE:
    case PLOT_DASHES:
        draw_line(cr, f, it);
        return;
    case PLOT_POINTS:
        draw_points(cr, f, it);
        return;
    case PLOT_BAND:
        draw_band(cr, f, it);
        return;
    case PLOT_UPRIGHT:
    case PLOT_LEVEL:
        draw_across(cr, f, it, is_second(p, it));
        return;
    case PLOT_WORDS:
        draw_words(cr, f, it);
        return;
    }
}

void bst_plot_draw(const struct bst_plot *p, cairo_t *cr)
{
    struct frame f = {.top = GAP};
    fit(p, &p->cfg.x, true, p->cfg.width / ACROSS, &f.x);
    fit(p, &p->cfg.y, false, p->cfg.height / DOWN, &f.y);
    if (p->cfg.title) {
        font(cr, TITLE, true);
        ink(cr, BST_PLOT_GREY, 1);
        text(cr, 2 * GAP, f.top + TITLE, 0, p->cfg.title);
        f.top += TITLE + GAP;
    }
    f.top = legend(cr, p, 2 * GAP, f.top) + GAP;
    f.left = GAP + (p->cfg.y.label ? TEXT + GAP : 0) + widest_label(cr, &f.y) + TICK + 2;
    f.width = p->cfg.width - f.left - 2 * GAP;
    f.height = p->cfg.height - f.top - TICK - TEXT - GAP - (p->cfg.x.label ? TEXT + 6 : 0);
    grid(cr, &f);
    axis_labels(cr, p, &f);
    cairo_save(cr);
    cairo_rectangle(cr, f.left, f.top, f.width, f.height);
    cairo_clip(cr);
    for (int i = 0; i < p->n_items; i++)
        draw_item(cr, &f, p, &p->items[i]);
    cairo_restore(cr);
}
