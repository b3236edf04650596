#include "core/comm/lifeline.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/comm/door.h"

/* Words on a connection; behind LEAVES comes why. */
enum { GOODBYE = 'g', LEAVES = 'l', WHY_MOST = 200 };
/* The kernel's probes of a connection on which nothing is said: seconds, and how many. */
enum { PROBE_AFTER = 5, PROBE_EVERY = 2, PROBES = 3 };

struct bst_lifeline {
    struct bst_lifeline_cfg cfg;
    int n;
    int *fd; /* by process; -1: none, or over */
    /* On process 0, by process: it has said why it goes, and waits for the end of its connection.
     */
    bool *leaves;
    int stop_fd;
    bool over; /* on a process that follows: its connection has been, and is no more */
    pthread_t thread;
    bool started;
};

static void set_up(int fd)
{
    static const struct {
        int level, name, value;
    } opts[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES},
        {IPPROTO_TCP, TCP_NODELAY, 1},
    };
    /* Without the probes a machine that is gone is noticed by the wait time. */
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        (void)setsockopt(fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int));
}

/* A connection that only one end counts as made is none. */
static void take_made(struct bst_lifeline *l, const int32_t *made)
{
    for (int k = 1; k < l->n; k++) {
        if (l->fd[k] >= 0 && !made[k]) {
            close(l->fd[k]);
            l->fd[k] = -1;
        }
        if (l->fd[k] < 0)
            bst_log(BST_LOG_WARN,
                    "process %d cannot be reached beside MPI: its end would be noticed only after "
                    "devices.timeout",
                    k);
    }
}

static enum bst_err connect_all(struct bst_lifeline *l)
{
    struct bst_hail own = {.n = 0}, *all = bst_xcalloc((size_t)l->n, sizeof *all);
    int32_t *made = bst_xcalloc((size_t)l->n, sizeof *made), mine = 0;
    struct bst_door *door = NULL;
    const bool leads = !l->cfg.info->process;
    /* What comes of it without one is said to be so for each process below. */
    if (leads && bst_door_open(l->cfg.info, &own, &door))
        door = NULL;
    enum bst_err err = l->cfg.gather(l->cfg.arg, &own, all, sizeof own);
    if (!err && !leads) {
        l->fd[0] = bst_door_reach(&all[0], l->cfg.info->process);
        mine = l->fd[0] >= 0;
    }
    if (!err)
        err = l->cfg.gather(l->cfg.arg, &mine, made, sizeof mine);
    bst_door_close(door, l->fd);
    if (!err && leads)
        take_made(l, made);
    for (int k = 0; k < l->n; k++)
        if (l->fd[k] >= 0)
            set_up(l->fd[k]);
    bst_free(all);
    bst_free(made);
    return err;
}

/* It is over, one way or the other. */
static void read_end(struct bst_lifeline *l, int process)
{
    char said[1 + WHY_MOST + 1] = "";
    ssize_t n = recv(l->fd[process], said, sizeof said - 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    l->leaves[process] = n > 0 && said[0] == LEAVES;
    if (n < 1 || said[0] != GOODBYE)
        l->cfg.lost(l->cfg.arg, process, l->leaves[process] ? said + 1 : "");
    if (l->leaves[process])
        return;
    close(l->fd[process]);
    l->fd[process] = -1;
    l->over = true;
}

static void *watch(void *arg)
{
    struct bst_lifeline *l = arg;
    struct pollfd *p = bst_xcalloc((size_t)l->n + 1, sizeof *p);
    pthread_setname_np(pthread_self(), "bst-lifeline");
    for (bool on = true; on;) {
        for (int k = 0; k < l->n; k++)
            p[k] = (struct pollfd){.fd = l->leaves[k] ? -1 : l->fd[k], .events = POLLIN};
        p[l->n] = (struct pollfd){.fd = l->stop_fd, .events = POLLIN};
        if (poll(p, (nfds_t)l->n + 1, -1) < 0)
            continue;
        on = !p[l->n].revents;
        for (int k = 0; on && k < l->n; k++)
            if (p[k].revents)
                read_end(l, k);
    }
    bst_free(p);
    return NULL;
}

static enum bst_err start_watching(struct bst_lifeline *l)
{
    enum bst_err err = bst_thread_start(&l->thread, watch, l);
    l->started = !err;
    return err ? bst_fail_in(err, "watching the other processes") : BST_OK;
}

enum bst_err bst_lifeline_open(const struct bst_lifeline_cfg *cfg, struct bst_lifeline **out)
{
    struct bst_lifeline *l = bst_xalloc(sizeof *l);
    l->cfg = *cfg;
    l->n = cfg->info->n_processes;
    l->fd = bst_xcalloc((size_t)l->n, sizeof *l->fd);
    l->leaves = bst_xcalloc((size_t)l->n, sizeof *l->leaves);
    for (int k = 0; k < l->n; k++)
        l->fd[k] = -1;
    l->stop_fd = eventfd(0, EFD_CLOEXEC);
    enum bst_err err = connect_all(l);
    if (!err && l->stop_fd < 0)
        err = bst_fail(BST_E_IO, "eventfd: %s", strerror(errno));
    if (!err)
        err = start_watching(l);
    if (err) {
        bst_lifeline_close(l);
        l = NULL;
    }
    *out = l;
    return err;
}

static void stop_watching(struct bst_lifeline *l)
{
    const uint64_t one = 1;
    if (!l->started)
        return;
    ssize_t n = write(l->stop_fd, &one, sizeof one);
    (void)n; /* an eventfd takes one more */
    pthread_join(l->thread, NULL);
    l->started = false;
}

/* Until the other end is closed, or a last word of it has come. */
static void wait_for_end(int fd, double seconds)
{
    const double until = bst_clock_now() + seconds;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (double left = seconds; left > 0; left = until - bst_clock_now())
        if (poll(&p, 1, (int)(left * 1e3) + 1) > 0)
            return;
}

void bst_lifeline_leave(struct bst_lifeline *l, const char *why, double seconds)
{
    char word[1 + WHY_MOST] = {LEAVES};
    if (!l)
        return;
    stop_watching(l);
    if (l->over)
        return;
    bst_log(BST_LOG_WARN,
            "process %d has left the run; it waits for process 0, which saves what it has, but no "
            "longer than %.0f s",
            l->cfg.info->process, seconds);
    /* Where there never was a connection only the time is left to go by. */
    if (l->fd[0] >= 0) {
        const size_t n = strnlen(why, WHY_MOST);
        memcpy(word + 1, why, n);
        ssize_t sent = send(l->fd[0], word, 1 + n, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; /* if not, the end of the connection says as much */
        shutdown(l->fd[0], SHUT_WR);
    }
    wait_for_end(l->fd[0], seconds);
}

void bst_lifeline_close(struct bst_lifeline *l)
{
    const char goodbye = GOODBYE;
    if (!l)
        return;
    stop_watching(l);
    for (int k = 0; k < l->n; k++)
        if (l->fd[k] >= 0) {
            ssize_t n = send(l->fd[k], &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            (void)n; /* whoever has left already needs none */
            close(l->fd[k]);
        }
    if (l->stop_fd >= 0)
        close(l->stop_fd);
    bst_free(l->leaves);
    bst_free(l->fd);
    bst_free(l);
}
