/* The console over any source of facts: tui_console() is this over a live run, tests have their
 * own. One thread. */
#ifndef TUI_OVER_H
#define TUI_OVER_H

#include "tui/console.h"
#include "tui/link.h"

typedef enum bst_err tui_open(const struct tui_console_cfg *cfg, struct tui_link **out);

int tui_console_over(const struct tui_console_cfg *cfg, tui_open *open);

#endif
