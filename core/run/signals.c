#include "core/run/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

/* Seconds. timeout(1) and others send a signal to the process and then to its group; that is not
 * somebody who has lost patience. */
#define TWICE_IS_ONCE 0.5

struct bst_signals {
    pthread_t thread;
    sigset_t set, before;
    atomic_int *interrupt;
    int wake_fd;
    atomic_int asked;
    double asked_at; /* this thread's */
    atomic_bool over;
    pthread_mutex_t lock;
    void (*usr1)(void *arg);
    void *usr1_arg;
};

/* The default action, as if nothing had been blocked: whoever sent it sees the process die of it.
 */
static void die_of(int sig)
{
    sigset_t one;
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
}

static void ask_to_end(struct bst_signals *s, int sig)
{
    uint64_t one = 1;
    double now = bst_clock_now();
    if (atomic_exchange(&s->asked, sig)) {
        if (now - s->asked_at < TWICE_IS_ONCE)
            return;
        die_of(sig);
    }
    s->asked_at = now;
    atomic_store(s->interrupt, 1);
    ssize_t n = write(s->wake_fd, &one, sizeof one);
    (void)n;
}

static void *thread_main(void *arg)
{
    struct bst_signals *s = arg;
    pthread_setname_np(pthread_self(), "bst-signals");
    while (!atomic_load(&s->over)) {
        int sig = sigwaitinfo(&s->set, NULL);
        if (atomic_load(&s->over))
            break;
        if (sig == SIGUSR1) {
            pthread_mutex_lock(&s->lock);
            if (s->usr1)
                s->usr1(s->usr1_arg);
            pthread_mutex_unlock(&s->lock);
        } else if (sig > 0) {
            ask_to_end(s, sig);
        }
    }
    return NULL;
}

static void ignore(int sig)
{
    struct sigaction act = {.sa_handler = SIG_IGN};
    sigaction(sig, &act, NULL);
}

enum bst_err bst_signals_start(atomic_int *interrupt, int wake_fd, struct bst_signals **out)
{
    struct bst_signals *s = bst_xalloc(sizeof *s);
    s->interrupt = interrupt;
    s->wake_fd = wake_fd;
    pthread_mutex_init(&s->lock, NULL);
    /* A limit on file sizes (XFSZ) is an error of write() like any other. */
    ignore(SIGHUP);
    ignore(SIGPIPE);
    ignore(SIGXFSZ);
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGINT);
    sigaddset(&s->set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &s->set, &s->before);
    enum bst_err err = bst_thread_start(&s->thread, thread_main, s);
    if (err) {
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
        pthread_mutex_destroy(&s->lock);
        bst_free(s);
        return bst_fail_in(err, "the thread for signals");
    }
    *out = s;
    return BST_OK;
}

void bst_signals_stop(struct bst_signals *s)
{
    if (!s)
        return;
    atomic_store(&s->over, true);
    pthread_kill(s->thread, SIGUSR1);
    pthread_join(s->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    pthread_mutex_destroy(&s->lock);
    bst_free(s);
}

int bst_signals_asked(const struct bst_signals *s)
{
    return atomic_load(&s->asked);
}

void bst_signals_on_usr1(struct bst_signals *s, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&s->lock);
    s->usr1 = fn;
    s->usr1_arg = arg;
    pthread_mutex_unlock(&s->lock);
}
