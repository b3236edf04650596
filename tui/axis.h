/* Where the ticks of an axis go and what they say. Pure; any thread. */
#ifndef TUI_AXIS_H
#define TUI_AXIS_H

#include <stdbool.h>

enum tui_axis_unit { TUI_AXIS_NUMBER, TUI_AXIS_COUNT, TUI_AXIS_TIME };

enum { TUI_TICKS = 24 };

struct tui_axis {
    double lo, hi;
    bool log; /* lo > 0 */
    enum tui_axis_unit unit;
    int n;
    double tick[TUI_TICKS]; /* rising, all within lo … hi */
    char label[TUI_TICKS][16];
};

/* Brings lo … hi into an order and a size that can be drawn: never empty, never not finite, above 0
 * when log. At most `most` ticks at round values. */
void tui_axis_make(struct tui_axis *a, double lo, double hi, bool log, enum tui_axis_unit unit,
                   int most);
/* The least of 1, 2, 5 × 10^n that is not below `rough`; ≥ 1 for counts, a step of clocks for
 * times. */
double tui_axis_step(double rough, enum tui_axis_unit unit);
/* 0 at lo, 1 at hi; NaN for NaN. A value ≤ 0 on a log axis is at -1. */
double tui_axis_at(const struct tui_axis *a, double v);

#endif
