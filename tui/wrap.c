#include <stdio.h>
#include <string.h>

#include "tui/frame.h"

enum { ROW_ROOM = 1024 };

static bool is_tail(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Without the blanks behind the row. */
size_t tui_row_bytes(const struct tui_frame *f, int w, const char *text)
{
    char row[ROW_ROOM];
    size_t fact = 0, word = 0, cut = 0;
    for (size_t i = 1; *text && i < sizeof row; i++) {
        if (is_tail(text[i]))
            continue;
        snprintf(row, sizeof row, "%.*s", (int)i, text);
        if (tui_columns(f, row) > w)
            break;
        cut = i;
        if (!text[i])
            return i;
        if (text[i] == ' ' && text[i - 1] != ' ') {
            word = i;
            fact = text[i + 1] == ' ' ? i : fact;
        }
    }
    return fact ? fact : word ? word : cut;
}

int tui_rows(const struct tui_frame *f, int w, const char *text, int *last)
{
    char row[ROW_ROOM];
    int rows = 0;
    *last = 0;
    while (*text) {
        size_t n = tui_row_bytes(f, w, text);
        if (!n)
            break;
        snprintf(row, sizeof row, "%.*s", (int)n, text);
        *last = tui_columns(f, row);
        text += n + strspn(text + n, " ");
        rows++;
    }
    return rows;
}

int tui_put_wrapped(struct tui_area a, int y, enum tui_style style, const char *text)
{
    char row[ROW_ROOM];
    for (; *text && y < a.h; y++) {
        size_t n = tui_row_bytes(a.f, a.w, text);
        if (!n)
            break;
        /* The last row says that there is more. */
        snprintf(row, sizeof row, "%.*s", y + 1 == a.h ? ROW_ROOM - 1 : (int)n, text);
        tui_put_cut(a, 0, y, a.w, style, row);
        text += n + strspn(text + n, " ");
    }
    return y;
}
