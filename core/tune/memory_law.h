/* How memory grows with the batch, as far as two plans tell: the straight line through them, and
 * the estimate that textbooks give instead. Neither is the plan: a line only says where to look
 * next, the estimate stands beside the plan to show what it misses. Pure; any thread. */
#ifndef BST_TUNE_MEMORY_LAW_H
#define BST_TUNE_MEMORY_LAW_H

#include <stdbool.h>
#include <stdint.h>

struct bst_memory_point {
    double batch; /* samples of one pass through one device */
    double bytes;
};

struct bst_memory_law {
    double fixed, per_sample; /* bytes */
};

/* The line through two points; false when they are one, or it does not rise. */
bool bst_memory_law_fit(const struct bst_memory_point *a, const struct bst_memory_point *b,
                        struct bst_memory_law *out);
double bst_memory_law_bytes(const struct bst_memory_law *l, double batch);
/* Most samples whose line keeps to `capacity`, 0 … most. */
int64_t bst_memory_law_largest(const struct bst_memory_law *l, double capacity, int64_t most);

/* parameters · 4 + batch · (inputs + outputs) · 4 · factor, all counted in numbers of four bytes.
 * The factor stands for the net's inner results, which the formula does not know; here it is the
 * growth between two plans. */
struct bst_textbook {
    double parameters;      /* trained ones */
    double inputs, outputs; /* of one sample */
    double factor;
};

/* Sets t->factor; false as above. */
bool bst_textbook_fit(struct bst_textbook *t, const struct bst_memory_point *a,
                      const struct bst_memory_point *b);
double bst_textbook_bytes(const struct bst_textbook *t, double batch);

/* (estimate - truth) / truth: 0.1 is a tenth too much. */
double bst_memory_error(double estimate, double truth);

#endif
