/* Where the console's facts come from and its commands go to: a table of functions over a live
 * trainer's socket (tui/live.c) or, in tests, over a made-up run. Nothing blocks. Owned by the
 * console; one thread. */
#ifndef TUI_LINK_H
#define TUI_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/run/client.h"
#include "core/run/history.h"

struct tui_link {
    const struct tui_link_ops *ops;
};

enum tui_link_state {
    TUI_LINK_LIVE,
    TUI_LINK_LOST, /* the trainer does not answer; asked again every few seconds */
    TUI_LINK_OVER, /* the run has ended and its trainer is gone */
};

struct tui_link_ops {
    void (*close)(struct tui_link *l);
    int (*fd)(const struct tui_link *l); /* to poll for reading; -1: none */
    enum tui_link_state (*state)(const struct tui_link *l);
    const char *(*why)(const struct tui_link *l); /* one line on a link that is lost or no
                                                     trainer's; "" */
    /* Why nothing of this run can be changed here, whoever asks; "": it can. */
    const char *(*fixed)(const struct tui_link *l);
    double (*ended)(const struct tui_link *l); /* when the run did, s since 1970; 0: not known */
    /* Asks for a status, reads what the run's files grew by, looks for a lost trainer. */
    void (*refresh)(struct tui_link *l, bool layers);
    /* The next thing that has come; BST_CLIENT_NOTHING when there is none. */
    enum bst_client_event (*next)(struct tui_link *l);
    const struct bst_status *(*status)(const struct tui_link *l); /* NULL: none yet */
    const struct bst_reply *(*reply)(const struct tui_link *l);
    const char *(*note)(const struct tui_link *l);
    bool (*behind)(const struct tui_link *l); /* more of the history waits to be read */
    const struct bst_history *(*history)(const struct tui_link *l);      /* never NULL */
    uint64_t (*command)(struct tui_link *l, const char *text, bool dry); /* 0: not sent */
    void (*arm)(struct tui_link *l, bool on);
    void (*lease)(struct tui_link *l, bool take);
    const char *(*lease_holder)(const struct tui_link *l); /* "": nobody */
    bool (*has_lease)(const struct tui_link *l);
};

#endif
