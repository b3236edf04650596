/* The overlay of options: how this console draws and rings, for as long as it is open. What is to
 * stay is for config.yaml. */
#include <stdio.h>

#include "tui/app.h"
#include "tui/render.h"

struct value {
    char text[24];
};

/* Rates of redrawing that are offered, slowest last. */
static const double refreshes[] = {0.25, 0.5, 1, 2, 5, 10, 30, 60};
enum { N_REFRESHES = sizeof refreshes / sizeof refreshes[0] };

static int step_around(int at, int step, int n)
{
    return (at + step + n) % n;
}

static struct value show_symbols(const struct tui_model *m, const struct tui_frame *f)
{
    static const char *const words[] = {"braille", "block", "ascii"};
    struct value v;
    (void)m;
    snprintf(v.text, sizeof v.text, "%s", words[f->symbols]);
    return v;
}

static void step_symbols(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)m;
    if (!f->ascii)
        f->symbols = (enum tui_chart_symbols)step_around((int)f->symbols, step, 3);
}

static struct value show_characters(const struct tui_model *m, const struct tui_frame *f)
{
    struct value v;
    (void)m;
    snprintf(v.text, sizeof v.text, "%s", f->ascii ? "ASCII alone" : "all");
    return v;
}

static void step_characters(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)m;
    (void)step;
    f->ascii = !f->ascii;
    if (f->ascii)
        f->symbols = TUI_DOTS_ASCII;
}

static struct value show_refresh(const struct tui_model *m, const struct tui_frame *f)
{
    struct value v;
    (void)f;
    snprintf(v.text, sizeof v.text, "every %g s", m->options.refresh);
    return v;
}

static void step_refresh(struct tui_model *m, struct tui_frame *f, int step)
{
    int at = 0;
    (void)f;
    while (at < N_REFRESHES - 1 && refreshes[at] < m->options.refresh)
        at++;
    at = step_around(at, step, N_REFRESHES);
    m->options.refresh = refreshes[at];
}

static struct value show_bell(const struct tui_model *m, const struct tui_frame *f)
{
    struct value v;
    (void)f;
    snprintf(v.text, sizeof v.text, "%s", m->options.bell ? "on" : "off");
    return v;
}

static void step_bell(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)f;
    (void)step;
    m->options.bell = !m->options.bell;
}

static struct value show_axis(const struct tui_model *m, const struct tui_frame *f)
{
    static const char *const words[TUI_N_X] = {
        [TUI_X_EPOCH] = "epochs", [TUI_X_UPDATE] = "updates", [TUI_X_TIME] = "time"};
    struct value v;
    (void)f;
    snprintf(v.text, sizeof v.text, "%s", words[m->view.x]);
    return v;
}

static void step_axis(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)f;
    m->view.x = (enum tui_x)step_around((int)m->view.x, step, TUI_N_X);
}

static struct value show_curves(const struct tui_model *m, const struct tui_frame *f)
{
    struct value v;
    (void)f;
    snprintf(v.text, sizeof v.text, "%s", m->view.smooth ? "smoothed" : "each value");
    return v;
}

static void step_curves(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)f;
    (void)step;
    m->view.smooth = !m->view.smooth;
}

static struct value show_scale(const struct tui_model *m, const struct tui_frame *f)
{
    struct value v;
    (void)f;
    snprintf(v.text, sizeof v.text, "%s", m->view.autoscale ? "of the window" : "of the whole run");
    return v;
}

static void step_scale(struct tui_model *m, struct tui_frame *f, int step)
{
    (void)f;
    (void)step;
    m->view.autoscale = !m->view.autoscale;
}

static const struct {
    const char *name;
    struct value (*show)(const struct tui_model *m, const struct tui_frame *f);
    void (*step)(struct tui_model *m, struct tui_frame *f, int step);
} rows[] = {
    {"charts drawn with", show_symbols, step_symbols},
    {"characters", show_characters, step_characters},
    {"screen drawn again", show_refresh, step_refresh},
    {"bell", show_bell, step_bell},
    {"charts count", show_axis, step_axis},
    {"curves", show_curves, step_curves},
    {"scale", show_scale, step_scale},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], NAMES = 22, WIDTH = 64 };

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
        rows[*at].step(m, &app->frame, -1);
        return true;
    case TUI_REQ_RIGHT:
    case TUI_REQ_MAXIMISE:
    case TUI_REQ_FREEZE:
        rows[*at].step(m, &app->frame, 1);
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
        struct value v = rows[i].show(m, a.f);
        enum tui_style style = i == at ? TUI_SELECT : TUI_NORMAL;
        if (i == at)
            tui_area_fill(tui_area_sub(in, 0, y, in.w, 1), style);
        tui_cell_put(in, 0, y, style, i == at ? L'▸' : L' ');
        tui_put_cut(in, 2, y, NAMES - 3, style, rows[i].name);
        tui_put_cut(in, NAMES, y, in.w - NAMES, style, v.text);
    }
    if (in.h >= N_ROWS + 2)
        tui_put_wrapped(in, N_ROWS + 1, TUI_DIM,
                        "For as long as this console is open; config.yaml keeps such settings, and "
                        "the keys (see bstune config).");
}
