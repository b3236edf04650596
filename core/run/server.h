/* The trainer's end of the socket: a thread of its own that answers consoles and `ctl`, so that the
 * session never waits for a client. The session publishes snapshots, takes commands and hands back
 * answers; every function here is the session's, one thread, unless it says otherwise. */
#ifndef BST_RUN_SERVER_H
#define BST_RUN_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/run/status.h"

struct bst_server;

struct bst_server_cfg {
    const char *run, *dir; /* for whoever says hello; dir in full */
    bool readonly;         /* --readonly: nobody changes anything */
    int wake_fd;           /* eventfd, written to when a command has come */
    atomic_int *interrupt; /* set when a command is not to wait for the update's end */
};

struct bst_inbound { /* a command on its way to the session */
    uint64_t client;
    uint64_t id;
    char text[256];
    char source[96]; /* "ctl ann@gpu7" */
    bool dry;
    bool urgent; /* pause, stop or cancel: does not wait for the end of an update */
    bool gone;   /* whoever waited for the answer, and for nothing else, has gone since */
};

BST_MUST_USE enum bst_err bst_server_open(const struct bst_server_cfg *cfg,
                                          struct bst_server **out);
/* Says why to every client, gives them half a second to read it, ends the thread. */
void bst_server_close(struct bst_server *s, const char *why);
const char *bst_server_path(const struct bst_server *s);

void bst_server_publish(struct bst_server *s, const struct bst_status *status);
/* Whose search is on; 0: none, or the run's own. */
void bst_server_searching(struct bst_server *s, uint64_t client);
/* An update or an evaluation begins now, or has ended: how old it is goes out with every status,
 * whatever it keeps waiting. */
void bst_server_busy(struct bst_server *s, bool on);
/* The next command, or the next urgent one; false when there is none. */
bool bst_server_next(struct bst_server *s, bool urgent_only, struct bst_inbound *out);
/* `line` is one JSON object without its end; dropped when the client has gone. Copied. */
void bst_server_answer(struct bst_server *s, uint64_t client, const char *line);
/* To every client; may be dropped for a slow one. `code` may be NULL. */
void bst_server_event(struct bst_server *s, const char *type, const char *code, const char *text);
/* Looks at once whether the socket's file is there, and makes it again. Any thread. */
void bst_server_check_socket(struct bst_server *s);

#endif
