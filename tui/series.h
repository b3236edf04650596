/* The run's history as points of a chart: which part of it the window shows, in epochs, updates or
 * time, smoothed or not. Reads the history in place. Pure. */
#ifndef TUI_SERIES_H
#define TUI_SERIES_H

#include "tui/chart.h"
#include "tui/model.h"

struct tui_window {
    int first, n; /* of history->updates */
    int first_eval, n_evals;
    double x0, x1; /* in the units of view.x */
    enum tui_axis_unit x_unit;
    const char *x_name;
};

enum tui_field { TUI_FIELD_LOSS, TUI_FIELD_SPEED, TUI_FIELD_NORM, TUI_FIELD_RATE };

struct tui_updates {
    const struct tui_model *m;
    struct tui_window win;
    enum tui_field field;
    double keep;         /* exponential smoothing: weight of the past; 0: none */
    double mean, weight; /* its state between calls */
};

struct tui_evals {
    const struct tui_model *m;
    struct tui_window win;
};

enum tui_noise_field { TUI_NOISE_SCALE, TUI_NOISE_LOW, TUI_NOISE_HIGH };

struct tui_noise {
    const struct tui_model *m;
    int first;
    enum tui_noise_field field;
};

void tui_window_make(const struct tui_model *m, struct tui_window *w);
/* The window in samples: first and last; what keys move. */
void tui_window_samples(const struct tui_model *m, double *from, double *to);

/* Where so many samples are on an axis of that kind; of what has not been trained yet, at the batch
 * and the speed of now. NaN: not known. */
double tui_x_of(const struct tui_model *m, enum tui_x kind, double samples);

/* `u` must outlive the series. Smoothing as the view says, over a fiftieth of the window. */
struct tui_series tui_series_updates(struct tui_updates *u, const struct tui_model *m,
                                     const struct tui_window *w, enum tui_field field,
                                     enum tui_style style);
struct tui_series tui_series_evals(struct tui_evals *e, const struct tui_model *m,
                                   const struct tui_window *w, enum tui_style style);
/* The noise scale, or an end of its interval. `v` must outlive the series. */
struct tui_series tui_series_noise(struct tui_noise *v, const struct tui_model *m,
                                   const struct tui_window *w, enum tui_noise_field field,
                                   enum tui_style style);
/* Updates that an exponential mean in this window spans; 1: none. */
int tui_smooth_span(const struct tui_model *m, const struct tui_window *w);
/* Everything a history chart has in common: window, which is put into *w, axis, scale. */
void tui_chart_over(struct tui_chart *c, const struct tui_model *m, struct tui_window *w, int pane);

#endif
