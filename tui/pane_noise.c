#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/tune/noise.h"
#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

static bool measured(const struct bst_status *s)
{
    return s->noise_updates > 0;
}

static void draw_chart(const struct tui_model *m, struct tui_area a)
{
    struct tui_window w;
    struct tui_chart c;
    struct tui_noise scale, low, high;
    tui_chart_over(&c, m, &w, TUI_PANE_NOISE);
    c.y_unit = TUI_AXIS_COUNT;
    c.series[c.n_series++] = tui_series_noise(&low, m, &w, TUI_NOISE_LOW, TUI_DIM);
    c.series[c.n_series++] = tui_series_noise(&high, m, &w, TUI_NOISE_HIGH, TUI_DIM);
    c.series[c.n_series++] = tui_series_noise(&scale, m, &w, TUI_NOISE_SCALE, TUI_NORM);
    /* The batch in use against the scale is what the pane is looked at for. */
    c.levels_in_view = true;
    c.level[c.n_levels++] = (struct tui_chart_line){(double)m->status.global_batch, TUI_BAND, 0, 3};
    c.empty = measured(&m->status) ? "not known in this window" : "no update with parts yet";
    tui_chart_draw(&c, a);
}

static void range_text(const struct bst_status *s, char *out, size_t room)
{
    double least, most;
    char from[TUI_NUM], to[TUI_NUM];
    bst_noise_range(s->noise_scale.value, &least, &most);
    tui_count(least, from);
    tui_count(most, to);
    snprintf(out, room, "%s…%s", from, to);
}

/* What the number is good for, or why there is none. */
static void draw_facts(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[TUI_NUM * 3], efficiency[TUI_NUM];
    if (!s->noise_scale.valid) {
        tui_put_cut(a, 0, 0, a.w, TUI_WARN, s->noise_state[0] ? s->noise_state : "not measured");
        return;
    }
    tui_percent(s->noise_efficiency, efficiency);
    bool wide = a.w >= 46;
    const char *range = wide ? "  good range " : "  good ";
    int x = tui_put(a, 0, 0, TUI_DIM, wide ? "batch " : "");
    x += tui_putf(a, x, 0, TUI_BAND, "%lld ", (long long)s->global_batch);
    x += tui_put(a, x, 0, TUI_DIM, wide ? "efficiency " : "eff. ");
    x += tui_put(a, x, 0, TUI_NORMAL, efficiency);
    range_text(s, text, sizeof text);
    if (x + tui_columns(a.f, text) + (int)strlen(range) > a.w)
        return;
    x += tui_put(a, x, 0, TUI_DIM, range);
    x += tui_put(a, x, 0, TUI_GOOD, text);
    if (!s->noise_cost.valid)
        return;
    snprintf(text, sizeof text, "%.2f %%", 100 * s->noise_cost.value);
    if (x + 7 + (int)strlen(text) <= a.w) {
        x += tui_put(a, x, 0, TUI_DIM, "  cost ");
        tui_put(a, x, 0, TUI_NORMAL, text);
    }
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    draw_facts(m, a);
    draw_chart(m, tui_area_sub(a, 0, 1, a.w, a.h - 1));
}

static void title(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[TUI_NUM], low[TUI_NUM], high[TUI_NUM], interval[2 * TUI_NUM + 8];
    if (!s->noise_scale.valid) {
        tui_title_item(a, 0, TUI_WARN, "scale", "unknown");
        return;
    }
    tui_count(s->noise_scale.value, text);
    int x = tui_title_item(a, 0, TUI_NORM, "scale", text);
    tui_count(s->noise_low.value, low);
    tui_count(s->noise_high.value, high);
    snprintf(interval, sizeof interval, "%s…%s", low, high);
    tui_title_item(a, x, TUI_NORMAL, "95 %", interval);
}

static void csv(const struct tui_model *m, struct bst_sb *out)
{
    bst_sb_add(out, "samples,noise_scale,low,high,efficiency\n");
    for (int i = 0; i < m->n_noise; i++) {
        const struct bst_history_noise *v = &m->history->noise[i];
        bst_sb_addf(out, "%.0f", v->samples);
        tui_csv_number(out, v->scale);
        tui_csv_number(out, v->low);
        tui_csv_number(out, v->high);
        tui_csv_number(out, v->efficiency);
        bst_sb_addc(out, '\n');
    }
}

const struct tui_pane tui_pane_noise = {
    .name = "noise",
    .chart = true,
    .title = title,
    .draw = draw,
    .csv = csv,
};
