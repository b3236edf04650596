/* Inside the loader: its slots and their states. loader.c has what callers see, loader_fill.c what
 * the threads do, loader_block.c the memory. */
#ifndef BST_DATA_LOADER_INNER_H
#define BST_DATA_LOADER_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/data/data.h"

enum { LOADER_WAITING_MOST = 256 }; /* ranges remembered beyond the slots */

/* FREE → ASKED (being filled) → TAKEN → FREE. A slot whose range is dropped while threads fill it
 * is DRAINING until the last of them leaves. */
enum slot_state { FREE, ASKED, TAKEN, DRAINING };

struct bad_item {
    int item;
    int64_t index;
    char reason[240];
};

struct slot {
    enum slot_state state;
    uint64_t first, serial; /* serial: order of asking */
    int n, next, done;      /* items in all, handed out, filled */
    struct bad_item *bad;   /* items another sample stands in for */
    int n_bad, bad_room;
    struct bst_failure failed; /* the first that no substitute helps against */
    uint8_t *images;
    int64_t *index;
    int32_t *labels;
    int32_t *tokens[BST_DATA_STREAMS], *lengths[BST_DATA_STREAMS], *pair; /* of sequences */
};

struct range {
    uint64_t first;
    int n;
};

struct bst_loader {
    struct bst_loader_cfg cfg;
    const struct bst_data_info *info;
    struct bst_order *order;
    size_t sample_bytes, block_bytes, slot_bytes;
    void *block; /* of all slots */
    struct slot *slots;
    int chunk; /* items a thread takes at a time */
    pthread_t *threads;
    int n_threads;

    pthread_mutex_t lock;        /* guards what follows and the slots' states and counts */
    pthread_cond_t work, filled; /* something to fill; items filled or a slot freed */
    uint64_t next_serial;
    struct range waiting[LOADER_WAITING_MOST]; /* asked for when no slot was free, oldest first */
    int n_waiting;
    double waited;
    atomic_bool over; /* also read without the lock */
};

/* loader_block.c: one block for all slots, and each slot's parts in it. */
BST_MUST_USE enum bst_err bst_loader_carve(struct bst_loader *l);
void bst_loader_free_block(struct bst_loader *l);

/* loader_fill.c; the caller holds the lock, but for the threads' start. */
BST_MUST_USE enum bst_err bst_loader_start_threads(struct bst_loader *l);
void bst_loader_start_slot(struct bst_loader *l, struct slot *s, struct range r);
void bst_loader_drop_waiting(struct bst_loader *l, int n); /* the n oldest ranges that wait */
/* A slot has become free: the oldest range that waits gets it. */
void bst_loader_free_slot(struct bst_loader *l, struct slot *s);
/* Takes a chunk of s and fills it, with the lock released meanwhile. False when all was handed out.
 */
bool bst_loader_fill_some(struct bst_loader *l, struct slot *s);

#endif
