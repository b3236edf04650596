/* recording.jsonl: what a run's status was over its time, for a replay of its screens. One object a
 * line, {"t":…,"set":{…}}: the run's own time in seconds, and the keys of the status (status.h)
 * that have become others since the line before; {"whole":true} where nothing before counts. Often
 * at first, then less: at least every 0.5 s, at most every 10. The trainer writes, a replay reads;
 * each on one thread. */
#ifndef BST_RUN_RECORDING_H
#define BST_RUN_RECORDING_H

#include "core/run/status.h"

struct bst_recorder; /* the session's, one thread */

/* Goes on behind what is there. */
BST_MUST_USE enum bst_err bst_recorder_open(const char *dir, struct bst_recorder **out);
void bst_recorder_close(struct bst_recorder *r);
/* Writes a line when it is time for one, or the phase or the journal has moved. What cannot be
 * written is left out: a recording never holds up a run. */
void bst_recorder_add(struct bst_recorder *r, const struct bst_status *s);

/* Its file is still where it was opened; if not, bst_recorder_again begins a new one. */
bool bst_recorder_is_there(const struct bst_recorder *r);
BST_MUST_USE enum bst_err bst_recorder_again(struct bst_recorder *r);

struct bst_recording; /* all of a file, read */

/* BST_E_NOTFOUND when the run has none. */
BST_MUST_USE enum bst_err bst_recording_open(const char *dir, struct bst_recording **out);
void bst_recording_close(struct bst_recording *r);
double bst_recording_end(const struct bst_recording *r); /* time of the last line */
/* The status at time t: of the last line not after it. Cheap going forward. */
void bst_recording_at(struct bst_recording *r, double t, struct bst_status *out);

#endif
