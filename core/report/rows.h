/* A run's past as rows in the order in which they came about, for exporters that go along with a
 * growing run. Reads a history that its caller polls; owns nothing. One thread. */
#ifndef BST_REPORT_ROWS_H
#define BST_REPORT_ROWS_H

#include "core/run/history.h"

enum bst_row_kind {
    BST_ROW_NONE, /* nothing more for now */
    BST_ROW_UPDATE,
    BST_ROW_EVAL,
    BST_ROW_EVENT,
    BST_ROW_BACK, /* the run went back (a rewind, a resume): all rows come again from the first */
};

struct bst_row {
    enum bst_row_kind kind;
    double samples, seconds; /* of the run's own time; an event has that of the update before */
    const struct bst_history_update *update;
    const struct bst_history_eval *eval;
    const struct bst_history_event *event;
};

struct bst_rows {
    const struct bst_history *history;
    struct bst_history_place given; /* out */
};

void bst_rows_init(struct bst_rows *r, const struct bst_history *h);
struct bst_row bst_rows_next(struct bst_rows *r);

/* The numbers of an update or an evaluation that exports carry, under the names of metrics.jsonl.
 */
struct bst_row_field {
    const char *name;
    bool of_eval;
    bool bad; /* of an update that was not finite it may be what was not, and is then not absent */
    double (*get)(const struct bst_row *row);
};
const struct bst_row_field *bst_row_fields(int *n);

#endif
