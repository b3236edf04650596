/* A chart as dots: lines, gaps and marks on a grid finer than the cells of the screen, then one
 * character a cell. No terminal. Owned by whoever made it; one thread. */
#ifndef TUI_RASTER_H
#define TUI_RASTER_H

#include <stdbool.h>
#include <wchar.h>

#include "tui/frame.h"

struct tui_raster {
    enum tui_chart_symbols symbols;
    int w, h;             /* cells */
    int dots_x, dots_y;   /* dots of a cell: 2×4 braille, 1×2 otherwise */
    unsigned char *dots;  /* w × h bit patterns, bit row × dots_x + column */
    unsigned char *style; /* of the last line that passed through the cell */
    wchar_t *mark;        /* a character instead of dots; 0: none */
};

/* One line being drawn from left to right. */
struct tui_pen {
    enum tui_style style;
    int every; /* draw each n-th dot column only: 1 solid, 2 or 3 dotted */
    bool down; /* the last point was drawn, the next is joined to it */
    double x, y;
};

void tui_raster_init(struct tui_raster *r, enum tui_chart_symbols symbols, int w, int h);
void tui_raster_fini(struct tui_raster *r);
/* Positions are fractions: x from 0 left to 1 right, y from 0 bottom to 1 top. A y that is not
 * finite lifts the pen, so a gap stays; outside 0…1 it is drawn at the edge. x never goes back. */
void tui_raster_line(struct tui_raster *r, struct tui_pen *pen, double x, double y);
void tui_raster_mark(struct tui_raster *r, double x, double y, wchar_t mark, enum tui_style style);
void tui_raster_hline(struct tui_raster *r, double y, int every, enum tui_style style);
void tui_raster_vline(struct tui_raster *r, double x, wchar_t mark, enum tui_style style);
void tui_raster_draw(const struct tui_raster *r, struct tui_area a);
wchar_t tui_raster_char(enum tui_chart_symbols symbols, unsigned pattern);

#endif
