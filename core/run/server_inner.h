/* What the two files of the server share: its thread (server.c), and what it does about a request
 * (server_requests.c). */
#ifndef BST_RUN_SERVER_INNER_H
#define BST_RUN_SERVER_INNER_H

#include <pthread.h>

#include "core/run/peer.h"
#include "core/run/server.h"
#include "core/run/socket.h"

enum { BST_SERVER_QUEUE = 64 };

struct bst_outbound {
    struct bst_outbound *next;
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
    struct bst_peer *peers[BST_PEERS_ALL];
    int n_peers;
    uint64_t next_key, holder;
    double accept_again, next_check;
    bool socket_failing;
    struct bst_status shown;

    pthread_mutex_t lock; /* what follows, for as long as a copy takes */
    struct bst_status status;
    struct bst_inbound queue[BST_SERVER_QUEUE];
    int n_queue;
    uint64_t searching; /* client */
    double busy_since;  /* monotonic; 0: nothing is on */
    struct bst_outbound *first, **last;

    atomic_bool stop, check_now;
};

/* Wakes whoever polls this eventfd. */
void bst_poke(int fd);

struct bst_peer *bst_server_peer(struct bst_server *s, uint64_t key); /* NULL: gone */
void bst_server_request(struct bst_server *s, struct bst_peer *p, const struct bst_request *r,
                        double now);
void bst_server_send_status(struct bst_server *s, struct bst_peer *p);
/* The lease to connection `key` (0: to nobody), and everybody but `except` told. */
void bst_server_give_lease(struct bst_server *s, uint64_t key, const struct bst_peer *except);

#endif
