/* What every full-screen program does with its terminal besides drawing: signals as events, being
 * suspended, noticing that it has gone. One thread. */
#ifndef TUI_TERMINAL_H
#define TUI_TERMINAL_H

#include <stdbool.h>

/* A signalfd of those that end, stop or resize the program, blocked from here on; with_children:
 * and of those that say that a child has ended. */
int tui_signals_open(bool with_children);
/* Stops this process group as the terminal's ^Z would, the screen put back for that long; comes
 * back when the shell lets it go on. */
void tui_stop_here(void);
/* For input that is readable, yet had no key: the terminal has gone. */
bool tui_input_gone(void);

#endif
