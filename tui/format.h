/* Numbers as people read them: few digits, a unit, n/a where nothing was measured. Locale-proof:
 * '.' whatever LC_NUMERIC is, since the console sets LC_CTYPE only. Pure. */
#ifndef TUI_FORMAT_H
#define TUI_FORMAT_H

#include <stdint.h>

#include "core/run/client.h"

enum { TUI_NUM = 32 };

/* `digits` significant digits, no exponent between 1e-4 and 1e6: "0.4123", "12.3", "1.2e-05",
 * "nan". */
void tui_num(double v, int digits, char out[TUI_NUM]);
void tui_metric(struct bst_metric m, int digits, char out[TUI_NUM]); /* n/a when not valid */
void tui_percent(struct bst_metric m, char out[TUI_NUM]);            /* 0…1: "97 %", "n/a" */
void tui_percent1(struct bst_metric m, char out[TUI_NUM]);           /* "86.1 %", "n/a" */
/* "1234", "12.3k", "1.23M": at most five columns. */
void tui_count(double v, char out[TUI_NUM]);
/* What keeps the trainer from answering: "the update in flight takes about 40s, 12s of it are
 * over"; false when it is nothing, or will soon be over. */
bool tui_in_flight(const struct bst_status *s, char *out, size_t room);
/* "1.2/8.0 GiB" in the larger one's unit; either may be n/a. */
void tui_of_bytes(struct bst_metric part, struct bst_metric whole, char out[2 * TUI_NUM]);
void tui_bytes(struct bst_metric m, char out[TUI_NUM]); /* "1.23 GiB", "n/a" */
void tui_span(struct bst_metric seconds, char out[TUI_NUM]);

/* A preset key in the footer's words: "batch", "rate"; others as they are. */
const char *tui_short_name(const char *key);

enum { TUI_TEXT = 640 };
/* "BST-201 batch 1040 needs …"; a code that the text names itself is not said twice. */
void tui_coded(const char *code, const char *text, char out[TUI_TEXT]);
/* The same of a reply that is not good news: "BST-201 refused: …". */
void tui_refusal(const struct bst_reply *r, char out[TUI_TEXT]);

/* The split follows from the batch: a detail where other things change too. */
bool tui_change_is_detail(const struct bst_reply *r, int i);
int tui_change_count(const struct bst_reply *r); /* details left out */
/* A change's batch: of "256", or of "614 tokens (19 samples)" what it is counted in. */
bool tui_batch_of(const char *value, double *out);

#endif
