/* Whether the armed change can be tried before it is applied, and over how many updates. Pure. */
#ifndef TUI_TRIAL_H
#define TUI_TRIAL_H

#include "tui/model.h"

enum { TUI_TRIAL_USUAL = 200 }; /* updates without the change */

/* Updates of a trial of what is armed: the usual number, more where its batch needs them, fewer
 * where the run has no more left. 0: none is possible, and `why` says so; "" where nothing is armed
 * that could be tried at all. */
int tui_trial_updates(const struct tui_model *m, char *why, size_t room);

#endif
