#include "core/run/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/run/field.h"
#include "core/run/server_inner.h"

enum { ACCEPTS = 8, NO_FILES_SECONDS = 1, CHECK_SECONDS = 10 };

void bst_poke(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* EAGAIN: it is awake already */
}

static void serve_input(struct bst_server *s, struct bst_peer *p, double now)
{
    const char *why;
    struct bst_request r;
    char *line;
    size_t n;
    if (!bst_peer_read(p, now, &why)) {
        if (why)
            bst_peer_refuse(p, 0, why, now);
        else
            p->dead = true;
        return;
    }
    while (!p->dead && !p->closing && (line = bst_frames_next(&p->in, &n)) != NULL) {
        if (bst_request_parse(line, n, &r))
            bst_peer_refuse(p, 0, bst_err_text(), now);
        else
            bst_server_request(s, p, &r, now);
    }
    if (p->hello && !p->closing && !bst_frames_partial(&p->in))
        p->deadline = 0;
}

/* Of one that came for an answer alone, what it asked for is not done behind its back. A console's
 * commands stand: whoever gave one may leave. */
static void disown(struct bst_server *s, const struct bst_peer *p)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_queue; i++)
        if (s->queue[i].client == p->key && bst_peer_is_brief(p))
            s->queue[i].gone = true;
    pthread_mutex_unlock(&s->lock);
}

static void drop_peer(struct bst_server *s, int i)
{
    struct bst_peer *p = s->peers[i];
    s->peers[i] = s->peers[--s->n_peers];
    disown(s, p);
    if (s->holder == p->key)
        bst_server_give_lease(s, 0, p);
    bst_peer_free(p);
}

static void turn_away(int fd, const char *line)
{
    ssize_t n = send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
    close(fd);
}

/* Who idles must not keep out whoever comes to stop the run: of those that have not said what they
 * are, or that were to be brief, the one that has asked for nothing the longest goes. Consoles
 * stay: their number is bounded. */
static bool make_room(struct bst_server *s)
{
    int oldest = -1;
    for (int i = 0; i < s->n_peers; i++) {
        const struct bst_peer *p = s->peers[i];
        bool may_go = !p->hello || (bst_peer_is_brief(p) && !p->n_pending);
        if (may_go && (oldest < 0 || p->asked < s->peers[oldest]->asked))
            oldest = i;
    }
    if (oldest < 0)
        return false;
    drop_peer(s, oldest);
    return true;
}

/* False when there is no more to accept for now. */
static bool accept_one(struct bst_server *s, double now)
{
    int fd = accept4(s->sock.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            s->accept_again = now + NO_FILES_SECONDS;
        return false;
    }
    if (!bst_peer_may_talk(fd))
        close(fd);
    else if (s->n_peers == BST_PEERS_ALL && !make_room(s))
        turn_away(fd,
                  "{\"re\":\"error\",\"id\":0,\"text\":\"32 clients are connected, no room\"}\n");
    else
        s->peers[s->n_peers++] = bst_peer_new(fd, ++s->next_key, now);
    return true;
}

static void check_socket(struct bst_server *s, double now)
{
    s->next_check = now + CHECK_SECONDS;
    if (bst_socket_is_there(&s->sock))
        return;
    bst_socket_close(&s->sock);
    enum bst_err err = bst_socket_listen(&s->sock, s->path);
    if (err && !s->socket_failing)
        bst_log(BST_LOG_WARN, "the control socket is gone: %s", bst_err_text());
    if (!err)
        bst_log(BST_LOG_WARN, "BST-702: the control socket was removed, made again at %s", s->path);
    s->socket_failing = err != BST_OK;
}

static void deliver(struct bst_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct bst_outbound *o = s->first;
    s->first = NULL;
    s->last = &s->first;
    pthread_mutex_unlock(&s->lock);
    while (o) {
        struct bst_outbound *next = o->next;
        struct bst_peer *one = bst_server_peer(s, o->client);
        if (one) {
            one->n_pending -= one->n_pending > 0;
            bst_peer_say(one, o->line);
        }
        for (int i = 0; !o->client && i < s->n_peers; i++)
            if (s->peers[i]->hello && bst_peer_waiting(s->peers[i]) < BST_PEER_EVENTS_MAX)
                bst_peer_say(s->peers[i], o->line);
        bst_free(o);
        o = next;
    }
}

static int wait_ms(const struct bst_server *s, double now)
{
    double next = s->next_check;
    if (s->accept_again && s->accept_again < next)
        next = s->accept_again;
    for (int i = 0; i < s->n_peers; i++)
        if (s->peers[i]->deadline && s->peers[i]->deadline < next)
            next = s->peers[i]->deadline;
    return next <= now ? 0 : (int)((next - now) * 1000) + 1;
}

static void serve_peer(struct bst_server *s, struct bst_peer *p, short events, double now)
{
    if (events & (POLLIN | POLLHUP | POLLERR) && !p->closing)
        serve_input(s, p, now);
    if (p->wants_status && bst_peer_waiting(p) < BST_PEER_EVENTS_MAX) {
        p->wants_status = false;
        bst_server_send_status(s, p);
    }
    if (bst_peer_waiting(p) || p->closing)
        bst_peer_write(p);
    if (p->deadline && now >= p->deadline && !p->closing)
        bst_peer_refuse(p, 0, "a request was not finished within 10 s", now);
    if (p->closing && now >= p->deadline)
        p->dead = true;
}

static void turn(struct bst_server *s)
{
    struct pollfd fds[2 + BST_PEERS_ALL];
    uint64_t count;
    double now = bst_clock_now();
    bool may_accept = now >= s->accept_again;
    fds[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = may_accept ? s->sock.fd : -1, .events = POLLIN};
    for (int i = 0; i < s->n_peers; i++) {
        const struct bst_peer *p = s->peers[i];
        short out = bst_peer_waiting(p) ? POLLOUT : 0;
        fds[2 + i] =
            (struct pollfd){.fd = p->fd, .events = (short)((p->closing ? 0 : POLLIN) | out)};
    }
    int n = s->n_peers;
    poll(fds, (nfds_t)(2 + n), wait_ms(s, now));
    now = bst_clock_now();
    if (may_accept)
        s->accept_again = 0;
    if (fds[0].revents && read(s->wake, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    deliver(s);
    for (int i = 0; i < n; i++)
        serve_peer(s, s->peers[i], fds[2 + i].revents, now);
    for (int i = s->n_peers - 1; i >= 0; i--)
        if (s->peers[i]->dead)
            drop_peer(s, i);
    /* A few a turn, so that a flood of connections leaves time for those who talk. */
    for (int i = 0; i < ACCEPTS && fds[1].revents & POLLIN; i++)
        if (!accept_one(s, now))
            break;
    if (now >= s->next_check || atomic_exchange(&s->check_now, false))
        check_socket(s, now);
}

/* Lets the last words out, for as long as a reader that is alive needs. */
static void flush_all(struct bst_server *s)
{
    double until = bst_clock_now() + BST_PEER_LINGER_SECONDS;
    deliver(s);
    for (;;) {
        struct pollfd fds[BST_PEERS_ALL];
        int n = 0;
        for (int i = 0; i < s->n_peers; i++) {
            bst_peer_write(s->peers[i]);
            if (bst_peer_waiting(s->peers[i]) && !s->peers[i]->dead)
                fds[n++] = (struct pollfd){.fd = s->peers[i]->fd, .events = POLLOUT};
        }
        double left = until - bst_clock_now();
        if (!n || left <= 0)
            return;
        poll(fds, (nfds_t)n, (int)(left * 1000) + 1);
    }
}

static void *thread_main(void *arg)
{
    struct bst_server *s = arg;
    pthread_setname_np(pthread_self(), "bst-control");
    while (!atomic_load(&s->stop))
        turn(s);
    flush_all(s);
    while (s->n_peers)
        bst_peer_free(s->peers[--s->n_peers]);
    bst_socket_close(&s->sock);
    return NULL;
}

enum bst_err bst_server_open(const struct bst_server_cfg *cfg, struct bst_server **out)
{
    struct bst_server *s = bst_xalloc(sizeof *s);
    enum bst_err err;
    s->cfg = *cfg;
    s->sock.fd = s->wake = -1;
    s->last = &s->first;
    bst_copy_text(s->run, sizeof s->run, cfg->run);
    bst_copy_text(s->dir, sizeof s->dir, cfg->dir);
    pthread_mutex_init(&s->lock, NULL);
    err = bst_socket_path(cfg->dir, s->path);
    if (!err)
        err = bst_socket_listen(&s->sock, s->path);
    if (err)
        goto out;
    s->next_check = bst_clock_now() + CHECK_SECONDS;
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = s->wake < 0 ? bst_fail(BST_E_IO, "eventfd: %s", strerror(errno))
                      : bst_thread_start(&s->thread, thread_main, s);
    if (err) {
        err = bst_fail_in(err, "the control thread");
        goto out;
    }
    *out = s;
    return BST_OK;
out:
    bst_socket_close(&s->sock);
    if (s->wake >= 0)
        close(s->wake);
    pthread_mutex_destroy(&s->lock);
    bst_free(s);
    return err;
}

void bst_server_close(struct bst_server *s, const char *why)
{
    if (!s)
        return;
    bst_server_event(s, "bye", NULL, why);
    atomic_store(&s->stop, true);
    bst_poke(s->wake);
    pthread_join(s->thread, NULL);
    close(s->wake);
    while (s->first) {
        struct bst_outbound *next = s->first->next;
        bst_free(s->first);
        s->first = next;
    }
    pthread_mutex_destroy(&s->lock);
    bst_free(s);
}

const char *bst_server_path(const struct bst_server *s)
{
    return s->path;
}

void bst_server_publish(struct bst_server *s, const struct bst_status *status)
{
    pthread_mutex_lock(&s->lock);
    memcpy(&s->status, status,
           offsetof(struct bst_status, layers) +
               (size_t)status->n_layers * sizeof status->layers[0]);
    pthread_mutex_unlock(&s->lock);
}

void bst_server_searching(struct bst_server *s, uint64_t client)
{
    pthread_mutex_lock(&s->lock);
    s->searching = client;
    pthread_mutex_unlock(&s->lock);
}

void bst_server_busy(struct bst_server *s, bool on)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->busy_since = on ? bst_clock_now() : 0;
    pthread_mutex_unlock(&s->lock);
}

bool bst_server_next(struct bst_server *s, bool urgent_only, struct bst_inbound *out)
{
    int i = 0;
    pthread_mutex_lock(&s->lock);
    while (i < s->n_queue && urgent_only && !s->queue[i].urgent)
        i++;
    bool some = i < s->n_queue;
    if (some) {
        *out = s->queue[i];
        s->n_queue--;
        memmove(&s->queue[i], &s->queue[i + 1], (size_t)(s->n_queue - i) * sizeof s->queue[0]);
    }
    pthread_mutex_unlock(&s->lock);
    return some;
}

static void send_out(struct bst_server *s, uint64_t client, const char *line)
{
    size_t n = strlen(line) + 1;
    struct bst_outbound *o = bst_xalloc(sizeof *o + n);
    o->client = client;
    memcpy(o->line, line, n);
    pthread_mutex_lock(&s->lock);
    *s->last = o;
    s->last = &o->next;
    pthread_mutex_unlock(&s->lock);
    bst_poke(s->wake);
}

void bst_server_answer(struct bst_server *s, uint64_t client, const char *line)
{
    if (client)
        send_out(s, client, line);
}

void bst_server_event(struct bst_server *s, const char *type, const char *code, const char *text)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 4096);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "event");
    bst_json_str(&j, "type", type);
    bst_json_str(&j, "code", code);
    bst_json_str(&j, "text", text);
    bst_json_close(&j, '}');
    send_out(s, 0, sb.data);
    bst_sb_fini(&sb);
}

void bst_server_check_socket(struct bst_server *s)
{
    atomic_store(&s->check_now, true);
    bst_poke(s->wake);
}
