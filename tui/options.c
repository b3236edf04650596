/* The overlay of options: how this console draws and rings, for as long as it is open. What is to
 * stay is for config.yaml. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tui/app.h"
#include "tui/render.h"

/* Seconds between two frames that are offered. */
static const double refreshes[] = {0.25, 0.5, 1, 2, 5, 10, 30, 60};

enum kind {
    TRUTH,  /* a bool: words[0] is false */
    CHOICE, /* an enum: words in its order */
    REFRESH,
};

static const struct row {
    const char *name;
    enum kind kind;
    bool of_frame; /* else of the model */
    size_t offset;
    const char *words[3];
} rows[] = {
#define M(field) false, offsetof(struct tui_model, field)
#define F(field) true, offsetof(struct tui_frame, field)
    {"charts drawn with", CHOICE, F(symbols), {"braille", "block", "ascii"}},
    {"characters", TRUTH, F(ascii), {"all", "ASCII alone"}},
    {"screen drawn again", REFRESH, M(options.refresh), {NULL}},
    {"bell", TRUTH, M(options.bell), {"off", "on"}},
    {"charts count", CHOICE, M(view.x), {"epochs", "updates", "time"}},
    {"curves", TRUTH, M(view.smooth), {"each value", "smoothed"}},
    {"scale", TRUTH, M(view.autoscale), {"of the whole run", "of the window"}},
#undef M
#undef F
};
_Static_assert(sizeof(enum tui_x) == sizeof(int) && sizeof(enum tui_chart_symbols) == sizeof(int),
               "choices are read as int");
_Static_assert(TUI_X_EPOCH == 0 && TUI_X_UPDATE == 1 && TUI_X_TIME == 2 && TUI_N_X == 3,
               "the words are in order");
enum { N_ROWS = sizeof rows / sizeof rows[0], NAMES = 22, WIDTH = 64 };

static int count(const struct row *r)
{
    int n = 0;
    if (r->kind == REFRESH)
        return sizeof refreshes / sizeof refreshes[0];
    while (n < 3 && r->words[n])
        n++;
    return n;
}

/* Which of a row's values holds; of a rate that is not offered the next slower one. */
static int index_of(const struct row *r, const char *field)
{
    int at = 0;
    if (r->kind == TRUTH)
        return *(const bool *)field;
    if (r->kind == CHOICE)
        memcpy(&at, field, sizeof at);
    else
        while (at < count(r) - 1 && refreshes[at] < *(const double *)field)
            at++;
    return at;
}

static void step(const struct row *r, struct tui_model *m, struct tui_frame *f, int by)
{
    char *field = (r->of_frame ? (char *)f : (char *)m) + r->offset;
    int at = (index_of(r, field) + by + count(r)) % count(r);
    if (r->kind == TRUTH)
        *(bool *)field = at;
    else if (r->kind == CHOICE)
        memcpy(field, &at, sizeof at);
    else
        *(double *)field = refreshes[at];
    if (f->ascii)
        f->symbols = TUI_DOTS_ASCII;
}

static void show(const struct row *r, const struct tui_model *m, const struct tui_frame *f,
                 char out[24])
{
    const char *field = (r->of_frame ? (const char *)f : (const char *)m) + r->offset;
    if (r->kind == REFRESH)
        snprintf(out, 24, "every %g s", *(const double *)field);
    else
        snprintf(out, 24, "%s", r->words[index_of(r, field)]);
}

bool tui_options_key(struct tui_app *app, enum tui_request req)
{
    struct tui_model *m = &app->model;
    int *at = &m->view.overlay_select;
    switch (req) {
    case TUI_REQ_UP:
        *at = *at > 0 ? *at - 1 : 0;
        return true;
    case TUI_REQ_DOWN:
        *at = *at < N_ROWS - 1 ? *at + 1 : N_ROWS - 1;
        return true;
    case TUI_REQ_LEFT:
        step(&rows[*at], m, &app->frame, -1);
        return true;
    case TUI_REQ_RIGHT:
    case TUI_REQ_MAXIMISE:
    case TUI_REQ_FREEZE:
        step(&rows[*at], m, &app->frame, 1);
        return true;
    default:
        return false;
    }
}

void tui_options_draw(const struct tui_model *m, struct tui_area a)
{
    struct tui_area in = tui_dialog(a, WIDTH, N_ROWS + 5, " Options of this console: Esc closes ");
    int at = m->view.overlay_select, first = at >= in.h ? at - in.h + 1 : 0;
    for (int y = 0; y < in.h && first + y < N_ROWS; y++) {
        int i = first + y;
        char value[24];
        enum tui_style style = i == at ? TUI_SELECT : TUI_NORMAL;
        show(&rows[i], m, a.f, value);
        if (i == at)
            tui_area_fill(tui_area_sub(in, 0, y, in.w, 1), style);
        tui_cell_put(in, 0, y, style, i == at ? L'▸' : L' ');
        tui_put_cut(in, 2, y, NAMES - 3, style, rows[i].name);
        tui_put_cut(in, NAMES, y, in.w - NAMES, style, value);
    }
    if (in.h >= N_ROWS + 2)
        tui_put_wrapped(in, N_ROWS + 1, TUI_DIM,
                        "For as long as this console is open; config.yaml keeps such settings, and "
                        "the keys (see bstune config).");
}
