#include "tui/frame.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

enum { TEXT_CAP = 4096 };

static int within(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

void tui_frame_init(struct tui_frame *f, int w, int h)
{
    memset(f, 0, sizeof *f);
    tui_frame_resize(f, w, h);
}

void tui_frame_resize(struct tui_frame *f, int w, int h)
{
    w = within(w, 1, TUI_MAX_W);
    h = within(h, 1, TUI_MAX_H);
    if (w != f->w || h != f->h) {
        bst_free(f->cells);
        f->cells = bst_xcalloc((size_t)w * (size_t)h, sizeof *f->cells);
        f->w = w;
        f->h = h;
    }
    tui_frame_clear(f);
}

void tui_frame_fini(struct tui_frame *f)
{
    bst_free(f->cells);
    f->cells = NULL;
    f->w = f->h = 0;
}

void tui_frame_clear(struct tui_frame *f)
{
    for (int i = 0; i < f->w * f->h; i++)
        f->cells[i] = (struct tui_cell){L' ', TUI_NORMAL};
    f->cursor_x = f->cursor_y = -1;
}

static void add_wide(struct bst_sb *out, wchar_t ch)
{
    uint32_t c = (uint32_t)ch;
    if (c < 0x80) {
        bst_sb_addc(out, (char)c);
    } else if (c < 0x800) {
        bst_sb_addc(out, (char)(0xC0 | c >> 6));
        bst_sb_addc(out, (char)(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        bst_sb_addc(out, (char)(0xE0 | c >> 12));
        bst_sb_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        bst_sb_addc(out, (char)(0x80 | (c & 0x3F)));
    } else {
        bst_sb_addc(out, (char)(0xF0 | c >> 18));
        bst_sb_addc(out, (char)(0x80 | (c >> 12 & 0x3F)));
        bst_sb_addc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        bst_sb_addc(out, (char)(0x80 | (c & 0x3F)));
    }
}

void tui_frame_text(const struct tui_frame *f, struct bst_sb *out)
{
    for (int y = 0; y < f->h; y++) {
        const struct tui_cell *row = &f->cells[y * f->w];
        int n = f->w;
        while (n && row[n - 1].ch == L' ')
            n--;
        for (int x = 0; x < n; x++)
            if (row[x].ch)
                add_wide(out, row[x].ch);
        bst_sb_addc(out, '\n');
    }
}

struct tui_area tui_area_all(struct tui_frame *f)
{
    return (struct tui_area){f, 0, 0, f->w, f->h};
}

struct tui_area tui_area_sub(struct tui_area a, int x, int y, int w, int h)
{
    x = within(x, 0, a.w);
    y = within(y, 0, a.h);
    return (struct tui_area){a.f, a.x + x, a.y + y, within(w, 0, a.w - x), within(h, 0, a.h - y)};
}

void tui_area_fill(struct tui_area a, enum tui_style style)
{
    for (int y = 0; y < a.h; y++)
        for (int x = 0; x < a.w; x++)
            tui_cell_put(a, x, y, style, L' ');
}

/* What is shown where only ASCII may be; the width stays 1 except for the ellipsis, which callers
 * of tui_put_cut get as one dot more. */
static const struct {
    wchar_t from;
    char to;
} plain[] = {
    {L'─', '-'},  {L'│', '|'}, {L'┌', '+'}, {L'┐', '+'}, {L'└', '+'}, {L'┘', '+'}, {L'├', '+'},
    {L'┤', '|'},  {L'┬', '+'}, {L'┴', '+'}, {L'╭', '+'}, {L'╮', '+'}, {L'╰', '+'}, {L'╯', '+'},
    {L'×', 'x'},  {L'±', '~'}, {L'·', '-'}, {L'…', '.'}, {L'→', '>'}, {L'←', '<'}, {L'↑', '^'},
    {L'↓', 'v'},  {L'▲', '^'}, {L'▼', 'v'}, {L'●', '*'}, {L'○', 'o'}, {L'◆', 'o'}, {L'█', '#'},
    {L'▓', '#'},  {L'▒', '='}, {L'░', '.'}, {L'▏', '|'}, {L'▕', '|'}, {L'≤', '<'}, {L'≥', '>'},
    {L'°', ' '},  {L'–', '-'}, {L'—', '-'}, {L'−', '-'}, {L'÷', '/'}, {L'Δ', 'd'}, {L'‖', '|'},
    {L'║', '|'},  {L'▸', '>'}, {L'✓', '*'}, {L'┊', ':'}, {L'│', '|'}, {L'“', '"'}, {L'”', '"'},
    {L'’', '\''},
};

/* A character of the console's own, or what stands for it in ASCII. */
static wchar_t plain_char(const struct tui_frame *f, wchar_t ch)
{
    if (!f->ascii || (ch >= L' ' && ch < 127))
        return ch;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].from == ch)
            return (wchar_t)plain[i].to;
    return L'?';
}

static int width_of(const struct tui_frame *f, wchar_t ch)
{
    if (f->ascii || ch < 127)
        return 1;
    int w = wcwidth(ch);
    return w;
}

void tui_cell_put(struct tui_area a, int x, int y, enum tui_style style, wchar_t ch)
{
    if (x < 0 || y < 0 || x >= a.w || y >= a.h || a.x + x >= a.f->w || a.y + y >= a.f->h)
        return;
    ch = plain_char(a.f, ch);
    int wide = width_of(a.f, ch) == 2;
    struct tui_cell *c = &a.f->cells[(a.y + y) * a.f->w + a.x + x];
    if (wide && (x + 1 >= a.w || a.x + x + 1 >= a.f->w)) {
        ch = L' ';
        wide = 0;
    }
    /* Half of an older wide character must not be left standing. */
    if (!c->ch && a.x + x > 0)
        c[-1].ch = L' ';
    struct tui_cell *next = a.x + x + 1 < a.f->w ? c + 1 : NULL;
    if (next && !next->ch)
        next->ch = L' ';
    *c = (struct tui_cell){ch, (unsigned char)style};
    if (wide) {
        if (a.x + x + 2 < a.f->w && !c[2].ch)
            c[2].ch = L' ';
        *next = (struct tui_cell){0, (unsigned char)style};
    }
}

static size_t next_char(const char *s, size_t n, wchar_t *ch)
{
    uint32_t point;
    size_t len = bst_text_utf8(s, n, &point);
    BST_ASSERT(len); /* cleaned text is valid */
    *ch = (wchar_t)point;
    return len;
}

/* Draws cleaned text into the columns [x, limit); returns the columns of the whole. */
static int put_clean(struct tui_area a, int x, int y, int limit, enum tui_style style,
                     const struct bst_sb *text)
{
    int used = 0;
    for (size_t i = 0; i < text->len;) {
        wchar_t ch;
        i += next_char(text->data + i, text->len - i, &ch);
        ch = plain_char(a.f, ch);
        int w = width_of(a.f, ch);
        if (w < 0) {
            ch = L'?';
            w = 1;
        }
        if (w && x + used + w <= limit)
            tui_cell_put(a, x + used, y, style, ch);
        used += w;
    }
    return used;
}

static int put(struct tui_area a, int x, int y, int limit, enum tui_style style, const char *text)
{
    struct bst_sb clean;
    bst_sb_init(&clean, TEXT_CAP);
    bst_text_clean(&clean, text, strnlen(text, TEXT_CAP / 8));
    int used = put_clean(a, x, y, limit, style, &clean);
    bst_sb_fini(&clean);
    return used;
}

int tui_put(struct tui_area a, int x, int y, enum tui_style style, const char *text)
{
    return put(a, x, y, a.w, style, text);
}

int tui_putf(struct tui_area a, int x, int y, enum tui_style style, const char *fmt, ...)
{
    struct bst_sb text;
    va_list ap;
    bst_sb_init(&text, TEXT_CAP);
    va_start(ap, fmt);
    bst_sb_addv(&text, fmt, ap);
    va_end(ap);
    int used = put(a, x, y, a.w, style, text.data);
    bst_sb_fini(&text);
    return used;
}

int tui_columns(const struct tui_frame *f, const char *text)
{
    struct tui_frame nowhere = {.ascii = f->ascii};
    return put((struct tui_area){&nowhere, 0, 0, 0, 0}, 0, 0, 0, TUI_NORMAL, text);
}

int tui_put_cut(struct tui_area a, int x, int y, int room, enum tui_style style, const char *text)
{
    if (room <= 0)
        return 0;
    int all = tui_columns(a.f, text);
    if (all <= room) {
        put(a, x, y, x + room, style, text);
        return all;
    }
    put(a, x, y, x + room - 1, style, text);
    tui_cell_put(a, x + room - 1, y, style, L'…');
    return room;
}

int tui_put_right(struct tui_area a, int right, int y, enum tui_style style, const char *text)
{
    int x = right - tui_columns(a.f, text);
    tui_put(a, x, y, style, text);
    return x;
}

void tui_hline(struct tui_area a, int x, int y, int n, enum tui_style style)
{
    for (int i = 0; i < n; i++)
        tui_cell_put(a, x + i, y, style, L'─');
}

void tui_vline(struct tui_area a, int x, int y, int n, enum tui_style style)
{
    for (int i = 0; i < n; i++)
        tui_cell_put(a, x, y + i, style, L'│');
}

void tui_box(struct tui_area a, enum tui_style style)
{
    if (a.w < 2 || a.h < 2)
        return;
    tui_hline(a, 1, 0, a.w - 2, style);
    tui_hline(a, 1, a.h - 1, a.w - 2, style);
    tui_vline(a, 0, 1, a.h - 2, style);
    tui_vline(a, a.w - 1, 1, a.h - 2, style);
    tui_cell_put(a, 0, 0, style, a.f->square ? L'┌' : L'╭');
    tui_cell_put(a, a.w - 1, 0, style, a.f->square ? L'┐' : L'╮');
    tui_cell_put(a, 0, a.h - 1, style, a.f->square ? L'└' : L'╰');
    tui_cell_put(a, a.w - 1, a.h - 1, style, a.f->square ? L'┘' : L'╯');
}
