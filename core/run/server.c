#include "core/run/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/run/field.h"
#include "core/run/peer.h"
#include "core/run/socket.h"
#include "core/tune/command.h"

enum { QUEUE = 64, ACCEPTS = 8, NO_FILES_SECONDS = 1, CHECK_SECONDS = 10 };

struct outbound {
    struct outbound *next;
    uint64_t client; /* 0: every client, and may be dropped */
    char line[];
};

struct bst_server {
    struct bst_server_cfg cfg;
    char run[80], dir[512], path[BST_SOCKET_PATH];
    pthread_t thread;
    int wake; /* eventfd: the session has something for the thread */

    /* The thread's own. */
    struct bst_socket sock;
    struct bst_peer *peers[BST_PEERS_MAX];
    int n_peers;
    uint64_t next_key, holder;
    double accept_again, next_check;
    bool socket_failing;
    struct bst_status shown;

    pthread_mutex_t lock; /* what follows, for as long as a copy takes */
    struct bst_status status;
    struct bst_inbound queue[QUEUE];
    int n_queue;
    struct outbound *first, **last;

    atomic_bool stop, check_now;
    atomic_int remade;
};

static void poke(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* EAGAIN: it is awake already */
}

static struct bst_peer *peer_by_key(struct bst_server *s, uint64_t key)
{
    for (int i = 0; key && i < s->n_peers; i++)
        if (s->peers[i]->key == key)
            return s->peers[i];
    return NULL;
}

static const char *holder_name(struct bst_server *s)
{
    const struct bst_peer *p = peer_by_key(s, s->holder);
    return p ? p->user : "";
}

static void say_lease(struct bst_server *s, struct bst_peer *p, bool asked, uint64_t id)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 1024);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", asked ? "lease" : "event");
    if (asked)
        bst_json_uint(&j, "id", id);
    else
        bst_json_str(&j, "type", "lease");
    bst_json_str(&j, "holder", holder_name(s));
    bst_json_bool(&j, "you", p->key == s->holder);
    bst_json_close(&j, '}');
    bst_peer_say(p, sb.data);
    bst_sb_fini(&sb);
}

static void give_lease(struct bst_server *s, uint64_t key, const struct bst_peer *except)
{
    if (s->holder == key)
        return;
    struct bst_peer *old = peer_by_key(s, s->holder);
    if (old)
        old->armed = false;
    s->holder = key;
    for (int i = 0; i < s->n_peers; i++)
        if (s->peers[i]->hello && s->peers[i] != except)
            say_lease(s, s->peers[i], false, 0);
}

static void do_hello(struct bst_server *s, struct bst_peer *p, const struct bst_request *r,
                     double now)
{
    struct bst_sb sb;
    struct bst_json j;
    if (r->version != BST_WIRE_VERSION) {
        bst_peer_refuse(p, r->id, "this trainer speaks version 1 of the protocol", now);
        return;
    }
    p->hello = true;
    p->readonly = r->readonly || s->cfg.readonly;
    bst_copy_text(p->client, sizeof p->client, r->client);
    bst_copy_text(p->user, sizeof p->user, r->user);
    bst_sb_init(&sb, 4096);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "hello");
    bst_json_uint(&j, "id", r->id);
    bst_json_str(&j, "run", s->run);
    bst_json_str(&j, "dir", s->dir);
    bst_json_int(&j, "version", BST_WIRE_VERSION);
    bst_json_bool(&j, "readonly", p->readonly);
    bst_json_close(&j, '}');
    bst_peer_say(p, sb.data);
    bst_sb_fini(&sb);
    if (!s->holder && !p->readonly && !strcmp(p->client, "console"))
        give_lease(s, p->key, p);
    say_lease(s, p, false, 0);
}

static void send_status(struct bst_server *s, struct bst_peer *p, uint64_t id, bool layers)
{
    struct bst_sb all, status;
    struct bst_json j;
    pthread_mutex_lock(&s->lock);
    /* Most of the structure is room for layers that this net does not have. */
    memcpy(&s->shown, &s->status,
           offsetof(struct bst_status, layers) +
               (size_t)s->status.n_layers * sizeof s->status.layers[0]);
    pthread_mutex_unlock(&s->lock);
    bst_copy_text(s->shown.lease, sizeof s->shown.lease, holder_name(s));
    s->shown.you_hold_lease = p->key == s->holder;
    s->shown.n_clients = s->n_peers;
    bst_sb_init(&status, BST_WIRE_REPLY_MAX - 256);
    bst_sb_init(&all, BST_WIRE_REPLY_MAX);
    bst_status_print(&s->shown, &status, layers);
    bst_json_init(&j, &all);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "status");
    bst_json_uint(&j, "id", id);
    bst_json_raw(&j, "status", status.data);
    bst_json_close(&j, '}');
    if (!all.full)
        bst_peer_say(p, all.data);
    else
        bst_peer_error(p, id, "the status does not fit a reply");
    bst_sb_fini(&status);
    bst_sb_fini(&all);
}

static void refuse_command(struct bst_peer *p, uint64_t id, const char *code, const char *text)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 2048);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "command");
    bst_json_uint(&j, "id", id);
    bst_json_str(&j, "outcome", "refused");
    bst_json_str(&j, "code", code);
    bst_json_str(&j, "text", text);
    bst_json_close(&j, '}');
    bst_peer_say(p, sb.data);
    bst_sb_fini(&sb);
}

/* Who may change the run: see the lease in design.md. True when `p` may. */
static bool may_change(struct bst_server *s, struct bst_peer *p, uint64_t id)
{
    char text[256];
    bool console = !strcmp(p->client, "console");
    const struct bst_peer *h = peer_by_key(s, s->holder);
    if (p->readonly) {
        refuse_command(p, id, NULL,
                       s->cfg.readonly ? "read-only: the run was started with --readonly"
                                       : "read-only: attached with --readonly");
        return false;
    }
    if (!h || h == p)
        return true;
    if (console || h->armed) {
        snprintf(text, sizeof text,
                 console ? "read-only: %s holds the control; `take` takes it over"
                         : "%s has a change armed in a console",
                 h->user);
        refuse_command(p, id, "BST-313", text);
        return false;
    }
    return true;
}

/* Those that end or hold an update instead of waiting for it. */
static bool is_urgent(const char *text)
{
    struct bst_command cmd;
    return !bst_command_parse(text, &cmd) &&
           (cmd.kind == BST_COMMAND_PAUSE || cmd.kind == BST_COMMAND_STOP);
}

static void do_command(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (!r->dry && !may_change(s, p, r->id))
        return;
    if (!r->dry && !s->holder && !strcmp(p->client, "console"))
        give_lease(s, p->key, NULL);
    if (!r->dry)
        p->armed = false;
    bool urgent = !r->dry && is_urgent(r->text);
    pthread_mutex_lock(&s->lock);
    bool room = s->n_queue < QUEUE;
    if (room) {
        struct bst_inbound *in = &s->queue[s->n_queue++];
        *in = (struct bst_inbound){.client = p->key, .id = r->id, .dry = r->dry, .urgent = urgent};
        bst_copy_text(in->text, sizeof in->text, r->text);
        snprintf(in->source, sizeof in->source, "%s %s", p->client, p->user);
    }
    pthread_mutex_unlock(&s->lock);
    if (!room) {
        refuse_command(p, r->id, NULL, "too many commands are waiting");
        return;
    }
    if (urgent)
        atomic_store(s->cfg.interrupt, 1);
    poke(s->cfg.wake_fd);
}

static void do_arm(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (r->on && (p->readonly || (s->holder && s->holder != p->key))) {
        bst_peer_error(p, r->id, "read-only: the control is not held here");
        return;
    }
    if (r->on)
        give_lease(s, p->key, NULL);
    p->armed = r->on;
}

static void do_lease(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (r->on && p->readonly) {
        bst_peer_error(p, r->id, "read-only: cannot take the control");
        return;
    }
    if (r->on)
        give_lease(s, p->key, p);
    else if (s->holder == p->key)
        give_lease(s, 0, p);
    say_lease(s, p, true, r->id);
}

static void do_request(struct bst_server *s, struct bst_peer *p, const struct bst_request *r,
                       double now)
{
    if (!p->hello && r->op != BST_REQUEST_HELLO) {
        bst_peer_refuse(p, r->id, "say hello first", now);
        return;
    }
    switch (r->op) {
    case BST_REQUEST_HELLO:
        if (p->hello)
            bst_peer_refuse(p, r->id, "said hello already", now);
        else
            do_hello(s, p, r, now);
        return;
    case BST_REQUEST_STATUS:
        p->wants_status = true;
        p->wants_layers = r->layers;
        p->status_id = r->id;
        return;
    case BST_REQUEST_COMMAND:
        do_command(s, p, r);
        return;
    case BST_REQUEST_ARM:
        do_arm(s, p, r);
        return;
    case BST_REQUEST_LEASE:
        do_lease(s, p, r);
        return;
    }
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
            do_request(s, p, &r, now);
    }
    if (p->hello && !p->closing && !bst_frames_partial(&p->in))
        p->deadline = 0;
}

static void drop_peer(struct bst_server *s, int i)
{
    struct bst_peer *p = s->peers[i];
    s->peers[i] = s->peers[--s->n_peers];
    if (s->holder == p->key)
        give_lease(s, 0, p);
    bst_peer_free(p);
}

static void turn_away(int fd, const char *line)
{
    ssize_t n = send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
    close(fd);
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
    else if (s->n_peers == BST_PEERS_MAX)
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
    if (!err) {
        bst_log(BST_LOG_WARN, "BST-702: the control socket was removed, made again at %s", s->path);
        atomic_fetch_add(&s->remade, 1);
    }
    s->socket_failing = err != BST_OK;
}

static void deliver(struct bst_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct outbound *o = s->first;
    s->first = NULL;
    s->last = &s->first;
    pthread_mutex_unlock(&s->lock);
    while (o) {
        struct outbound *next = o->next;
        struct bst_peer *one = peer_by_key(s, o->client);
        if (one)
            bst_peer_say(one, o->line);
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
        send_status(s, p, p->status_id, p->wants_layers);
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
    struct pollfd fds[2 + BST_PEERS_MAX];
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
        struct pollfd fds[BST_PEERS_MAX];
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
    if (s->wake < 0 || pthread_create(&s->thread, NULL, thread_main, s)) {
        err = bst_fail(BST_E_IO, "the control thread: %s", strerror(errno));
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
    poke(s->wake);
    pthread_join(s->thread, NULL);
    close(s->wake);
    while (s->first) {
        struct outbound *next = s->first->next;
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
    struct outbound *o = bst_xalloc(sizeof *o + n);
    o->client = client;
    memcpy(o->line, line, n);
    pthread_mutex_lock(&s->lock);
    *s->last = o;
    s->last = &o->next;
    pthread_mutex_unlock(&s->lock);
    poke(s->wake);
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
    poke(s->wake);
}

int bst_server_remade(const struct bst_server *s)
{
    return atomic_load(&s->remade);
}
