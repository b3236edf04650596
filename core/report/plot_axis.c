#include "core/report/plot_axis.h"

#include <math.h>
#include <stdio.h>

#include "core/base/json.h"

/* The least of 1, 2, 5 × 10^n that is not below `rough`. */
static double round_step(double rough)
{
    double base = pow(10, floor(log10(rough)));
    double times = rough / base;
    /* 2.0000000000000004 is 2. */
    return base * (times <= 1 + 1e-9 ? 1 : times <= 2 + 1e-9 ? 2 : times <= 5 + 1e-9 ? 5 : 10);
}

static void add(struct bst_plot_scale *s, double v, bool labelled, double step)
{
    if (s->n == BST_PLOT_TICKS || v < s->low - 1e-9 * step || v > s->high + 1e-9 * step)
        return;
    s->tick[s->n] = v;
    s->label[s->n][0] = '\0';
    if (labelled && fabs(v) < 1e-12 * fmax(fabs(s->low), fabs(s->high)))
        snprintf(s->label[s->n], sizeof s->label[0], "0");
    else if (labelled && fabs(v) >= 1e5 && fmod(v, 1000) == 0 && fabs(v) < 1e9)
        snprintf(s->label[s->n], sizeof s->label[0], "%.0fk", v / 1000);
    else if (labelled && fabs(v) >= 1e-3 && fabs(v) < 1e9)
        snprintf(s->label[s->n], sizeof s->label[0], "%.6g", v);
    else if (labelled)
        snprintf(s->label[s->n], sizeof s->label[0], "%.3g", v);
    s->n++;
}

static void linear_ticks(struct bst_plot_scale *s, bool fixed, int most)
{
    double step = round_step((s->high - s->low) / most);
    if (!fixed) {
        s->low = floor(s->low / step + 1e-9) * step;
        s->high = ceil(s->high / step - 1e-9) * step;
    }
    for (double k = ceil(s->low / step - 1e-9); k * step <= s->high + 1e-9 * step; k++)
        add(s, k * step, true, step);
}

/* Every decade labelled, or each n-th; within few decades 2 and 5 too; else unlabelled ticks there
 * while there is room. */
static void log_ticks(struct bst_plot_scale *s, int most)
{
    double first = floor(log10(s->low)), last = ceil(log10(s->high));
    int decades = (int)(last - first), every = 1;
    while (decades / every > most)
        every++;
    for (int d = 0; d <= decades; d++) {
        double ten = pow(10, first + d);
        add(s, ten, d % every == 0, 1e-3 * ten);
        if (decades <= 10) {
            add(s, 2 * ten, 3 * decades <= most + 2, 1e-3 * ten);
            add(s, 5 * ten, 3 * decades <= most + 2, 1e-3 * ten);
        }
    }
}

void bst_plot_scale_make(struct bst_plot_scale *s, double low, double high, bool log, bool fixed,
                         int most)
{
    bool usable = isfinite(low) && isfinite(high) && (!log || (low > 0 && high > 0));
    *s = (struct bst_plot_scale){.log = log, .low = low, .high = high};
    if (!usable) {
        s->low = log ? 0.1 : 0;
        s->high = 1;
    } else if (low > high) {
        s->low = high;
        s->high = low;
    }
    if (log) {
        if (s->high < s->low * 1.5) {
            s->low /= 2;
            s->high *= 2;
        }
        log_ticks(s, most);
        return;
    }
    /* Nothing narrower than what a double can tell apart in comfort. */
    double least = 1e-9 * fmax(fabs(s->low), fabs(s->high));
    if (s->high - s->low <= least) {
        double half = fabs(s->low) > 0 ? fabs(s->low) / 10 : 1;
        s->low -= half;
        s->high += half;
    }
    linear_ticks(s, fixed, most < 2 ? 2 : most);
}

double bst_plot_scale_at(const struct bst_plot_scale *s, double v)
{
    if (!isfinite(v) || (s->log && v <= 0))
        return NAN;
    return s->log ? log(v / s->low) / log(s->high / s->low) : (v - s->low) / (s->high - s->low);
}
