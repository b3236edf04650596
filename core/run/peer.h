/* One connection of the server: its two buffers and what it has said of itself. The server's
 * thread. */
#ifndef BST_RUN_PEER_H
#define BST_RUN_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sb.h"
#include "core/run/wire.h"

enum {
    BST_PEERS_MAX = 32,
    BST_PEERS_BRIEF = 8, /* more, for those who come for one thing: see bst_peer_is_brief */
    BST_PEERS_ALL = BST_PEERS_MAX + BST_PEERS_BRIEF,
    BST_PEER_OUT_MAX = 256 << 10,  /* bytes waiting to be read; past it the peer is given up */
    BST_PEER_EVENTS_MAX = 64 << 10 /* bytes waiting past which events and statuses are left out */
};
/* To a first request, and from a request's start to its end. */
#define BST_PEER_FRAME_SECONDS 10.0
#define BST_PEER_LINGER_SECONDS 0.5 /* to read the last words */

struct bst_peer {
    int fd;
    uint64_t key; /* of this connection, never used again */
    bool hello, readonly, armed;
    bool closing; /* once the output is out */
    bool dead;
    bool wants_status, wants_layers; /* asked while too much was waiting: the last one counts */
    uint64_t status_id;
    double deadline; /* monotonic; 0: none */
    double asked;    /* when it came, or asked last */
    int n_pending;   /* commands on their way */
    char client[16], user[72], taken_by[72];
    struct bst_frames in;
    char *out;
    size_t out_len, out_sent;
};

struct bst_peer *bst_peer_new(int fd, uint64_t key, double now);
void bst_peer_free(struct bst_peer *p);

/* `ctl`, `stop` and `status` ask for one thing and go. */
bool bst_peer_is_brief(const struct bst_peer *p);
/* Own user or root may talk; looked at before a byte is read. */
bool bst_peer_may_talk(int fd);
/* Reads what is there (bounded). False once the peer is gone or broke a rule; `why` is then set for
 * the latter. */
bool bst_peer_read(struct bst_peer *p, double now, const char **why);
/* Queues line and its end; a peer that has not read BST_PEER_OUT_MAX bytes is dead. */
void bst_peer_say(struct bst_peer *p, const char *line);
void bst_peer_write(struct bst_peer *p);
size_t bst_peer_waiting(const struct bst_peer *p);
/* An error frame, then the end. */
void bst_peer_refuse(struct bst_peer *p, uint64_t id, const char *why, double now);
void bst_peer_error(struct bst_peer *p, uint64_t id, const char *why);

#endif
