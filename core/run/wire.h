/* What travels over a run's socket: lines of JSON, cut out of a stream of bytes that may hold
 * anything, and the requests in them. Pure; the fuzzer's target. */
#ifndef BST_RUN_WIRE_H
#define BST_RUN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum {
    BST_WIRE_VERSION = 1,
    BST_WIRE_REQUEST_MAX = 64 << 10, /* bytes of a line to the trainer */
    BST_WIRE_REPLY_MAX = 256 << 10,  /* and of one from it */
};

/* Grows with what is in it, never past `cap`. */
struct bst_frames {
    char *data;
    size_t start, len, scanned, room, cap;
};

void bst_frames_init(struct bst_frames *f, size_t cap);
void bst_frames_fini(struct bst_frames *f);
/* Copies n bytes in. BST_E_RANGE: a line is longer than cap; nothing more can be read from here. */
BST_MUST_USE enum bst_err bst_frames_feed(struct bst_frames *f, const char *bytes, size_t n);
/* The next whole line, NUL-terminated in place, without its end; NULL when there is none. Borrowed
 * until the next feed. */
char *bst_frames_next(struct bst_frames *f, size_t *n);
/* Part of a line is waiting for its rest. */
bool bst_frames_partial(const struct bst_frames *f);

enum bst_request_op {
    BST_REQUEST_HELLO,
    BST_REQUEST_STATUS,
    BST_REQUEST_COMMAND,
    BST_REQUEST_ARM,
    BST_REQUEST_LEASE,
};

struct bst_request {
    enum bst_request_op op;
    uint64_t id;
    char client[16], user[72]; /* hello */
    bool readonly;             /* hello */
    int version;               /* hello */
    char text[256];            /* command */
    bool dry;                  /* command */
    bool layers;               /* status */
    bool on;                   /* arm, and the lease's "take" */
};

/* BST_E_PARSE or BST_E_RANGE, with a text that holds nothing of the line. */
BST_MUST_USE enum bst_err bst_request_parse(const char *line, size_t n, struct bst_request *out);

#endif
