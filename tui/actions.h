/* What keys do to the view: which panes, which part of the run, which scale. Each gets its row's
 * argument from the table in tui/actions.c and returns what must be done (TUI_DO_…). One thread. */
#ifndef TUI_ACTIONS_H
#define TUI_ACTIONS_H

#include "tui/app.h"

enum { TUI_PAGE = 2 /* tui_do_scroll_list: a page, not a line */ };

unsigned tui_do_toggle_pane(struct tui_app *app, int arg);
unsigned tui_do_reset_panes(struct tui_app *app, int arg);
unsigned tui_do_move_focus(struct tui_app *app, int arg);
unsigned tui_do_maximise(struct tui_app *app, int arg);
unsigned tui_do_freeze(struct tui_app *app, int arg);
unsigned tui_do_toggle_layers(struct tui_app *app, int arg);
unsigned tui_do_scroll_time(struct tui_app *app, int arg);
unsigned tui_do_to_end(struct tui_app *app, int arg);
unsigned tui_do_zoom(struct tui_app *app, int arg);
unsigned tui_do_toggle_log(struct tui_app *app, int arg);
unsigned tui_do_next_axis(struct tui_app *app, int arg);
unsigned tui_do_toggle_autoscale(struct tui_app *app, int arg);
unsigned tui_do_toggle_smooth(struct tui_app *app, int arg);
unsigned tui_do_step_event(struct tui_app *app, int arg);
unsigned tui_do_scroll_list(struct tui_app *app, int arg);

#endif
