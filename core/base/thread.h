/* Threads of the program's own. Any thread may call. */
#ifndef BST_BASE_THREAD_H
#define BST_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "core/base/err.h"

/* Signals are for the thread that waits for them: here all are blocked but those that a thread
 * brings upon itself. What this thread starts inherits that. */
BST_MUST_USE enum bst_err bst_thread_start(pthread_t *out, void *(*entry)(void *arg), void *arg);

/* Waits for a thread's end, but no longer than about `seconds`: false: it is left behind, with all
 * that it uses. */
bool bst_thread_join_within(pthread_t thread, double seconds);

#endif
