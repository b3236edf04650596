#include "core/base/thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 1 };

/* A handler of these, a sanitizer's say, tells what happened. */
static void open_own_faults(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

enum bst_err bst_thread_start(pthread_t *out, void *(*entry)(void *arg), void *arg)
{
    sigset_t blocked, before;

    sigfillset(&blocked);
    open_own_faults(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int failed = pthread_create(out, NULL, entry, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? bst_fail(BST_E_NOMEM, "cannot start a thread: %s", strerror(failed)) : BST_OK;
}

/* By looks, not until a time: the clock that pthread_timedjoin_np() goes by may be set. */
bool bst_thread_join_within(pthread_t thread, double seconds)
{
    static const struct timespec pause = {0, LOOK_MS * 1000000L};

    for (double ms = 0;; ms += LOOK_MS) {
        if (!pthread_tryjoin_np(thread, NULL))
            return true;
        if (ms >= 1000 * seconds)
            break;
        nanosleep(&pause, NULL);
    }
    pthread_detach(thread);
    return false;
}
