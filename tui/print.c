#include "tui/print.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/text.h"

enum { TEXT_CAP = 64 << 10, COLUMNS_USUAL = 80 };

static void add_clean(struct bst_sb *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        bst_text_clean(out, text, n);
        text += n;
        if (*text)
            bst_sb_addc(out, *text++);
    }
}

void tui_print(FILE *to, const char *fmt, ...)
{
    struct bst_sb raw, clean;
    va_list ap;
    bst_sb_init(&raw, TEXT_CAP);
    bst_sb_init(&clean, 4 * TEXT_CAP);
    va_start(ap, fmt);
    bst_sb_addv(&raw, fmt, ap);
    va_end(ap);
    add_clean(&clean, raw.data);
    fputs(clean.data, to);
    bst_sb_fini(&raw);
    bst_sb_fini(&clean);
}

void tui_print_path(FILE *to, const char *path)
{
    if (isatty(fileno(to)))
        tui_print(to, "%s\n", path);
    else
        fprintf(to, "%s\n", path);
}

int tui_output_columns(FILE *to)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    int64_t columns;
    if (!ioctl(fileno(to), TIOCGWINSZ, &size) && size.ws_col > 0)
        return size.ws_col;
    if (given && bst_int_parse(given, &columns) && columns > 0 && columns < INT16_MAX)
        return (int)columns;
    return COLUMNS_USUAL;
}

void tui_print_wrapped(FILE *to, int columns, const char *text, int indent, int at)
{
    if (at < indent)
        at += fprintf(to, "%*s", indent - at, "");
    for (bool first = true; *text; first = false) {
        int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > columns) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            at += fprintf(to, " ");
        }
        at += fprintf(to, "%.*s", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fprintf(to, "\n");
}

void tui_print_text(FILE *to, const char *text, int indent, int at)
{
    enum { ROOM_LEAST = 24 };
    int columns = isatty(fileno(to)) ? tui_output_columns(to) : INT_MAX;
    if (at > columns - ROOM_LEAST) {
        fprintf(to, "\n");
        at = 0;
    }
    tui_print_wrapped(to, columns, text, indent, at);
}

bool tui_write_line(int fd, const char *text)
{
    struct bst_sb line;
    bst_sb_init(&line, TEXT_CAP);
    bst_text_clean(&line, text, strlen(text));
    bst_sb_addc(&line, '\n');
    bool ok = !bst_io_write_full(fd, line.data, line.len, "output");
    bst_sb_fini(&line);
    return ok;
}
