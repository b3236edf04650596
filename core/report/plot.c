#include "core/report/plot.h"

#include <cairo-svg.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/report/plot_inner.h"

enum { WIDTH = 720, HEIGHT = 440, SIZE_LEAST = 160, SIZE_MOST = 8000, FILE_CAP = 32 << 20 };

/* Contrast of at least 3 : 1 with white and with black (WCAG 2.1, 1.4.11); text is grey, 4.5 : 1
 * with both. */
static const double colours[BST_PLOT_COLOURS][3] = {
    [BST_PLOT_BLUE] = {0.184, 0.498, 0.816},  [BST_PLOT_ORANGE] = {0.851, 0.412, 0.039},
    [BST_PLOT_GREEN] = {0.122, 0.569, 0.271}, [BST_PLOT_PURPLE] = {0.639, 0.373, 0.769},
    [BST_PLOT_RED] = {0.847, 0.255, 0.290},   [BST_PLOT_TEAL] = {0.059, 0.561, 0.561},
    [BST_PLOT_BROWN] = {0.627, 0.455, 0.290}, [BST_PLOT_GREY] = {0.463, 0.463, 0.463},
};

enum bst_plot_colour bst_plot_colour_at(int i)
{
    return (enum bst_plot_colour)((i < 0 ? 0 : i) % BST_PLOT_GREY);
}

void bst_plot_rgb(enum bst_plot_colour c, double rgb[3])
{
    memcpy(rgb, colours[c], sizeof colours[c]);
}

static char *dup_or_null(const char *s)
{
    return s ? bst_xstrdup(s) : NULL;
}

static int size_or(int given, int otherwise)
{
    if (given <= 0)
        return otherwise;
    return given < SIZE_LEAST ? SIZE_LEAST : given > SIZE_MOST ? SIZE_MOST : given;
}

struct bst_plot *bst_plot_new(const struct bst_plot_cfg *cfg)
{
    struct bst_plot *p = bst_xalloc(sizeof *p);
    p->cfg = *cfg;
    p->cfg.title = dup_or_null(cfg->title);
    p->cfg.x.label = dup_or_null(cfg->x.label);
    p->cfg.y.label = dup_or_null(cfg->y.label);
    p->cfg.width = size_or(cfg->width, WIDTH);
    p->cfg.height = size_or(cfg->height, HEIGHT);
    return p;
}

void bst_plot_free(struct bst_plot *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_items; i++) {
        bst_free(p->items[i].label);
        bst_free(p->items[i].x);
        bst_free(p->items[i].y);
        bst_free(p->items[i].high);
    }
    bst_free(p->items);
    bst_free((char *)p->cfg.title);
    bst_free((char *)p->cfg.x.label);
    bst_free((char *)p->cfg.y.label);
    bst_free(p);
}

static double *dup_numbers(const double *v, int n)
{
    if (!v || n < 1)
        return NULL;
    double *out = bst_xcalloc((size_t)n, sizeof *out);
    memcpy(out, v, (size_t)n * sizeof *out);
    return out;
}

static void add(struct bst_plot *p, struct bst_plot_item it)
{
    p->items = bst_xrealloc(p->items, (size_t)p->n_items + 1, sizeof *p->items);
    it.n = it.n < 0 ? 0 : it.n;
    it.label = dup_or_null(it.label);
    it.x = dup_numbers(it.x, it.n);
    it.y = dup_numbers(it.y, it.n);
    it.high = dup_numbers(it.high, it.n);
    p->items[p->n_items++] = it;
}

void bst_plot_line(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                   const double *y, int n)
{
    add(p, (struct bst_plot_item){PLOT_LINE, c, (char *)label, n, (double *)x, (double *)y, NULL});
}

void bst_plot_dashes(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                     const double *y, int n)
{
    add(p,
        (struct bst_plot_item){PLOT_DASHES, c, (char *)label, n, (double *)x, (double *)y, NULL});
}

void bst_plot_points(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                     const double *y, int n)
{
    add(p,
        (struct bst_plot_item){PLOT_POINTS, c, (char *)label, n, (double *)x, (double *)y, NULL});
}

void bst_plot_band(struct bst_plot *p, const char *label, enum bst_plot_colour c, const double *x,
                   const double *low, const double *high, int n)
{
    add(p, (struct bst_plot_item){PLOT_BAND, c, (char *)label, n, (double *)x, (double *)low,
                                  (double *)high});
}

void bst_plot_upright(struct bst_plot *p, const char *words, enum bst_plot_colour c, double x)
{
    add(p, (struct bst_plot_item){PLOT_UPRIGHT, c, (char *)words, 1, &x, NULL, NULL});
}

void bst_plot_level(struct bst_plot *p, const char *words, enum bst_plot_colour c, double y)
{
    add(p, (struct bst_plot_item){PLOT_LEVEL, c, (char *)words, 1, NULL, &y, NULL});
}

void bst_plot_words(struct bst_plot *p, enum bst_plot_colour c, double x, double y,
                    const char *words)
{
    add(p, (struct bst_plot_item){PLOT_WORDS, c, (char *)words, 1, &x, &y, NULL});
}

static cairo_status_t take(void *closure, const unsigned char *data, unsigned n)
{
    struct bst_sb *out = closure;
    bst_sb_addn(out, (const char *)data, n);
    return out->full ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static enum bst_err of_cairo(cairo_status_t status)
{
    if (status == CAIRO_STATUS_SUCCESS)
        return BST_OK;
    return bst_fail(status == CAIRO_STATUS_NO_MEMORY ? BST_E_NOMEM : BST_E_LIBRARY, "cairo: %s",
                    cairo_status_to_string(status));
}

static enum bst_err draw_on(const struct bst_plot *p, cairo_surface_t *surface, bool on_white)
{
    cairo_t *cr = cairo_create(surface);
    if (on_white) {
        cairo_set_source_rgb(cr, 1, 1, 1);
        cairo_paint(cr);
    }
    bst_plot_draw(p, cr);
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    return of_cairo(status);
}

enum bst_err bst_plot_svg(const struct bst_plot *p, struct bst_sb *out)
{
    cairo_surface_t *s =
        cairo_svg_surface_create_for_stream(take, out, p->cfg.width, p->cfg.height);
    cairo_svg_surface_set_document_unit(s, CAIRO_SVG_UNIT_PX);
    enum bst_err err = draw_on(p, s, false);
    cairo_surface_finish(s);
    if (!err)
        err = of_cairo(cairo_surface_status(s));
    cairo_surface_destroy(s);
    return err;
}

/* At twice the size, for screens of fine pixels. */
static enum bst_err print_png(const struct bst_plot *p, struct bst_sb *out)
{
    cairo_surface_t *s =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, 2 * p->cfg.width, 2 * p->cfg.height);
    cairo_surface_set_device_scale(s, 2, 2);
    enum bst_err err = draw_on(p, s, true);
    if (!err)
        err = of_cairo(cairo_surface_write_to_png_stream(s, take, out));
    cairo_surface_destroy(s);
    return err;
}

enum bst_err bst_plot_write(const struct bst_plot *p, const char *path)
{
    const char *dot = strrchr(path, '.');
    bool svg = dot && !strcmp(dot, ".svg");
    struct bst_sb out;
    if (!svg && (!dot || strcmp(dot, ".png") != 0))
        return bst_fail(BST_E_ARG, "%s: a plot is a .svg or a .png", path);
    bst_sb_init(&out, FILE_CAP);
    enum bst_err err = svg ? bst_plot_svg(p, &out) : print_png(p, &out);
    if (!err)
        err = bst_io_replace_file(path, out.data, out.len);
    bst_sb_fini(&out);
    return err;
}
