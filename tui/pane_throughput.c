#include <math.h>
#include <stdio.h>

#include "tui/format.h"
#include "tui/pane.h"
#include "tui/series.h"

static void draw_chart(const struct tui_model *m, struct tui_area a)
{
    struct tui_window w;
    struct tui_chart c;
    struct tui_updates speed;
    tui_chart_over(&c, m, &w, TUI_PANE_THROUGHPUT);
    c.from_zero = true;
    c.y_unit = TUI_AXIS_COUNT;
    c.series[c.n_series++] = tui_series_updates(&speed, m, &w, TUI_FIELD_SPEED, TUI_SPEED);
    tui_chart_draw(&c, a);
}

static void draw_facts(const struct tui_model *m, struct tui_area a)
{
    const struct bst_status *s = &m->status;
    char text[TUI_NUM];
    int x = 0;
    if (s->tokens_per_sec.valid) {
        tui_count(s->tokens_per_sec.value, text);
        x = tui_fact(a, 0, 0, "tokens/s", text);
    }
    tui_span(s->eta_seconds, text);
    x = tui_fact(a, x, 0, "left", text);
    tui_percent(s->data_wait, text);
    x = tui_fact(a, x, 0, "data wait", text);
    tui_span(s->elapsed_seconds, text);
    tui_fact(a, x, 0, "run for", text);
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    draw_facts(m, a);
    draw_chart(m, tui_area_sub(a, 0, 1, a.w, a.h - 1));
}

static void title(const struct tui_model *m, struct tui_area a)
{
    char text[TUI_NUM];
    if (m->status.samples_per_sec.valid)
        tui_count(m->status.samples_per_sec.value, text);
    else
        snprintf(text, sizeof text, "n/a");
    tui_title_item(a, 0, TUI_SPEED, "samples/s", text);
}

const struct tui_pane tui_pane_throughput = {
    .name = "throughput",
    .chart = true,
    .title = title,
    .draw = draw,
    .csv = tui_csv_window,
};
