#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

static bool has_band(const struct bst_status *s)
{
    return s->grad_low.valid && s->grad_high.valid && s->grad_high.value > s->grad_low.value;
}

static enum bst_verdict verdict(const struct bst_status *s)
{
    struct bst_band band = {0, 0};
    if (!s->grad_norm.valid)
        return BST_HEALTH_UNKNOWN;
    if (has_band(s))
        band = (struct bst_band){s->grad_low.value, s->grad_high.value};
    return bst_health_judge(band, s->grad_norm.value);
}

static void draw_chart(const struct tui_model *m, struct tui_area a)
{
    struct tui_window w;
    struct tui_chart c;
    struct tui_updates norm;
    tui_chart_over(&c, m, &w, TUI_PANE_GRADIENT);
    c.series[c.n_series++] = tui_series_updates(&norm, m, &w, TUI_FIELD_NORM, TUI_NORM);
    if (has_band(&m->status)) {
        c.levels_in_view = true;
        c.level[c.n_levels++] = (struct tui_chart_line){m->status.grad_low.value, TUI_BAND, 0, 3};
        c.level[c.n_levels++] = (struct tui_chart_line){m->status.grad_high.value, TUI_BAND, 0, 3};
    }
    tui_chart_draw(&c, a);
}

/* Indices of the layers that the filter lets through, worst first. */
static int order_layers(const struct tui_model *m, int order[BST_MAX_LAYERS])
{
    int all[BST_MAX_LAYERS], n = 0;
    int n_layers = m->n_layers < m->status.n_layers ? m->n_layers : m->status.n_layers;
    bst_health_order(m->layers, n_layers, all);
    for (int i = 0; i < n_layers; i++)
        if (tui_filter_hits(m, m->status.layers[all[i]].name))
            order[n++] = all[i];
    return n;
}

static int lines(const struct tui_model *m)
{
    int order[BST_MAX_LAYERS];
    return order_layers(m, order);
}

/* Marks that stand without colour: ! not finite, ▲ far above its usual, ▼ far below or nothing at
 * all. */
static enum tui_style mark_of(const struct bst_status_layer *l, const struct bst_health_track *t,
                              wchar_t *mark)
{
    *mark = L' ';
    if (!l->grad_norm.valid)
        return TUI_DIM;
    if (!isfinite(l->grad_norm.value)) {
        *mark = L'!';
        return TUI_BAD;
    }
    if (l->grad_norm.value == 0) {
        *mark = L'▼';
        return TUI_WARN;
    }
    double off = t->n > 1 ? t->ratio : 1;
    if (off > 10 || off < 0.1) {
        *mark = off > 10 ? L'▲' : L'▼';
        return TUI_WARN;
    }
    return TUI_NORMAL;
}

static void ratio_text(const struct bst_status_layer *l, char out[TUI_NUM])
{
    snprintf(out, TUI_NUM, "n/a");
    if (l->grad_norm.valid && l->weight_norm.valid && l->weight_norm.value > 0)
        tui_num(l->grad_norm.value / l->weight_norm.value, 2, out);
}

static void usual_text(const struct bst_status_layer *l, const struct bst_health_track *t,
                       char out[TUI_NUM])
{
    snprintf(out, TUI_NUM, "n/a");
    if (!l->grad_norm.valid || !isfinite(l->grad_norm.value) || t->n < 2)
        return;
    char number[TUI_NUM];
    tui_num(l->grad_norm.value > 0 ? t->ratio : 0, 2, number);
    snprintf(out, TUI_NUM, "×%.28s", number);
}

/* Where the part ends, and how much of it stays: its first letter and what number it ends in. */
static size_t part_of(const char *part, size_t *first, size_t *digits)
{
    size_t n = strcspn(part, ".");
    *digits = n;
    *first = 1;
    while (*digits && part[*digits - 1] >= '0' && part[*digits - 1] <= '9')
        --*digits;
    while (*first < n && ((unsigned char)part[*first] & 0xC0) == 0x80)
        ++*first;
    return n;
}

/* "bert.encoder.layer.11.attention.self.key" with its first `cut` parts shortened:
 * "b.e.l.11.a.self.key" with five; the last part never is. */
static void shorten(const char *name, int cut, struct bst_sb *out)
{
    size_t first, digits;
    for (const char *part = name; *part; cut--) {
        size_t n = part_of(part, &first, &digits);
        bool whole = cut <= 0 || !part[n] || first >= digits;
        bst_sb_addn(out, part, whole ? digits : first);
        bst_sb_addn(out, part + digits, n - digits + (part[n] == '.'));
        part += n + (part[n] == '.');
    }
}

/* How many parts of a name have to be shortened for it to have room; all but the last at most. */
static int parts_to_cut(const struct tui_frame *f, const char *name, int room)
{
    int cut = 0, parts = 0;
    for (const char *p = name; *p; p++)
        parts += *p == '.';
    for (bool fits = tui_columns(f, name) <= room; !fits && cut < parts;) {
        struct bst_sb text;
        bst_sb_init(&text, sizeof((struct bst_status_layer *)0)->name);
        shorten(name, ++cut, &text);
        fits = tui_columns(f, text.data) <= room;
        bst_sb_fini(&text);
    }
    return cut;
}

struct rows { /* of layers */
    bool wide;
    int room; /* columns for a name */
    int cut[BST_MAX_LAYERS];
};

/* As many for every name that begins with the same part: a module has one name in all its rows. */
static int cut_of(const struct tui_model *m, const struct rows *r, const char *of)
{
    size_t root = strcspn(of, ".") + 1;
    int cut = 0;
    for (int i = 0; i < m->status.n_layers; i++)
        if (r->cut[i] > cut && !strncmp(m->status.layers[i].name, of, root))
            cut = r->cut[i];
    return cut;
}

static void make_rows(const struct tui_model *m, struct tui_area a, struct rows *r)
{
    r->wide = a.w >= 56;
    r->room = a.w - 2 - 9 - (r->wide ? 27 : 7);
    for (int i = 0; i < m->status.n_layers; i++)
        r->cut[i] = parts_to_cut(a.f, m->status.layers[i].name, r->room);
}

static void draw_layer(const struct tui_model *m, int i, struct tui_area a, int y,
                       const struct rows *r)
{
    const struct bst_status_layer *l = &m->status.layers[i];
    char norm[TUI_NUM], weight[TUI_NUM], ratio[TUI_NUM], usual[TUI_NUM];
    wchar_t mark;
    enum tui_style style = mark_of(l, &m->layers[i], &mark);
    tui_metric(l->grad_norm, 3, norm);
    tui_cell_put(a, 0, y, style, mark);
    struct bst_sb brief;
    bst_sb_init(&brief, sizeof l->name);
    shorten(l->name, cut_of(m, r, l->name), &brief);
    tui_put_cut(a, 2, y, r->room, TUI_NORMAL, brief.data);
    bst_sb_fini(&brief);
    int x = 2 + r->room;
    tui_put_right(a, x + 9, y, style == TUI_NORMAL ? TUI_STRONG : style, norm);
    usual_text(l, &m->layers[i], usual);
    tui_put_right(a, x + 16, y, TUI_DIM, usual);
    if (!r->wide)
        return;
    tui_metric(l->weight_norm, 3, weight);
    ratio_text(l, ratio);
    tui_put_right(a, x + 26, y, TUI_DIM, weight);
    tui_put_right(a, x + 36, y, TUI_DIM, ratio);
}

static void draw_layers(const struct tui_model *m, struct tui_area a)
{
    int order[BST_MAX_LAYERS], n = order_layers(m, order);
    struct rows rows;
    if (!n) {
        tui_put_cut(a, 0, 0, a.w, TUI_DIM,
                    m->view.filter[0] ? "no layer has this name" : "no layer norms yet");
        return;
    }
    int y = 0;
    make_rows(m, a, &rows);
    if (a.h >= 4) {
        int x = 2 + rows.room;
        tui_put(a, 2, 0, TUI_DIM, "layer, worst first");
        tui_put_right(a, x + 9, 0, TUI_DIM, "norm");
        tui_put_right(a, x + 16, 0, TUI_DIM, "usual");
        if (rows.wide) {
            tui_put_right(a, x + 26, 0, TUI_DIM, "weights");
            tui_put_right(a, x + 36, 0, TUI_DIM, "ratio");
        }
        y = 1;
    }
    int first = m->view.scroll[TUI_PANE_GRADIENT];
    first = first > n - (a.h - y) ? n - (a.h - y) : first;
    for (int i = first < 0 ? 0 : first; i < n && y < a.h; i++, y++)
        draw_layer(m, order[i], a, y, &rows);
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    if (m->view.layers) {
        draw_layers(m, a);
        return;
    }
    int list = a.w >= 100 ? 48 : a.w >= 64 ? 34 : 0;
    draw_chart(m, tui_area_sub(a, 0, 0, a.w - list - (list ? 2 : 0), a.h));
    if (list)
        draw_layers(m, tui_area_sub(a, a.w - list, 0, list, a.h));
}

static void title(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[3 * TUI_NUM];
    static const enum tui_style styles[] = {TUI_NORMAL, TUI_GOOD, TUI_WARN, TUI_WARN, TUI_BAD};
    enum bst_verdict v = verdict(s);
    tui_metric(s->grad_norm, 3, text);
    if (v != BST_HEALTH_UNKNOWN && v != BST_HEALTH_NONFINITE) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, " %s", bst_health_name(v));
    }
    int x = tui_title_item(a, 0, styles[v], "norm", text);
    snprintf(text, sizeof text, "%llu", (unsigned long long)s->nonfinite);
    x = tui_title_item(a, x, s->nonfinite ? TUI_BAD : TUI_NORMAL, "non-finite", text);
    if (s->skipped) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)s->skipped);
        x = tui_title_item(a, x, TUI_BAD, "skipped", text);
    }
    if (has_band(s)) {
        char low[TUI_NUM], high[TUI_NUM];
        tui_num(s->grad_low.value, 2, low);
        tui_num(s->grad_high.value, 2, high);
        snprintf(text, sizeof text, "%s…%s", low, high);
        x = tui_title_item(a, x, TUI_NORMAL, "band", text);
    }
    if (m->view.filter[0])
        tui_title_item(a, x, TUI_PENDING, "/", m->view.filter);
}

static void csv_layers(const struct tui_model *m, struct bst_sb *out)
{
    int order[BST_MAX_LAYERS], n = order_layers(m, order);
    bst_sb_add(out, "layer,grad_norm,weight_norm\n");
    for (int i = 0; i < n; i++) {
        const struct bst_status_layer *l = &m->status.layers[order[i]];
        char a[32] = "", b[32] = "";
        if (l->grad_norm.valid && isfinite(l->grad_norm.value))
            bst_num_text(l->grad_norm.value, a);
        if (l->weight_norm.valid && isfinite(l->weight_norm.value))
            bst_num_text(l->weight_norm.value, b);
        bst_sb_addf(out, "%s,%s,%s\n", l->name, a, b);
    }
}

static void csv(const struct tui_model *m, struct bst_sb *out)
{
    if (m->view.layers)
        csv_layers(m, out);
    else
        tui_csv_window(m, out);
}

const struct tui_pane tui_pane_gradient = {
    .name = "gradient",
    .chart = true,
    .title = title,
    .draw = draw,
    .lines = lines,
    .csv = csv,
};
