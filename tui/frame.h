/* One screen as a value: a grid of cells that panes draw into, compared in tests as text and
 * flushed to the terminal at one place. Owned by whoever made it; one thread. */
#ifndef TUI_FRAME_H
#define TUI_FRAME_H

#include <stdbool.h>
#include <wchar.h>

#include "core/base/sb.h"
#include "tui/style.h"

enum tui_chart_symbols { TUI_DOTS_BRAILLE, TUI_DOTS_BLOCK, TUI_DOTS_ASCII };

struct tui_cell {
    wchar_t ch;          /* 0: the right half of the wide character before it */
    unsigned char style; /* enum tui_style */
};

struct tui_frame {
    int w, h;
    bool ascii;  /* only characters below 127 are put in */
    bool square; /* no round corners */
    enum tui_chart_symbols symbols;
    struct tui_cell *cells; /* w × h, row by row */
    int cursor_x, cursor_y; /* -1: no cursor */
};

/* A rectangle of a frame. All drawing is in its own coordinates and cut at its edges. */
struct tui_area {
    struct tui_frame *f;
    int x, y, w, h;
};

enum { TUI_MAX_W = 1000, TUI_MAX_H = 500 };

void tui_frame_init(struct tui_frame *f, int w, int h); /* blank; sizes are brought into 1 … max */
void tui_frame_resize(struct tui_frame *f, int w, int h);
void tui_frame_fini(struct tui_frame *f);
void tui_frame_clear(struct tui_frame *f);
/* Rows without trailing blanks, each ended by a newline. */
void tui_frame_text(const struct tui_frame *f, struct bst_sb *out);

struct tui_area tui_area_all(struct tui_frame *f);
struct tui_area tui_area_sub(struct tui_area a, int x, int y, int w, int h);
void tui_area_fill(struct tui_area a, enum tui_style style);

void tui_cell_put(struct tui_area a, int x, int y, enum tui_style style, wchar_t ch);
/* Text is UTF-8; what could upset a terminal is made visible (bst_text_clean). Returns the columns
 * that the whole text takes, drawn or not. */
int tui_put(struct tui_area a, int x, int y, enum tui_style style, const char *text);
int tui_putf(struct tui_area a, int x, int y, enum tui_style style, const char *fmt, ...)
    BST_PRINTF(5, 6);
/* Within `room` columns, cut with an ellipsis; returns the columns used. */
int tui_put_cut(struct tui_area a, int x, int y, int room, enum tui_style style, const char *text);
/* Ends at column `right` (excluded); returns the column it starts at. */
int tui_put_right(struct tui_area a, int right, int y, enum tui_style style, const char *text);
/* Text in rows (tui/wrap.c): broken where two blanks part two facts, else between words. From row y
 * on, the area's last row cut with an ellipsis; returns the row after the last. */
int tui_put_wrapped(struct tui_area a, int y, enum tui_style style, const char *text);
/* Bytes of the first of those rows in w columns; 0: nothing fits. */
size_t tui_row_bytes(const struct tui_frame *f, int w, const char *text);
/* Rows that a text takes, and the columns of the last of them. */
int tui_rows(const struct tui_frame *f, int w, const char *text, int *last);
/* Columns of a text as tui_put would draw it. */
int tui_columns(const struct tui_frame *f, const char *text);
void tui_hline(struct tui_area a, int x, int y, int n, enum tui_style style);
void tui_vline(struct tui_area a, int x, int y, int n, enum tui_style style);
void tui_box(struct tui_area a, enum tui_style style);

#endif
