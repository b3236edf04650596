/* What a pane is: one file that exports one const entry, listed in tui/panes.c. One
 * thread. */
#ifndef TUI_PANE_H
#define TUI_PANE_H

#include "core/base/sb.h"
#include "tui/frame.h"
#include "tui/model.h"

struct tui_pane {
    const char *name; /* the title, and the operand of `view` */
    bool chart;       /* the chart keys work on it */
    /* What stands in the title's line after the name, within the area (one row). NULL: nothing. */
    void (*title)(const struct tui_model *m, struct tui_area a);
    void (*draw)(const struct tui_model *m, struct tui_area a);
    /* Lines of its list, for scrolling; NULL: it has no list. */
    int (*lines)(const struct tui_model *m);
    /* What it shows as CSV, with a header line; NULL: nothing to save. */
    void (*csv)(const struct tui_model *m, struct bst_sb *out);
};

extern const struct tui_pane tui_pane_devices, tui_pane_throughput, tui_pane_loss,
    tui_pane_gradient, tui_pane_schedule, tui_pane_events, tui_pane_noise;
extern const struct tui_pane *const tui_panes[TUI_N_PANES]; /* in the order of the keys 1 to 7 */

/* Helpers that several panes use. */
/* Words of a title, one after the other: "train 0.412" with the number in its style. Returns the
 * new x. */
int tui_title_item(struct tui_area a, int x, enum tui_style style, const char *label,
                   const char *value);
/* "left 6m03s" in a row of such, where it fits; the new x. */
int tui_fact(struct tui_area a, int x, int y, const char *label, const char *value);
/* A bar of `w` columns: `used` solid, up to `planned` shaded, the rest free; 0…1, NaN unknown. */
void tui_bar(struct tui_area a, int x, int y, int w, double used, double planned,
             enum tui_style style);
bool tui_event_hits(const struct tui_model *m, const struct bst_history_event *e);
bool tui_filter_hits(const struct tui_model *m, const char *text);
/* A comma, and the number where it is finite. */
void tui_csv_number(struct bst_sb *out, double v);
/* The updates of the window as CSV, all their columns, with the evaluations beside them. */
void tui_csv_window(const struct tui_model *m, struct bst_sb *out);

#endif
