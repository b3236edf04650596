/* The terminal by way of curses, which only this file and the guard know. One screen at a time; one
 * thread. */
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include <stdbool.h>

#include "core/base/err.h"
#include "tui/console.h"
#include "tui/frame.h"

/* BST_E_UNSUPPORTED when nothing can be drawn here (no terminal, TERM=dumb, no entry for TERM and
 * its stand-ins): the caller writes lines instead. *warning, in static text or NULL, is to be shown
 * once. */
BST_MUST_USE enum bst_err tui_screen_open(const struct tui_console_cfg *cfg, const char **warning);
/* Whether a terminal of this type can be drawn on as it is, without a stand-in. */
bool tui_screen_known(const char *term);
void tui_screen_close(void); /* the terminal as it was; no harm when not open */
void tui_screen_size(int *w, int *h);
void tui_screen_setup(struct tui_frame *f); /* symbols that this terminal can show */
/* The next key, -1 when there is none now. */
int tui_screen_key(void);
/* Where the last TUI_KEY_MOUSE was: button 1, or 4 and 5 for the wheel. */
void tui_screen_mouse(int *x, int *y, int *button);
/* Sends what differs from the last frame; false, and nothing is sent, while the terminal does not
 * take more. */
bool tui_screen_flush(const struct tui_frame *f);
void tui_screen_redraw(void); /* the next flush sends everything */
void tui_screen_bell(void);
void tui_screen_suspend(void); /* as it was, until … */
void tui_screen_resume(void);

#endif
