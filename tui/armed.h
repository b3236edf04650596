/* A change on its way: armed by a key or a typed command, worked out by the trainer as a dry run,
 * applied by y, dropped by Esc or by itself. Never acts on a proposal that the person has not had
 * time to see. One is armed at a time; what is asked for meanwhile waits behind it, and nothing is
 * dropped without a word. One thread. */
#ifndef TUI_ARMED_H
#define TUI_ARMED_H

#include "tui/model.h"

#define TUI_ARMED_LIFE 10.0 /* seconds until an armed change drops by itself */
#define TUI_ARMED_DEAF 0.3  /* seconds after arming in which y is not heard */

/* One press of a key that adds up; direction +1 or -1. Net 0 drops the change. */
void tui_armed_press(struct tui_model *m, struct tui_link *link, enum tui_armed_kind kind,
                     int direction);
void tui_armed_command(struct tui_model *m, struct tui_link *link, const char *text);
/* What was armed before, where nothing is by now; further presses add up with its own. */
void tui_armed_again(struct tui_model *m, struct tui_link *link, const struct tui_wish *wish);
void tui_armed_apply(struct tui_model *m, struct tui_link *link);
/* Takes back one thing: what waits last, else the armed change. */
void tui_armed_back(struct tui_model *m, struct tui_link *link);
/* Drops it all, but what is being applied; says so when `why` is given. */
void tui_armed_drop(struct tui_model *m, struct tui_link *link, const char *why);
/* A refusal has been read: what waits behind it is armed. */
void tui_armed_go_on(struct tui_model *m, struct tui_link *link);
/* Whether a change is armed that nobody has decided on; then the footer says that it comes first.
 */
bool tui_armed_stands(struct tui_model *m);
/* Another console has taken the lease: what was prepared here goes, and a notice says who. */
void tui_armed_taken(struct tui_model *m);
/* Time passes; true when something changed. */
bool tui_armed_tick(struct tui_model *m, struct tui_link *link);
/* true when the reply was its own. */
bool tui_armed_reply(struct tui_model *m, struct tui_link *link, const struct bst_reply *reply);
/* Seconds until it drops; 0 when it does not. */
double tui_armed_left(const struct tui_model *m);
/* The commands that wait, ", " between; "": none. */
void tui_armed_waiting(const struct tui_armed *a, char *out, size_t room);

#endif
