/* Checkpoints of a run: one new directory each, made whole or not at all.
 *
 *   DIR/SEQ-update-N/   weights.safetensors  optimizer.safetensors  state.json  MANIFEST
 *
 * Written as SEQ-update-N.tmp-PID: files, fsync, MANIFEST (sizes and CRC-32C) last, fsync, rename,
 * fsync of DIR. SEQ grows by one with every checkpoint, so that the newest is the last one
 * committed, also after a rewind. A directory is never written to again. Owner: the session, one
 * thread; one process a DIR. */
#ifndef BST_TRAIN_CHECKPOINT_H
#define BST_TRAIN_CHECKPOINT_H

#include "core/base/sb.h"
#include "core/train/train.h"

#define BST_CHECKPOINT_STATE_CAP (16u << 20) /* bytes of state.json */

struct bst_checkpoint_req {
    const char *dir;   /* made when missing */
    uint64_t update;   /* updates done: for the name */
    uint64_t samples;  /* for the list */
    const char *state; /* the session's own state, JSON text */
    int keep;          /* newest to keep; fewer than 2 means 2 */
    uint64_t pinned;   /* sequence number that is never pruned (the one resumed from); 0: none */
};

struct bst_checkpoint {
    uint64_t seq, update, samples;
    uint64_t bytes; /* of all files */
    char path[1024];
};

/* Commits the trainer's present state. On failure (BST_E_IO with errno's words; BST_E_DIVERGED when
 * a weight or momentum is not finite) nothing of it is left and every older checkpoint is as it
 * was. Older ones beyond `keep` go only after this one is committed. `out` may be NULL. */
BST_MUST_USE enum bst_err bst_checkpoint_save(struct bst_trainer *t,
                                              const struct bst_checkpoint_req *req,
                                              struct bst_checkpoint *out);

/* Asked about a verified candidate's state text before any tensor is loaded. A BST_E_CORRUPT or
 * BST_E_PARSE answer counts as damage; any other error ends the search with it. */
typedef enum bst_err bst_checkpoint_accept(void *arg, const struct bst_checkpoint *c,
                                           const char *state);

/* Newest first: verifies, asks `accept` (may be NULL), loads. A damaged candidate is renamed to
 * *.bad, said in `notes` (one line each, may be NULL) and the next one tried. BST_E_NOTFOUND: there
 * is none, a run may start over. BST_E_CORRUPT: there are some and none loads; the caller must not
 * start over. *state (may be NULL) is freed with bst_free. */
BST_MUST_USE enum bst_err bst_checkpoint_load(struct bst_trainer *t, const char *dir,
                                              bst_checkpoint_accept *accept, void *arg,
                                              struct bst_checkpoint *out, char **state,
                                              struct bst_sb *notes);

/* The newest verified candidate's state without a trainer (what --resume builds its trainer from):
 * the same search, quarantine and errors as load. */
BST_MUST_USE enum bst_err bst_checkpoint_peek(const char *dir, struct bst_checkpoint *out,
                                              char **state, struct bst_sb *notes);

/* Committed ones, newest first (not verified); *out freed with bst_free. None is BST_OK with *n 0.
 */
BST_MUST_USE enum bst_err bst_checkpoint_list(const char *dir, struct bst_checkpoint **out, int *n);
/* Manifest, sizes and checksums of one. */
BST_MUST_USE enum bst_err bst_checkpoint_verify(const char *path, struct bst_checkpoint *out);
/* Removes what killed savers left behind (*.tmp-PID). Called when a run starts or resumes. */
BST_MUST_USE enum bst_err bst_checkpoint_sweep(const char *dir);

#endif
