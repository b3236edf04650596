#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/run/field.h"
#include "core/run/server_inner.h"
#include "core/tune/command.h"

struct bst_peer *bst_server_peer(struct bst_server *s, uint64_t key)
{
    for (int i = 0; key && i < s->n_peers; i++)
        if (s->peers[i]->key == key)
            return s->peers[i];
    return NULL;
}

static const char *holder_name(struct bst_server *s)
{
    const struct bst_peer *p = bst_server_peer(s, s->holder);
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
    if (p->taken_by[0])
        bst_json_str(&j, "taken_by", p->taken_by);
    bst_json_close(&j, '}');
    bst_peer_say(p, sb.data);
    bst_sb_fini(&sb);
}

void bst_server_give_lease(struct bst_server *s, uint64_t key, const struct bst_peer *except)
{
    if (s->holder == key)
        return;
    struct bst_peer *old = bst_server_peer(s, s->holder);
    struct bst_peer *now = bst_server_peer(s, key);
    if (old)
        old->armed = false;
    if (old && now)
        bst_copy_text(old->taken_by, sizeof old->taken_by, now->user);
    if (now)
        now->taken_by[0] = '\0';
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
    bst_copy_text(p->client, sizeof p->client, r->client);
    if (s->n_peers > BST_PEERS_MAX && !bst_peer_is_brief(p)) {
        bst_peer_refuse(p, r->id, "32 clients are connected, no room", now);
        return;
    }
    p->hello = true;
    p->readonly = r->readonly || s->cfg.readonly;
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
        bst_server_give_lease(s, p->key, p);
    say_lease(s, p, false, 0);
}

void bst_server_send_status(struct bst_server *s, struct bst_peer *p)
{
    struct bst_sb all, status;
    struct bst_json j;
    pthread_mutex_lock(&s->lock);
    /* Most of the structure is room for layers that this net does not have. */
    memcpy(&s->shown, &s->status,
           offsetof(struct bst_status, layers) +
               (size_t)s->status.n_layers * sizeof s->status.layers[0]);
    s->shown.you_search = p->key == s->searching;
    s->shown.update_age = bst_metric_of(s->busy_since > 0 ? bst_clock_now() - s->busy_since : NAN);
    pthread_mutex_unlock(&s->lock);
    bst_copy_text(s->shown.lease, sizeof s->shown.lease, holder_name(s));
    s->shown.you_hold_lease = p->key == s->holder;
    bst_copy_text(s->shown.lease_taken_by, sizeof s->shown.lease_taken_by, p->taken_by);
    s->shown.n_clients = s->n_peers;
    bst_sb_init(&status, BST_WIRE_REPLY_MAX - 256);
    bst_sb_init(&all, BST_WIRE_REPLY_MAX);
    bst_status_print(&s->shown, &status, p->wants_layers);
    bst_json_init(&j, &all);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "status");
    bst_json_uint(&j, "id", p->status_id);
    bst_json_raw(&j, "status", status.data);
    bst_json_close(&j, '}');
    if (!all.full)
        bst_peer_say(p, all.data);
    else
        bst_peer_error(p, p->status_id, "the status does not fit a reply");
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
    const struct bst_peer *h = bst_server_peer(s, s->holder);
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
           (cmd.kind == BST_COMMAND_PAUSE || cmd.kind == BST_COMMAND_STOP ||
            cmd.kind == BST_COMMAND_CANCEL);
}

static void do_command(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (!r->dry && !may_change(s, p, r->id))
        return;
    if (!r->dry && !s->holder && !strcmp(p->client, "console"))
        bst_server_give_lease(s, p->key, NULL);
    if (!r->dry)
        p->armed = false;
    bool urgent = !r->dry && is_urgent(r->text);
    pthread_mutex_lock(&s->lock);
    bool room = s->n_queue < BST_SERVER_QUEUE;
    if (room) {
        struct bst_inbound *in = &s->queue[s->n_queue++];
        *in = (struct bst_inbound){.client = p->key, .id = r->id, .dry = r->dry, .urgent = urgent};
        bst_copy_text(in->text, sizeof in->text, r->text);
        snprintf(in->source, sizeof in->source, "%s %s", p->client, p->user);
        p->n_pending++;
    }
    pthread_mutex_unlock(&s->lock);
    if (!room) {
        refuse_command(p, r->id, NULL, "too many commands are waiting");
        return;
    }
    if (urgent)
        atomic_store(s->cfg.interrupt, 1);
    bst_poke(s->cfg.wake_fd);
}

static void do_arm(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (r->on && (p->readonly || (s->holder && s->holder != p->key))) {
        bst_peer_error(p, r->id, "read-only: the control is not held here");
        return;
    }
    if (r->on)
        bst_server_give_lease(s, p->key, NULL);
    p->armed = r->on;
}

static void do_lease(struct bst_server *s, struct bst_peer *p, const struct bst_request *r)
{
    if (r->on && p->readonly) {
        bst_peer_error(p, r->id, "read-only: cannot take the control");
        return;
    }
    if (r->on)
        bst_server_give_lease(s, p->key, p);
    else if (s->holder == p->key)
        bst_server_give_lease(s, 0, p);
    say_lease(s, p, true, r->id);
}

void bst_server_request(struct bst_server *s, struct bst_peer *p, const struct bst_request *r,
                        double now)
{
    p->asked = now;
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
