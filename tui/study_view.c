/* A sweep's view: header, table, charts, footer, and the list of keys over them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tui/keys.h"
#include "tui/render.h"
#include "tui/study.h"

enum { LEAST_W = 40, LEAST_H = 10, CHART_LEAST = 4, CHART_GOOD = 12 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_complete(const struct bst_study *s)
{
    return s->n_done + s->n_failed == s->n_runs;
}

static const char *standing(const struct tui_study *v, enum tui_style *style)
{
    *style = TUI_GOOD;
    if (is_complete(v->study))
        return "✓ complete";
    if (!v->at_rest)
        return "● trains";
    *style = TUI_WARN;
    return "○ nobody trains";
}

static void draw_header(const struct tui_study *v, struct tui_area a)
{
    const struct bst_study *s = v->study;
    enum tui_style style;
    const char *word = standing(v, &style);
    char text[128];
    int right = tui_put_right(a, a.w, 0, style, word) - 2;
    int x = tui_put_cut(a, 0, 0, right, TUI_HEADER, base_name(s->plan.dir)) + 2;
    snprintf(text, sizeof text, "%d of %d runs", s->n_done, s->n_runs);
    if (x + tui_columns(a.f, text) > right)
        snprintf(text, sizeof text, "%d/%d", s->n_done, s->n_runs);
    if (x + tui_columns(a.f, text) <= right)
        x += tui_put(a, x, 0, TUI_STRONG, text) + 2;
    snprintf(text, sizeof text, "%d failed", s->n_failed);
    if (s->n_failed && x + tui_columns(a.f, text) <= right)
        x += tui_put(a, x, 0, TUI_BAD, text) + 2;
    snprintf(text, sizeof text, "preset %s", s->plan.preset);
    if (x + tui_columns(a.f, text) <= right)
        tui_put(a, x, 0, TUI_NORMAL, text);
}

static const char *label_of(enum tui_request req)
{
    for (int i = 0; i < tui_n_study_keys; i++)
        if (tui_study_keys[i].req == req)
            return tui_study_keys[i].label;
    return "";
}

/* The first key of each; of the two that move, both. */
static void footer_key(enum tui_request req, char *out, size_t room)
{
    char up[16], down[16];
    tui_key_first(req, out, room);
    if (req != TUI_REQ_DOWN)
        return;
    tui_key_first(TUI_REQ_UP, up, sizeof up);
    tui_key_first(TUI_REQ_DOWN, down, sizeof down);
    if (!strcmp(up, "Up") && !strcmp(down, "Down"))
        snprintf(out, room, "↑↓");
    else
        snprintf(out, room, "%s%s%s", up, *up && *down ? " " : "", down);
}

/* As many as there is room for, leaving first: it must be known. */
static void draw_footer(const struct tui_study *v, struct tui_area a)
{
    static const enum tui_request order[] = {TUI_REQ_LEAVE, TUI_REQ_HELP,  TUI_REQ_DOWN,
                                             TUI_REQ_OPEN,  TUI_REQ_CURVE, TUI_REQ_XAXIS,
                                             TUI_REQ_LOG};
    int x = 0;
    if (v->message[0]) {
        tui_put_cut(a, 0, 0, a.w, v->message_style, v->message);
        return;
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char key[40];
        const char *label = label_of(order[i]);
        footer_key(order[i], key, sizeof key);
        if (!*key)
            continue;
        if (x + tui_columns(a.f, key) + 1 + tui_columns(a.f, label) > a.w)
            break;
        x += tui_put(a, x, 0, TUI_KEY, key) + 1;
        x += tui_put(a, x, 0, TUI_NORMAL, label) + 2;
    }
}

/* What the table has no room for, and where it stands. `width`: the screen's. */
static void put_hidden(int width, char *out, size_t room)
{
    struct bst_sb names;
    bst_sb_init(&names, 160);
    tui_study_hidden(width >= LEAST_W ? width - 2 : width, &names);
    if (names.len)
        snprintf(out, room, "Not shown at this width: %s. `bstune report` has them.", names.data);
    bst_sb_fini(&names);
}

static void draw_help(const struct tui_study *v, struct tui_area a)
{
    static const char *const notes[] = {
        "Each batch has a letter, before its row and on its curve.",
        "acc: mean of the final accuracies; ±: its standard error.",
        "samp/s, epoch, target: medians over the runs; the rest are means.",
        "eff: samples to the target where they are fewest, over those of this batch.",
        "target: training time to the accuracy of the level line.",
        "choice: the fastest of those as accurate as the best; under 5 % longer counts as fast.",
        "accurate, fastest, largest: best accuracy, shortest epoch, largest tried that fits.",
        "Training loss is smoothed over a twentieth of the run.",
    };
    enum { NOTES = sizeof notes / sizeof *notes + 2 };
    int n = NOTES + tui_n_study_keys, first = v->help_scroll;
    char hidden[200] = "";
    put_hidden(a.w, hidden, sizeof hidden);
    struct tui_area in = tui_dialog(a, 100, n + 2, " Help: Up, Down, Esc closes ");
    first = first > n - in.h ? n - in.h : first;
    first = first < 0 ? 0 : first;
    for (int y = 0; y < in.h && first + y < n; y++) {
        char keys[64];
        if (first + y < NOTES) {
            const char *note = first + y < NOTES - 2    ? notes[first + y]
                               : first + y == NOTES - 2 ? hidden
                                                        : "";
            tui_put_cut(in, 0, y, in.w, TUI_NORMAL, note);
            continue;
        }
        const struct tui_study_key *k = &tui_study_keys[first + y - NOTES];
        tui_keys_text(tui_keys_of(k->req), keys, sizeof keys);
        tui_put_cut(in, 0, y, in.w, TUI_KEY, keys);
        tui_put_cut(in, 11, y, in.w - 11, TUI_NORMAL, k->help);
    }
}

/* The table gets all its rows where the charts keep a good height, else what they leave it. */
static int table_rows(const struct tui_study *v, int h)
{
    int n = v->study->plan.n_batches + 1, most = h - CHART_GOOD - 1;
    int least = h / 2 < h - CHART_LEAST ? h / 2 : h - CHART_LEAST;
    most = most < least ? least : most;
    return n < most ? n : most;
}

void tui_study_draw(const struct tui_study *v, struct tui_frame *f)
{
    tui_frame_clear(f);
    struct tui_area all = tui_area_all(f);
    struct tui_area a = f->w >= LEAST_W ? tui_area_sub(all, 1, 0, f->w - 2, f->h) : all;
    bool footer = f->h >= 3, charts = f->w >= LEAST_W && f->h >= LEAST_H;
    int middle = f->h - 1 - footer;
    int rows = charts ? table_rows(v, middle) : middle;
    draw_header(v, tui_area_sub(a, 0, 0, a.w, 1));
    if (rows >= 2)
        tui_study_table_draw(v, tui_area_sub(a, 0, 1, a.w, rows));
    if (charts)
        tui_study_charts_draw(v, tui_area_sub(a, 0, 1 + rows, a.w, middle - rows));
    if (v->help)
        draw_help(v, tui_area_sub(all, 0, 1, f->w, middle));
    if (footer || v->message[0])
        draw_footer(v, tui_area_sub(a, 0, f->h - 1, a.w, 1));
}
