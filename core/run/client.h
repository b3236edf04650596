/* clang-format off */
/* The client's end of a run's socket: what a console, `ctl` and `status` use. Non-blocking; one thread.
 *
 * Frames are lines of JSON of at most 64 KiB, answered in order of completion, matched by `id`:
 *   → {"op":"hello","client":"console","user":"ann@gpu7","readonly":false,"version":1}
 *   ← {"re":"hello","run":…,"dir":…,"version":1}
 *   → {"op":"status","id":1,"layers":true}           ← {"re":"status","id":1,"status":{…}}
 *   → {"op":"command","id":2,"text":"batch +20%","dry":true|false}
 *   ← {"re":"command","id":2,"outcome":"proposed|applied|done|refused|dropped","code":"BST-nnn"|null,
 *      "text":…,"effective_update":n,"effective_samples":s,
 *      "changes":[{"key":…,"old":…,"new":…}],"kept":[{"key":…,"why":…}],
 *      "memory":{"planned":…,"limit":…},"schedule":{…}}
 *     "proposed" answers a dry run at once; "applied" comes only after the value was read back from the
 *     update that used it.
 *   → {"op":"arm","id":3,"on":true}    a change is being prepared: others are refused while it is armed
 *   → {"op":"lease","id":4,"take":true|false}        ← {"re":"lease","id":4,"holder":…,"you":true}
 *     and to the one that it was taken from "taken_by":…, there and in the status (lease_taken_by)
 *   ← {"re":"error","id":…,"text":…}
 *   ← {"re":"event","type":"lease|journal|note|bye", …}   unasked, may be dropped for a slow client */
/* clang-format on */
#ifndef BST_RUN_CLIENT_H
#define BST_RUN_CLIENT_H

#include "core/run/status.h"

struct bst_client;

struct bst_reply_change {
    char key[48], old_value[48], new_value[48];
};

struct bst_reply { /* of a command */
    uint64_t id;
    char outcome[12];
    bool ok; /* proposed, applied or done */
    char code[12];
    char text[512];
    uint64_t effective_update, effective_samples;
    struct bst_reply_change changes[24];
    int n_changes;
    struct bst_reply_change kept[48]; /* key, why it stays in new_value */
    int n_kept;
    int notes[8], n_notes; /* remarks on the change: numbers of diagnostics */
    struct bst_metric memory_planned, memory_limit;
    struct bst_metric rate_before, rate_after; /* of the next update */
    /* Where the rate would go: pairs (samples, rate) over the whole run; for the schedule pane. */
    double curve_samples[BST_MAX_CURVE], curve_rate[BST_MAX_CURVE];
    int n_curve;
};

enum bst_client_event {
    BST_CLIENT_NOTHING,
    BST_CLIENT_STATUS,
    BST_CLIENT_REPLY,
    BST_CLIENT_LEASE,
    BST_CLIENT_NOTE,
    BST_CLIENT_CLOSED
};

/* `dir`: the run's folder (its run.json names host, pid and socket). BST_E_NOTFOUND: no trainer
 * there; the text says so, or on which host it runs and how to get there. */
BST_MUST_USE enum bst_err bst_client_open(const char *dir, const char *kind, bool readonly,
                                          struct bst_client **out);
void bst_client_close(struct bst_client *c);
int bst_client_fd(const struct bst_client *c); /* to poll for reading */

uint64_t bst_client_ask_status(struct bst_client *c, bool layers);
uint64_t bst_client_command(struct bst_client *c, const char *text, bool dry);
uint64_t bst_client_arm(struct bst_client *c, bool on);
uint64_t bst_client_lease(struct bst_client *c, bool take);

/* Reads what has come and gives the next event; BST_CLIENT_NOTHING when there is none yet. */
enum bst_client_event bst_client_next(struct bst_client *c);
const struct bst_status *bst_client_status(const struct bst_client *c); /* the last; borrowed */
const struct bst_reply *bst_client_reply(const struct bst_client *c);   /* the last; borrowed */
/* The same as JSON, with "run" and "dir", the run that answered, first; borrowed. */
const char *bst_client_reply_json(const struct bst_client *c);
const char *bst_client_run(const struct bst_client *c); /* its name; borrowed */
const char *bst_client_note(const struct bst_client *c);
const char *bst_client_lease_holder(const struct bst_client *c);
bool bst_client_has_lease(const struct bst_client *c);

#endif
