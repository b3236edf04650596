#include "core/run/client.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/run/field.h"
#include "core/run/live.h"
#include "core/run/run_dir.h"
#include "core/run/socket.h"
#include "core/run/status_json.h"
#include "core/run/wire.h"
#include "core/tune/diagnostics.h"

/* A trainer answers hello from a thread that does nothing else. */
#define HELLO_SECONDS 5.0
/* After SIGUSR1 the socket's file comes back within this, unless nobody is there. */
#define REMAKE_SECONDS 2.0

struct bst_client {
    int fd;
    uint64_t next_id;
    struct bst_frames in;
    struct bst_sb out; /* what the socket would not take yet */
    bool gone;
    struct bst_status status;
    char run[80], dir[512]; /* as the trainer called itself */
    struct bst_reply reply;
    char *reply_json;
    char note[512];
    char holder[80];
    bool lease;
};

#define C(kind, name) BST_FIELD(struct bst_reply, kind, name)
static const struct bst_field reply_fields[] = {
    C(U64, id),   C(STR, outcome),          C(STR, code),
    C(STR, text), C(U64, effective_update), C(U64, effective_samples),
};
#undef C

static void flush_out(struct bst_client *c)
{
    while (c->out.len && !c->gone) {
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            c->gone = true;
            return;
        }
        memmove(c->out.data, c->out.data + n, c->out.len - (size_t)n + 1);
        c->out.len -= (size_t)n;
    }
}

/* A whole request or nothing: a trainer that reads this slowly is not asked more. */
static void say(struct bst_client *c, const struct bst_sb *line)
{
    if (c->out.len + line->len + 1 < c->out.cap && !line->full) {
        bst_sb_addn(&c->out, line->data, line->len);
        bst_sb_addc(&c->out, '\n');
    }
    flush_out(c);
}

static struct bst_json begin(struct bst_client *c, struct bst_sb *sb, const char *op, uint64_t *id)
{
    struct bst_json j;
    *id = c->next_id++;
    bst_sb_init(sb, 4096);
    bst_json_init(&j, sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "op", op);
    bst_json_uint(&j, "id", *id);
    return j;
}

static void end(struct bst_client *c, struct bst_sb *sb, struct bst_json *j)
{
    bst_json_close(j, '}');
    say(c, sb);
    bst_sb_fini(sb);
}

static void who_am_i(char *out, size_t room)
{
    char host[65] = "", buf[1024];
    struct passwd pw, *found = NULL;
    if (gethostname(host, sizeof host - 1))
        host[0] = '\0';
    getpwuid_r(geteuid(), &pw, buf, sizeof buf, &found);
    /* Of several consoles of one person: the terminal tells which. */
    char from[64], where[24];
    if (!ttyname_r(STDIN_FILENO, from, sizeof from) && !strncmp(from, "/dev/", 5))
        snprintf(where, sizeof where, "%.20s", from + 5);
    else
        snprintf(where, sizeof where, "pid %ld", (long)getpid());
    if (found)
        snprintf(out, room, "%.22s@%.22s %s", pw.pw_name, host, where);
    else
        snprintf(out, room, "%u@%.22s %s", (unsigned)geteuid(), host, where);
}

static void say_hello(struct bst_client *c, const char *kind, bool readonly)
{
    struct bst_sb sb;
    uint64_t id;
    char user[72];
    who_am_i(user, sizeof user);
    struct bst_json j = begin(c, &sb, "hello", &id);
    bst_json_str(&j, "client", kind);
    bst_json_str(&j, "user", user);
    bst_json_bool(&j, "readonly", readonly);
    bst_json_int(&j, "version", BST_WIRE_VERSION);
    end(c, &sb, &j);
}

/* False once the trainer is gone. */
static bool receive(struct bst_client *c)
{
    char some[16384];
    for (;;) {
        ssize_t n = recv(c->fd, some, sizeof some, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0 || bst_frames_feed(&c->in, some, (size_t)n))
            return false;
        /* The rest can wait in the kernel while what is here is read. */
        if (c->in.len - c->in.start > BST_WIRE_REPLY_MAX / 2)
            return true;
    }
}

static void read_lease(struct bst_client *c, const json_t *o)
{
    bst_copy_clean(c->holder, sizeof c->holder, bst_json_text(o, "holder"));
    c->lease = json_is_true(json_object_get(o, "you"));
}

static int read_changes(const json_t *from, const char *before, const char *after,
                        struct bst_reply_change *to, int most)
{
    int n = 0;
    size_t i;
    json_t *o;
    json_array_foreach(from, i, o)
    {
        if (n == most)
            break;
        struct bst_reply_change *c = &to[n++];
        bst_copy_clean(c->key, sizeof c->key, bst_json_text(o, "key"));
        bst_value_text(json_object_get(o, before), c->old_value, sizeof c->old_value);
        bst_value_text(json_object_get(o, after), c->new_value, sizeof c->new_value);
    }
    return n;
}

static struct bst_metric read_metric(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return (struct bst_metric){json_number_value(v), json_is_number(v)};
}

static void read_notes(const json_t *list, struct bst_reply *r)
{
    size_t i;
    const json_t *code;
    json_array_foreach(list, i, code)
    {
        const char *text = json_string_value(code);
        int number = text ? bst_diag_number(text) : 0;
        if (r->n_notes < (int)(sizeof r->notes / sizeof *r->notes) && bst_diag_find(number))
            r->notes[r->n_notes++] = number;
    }
}

static void read_reply(const json_t *o, struct bst_reply *r)
{
    static const char *const good[] = {"proposed", "applied", "done"};
    *r = (struct bst_reply){0};
    bst_fields_read(reply_fields, sizeof reply_fields / sizeof *reply_fields, o, r);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        r->ok = r->ok || !strcmp(r->outcome, good[i]);
    r->n_changes = read_changes(json_object_get(o, "changes"), "old", "new", r->changes,
                                (int)(sizeof r->changes / sizeof *r->changes));
    r->n_kept = read_changes(json_object_get(o, "kept"), "", "why", r->kept,
                             (int)(sizeof r->kept / sizeof *r->kept));
    read_notes(json_object_get(o, "notes"), r);
    const json_t *memory = json_object_get(o, "memory");
    r->memory_planned = read_metric(memory, "planned");
    r->memory_limit = read_metric(memory, "limit");
    const json_t *schedule = json_object_get(o, "schedule");
    r->rate_before = read_metric(schedule, "learning_rate_before");
    r->rate_after = read_metric(schedule, "learning_rate");
    r->n_curve =
        bst_curve_read(json_object_get(schedule, "curve"), r->curve_samples, r->curve_rate);
}

/* A request that the trainer would not take is a refused command to whoever asked. */
static void error_reply(const json_t *o, struct bst_reply *r)
{
    *r = (struct bst_reply){.id = bst_json_count(o, "id", 0)};
    bst_copy_text(r->outcome, sizeof r->outcome, "refused");
    bst_copy_clean(r->text, sizeof r->text, bst_json_text(o, "text"));
}

static enum bst_client_event take_event(struct bst_client *c, const json_t *o)
{
    if (!strcmp(bst_json_text(o, "type"), "lease")) {
        read_lease(c, o);
        return BST_CLIENT_LEASE;
    }
    const char *code = bst_json_text(o, "code");
    char all[600];
    snprintf(all, sizeof all, "%.15s%s%.500s", code, *code ? ": " : "", bst_json_text(o, "text"));
    bst_copy_clean(c->note, sizeof c->note, all);
    return BST_CLIENT_NOTE;
}

/* The answer as it came, and before it whose it is. */
static void keep_json(struct bst_client *c, const char *line, size_t n)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, BST_WIRE_REPLY_MAX + 8192);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "run", c->run);
    bst_json_str(&j, "dir", c->dir);
    bst_sb_addc(&sb, ',');
    const char *inside = memchr(line, '{', n);
    bst_sb_add(&sb, inside ? inside + 1 : "}");
    bst_free(c->reply_json);
    c->reply_json = bst_xstrdup(sb.full ? line : sb.data);
    bst_sb_fini(&sb);
}

static enum bst_client_event take_line(struct bst_client *c, const char *line, size_t n)
{
    enum bst_client_event event = BST_CLIENT_NOTHING;
    json_t *o = json_loadb(line, n, 0, NULL);
    const char *re = bst_json_text(o, "re");
    if (!strcmp(re, "command") || !strcmp(re, "error"))
        keep_json(c, line, n);
    if (!strcmp(re, "status")) {
        bst_status_read(json_object_get(o, "status"), &c->status);
        bst_copy_text(c->holder, sizeof c->holder, c->status.lease);
        c->lease = c->status.you_hold_lease;
        event = BST_CLIENT_STATUS;
    } else if (!strcmp(re, "command")) {
        read_reply(o, &c->reply);
        event = BST_CLIENT_REPLY;
    } else if (!strcmp(re, "error")) {
        error_reply(o, &c->reply);
        event = BST_CLIENT_REPLY;
    } else if (!strcmp(re, "lease")) {
        read_lease(c, o);
        event = BST_CLIENT_LEASE;
    } else if (!strcmp(re, "event")) {
        event = take_event(c, o);
    }
    json_decref(o);
    return event;
}

enum bst_client_event bst_client_next(struct bst_client *c)
{
    flush_out(c);
    for (;;) {
        size_t n;
        char *line = bst_frames_next(&c->in, &n);
        if (line) {
            enum bst_client_event event = take_line(c, line, n);
            if (event != BST_CLIENT_NOTHING)
                return event;
            continue;
        }
        if (c->gone)
            return BST_CLIENT_CLOSED;
        size_t had = c->in.len - c->in.start;
        c->gone = !receive(c);
        if (!c->gone && c->in.len - c->in.start == had)
            return BST_CLIENT_NOTHING;
    }
}

static enum bst_err wait_hello(struct bst_client *c)
{
    double until = bst_clock_now() + HELLO_SECONDS;
    for (;;) {
        size_t n;
        char *line = bst_frames_next(&c->in, &n);
        if (line) {
            json_t *o = json_loadb(line, n, 0, NULL);
            bool hello = !strcmp(bst_json_text(o, "re"), "hello");
            char why[200];
            bst_copy_clean(why, sizeof why, bst_json_text(o, "text"));
            bst_copy_clean(c->run, sizeof c->run, bst_json_text(o, "run"));
            bst_copy_clean(c->dir, sizeof c->dir, bst_json_text(o, "dir"));
            json_decref(o);
            return hello ? BST_OK : bst_fail(BST_E_DENIED, "the trainer refused: %s", why);
        }
        double left = until - bst_clock_now();
        if (left <= 0)
            return bst_fail(BST_E_NOTFOUND, "the trainer does not answer");
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, (int)(left * 1000) + 1) > 0 && !receive(c) && !bst_frames_partial(&c->in))
            return bst_fail(BST_E_NOTFOUND, "the trainer closed the connection");
    }
}

/* The socket's file may have been cleaned away while the trainer lives: it makes another when
 * asked. */
static enum bst_err connect_again(const struct bst_run_info *info, int *fd)
{
    double until = bst_clock_now() + REMAKE_SECONDS;
    enum bst_err err = BST_E_NOTFOUND;
    if (kill(info->pid, SIGUSR1))
        return bst_fail(err, "%s: no trainer is running", info->dir);
    while (err == BST_E_NOTFOUND && bst_clock_now() < until) {
        poll(NULL, 0, 20);
        err = bst_socket_connect(info->socket, fd);
    }
    return err;
}

static enum bst_err reach(const char *dir, int *fd)
{
    struct bst_run_info info;
    char host[256] = "";
    BST_TRY(bst_run_info_read(dir, &info));
    if (gethostname(host, sizeof host - 1))
        host[0] = '\0';
    if (info.live && strcmp(info.host, host))
        return bst_fail(BST_E_NOTFOUND, "%s runs on %s: ssh %s bstune attach %s", info.name,
                        info.host, info.host, info.dir);
    enum bst_err err = bst_socket_connect(info.socket, fd);
    if (err == BST_E_NOTFOUND && bst_run_is_live(dir))
        err = connect_again(&info, fd);
    if (err == BST_E_NOTFOUND)
        return bst_fail(err, "%s: no trainer is running", info.name);
    return err;
}

enum bst_err bst_client_open(const char *dir, const char *kind, bool readonly,
                             struct bst_client **out)
{
    int fd;
    *out = NULL;
    BST_TRY(reach(dir, &fd));
    struct bst_client *c = bst_xalloc(sizeof *c);
    c->fd = fd;
    c->next_id = 1;
    bst_frames_init(&c->in, BST_WIRE_REPLY_MAX);
    bst_sb_init(&c->out, BST_WIRE_REQUEST_MAX);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    say_hello(c, kind, readonly);
    enum bst_err err = wait_hello(c);
    if (err) {
        bst_client_close(c);
        return err;
    }
    *out = c;
    return BST_OK;
}

void bst_client_close(struct bst_client *c)
{
    if (!c)
        return;
    close(c->fd);
    bst_frames_fini(&c->in);
    bst_sb_fini(&c->out);
    bst_free(c->reply_json);
    bst_free(c);
}

int bst_client_fd(const struct bst_client *c)
{
    return c->fd;
}

uint64_t bst_client_ask_status(struct bst_client *c, bool layers)
{
    struct bst_sb sb;
    uint64_t id;
    struct bst_json j = begin(c, &sb, "status", &id);
    bst_json_bool(&j, "layers", layers);
    end(c, &sb, &j);
    return id;
}

uint64_t bst_client_command(struct bst_client *c, const char *text, bool dry)
{
    struct bst_sb sb;
    uint64_t id;
    struct bst_json j = begin(c, &sb, "command", &id);
    bst_json_str(&j, "text", text);
    bst_json_bool(&j, "dry", dry);
    end(c, &sb, &j);
    return id;
}

uint64_t bst_client_arm(struct bst_client *c, bool on)
{
    struct bst_sb sb;
    uint64_t id;
    struct bst_json j = begin(c, &sb, "arm", &id);
    bst_json_bool(&j, "on", on);
    end(c, &sb, &j);
    return id;
}

uint64_t bst_client_lease(struct bst_client *c, bool take)
{
    struct bst_sb sb;
    uint64_t id;
    struct bst_json j = begin(c, &sb, "lease", &id);
    bst_json_bool(&j, "take", take);
    end(c, &sb, &j);
    return id;
}

const struct bst_status *bst_client_status(const struct bst_client *c)
{
    return &c->status;
}

const struct bst_reply *bst_client_reply(const struct bst_client *c)
{
    return &c->reply;
}

const char *bst_client_reply_json(const struct bst_client *c)
{
    return c->reply_json ? c->reply_json : "{}";
}

const char *bst_client_run(const struct bst_client *c)
{
    return c->run;
}

const char *bst_client_note(const struct bst_client *c)
{
    return c->note;
}

const char *bst_client_lease_holder(const struct bst_client *c)
{
    return c->holder;
}

bool bst_client_has_lease(const struct bst_client *c)
{
    return c->lease;
}
