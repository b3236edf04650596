/* The small parent of the console: it keeps the terminal's settings, and puts them back however the
 * console dies. Called before anything else of the console. */
#ifndef TUI_GUARD_H
#define TUI_GUARD_H

/* Returns -1 in the console's own process (without a guard when none can be made), which goes on.
 * In the parent it returns only when that process has ended: its exit code, 128+n when a signal
 * killed it. */
int tui_guard(void);
/* The console's last word: ends its process, past whatever main would do a second time. Returns
 * `code` when there is no guard. */
int tui_guard_leave(int code);

#endif
