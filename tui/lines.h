/* What the console says where it cannot draw: one line now and then, no escapes, no carriage
 * return. One thread. */
#ifndef TUI_LINES_H
#define TUI_LINES_H

#include "tui/console.h"
#include "tui/link.h"

/* Until the run is over or the output is closed. Returns the exit code. */
int tui_lines(const struct tui_console_cfg *cfg, struct tui_link *link, const char *warning);

#endif
