/* The past of a run, read from its files (metrics.jsonl, journal.jsonl), which is what the console
 * draws: the trainer pays nothing for a viewer. Grows as the files grow; a replay reads the same
 * files. One thread each. */
#ifndef BST_RUN_HISTORY_H
#define BST_RUN_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct bst_history_update { /* NaN where the line says null */
    double samples, epoch, loss, learning_rate, grad_norm, samples_per_sec, loss_scale;
    double seconds;                /* of the run's own time, from the line's "elapsed" */
    double tokens, tokens_per_sec; /* of sequences, padding not counted; NaN: there are none */
    uint64_t update;
    int64_t global_batch;
    int micro_batch, accumulation;
    bool nonfinite;
};

struct bst_history_eval {
    double samples, loss, accuracy;
    double seconds;           /* as of an update */
    double exact, perplexity; /* NaN where they mean nothing */
};

struct bst_history_noise { /* NaN where it was not known */
    double samples, scale, low, high, efficiency;
};

struct bst_history_event { /* a journal entry or a diagnostic */
    double samples, wall;
    uint64_t seq, update;
    char code[12];   /* "" for a plain change */
    char source[24]; /* "console", "ctl", "trainer" */
    char text[480];  /* "batch 256 → 307, learning rate 0.1 → 0.12" */
    bool refused;
};

struct bst_history {
    struct bst_history_update *updates;
    struct bst_history_eval *evals;
    struct bst_history_noise *noise;
    struct bst_history_event *events;
    int n_updates, n_evals, n_noise, n_events;
    uint64_t generation; /* grows when anything was added */
};

/* Lines of one file that could not be read. */
struct bst_history_damage {
    const char *path;     /* borrowed */
    uint64_t lines, line; /* how many, and the first, counted from 1 */
};

/* How far somebody has read it. All 0: nothing yet. */
struct bst_history_place {
    int n_updates, n_evals, n_events;
    uint64_t update; /* the last that was read, and its own time */
    double seconds;
};

BST_MUST_USE enum bst_err bst_history_open(const char *dir, struct bst_history **out);
void bst_history_close(struct bst_history *h);
/* Reads what the files have grown by (at most a few MB a call); true when something came. Lines cut
 * in half wait for their rest; a resume that went back replaces what it repeats. */
bool bst_history_poll(struct bst_history *h);
/* What was read up to there is no longer what is there: the run went back, by a rewind or a resume,
 * and what it repeats is not what it was. */
bool bst_history_went_back(const struct bst_history *h, const struct bst_history_place *read);
/* Of what has been read so far, metrics before journal; false when there is no such file any more.
 * `over`: nothing is added any more, so a line without its end is one, too. */
bool bst_history_damage(const struct bst_history *h, int file, bool over,
                        struct bst_history_damage *out);

#endif
