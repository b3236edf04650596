#include "core/comm/door.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

#define REACH_SECONDS 10.0 /* for process 0 to answer, whichever way */
enum { GUESTS = 64 };      /* who have not said who they are, beside each process at each address */

struct hello { /* a process's first word on its connection */
    unsigned char question[BST_DOOR_WORD];
    int32_t process;
};

struct guest {
    int fd; /* -1: nobody */
    size_t n;
    struct hello hello; /* n bytes of it */
};

struct bst_door {
    struct bst_hail hail;
    int n; /* processes */
    int listener[BST_DOOR_ADDRESSES];
    int stop_fd;
    int n_guests, next; /* next: to be sent away where all places are taken, the oldest */
    struct guest *guests;
    int *fd; /* by process; -1: has not come */
    pthread_t thread;
};

/* --- process 0's addresses --- */

static bool leads_here(const struct ifaddrs *a)
{
    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK))
        return false;
    if (a->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, a->ifa_addr, sizeof v6);
        return !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr); /* an address only with this end's device */
    }
    return a->ifa_addr->sa_family == AF_INET;
}

static void take_address(struct bst_hail *h, const struct sockaddr *at)
{
    struct bst_address *a = &h->address[h->n++];
    a->bytes = at->sa_family == AF_INET ? sizeof a->at.v4 : sizeof a->at.v6;
    memcpy(&a->at, at, a->bytes);
}

/* Those first whose device has a carrier, should there be too many. The machine's own address alone
 * where all processes are on it. */
static void find_addresses(const struct bst_cluster_info *info, struct bst_hail *h)
{
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct ifaddrs *list = NULL;
    h->n = 0;
    if (info->n_on_host == info->n_processes) {
        take_address(h, (const struct sockaddr *)&own);
        return;
    }
    if (getifaddrs(&list))
        return;
    for (unsigned running = IFF_RUNNING, k = 0; k < 2; k++, running = 0)
        for (const struct ifaddrs *a = list; a && h->n < BST_DOOR_ADDRESSES; a = a->ifa_next)
            if (leads_here(a) && (a->ifa_flags & IFF_RUNNING) == running)
                take_address(h, a->ifa_addr);
    freeifaddrs(list);
}

/* At a port of the system's choice, which the address then has. */
static int listen_at(struct bst_address *a, int most)
{
    socklen_t room = sizeof a->at;
    int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !bind(fd, &a->at.any, a->bytes) && !listen(fd, most) &&
        !getsockname(fd, &a->at.any, &room))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* An address that cannot be listened at is none. */
static void open_listeners(struct bst_door *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->hail.n; i++) {
        struct bst_address a = d->hail.address[i];
        d->listener[n] = listen_at(&a, d->n_guests);
        if (d->listener[n] >= 0)
            d->hail.address[n++] = a;
    }
    d->hail.n = n;
}

/* --- who comes --- */

static void send_away(struct guest *g)
{
    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
}

static bool is_known(const struct bst_door *d, const struct hello *h)
{
    return !memcmp(h->question, d->hail.question, BST_DOOR_WORD) && h->process > 0 &&
           h->process < d->n && d->fd[h->process] < 0;
}

static void hear_out(struct bst_door *d, struct guest *g)
{
    ssize_t n = recv(g->fd, (char *)&g->hello + g->n, sizeof g->hello - g->n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    g->n += n > 0 ? (size_t)n : 0;
    if (n > 0 && g->n < sizeof g->hello)
        return;
    /* It has room for its first word: the connection is new. */
    if (n > 0 && is_known(d, &g->hello) &&
        send(g->fd, d->hail.answer, BST_DOOR_WORD, MSG_NOSIGNAL) == BST_DOOR_WORD) {
        d->fd[g->hello.process] = g->fd;
        g->fd = -1;
    }
    send_away(g);
}

/* What a process has to say has mostly come with it. */
static void let_in(struct bst_door *d, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct guest *g = &d->guests[d->next];
    d->next = (d->next + 1) % d->n_guests;
    send_away(g);
    *g = (struct guest){.fd = fd};
    hear_out(d, g);
}

static void *keep_door(void *arg)
{
    struct bst_door *d = arg;
    const int n_listeners = (int)d->hail.n, n = n_listeners + d->n_guests;
    struct pollfd *p = bst_xcalloc((size_t)n + 1, sizeof *p);
    pthread_setname_np(pthread_self(), "bst-door");
    for (;;) {
        for (int i = 0; i < n; i++)
            p[i] = (struct pollfd){.fd = i < n_listeners ? d->listener[i]
                                                         : d->guests[i - n_listeners].fd,
                                   .events = POLLIN};
        p[n] = (struct pollfd){.fd = d->stop_fd, .events = POLLIN};
        if (poll(p, (nfds_t)n + 1, -1) < 0)
            continue;
        if (p[n].revents)
            break;
        for (int i = n_listeners; i < n; i++)
            if (p[i].revents)
                hear_out(d, &d->guests[i - n_listeners]);
        for (int i = 0; i < n_listeners; i++)
            if (p[i].revents)
                let_in(d, d->listener[i]);
    }
    bst_free(p);
    return NULL;
}

/* --- the door --- */

static void free_door(struct bst_door *d)
{
    for (uint32_t i = 0; i < d->hail.n; i++)
        close(d->listener[i]);
    for (int i = 0; i < d->n_guests; i++)
        send_away(&d->guests[i]);
    if (d->stop_fd >= 0)
        close(d->stop_fd);
    bst_free(d->guests);
    bst_free(d->fd);
    bst_free(d);
}

/* A process tries all addresses at once. */
static void make_places(struct bst_door *d)
{
    d->n_guests = d->n * (int)d->hail.n + GUESTS;
    d->guests = bst_xcalloc((size_t)d->n_guests, sizeof *d->guests);
    d->fd = bst_xcalloc((size_t)d->n, sizeof *d->fd);
    for (int i = 0; i < d->n_guests; i++)
        d->guests[i].fd = -1;
    for (int k = 0; k < d->n; k++)
        d->fd[k] = -1;
}

enum bst_err bst_door_open(const struct bst_cluster_info *info, struct bst_hail *hail,
                           struct bst_door **out)
{
    struct bst_door *d = bst_xalloc(sizeof *d);
    enum bst_err err = BST_OK;
    d->n = info->n_processes;
    d->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (d->stop_fd < 0 || getrandom(d->hail.question, BST_DOOR_WORD, 0) != BST_DOOR_WORD ||
        getrandom(d->hail.answer, BST_DOOR_WORD, 0) != BST_DOOR_WORD)
        err = bst_fail(BST_E_IO, "a connection for the other processes: %s", strerror(errno));
    if (!err) {
        find_addresses(info, &d->hail);
        make_places(d);
        open_listeners(d);
        err = bst_thread_start(&d->thread, keep_door, d);
    }
    if (err) {
        free_door(d);
        return err;
    }
    *hail = d->hail;
    *out = d;
    return BST_OK;
}

void bst_door_close(struct bst_door *d, int *fd)
{
    const uint64_t one = 1;
    if (!d)
        return;
    ssize_t n = write(d->stop_fd, &one, sizeof one);
    (void)n; /* an eventfd takes one more */
    pthread_join(d->thread, NULL);
    for (int k = 1; k < d->n; k++)
        if (d->fd[k] >= 0)
            fd[k] = d->fd[k];
    free_door(d);
}

/* --- the others' side --- */

struct attempt {
    int fd; /* -1: over */
    bool said;
    size_t n;
    unsigned char answer[BST_DOOR_WORD]; /* n bytes of it */
};

static void give_up(struct attempt *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static void set_out(struct attempt *a, const struct bst_address *to)
{
    *a = (struct attempt){.fd = -1};
    if (to->bytes > sizeof to->at)
        return;
    a->fd = socket(to->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->fd >= 0 && connect(a->fd, &to->at.any, to->bytes) && errno != EINPROGRESS)
        give_up(a);
}

/* True: process 0 it is. What goes wrong is this address's affair. */
static bool go_on(struct attempt *a, const struct bst_hail *hail, int process)
{
    struct hello hello = {.process = process};
    int trouble = 0;
    socklen_t room = sizeof trouble;
    if (!a->said) {
        memcpy(hello.question, hail->question, BST_DOOR_WORD);
        a->said = !getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &trouble, &room) && !trouble &&
                  send(a->fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
        if (!a->said)
            give_up(a);
        return false;
    }
    ssize_t n = recv(a->fd, a->answer + a->n, BST_DOOR_WORD - a->n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    a->n += n > 0 ? (size_t)n : 0;
    if (n > 0 && a->n == BST_DOOR_WORD && !memcmp(a->answer, hail->answer, BST_DOOR_WORD))
        return true;
    if (n <= 0 || a->n == BST_DOOR_WORD)
        give_up(a);
    return false;
}

/* The first that process 0 answers, until the time is up or none is left. */
static int first_answered(struct attempt *a, int n, const struct bst_hail *hail, int process)
{
    const double until = bst_clock_now() + REACH_SECONDS;
    struct pollfd p[BST_DOOR_ADDRESSES];
    for (;;) {
        const double left = until - bst_clock_now();
        int n_left = 0;
        for (int i = 0; i < n; i++) {
            p[i] = (struct pollfd){.fd = a[i].fd, .events = a[i].said ? POLLIN : POLLOUT};
            n_left += a[i].fd >= 0;
        }
        if (!n_left || left <= 0)
            return -1;
        if (poll(p, (nfds_t)n, (int)(left * 1e3) + 1) < 0)
            continue;
        for (int i = 0; i < n; i++)
            if (p[i].revents && go_on(&a[i], hail, process))
                return i;
    }
}

int bst_door_reach(const struct bst_hail *hail, int process)
{
    struct attempt a[BST_DOOR_ADDRESSES];
    const int n = hail->n < BST_DOOR_ADDRESSES ? (int)hail->n : BST_DOOR_ADDRESSES;
    int fd = -1;
    for (int i = 0; i < n; i++)
        set_out(&a[i], &hail->address[i]);
    const int first = first_answered(a, n, hail, process);
    if (first >= 0) {
        fd = a[first].fd;
        a[first].fd = -1;
    }
    for (int i = 0; i < n; i++)
        give_up(&a[i]);
    return fd;
}
