/* The trainer's signals: blocked in every thread, taken by one that waits for them and sets flags,
 * which the session reads at micro-batch boundaries and in every wait. One instance a process. */
#ifndef BST_RUN_SIGNALS_H
#define BST_RUN_SIGNALS_H

#include <stdatomic.h>

#include "core/base/err.h"

struct bst_signals;

/* Call before any other thread is made: they inherit what is blocked. TERM and INT: *interrupt
 * becomes 1, wake_fd (an eventfd) is written to, bst_signals_asked() gives the number; a second one
 * ends the process at once, by that signal. HUP, PIPE and XFSZ do nothing. */
BST_MUST_USE enum bst_err bst_signals_start(atomic_int *interrupt, int wake_fd,
                                            struct bst_signals **out);
/* Gives the process its signals back. */
void bst_signals_stop(struct bst_signals *s);

int bst_signals_asked(const struct bst_signals *s); /* 0: not asked to end */
/* What USR1 does, from the signals' own thread; NULL: nothing. */
void bst_signals_on_usr1(struct bst_signals *s, void (*fn)(void *arg), void *arg);

#endif
