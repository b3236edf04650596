#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "tui/format.h"
#include "tui/pane.h"

static double part(struct bst_metric m, struct bst_metric whole)
{
    if (!m.valid || !whole.valid || !(whole.value > 0))
        return NAN;
    return m.value / whole.value;
}

static enum tui_style bar_style(double used)
{
    return used >= 0.95 ? TUI_BAD : used >= 0.8 ? TUI_WARN : TUI_BAR_USED;
}

static void draw_memory(const struct bst_status_device *d, struct tui_area a, int x, int y, int w)
{
    double used = part(d->memory_used, d->memory_limit);
    double planned = part(d->memory_planned, d->memory_limit);
    tui_bar(a, x, y, w, used, planned, bar_style(used));
}

/* One line: number, bar, used of limit, utilisation. */
static void draw_short(const struct bst_status_device *d, int i, struct tui_area a, int y)
{
    char bytes[2 * TUI_NUM], util[TUI_NUM], temp[TUI_NUM];
    tui_of_bytes(d->memory_used, d->memory_limit, bytes);
    tui_percent(d->utilisation, util);
    tui_metric(d->temperature, 3, temp);
    char facts[4 * TUI_NUM + 16];
    snprintf(facts, sizeof facts, " %s  %5s%s%s", bytes, util, d->temperature.valid ? "  " : "",
             d->temperature.valid ? temp : "");
    int n = tui_columns(a.f, facts) + (d->temperature.valid ? 2 : 0);
    int x = tui_putf(a, 0, y, TUI_STRONG, "%d ", i);
    int bar = a.w - x - n;
    if (bar < 4)
        bar = 0;
    draw_memory(d, a, x, y, bar);
    x += bar + tui_put(a, x + bar, y, TUI_NORMAL, facts);
    if (d->temperature.valid)
        tui_put(a, x, y, TUI_NORMAL, a.f->ascii ? " C" : "°C");
}

/* Power is a GPU's; where its driver does not tell it, that is said. */
static void draw_facts(const struct bst_status_device *d, bool gpu, struct tui_area a, int y)
{
    char text[TUI_NUM], degrees[TUI_NUM + 4];
    tui_percent(d->utilisation, text);
    int x = tui_fact(a, 0, y, "busy", text);
    tui_metric(d->temperature, 3, text);
    snprintf(degrees, sizeof degrees, "%s%s", text,
             !d->temperature.valid ? ""
             : a.f->ascii          ? " C"
                                   : " °C");
    x = tui_fact(a, x, y, "temp", degrees);
    if (gpu) {
        char watts[TUI_NUM + 4];
        tui_metric(d->power, 3, text);
        snprintf(watts, sizeof watts, "%s%s", text, d->power.valid ? " W" : "");
        x = tui_fact(a, x, y, "power", watts);
    }
    tui_bytes(d->memory_peak, text);
    x = tui_fact(a, x, y, "peak", text);
    if (d->samples_per_sec.valid) {
        tui_count(d->samples_per_sec.value, text);
        x = tui_fact(a, x, y, "samples/s", text);
    }
    if (d->recompute_work.valid) {
        tui_percent(d->recompute_work, text);
        x = tui_fact(a, x, y, "recompute", text);
    }
    if (d->memory_hold.valid) {
        tui_bytes(d->memory_hold, text);
        tui_fact(a, x, y, "for undo", text);
    }
}

/* Three lines: name; memory as a bar, planned shaded behind used; the rest. */
static void draw_long(const struct bst_status_device *d, int i, bool gpu, struct tui_area a, int y)
{
    char bytes[2 * TUI_NUM], planned[TUI_NUM], threads[TUI_NUM] = "";
    int x = tui_putf(a, 0, y, TUI_STRONG, "%d ", i);
    tui_bytes(d->memory_planned, planned);
    char right[2 * TUI_NUM];
    snprintf(right, sizeof right, "planned %s", planned);
    if (d->threads > 0)
        snprintf(threads, sizeof threads, "%d threads", d->threads);
    int room = a.w - x - tui_columns(a.f, right) - 2;
    int used = tui_put_cut(a, x, y, room, TUI_NORMAL, d->name[0] ? d->name : "device");
    if (threads[0] && used + 2 + tui_columns(a.f, threads) <= room)
        tui_put(a, x + used + 2, y, TUI_DIM, threads);
    tui_put_right(a, a.w, y, TUI_DIM, right);
    tui_of_bytes(d->memory_used, d->memory_limit, bytes);
    int bar = a.w - tui_columns(a.f, bytes) - 1;
    draw_memory(d, a, 0, y + 1, bar > 4 ? bar : 0);
    tui_put_right(a, a.w, y + 1, TUI_NORMAL, bytes);
    draw_facts(d, gpu, a, y + 2);
}

static int shown_devices(const struct tui_model *m)
{
    int n = m->status.n_devices;
    return n < 0 ? 0 : n > BST_MAX_DEVICES ? BST_MAX_DEVICES : n;
}

static void draw(const struct tui_model *m, struct tui_area a)
{
    int n = shown_devices(m);
    bool gpu = !strcmp(m->status.backend, "cuda");
    if (!n) {
        tui_put_cut(a, 0, 0, a.w, TUI_DIM,
                    m->link_state == TUI_LINK_OVER ? "n/a: the trainer is gone"
                                                   : "no device known yet");
        return;
    }
    int rows = a.h >= 3 * n ? 3 : 1;
    int first = m->view.scroll[TUI_PANE_DEVICES];
    first = first > n - 1 ? n - 1 : first;
    for (int i = first, y = 0; i < n && y + rows <= a.h; i++, y += rows) {
        if (rows == 3)
            draw_long(&m->status.devices[i], i, gpu, a, y);
        else
            draw_short(&m->status.devices[i], i, a, y);
    }
}

static void title(const struct tui_model *m, struct tui_area a)
{
    char text[TUI_NUM];
    int n = shown_devices(m);
    if (!n)
        return;
    snprintf(text, sizeof text, "%d × %s", n, m->status.backend);
    int x = tui_title_item(a, 0, TUI_NORMAL, "", text);
    tui_title_item(a, x, TUI_NORMAL, m->status.precision, "");
}

static void csv_metric(struct bst_sb *out, struct bst_metric m)
{
    char text[32];
    bst_sb_addc(out, ',');
    if (!m.valid || !isfinite(m.value))
        return;
    bst_num_text(m.value, text);
    bst_sb_add(out, text);
}

static void csv(const struct tui_model *m, struct bst_sb *out)
{
    bst_sb_add(out, "device,memory_planned_bytes,memory_used_bytes,memory_peak_bytes,"
                    "memory_limit_bytes,utilisation,temperature_celsius,samples_per_sec\n");
    for (int i = 0; i < shown_devices(m); i++) {
        const struct bst_status_device *d = &m->status.devices[i];
        bst_sb_addf(out, "%d", i);
        csv_metric(out, d->memory_planned);
        csv_metric(out, d->memory_used);
        csv_metric(out, d->memory_peak);
        csv_metric(out, d->memory_limit);
        csv_metric(out, d->utilisation);
        csv_metric(out, d->temperature);
        csv_metric(out, d->samples_per_sec);
        bst_sb_addc(out, '\n');
    }
}

const struct tui_pane tui_pane_devices = {
    .name = "devices",
    .title = title,
    .draw = draw,
    .lines = shown_devices,
    .csv = csv,
};
