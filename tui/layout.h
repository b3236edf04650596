/* Where the panes go: arithmetic only, no terminal. Pure; any thread. */
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include <stdbool.h>

/* In the order of the keys 1 to 7. */
enum tui_pane_id {
    TUI_PANE_DEVICES,
    TUI_PANE_THROUGHPUT,
    TUI_PANE_LOSS,
    TUI_PANE_GRADIENT,
    TUI_PANE_SCHEDULE,
    TUI_PANE_EVENTS,
    TUI_PANE_NOISE,
    TUI_N_PANES,
};

/* At the start: the noise scale is not something every run has. */
#define TUI_PANES_SHOWN (((1u << TUI_N_PANES) - 1) & ~(1u << TUI_PANE_NOISE))

enum tui_size {
    TUI_SIZE_LINE,     /* below 40×10: a line or a few, no panes */
    TUI_SIZE_COMPACT,  /* one column; what has no room is left out, the focused pane never */
    TUI_SIZE_STANDARD, /* from 80 columns */
    TUI_SIZE_FULL,     /* from 120×36: panes have boxes */
};

struct tui_rect {
    int x, y, w, h;
};

struct tui_layout_in {
    int w, h;
    unsigned shown; /* bit 1 << pane */
    int focus;
    bool maximised;
    int n_devices;
    int footer_rows; /* 1, or more while a change is armed on a narrow screen */
};

struct tui_layout {
    enum tui_size size;
    bool boxed; /* a box around each pane, else a rule above it */
    int header_rows, footer_rows;
    struct tui_rect pane[TUI_N_PANES];  /* w 0: not on the screen */
    struct tui_rect inner[TUI_N_PANES]; /* within box or rule */
};

void tui_layout_make(const struct tui_layout_in *in, struct tui_layout *out);

/* `total` shared out: everyone gets `min`, the rest goes by weight up to `max`; what then is left
 * goes to the last one. false when the minima alone are too much. */
bool tui_layout_share(int total, int n, const int *weight, const int *min, const int *max,
                      int *out);

#endif
