#include "tui/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"

void tui_raster_init(struct tui_raster *r, enum tui_chart_symbols symbols, int w, int h)
{
    r->symbols = symbols;
    r->w = w > 0 ? w : 0;
    r->h = h > 0 ? h : 0;
    r->dots_x = symbols == TUI_DOTS_BRAILLE ? 2 : 1;
    r->dots_y = symbols == TUI_DOTS_BRAILLE ? 4 : 2;
    size_t n = (size_t)r->w * (size_t)r->h;
    r->dots = bst_xcalloc(n + 1, 1);
    r->style = bst_xcalloc(n + 1, 1);
    r->mark = bst_xcalloc(n + 1, sizeof *r->mark);
}

void tui_raster_fini(struct tui_raster *r)
{
    bst_free(r->dots);
    bst_free(r->style);
    bst_free(r->mark);
    memset(r, 0, sizeof *r);
}

static void dot(struct tui_raster *r, int x, int y, enum tui_style style)
{
    if (x < 0 || y < 0 || x >= r->w * r->dots_x || y >= r->h * r->dots_y)
        return;
    int cell = y / r->dots_y * r->w + x / r->dots_x;
    r->dots[cell] |= (unsigned char)(1u << (y % r->dots_y * r->dots_x + x % r->dots_x));
    r->style[cell] = (unsigned char)style;
}

static int column_of(const struct tui_raster *r, double x)
{
    int n = r->w * r->dots_x;
    if (!(x > 0))
        return 0;
    return x >= 1 ? n - 1 : (int)lround(x * (n - 1));
}

static int row_of(const struct tui_raster *r, double y)
{
    int n = r->h * r->dots_y;
    if (!(y > 0))
        return n - 1;
    return y >= 1 ? 0 : (int)lround((1 - y) * (n - 1));
}

static void vertical(struct tui_raster *r, const struct tui_pen *pen, int x, int y0, int y1)
{
    if (pen->every > 1 && x % pen->every)
        return;
    int from = y0 < y1 ? y0 : y1, to = y0 < y1 ? y1 : y0;
    /* A dotted line stays dotted where it is steep. */
    for (int y = from; y <= to; y++)
        if (pen->every <= 1 || (y - from) % pen->every == 0)
            dot(r, x, y, pen->style);
}

/* Each dot column gets the span the line has in it, so that steep parts have no holes and a column
 * that many points fall into shows their least and greatest. */
static void segment(struct tui_raster *r, const struct tui_pen *pen, int x0, int y0, int x1, int y1)
{
    if (x1 <= x0) {
        vertical(r, pen, x1, y0, y1);
        return;
    }
    int last = y0;
    for (int x = x0; x <= x1; x++) {
        int y = y0 + (int)lround((double)(y1 - y0) * (x - x0) / (x1 - x0));
        int start = x == x0 || y == last ? y : last + (y > last ? 1 : -1);
        vertical(r, pen, x, start, y);
        last = y;
    }
}

void tui_raster_line(struct tui_raster *r, struct tui_pen *pen, double x, double y)
{
    if (!isfinite(y) || !isfinite(x) || !r->w || !r->h) {
        pen->down = false;
        return;
    }
    int cx = column_of(r, x), cy = row_of(r, y);
    if (pen->down)
        segment(r, pen, column_of(r, pen->x), row_of(r, pen->y), cx, cy);
    else
        vertical(r, pen, cx, cy, cy);
    pen->down = true;
    pen->x = x;
    pen->y = y;
}

static int cell_of(const struct tui_raster *r, double x, double y)
{
    return row_of(r, y) / r->dots_y * r->w + column_of(r, x) / r->dots_x;
}

void tui_raster_mark(struct tui_raster *r, double x, double y, wchar_t mark, enum tui_style style)
{
    if (!r->w || !r->h || !isfinite(x) || !isfinite(y))
        return;
    int cell = cell_of(r, x, y);
    r->mark[cell] = mark;
    r->style[cell] = (unsigned char)style;
}

void tui_raster_hline(struct tui_raster *r, double y, int every, enum tui_style style)
{
    if (!r->w || !r->h || !(y >= 0 && y <= 1))
        return;
    for (int x = 0; x<r->w * r->dots_x; x += every> 0 ? every : 1)
        dot(r, x, row_of(r, y), style);
}

void tui_raster_vline(struct tui_raster *r, double x, wchar_t mark, enum tui_style style)
{
    if (!r->w || !(x >= 0 && x <= 1))
        return;
    for (int y = 0; y < r->h; y++) {
        int cell = y * r->w + column_of(r, x) / r->dots_x;
        if (!r->dots[cell] && !r->mark[cell]) {
            r->mark[cell] = mark;
            r->style[cell] = (unsigned char)style;
        }
    }
}

wchar_t tui_raster_char(enum tui_chart_symbols symbols, unsigned pattern)
{
    /* Unicode numbers braille dots down the left column, down the right, then the lowest row. */
    static const unsigned char braille[] = {0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80};
    static const wchar_t block[] = {L' ', L'▀', L'▄', L'█'};
    static const wchar_t ascii[] = {L' ', L'\'', L'.', L':'};
    if (!pattern)
        return L' ';
    if (symbols == TUI_DOTS_BLOCK)
        return block[pattern & 3];
    if (symbols == TUI_DOTS_ASCII)
        return ascii[pattern & 3];
    unsigned code = 0;
    for (int i = 0; i < 8; i++)
        if (pattern & 1u << i)
            code |= braille[i];
    return (wchar_t)(0x2800 + code);
}

void tui_raster_draw(const struct tui_raster *r, struct tui_area a)
{
    for (int y = 0; y < r->h; y++)
        for (int x = 0; x < r->w; x++) {
            int cell = y * r->w + x;
            if (r->mark[cell])
                tui_cell_put(a, x, y, r->style[cell], r->mark[cell]);
            else if (r->dots[cell])
                tui_cell_put(a, x, y, r->style[cell], tui_raster_char(r->symbols, r->dots[cell]));
        }
}
