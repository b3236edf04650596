/* Time. Deadlines, rates and ETAs use the monotonic clock; wall time goes only into logs. A test
 * may replace both (bst_clock_fake). Any thread. */
#ifndef BST_BASE_CLOCK_H
#define BST_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

double bst_clock_now(void);  /* seconds, monotonic */
double bst_clock_wall(void); /* seconds since 1970 */
void bst_clock_fake(bool on, double seconds);
/* "2026-11-30T09:07:05Z" */
void bst_clock_iso(double wall, char out[32]);
/* "1h02m", "3m05s", "12s", "n/a" when not finite or negative */
void bst_clock_span(double seconds, char *out, size_t room);
/* The same of something measured, with a tenth under ten seconds and a hundredth under one: "3.1s",
 * "0.42s" */
void bst_clock_span_fine(double seconds, char *out, size_t room);

#endif
