#include "core/comm/lifeline.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/base/thread.h"

enum { COOKIE = 16, GOODBYE = 'g' };
/* The kernel's probes of a connection on which nothing is said: seconds, and how many. */
enum { PROBE_AFTER = 5, PROBE_EVERY = 2, PROBES = 3 };
/* For a connection to be made, and a word on it to come; ms. */
enum { REACH_MS = 3000 };

struct bst_lifeline {
    struct bst_lifeline_cfg cfg;
    int n;
    int *fd; /* by process; -1: none, or over */
    int stop_fd;
    pthread_t thread;
    bool started;
};

struct hail { /* process 0's, to all */
    struct sockaddr_storage at;
    uint32_t at_bytes; /* 0: it cannot be reached */
    unsigned char cookie[COOKIE];
};

struct hello { /* a process's first word on its connection */
    unsigned char cookie[COOKIE];
    int32_t process;
};

static bool suits(const struct ifaddrs *a, int family)
{
    return a->ifa_addr && a->ifa_addr->sa_family == family && (a->ifa_flags & IFF_UP) &&
           !(a->ifa_flags & IFF_LOOPBACK);
}

/* One address and no other is listened on: the machine's own where all processes are on it. */
static bool choose_address(const struct bst_cluster_info *info, struct hail *h)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct ifaddrs *list = NULL;
    if (info->n_on_host == info->n_processes) {
        memcpy(&h->at, &own, sizeof own);
        h->at_bytes = sizeof own;
        return true;
    }
    if (getifaddrs(&list))
        return false;
    static const int families[] = {AF_INET, AF_INET6};
    for (int f = 0; f < 2 && !h->at_bytes; f++)
        for (const struct ifaddrs *a = list; a && !h->at_bytes; a = a->ifa_next)
            if (suits(a, families[f])) {
                h->at_bytes = families[f] == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6);
                memcpy(&h->at, a->ifa_addr, h->at_bytes);
            }
    freeifaddrs(list);
    return h->at_bytes > 0;
}

static int make_listener(const struct bst_lifeline *l, struct hail *h)
{
    int fd = -1;
    socklen_t room = sizeof h->at;
    if (getrandom(h->cookie, COOKIE, 0) != COOKIE || !choose_address(l->cfg.info, h))
        return -1;
    fd = socket(h->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&h->at, h->at_bytes) && !listen(fd, l->n) &&
        !getsockname(fd, (struct sockaddr *)&h->at, &room))
        return fd;
    h->at_bytes = 0;
    if (fd >= 0)
        close(fd);
    return -1;
}

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

static int reach(const struct bst_lifeline *l, const struct hail *h)
{
    struct hello hello = {.process = l->cfg.info->process};
    struct timeval limit = {REACH_MS / 1000, 0};
    if (!h->at_bytes || h->at_bytes > sizeof h->at)
        return -1;
    int fd = socket(h->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* connect()'s, too */
    memcpy(hello.cookie, h->cookie, COOKIE);
    if (!connect(fd, (const struct sockaddr *)&h->at, h->at_bytes) &&
        send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) {
        set_up(fd);
        return fd;
    }
    close(fd);
    return -1;
}

/* Whoever else found the port does not know the cookie. */
static void accept_one(struct bst_lifeline *l, int listener, const struct hail *h)
{
    struct hello hello = {.process = -1};
    struct timeval limit = {REACH_MS / 1000, 0};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    bool right = recv(fd, &hello, sizeof hello, MSG_WAITALL) == sizeof hello &&
                 !memcmp(hello.cookie, h->cookie, COOKIE) && hello.process > 0 &&
                 hello.process < l->n && l->fd[hello.process] < 0;
    if (right) {
        l->fd[hello.process] = fd;
        set_up(fd);
    } else {
        close(fd);
    }
}

/* Connections that have been made wait in the listener's queue. */
static void accept_all(struct bst_lifeline *l, int listener, const struct hail *h, int n_made)
{
    for (int i = 0; i < n_made + l->n; i++) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int there = 0;
        for (int k = 1; k < l->n; k++)
            there += l->fd[k] >= 0;
        if (there >= n_made || poll(&p, 1, REACH_MS) <= 0)
            return;
        accept_one(l, listener, h);
    }
}

static enum bst_err connect_all(struct bst_lifeline *l, int listener, const struct hail *own)
{
    struct hail *all = bst_xcalloc((size_t)l->n, sizeof *all);
    int32_t *made = bst_xcalloc((size_t)l->n, sizeof *made);
    int n_made = 0;
    enum bst_err err = l->cfg.gather(l->cfg.arg, own, all, sizeof *own);
    if (!err && l->cfg.info->process)
        l->fd[0] = reach(l, &all[0]);
    int32_t mine = l->fd[0] >= 0;
    if (!err)
        err = l->cfg.gather(l->cfg.arg, &mine, made, sizeof mine);
    for (int k = 1; k < l->n; k++) {
        n_made += made[k];
        if (!err && !l->cfg.info->process && !made[k])
            bst_log(BST_LOG_WARN,
                    "process %d cannot be reached beside MPI: its end would be noticed only after "
                    "devices.timeout",
                    k);
    }
    if (!err && listener >= 0)
        accept_all(l, listener, own, n_made);
    bst_free(all);
    bst_free(made);
    return err;
}

/* True: it is over, one way or the other. */
static bool read_end(struct bst_lifeline *l, int process)
{
    char word = 0;
    ssize_t n = recv(l->fd[process], &word, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n != 1 || word != GOODBYE)
        l->cfg.lost(l->cfg.arg, process);
    return true;
}

static void *watch(void *arg)
{
    struct bst_lifeline *l = arg;
    struct pollfd *p = bst_xcalloc((size_t)l->n + 1, sizeof *p);
    pthread_setname_np(pthread_self(), "bst-lifeline");
    for (bool on = true; on;) {
        for (int k = 0; k < l->n; k++)
            p[k] = (struct pollfd){.fd = l->fd[k], .events = POLLIN};
        p[l->n] = (struct pollfd){.fd = l->stop_fd, .events = POLLIN};
        if (poll(p, (nfds_t)l->n + 1, -1) < 0)
            continue;
        on = !p[l->n].revents;
        for (int k = 0; on && k < l->n; k++)
            if (p[k].revents && read_end(l, k)) {
                close(l->fd[k]);
                l->fd[k] = -1;
            }
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
    struct hail own = {0};
    struct bst_lifeline *l = bst_xalloc(sizeof *l);
    l->cfg = *cfg;
    l->n = cfg->info->n_processes;
    l->fd = bst_xcalloc((size_t)l->n, sizeof *l->fd);
    for (int k = 0; k < l->n; k++)
        l->fd[k] = -1;
    l->stop_fd = eventfd(0, EFD_CLOEXEC);
    int listener = cfg->info->process ? -1 : make_listener(l, &own);
    enum bst_err err = connect_all(l, listener, &own);
    if (listener >= 0)
        close(listener);
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

void bst_lifeline_close(struct bst_lifeline *l)
{
    const char goodbye = GOODBYE;
    uint64_t one = 1;
    if (!l)
        return;
    if (l->started) {
        ssize_t n = write(l->stop_fd, &one, sizeof one);
        (void)n; /* an eventfd takes one more */
        pthread_join(l->thread, NULL);
    }
    for (int k = 0; k < l->n; k++)
        if (l->fd[k] >= 0) {
            ssize_t n = send(l->fd[k], &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            (void)n; /* whoever has left already needs none */
            close(l->fd[k]);
        }
    if (l->stop_fd >= 0)
        close(l->stop_fd);
    bst_free(l->fd);
    bst_free(l);
}
