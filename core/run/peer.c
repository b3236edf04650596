#include "core/run/peer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/json.h"

struct bst_peer *bst_peer_new(int fd, uint64_t key, double now)
{
    struct bst_peer *p = bst_xalloc(sizeof *p);
    p->fd = fd;
    p->key = key;
    p->deadline = now + BST_PEER_FRAME_SECONDS;
    p->asked = now;
    bst_frames_init(&p->in, BST_WIRE_REQUEST_MAX);
    return p;
}

void bst_peer_free(struct bst_peer *p)
{
    if (!p)
        return;
    close(p->fd);
    bst_frames_fini(&p->in);
    bst_free(p->out);
    bst_free(p);
}

bool bst_peer_is_brief(const struct bst_peer *p)
{
    return !strcmp(p->client, "ctl") || !strcmp(p->client, "status");
}

bool bst_peer_may_talk(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n))
        return false;
    return who.uid == geteuid() || who.uid == 0;
}

bool bst_peer_read(struct bst_peer *p, double now, const char **why)
{
    char some[8192];
    *why = NULL;
    /* One read a turn, so that a peer that never stops keeps nobody else waiting. */
    ssize_t n = read(p->fd, some, sizeof some);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (!n)
        return false;
    if (!bst_frames_partial(&p->in) && p->hello)
        p->deadline = now + BST_PEER_FRAME_SECONDS;
    if (bst_frames_feed(&p->in, some, (size_t)n)) {
        *why = "a request longer than 64 KiB";
        return false;
    }
    return true;
}

size_t bst_peer_waiting(const struct bst_peer *p)
{
    return p->out_len - p->out_sent;
}

void bst_peer_say(struct bst_peer *p, const char *line)
{
    size_t n = strlen(line);
    if (p->dead || p->closing)
        return;
    if (bst_peer_waiting(p) + n + 1 > BST_PEER_OUT_MAX) {
        p->dead = true;
        return;
    }
    if (p->out_sent) {
        memmove(p->out, p->out + p->out_sent, bst_peer_waiting(p));
        p->out_len -= p->out_sent;
        p->out_sent = 0;
    }
    p->out = bst_xrealloc(p->out, p->out_len + n + 1, 1);
    memcpy(p->out + p->out_len, line, n);
    p->out[p->out_len + n] = '\n';
    p->out_len += n + 1;
}

void bst_peer_write(struct bst_peer *p)
{
    while (bst_peer_waiting(p)) {
        ssize_t n =
            send(p->fd, p->out + p->out_sent, bst_peer_waiting(p), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            p->dead = true;
            return;
        }
        p->out_sent += (size_t)n;
    }
    bst_free(p->out);
    p->out = NULL;
    p->out_len = p->out_sent = 0;
    if (p->closing)
        p->dead = true;
}

void bst_peer_error(struct bst_peer *p, uint64_t id, const char *why)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 2048);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "re", "error");
    bst_json_uint(&j, "id", id);
    bst_json_str(&j, "text", why);
    bst_json_close(&j, '}');
    bst_peer_say(p, sb.data);
    bst_sb_fini(&sb);
}

void bst_peer_refuse(struct bst_peer *p, uint64_t id, const char *why, double now)
{
    bst_peer_error(p, id, why);
    p->closing = true;
    p->deadline = now + BST_PEER_LINGER_SECONDS;
}
