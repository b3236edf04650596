/* A link (tui/link.h) over the files of a run, played as they grew. One thread. */
#ifndef TUI_REPLAY_H
#define TUI_REPLAY_H

#include "core/base/err.h"
#include "tui/console.h"
#include "tui/link.h"

/* BST_E_NOTFOUND when the run has no recording. Closed by its own close(). */
BST_MUST_USE enum bst_err tui_replay_open(const struct tui_console_cfg *cfg, struct tui_link **out);

#endif
