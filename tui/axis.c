#include "tui/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/format.h"

static const double round_steps[] = {1, 2, 5, 10};
/* Seconds that people count in. */
static const double time_steps[] = {1,     2,     5,     10,    15,     30,    60,
                                    120,   300,   600,   900,   1800,   3600,  7200,
                                    14400, 21600, 43200, 86400, 172800, 604800};

double tui_axis_step(double rough, enum tui_axis_unit unit)
{
    if (unit == TUI_AXIS_TIME && rough > 0.5) {
        for (size_t i = 0; i < sizeof time_steps / sizeof time_steps[0]; i++)
            if (time_steps[i] >= rough)
                return time_steps[i];
    }
    double power = pow(10, floor(log10(rough)));
    for (int i = 0; i < 4; i++)
        if (round_steps[i] * power >= rough * (1 - 1e-9)) {
            double step = round_steps[i] * power;
            return unit == TUI_AXIS_COUNT && step < 1 ? 1 : step;
        }
    return 10 * power;
}

static void label_linear(const struct tui_axis *a, double v, double step, char out[16])
{
    char text[TUI_NUM];
    if (a->unit == TUI_AXIS_TIME && step < 1) {
        snprintf(text, sizeof text, "%.*fs", step < 0.1 ? 2 : 1, v);
    } else if (a->unit == TUI_AXIS_TIME) {
        bst_clock_span(v, text, sizeof text);
    } else if (fabs(a->hi) >= 10000 || fabs(a->lo) >= 10000) {
        tui_count(v, text);
    } else {
        int after = (int)fmax(0, -floor(log10(step) + 1e-9));
        if (after > 4)
            tui_num(v, 2, text);
        else
            snprintf(text, sizeof text, "%.*f", after, v == 0 ? 0.0 : v);
    }
    snprintf(out, 16, "%.15s", text);
}

/* At most `most` ticks, at a step of about a `parts`th of the axis. */
static void ticks_apart(struct tui_axis *a, int most, int parts)
{
    double step = tui_axis_step((a->hi - a->lo) / parts, a->unit);
    a->n = 0;
    double first = ceil(a->lo / step - 1e-9) * step;
    for (int i = 0; a->n < most && a->n < TUI_TICKS; i++) {
        double v = first + i * step;
        if (v > a->hi + step * 1e-9)
            break;
        if (a->log && v <= 0)
            continue;
        a->tick[a->n] = fabs(v) < step * 1e-9 ? 0 : v;
        label_linear(a, a->tick[a->n], step, a->label[a->n]);
        a->n++;
    }
}

/* A round step may be longer than the axis, or have one tick only on it: then a shorter one. */
static void ticks_linear(struct tui_axis *a, int most)
{
    int wanted = most < 2 ? most : 2;
    a->n = 0;
    for (int parts = most; a->n < wanted && parts <= most + 8; parts++)
        ticks_apart(a, most, parts);
}

static void add_log_tick(struct tui_axis *a, double v)
{
    char text[TUI_NUM];
    if (v < a->lo * (1 - 1e-9) || v > a->hi * (1 + 1e-9) || a->n == TUI_TICKS)
        return;
    tui_num(v, 1, text);
    a->tick[a->n] = v;
    snprintf(a->label[a->n++], 16, "%.15s", text);
}

static void ticks_log(struct tui_axis *a, int most)
{
    int from = (int)floor(log10(a->lo)), to = (int)ceil(log10(a->hi));
    int every = 1 + (to - from) / (most > 1 ? most : 1);
    /* Few decades and room enough: 1, 2, 5 of each. */
    bool fine = every == 1 && 3 * (to - from) <= most;
    for (int e = from; e <= to; e += every)
        for (int i = 0; i < (fine ? 3 : 1); i++)
            add_log_tick(a, round_steps[i] * pow(10, e));
}

void tui_axis_make(struct tui_axis *a, double lo, double hi, bool log, enum tui_axis_unit unit,
                   int most)
{
    memset(a, 0, sizeof *a);
    if (!isfinite(lo) || fabs(lo) > 1e300)
        lo = 0;
    if (!isfinite(hi) || fabs(hi) > 1e300)
        hi = lo + 1;
    if (lo > hi) {
        double t = lo;
        lo = hi;
        hi = t;
    }
    if (log && !(hi > 1e-300))
        log = false;
    if (log && !(lo > hi * 1e-12))
        lo = hi * 1e-12;
    if (log && hi < lo * 1.01) {
        lo /= 1.5;
        hi *= 1.5;
    }
    double least = fmax(fmax(fabs(hi), fabs(lo)) * 1e-9, 1e-300);
    if (!log && hi - lo <= least) {
        double pad = fmax(fabs(hi) * 0.05, unit == TUI_AXIS_NUMBER ? 1e-9 : 0.5);
        hi += pad;
        lo -= lo - pad < 0 && lo >= 0 ? lo : pad;
    }
    a->lo = lo;
    a->hi = hi;
    a->log = log;
    a->unit = unit;
    most = most < 1 ? 1 : most > TUI_TICKS ? TUI_TICKS : most;
    if (log)
        ticks_log(a, most);
    /* Within one decade round values of the linear kind say more. */
    if (a->n < 2 && !(log && hi > lo * 10)) {
        ticks_linear(a, most);
    }
}

double tui_axis_at(const struct tui_axis *a, double v)
{
    if (isnan(v))
        return v;
    if (!a->log)
        return (v - a->lo) / (a->hi - a->lo);
    return v > 0 ? (log(v) - log(a->lo)) / (log(a->hi) - log(a->lo)) : -1;
}
