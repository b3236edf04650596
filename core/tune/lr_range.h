/* The learning-rate range test: the rate rises geometrically from update to update, and the rate
 * wanted is the one at which the loss falls fastest against the logarithm of the rate. Against the
 * rate itself the slope is largest where the rate is smallest, and the noise there wins. Pure; any
 * thread. */
#ifndef BST_TUNE_LR_RANGE_H
#define BST_TUNE_LR_RANGE_H

#include <stdbool.h>

enum { BST_LR_RANGE_LEAST = 20, BST_LR_RANGE_MOST = 1000, BST_LR_REPEATS_MOST = 5 };

struct bst_lr_range {
    double start, end; /* rates, 0 < start < end */
    int updates;       /* BST_LR_RANGE_LEAST … _MOST */
};

#define BST_LR_RANGE_USUAL                                                                         \
    {                                                                                              \
        1e-7, 10, 100                                                                              \
    } /* what is tested unless asked otherwise */

struct bst_lr_curve { /* of one pass; zeroed before the first loss */
    int n;            /* losses so far */
    double loss[BST_LR_RANGE_MOST];
    double smooth[BST_LR_RANGE_MOST]; /* moving average with its bias corrected */
    double average, weight, best;     /* of `smooth`, so far */
    bool over;                        /* past 4 × the best, or not finite */
};

enum bst_lr_doubt {
    BST_LR_CLEAR,
    BST_LR_DISAGREE, /* steepest fall and valley are more than 3 × apart */
    BST_LR_SPREAD,   /* the repeats' steepest falls are, or not all have one */
    BST_LR_NO_FALL,  /* nothing beyond the noise: there is no suggestion */
    BST_LR_AT_START, /* it falls from the first rate on */
    BST_LR_AT_END,   /* it still falls at the last rate */
};

struct bst_lr_suggestion {
    enum bst_lr_doubt doubt; /* anything but CLEAR is said as "unclear" */
    double steepest, valley; /* rates, of the mean of the repeats; 0 under NO_FALL */
    double lowest, highest;  /* steepest fall of the repeats one by one */
    int repeats;             /* that had a fall */
};

/* Of update i of a pass, from 0: start·(end/start)^(i/updates). */
double bst_lr_range_rate(const struct bst_lr_range *r, double i);
/* Adds the loss of update c->n; false when the pass has seen enough. A loss that is not finite is
 * not kept. */
bool bst_lr_curve_add(struct bst_lr_curve *c, const struct bst_lr_range *r, double loss);
/* What 1 to BST_LR_REPEATS_MOST passes say together. */
void bst_lr_range_suggest(const struct bst_lr_range *r, const struct bst_lr_curve *curves, int n,
                          struct bst_lr_suggestion *out);
/* The curve that the suggestion is made from: the mean of the passes, averaged over both sides, so
 * without a lag; `out` has BST_LR_RANGE_MOST places. Gives how many there are. */
int bst_lr_range_smooth(const struct bst_lr_range *r, const struct bst_lr_curve *curves, int n,
                        double *out);
/* Why it is unclear, for people; "" when it is clear. */
const char *bst_lr_doubt_text(enum bst_lr_doubt doubt);

#endif
