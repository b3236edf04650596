/* The console driven by a file instead of a keyboard, without a terminal: how its screens are
 * tested, and how a live session is recorded. One directive a line, `#` starts a comment:
 *
 *   size W H          the screen's size
 *   keys K K …        keys as keys.def writes them: + y <Esc> <Space>
 *   type TEXT         each character of TEXT as a key
 *   wait SECONDS      time passes; a fake clock is moved on
 *   expect TEXT       waits until the screen has TEXT, at most 20 s; else the script fails
 *   refuse TEXT       fails when the screen has TEXT
 *   save FILE         the screen as text; `-`: to standard output */
#ifndef TUI_SCRIPT_H
#define TUI_SCRIPT_H

#include "tui/app.h"

/* BST_E_PARSE names file and line; BST_E_STATE: an expectation was not met. */
BST_MUST_USE enum bst_err tui_script_run(struct tui_app *app, const char *file);

#endif
