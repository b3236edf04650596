#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "tui/words.h"

static bool is_tail(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static int before(const struct tui_prompt *p, int at)
{
    while (at > 0 && is_tail(p->line[--at]))
        ;
    return at;
}

static int after(const struct tui_prompt *p, int at)
{
    if (at < p->len)
        at++;
    while (at < p->len && is_tail(p->line[at]))
        at++;
    return at;
}

static void cut(struct tui_prompt *p, int from, int to)
{
    memmove(p->line + from, p->line + to, (size_t)(p->len - to) + 1);
    p->len -= to - from;
    p->at = from;
}

static void insert(struct tui_prompt *p, const char *s, int n)
{
    if (p->len + n >= TUI_LINE)
        return;
    memmove(p->line + p->at + n, p->line + p->at, (size_t)(p->len - p->at) + 1);
    memcpy(p->line + p->at, s, (size_t)n);
    p->len += n;
    p->at += n;
}

static void set_line(struct tui_prompt *p, const char *s)
{
    snprintf(p->line, sizeof p->line, "%s", s);
    p->len = p->at = (int)strlen(p->line);
}

static int encode(int point, char out[4])
{
    int n = 1;
    if (point < 0x80) {
        out[0] = (char)point;
    } else if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        n = 2;
    } else if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        n = 3;
    } else {
        out[0] = (char)(0xF0 | point >> 18);
        n = 4;
    }
    for (int i = 1; i < n; i++)
        out[i] = (char)(0x80 | (point >> 6 * (n - 1 - i) & 0x3F));
    return n;
}

void tui_prompt_open(struct tui_app *app, char mark)
{
    struct tui_prompt *p = &app->model.prompt;
    p->mark = mark;
    set_line(p, mark == '/' ? app->model.view.filter : "");
    p->recall = p->n_past;
    p->fresh[0] = p->hint[0] = '\0';
    app->model.message[0] = '\0';
}

static void remember(struct tui_prompt *p)
{
    if (!p->len || (p->n_past && !strcmp(p->past[p->n_past - 1], p->line)))
        return;
    if (p->n_past == TUI_PAST) {
        bst_free(p->past[0]);
        memmove(p->past, p->past + 1, (TUI_PAST - 1) * sizeof *p->past);
        p->n_past--;
    }
    p->past[p->n_past++] = bst_xstrdup(p->line);
}

static void recall(struct tui_prompt *p, int step)
{
    int to = p->recall + step;
    if (p->mark != ':' || to < 0 || to > p->n_past)
        return;
    if (p->recall == p->n_past)
        snprintf(p->fresh, sizeof p->fresh, "%s", p->line);
    p->recall = to;
    set_line(p, to == p->n_past ? p->fresh : p->past[to]);
}

/* What all that is offered begins with. */
static size_t common_part(const struct tui_offers *o)
{
    size_t common = o->word[0].typed;
    for (int i = 1; i < o->n; i++) {
        size_t k = 0;
        while (k < common && k < o->word[i].typed && o->word[0].text[k] == o->word[i].text[k])
            k++;
        common = k;
    }
    return common;
}

static void complete(struct tui_app *app)
{
    struct tui_prompt *p = &app->model.prompt;
    struct tui_offers o;
    tui_words_complete(app, p->line, p->at, &o);
    p->hint[0] = '\0';
    if (!o.n) {
        snprintf(p->hint, sizeof p->hint, "nothing to complete");
        return;
    }
    cut(p, o.start, p->at);
    insert(p, o.word[0].text, (int)common_part(&o));
    if (o.n == 1 && !o.word[0].text[o.word[0].typed]) {
        insert(p, " ", 1);
        return;
    }
    size_t used = 0;
    for (int i = 0; i < o.n && used < sizeof p->hint; i++)
        used += (size_t)snprintf(p->hint + used, sizeof p->hint - used, "%s%s", i ? "  " : "",
                                 o.word[i].text);
}

static unsigned finish(struct tui_app *app)
{
    struct tui_prompt *p = &app->model.prompt;
    char line[TUI_LINE];
    snprintf(line, sizeof line, "%s", p->line);
    bool command = p->mark == ':';
    p->mark = 0;
    if (!command) {
        snprintf(app->model.view.filter, sizeof app->model.view.filter, "%.47s", line);
        memset(app->model.view.scroll, 0, sizeof app->model.view.scroll);
        return TUI_DO_DRAW;
    }
    remember(p);
    return TUI_DO_DRAW | tui_words_run(app, line);
}

static void erase_word(struct tui_prompt *p)
{
    int from = p->at;
    while (from > 0 && p->line[from - 1] == ' ')
        from--;
    while (from > 0 && p->line[from - 1] != ' ')
        from--;
    cut(p, from, p->at);
}

/* Moves and cuts; false when the key is none of them. */
static bool edit(struct tui_prompt *p, int key)
{
    switch (key) {
    case TUI_KEY_LEFT:
    case 'B' - '@':
        p->at = before(p, p->at);
        return true;
    case TUI_KEY_RIGHT:
    case 'F' - '@':
        p->at = after(p, p->at);
        return true;
    case TUI_KEY_HOME:
    case 'A' - '@':
        p->at = 0;
        return true;
    case TUI_KEY_END:
    case 'E' - '@':
        p->at = p->len;
        return true;
    case TUI_KEY_DELETE:
    case 'D' - '@':
        cut(p, p->at, after(p, p->at));
        return true;
    case 'U' - '@':
        cut(p, 0, p->at);
        return true;
    case 'K' - '@':
        cut(p, p->at, p->len);
        return true;
    case 'W' - '@':
        erase_word(p);
        return true;
    default:
        return false;
    }
}

void tui_prompt_paste(struct tui_app *app, int key)
{
    struct tui_prompt *p = &app->model.prompt;
    char bytes[4];
    /* A pasted line end must not run anything. */
    if (key == '\n' || key == '\r' || key == '\t')
        key = ' ';
    if (p->mark && key >= ' ' && key < TUI_KEY_NAMED && key != 127)
        insert(p, bytes, encode(key, bytes));
}

unsigned tui_prompt_key(struct tui_app *app, int key)
{
    struct tui_prompt *p = &app->model.prompt;
    switch (key) {
    case TUI_KEY_ESC:
    case 'C' - '@':
    case 'G' - '@':
        p->mark = 0;
        return TUI_DO_DRAW;
    case TUI_KEY_ENTER:
    case '\n':
        return finish(app);
    case TUI_KEY_TAB:
        if (p->mark == ':')
            complete(app);
        return TUI_DO_DRAW;
    case TUI_KEY_UP:
    case 'P' - '@':
        recall(p, -1);
        break;
    case TUI_KEY_DOWN:
    case 'N' - '@':
        recall(p, 1);
        break;
    case TUI_KEY_BACKSPACE:
    case 'H' - '@':
    case 127:
        /* Rubbing out the mark itself leaves, as in vi. */
        if (!p->len)
            p->mark = 0;
        else
            cut(p, before(p, p->at), p->at);
        break;
    default:
        if (!edit(p, key))
            tui_prompt_paste(app, key);
    }
    p->hint[0] = '\0';
    if (p->mark == ':')
        tui_words_hint(p->line, p->hint, sizeof p->hint);
    return TUI_DO_DRAW;
}
