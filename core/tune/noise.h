/* Gradient noise scale (McCandlish et al. 2018, "An empirical model of large-batch training",
 * appendix A): from the squared norm of the same update's mean gradient at two batches, how large a
 * batch can be before its samples say the same thing twice. Exponential moving averages of |G|² and
 * S, their ratio, and a block-bootstrap interval; "unknown" with a reason where there is nothing to
 * stand behind. Plain values in the caller's storage; one thread. */
#ifndef BST_TUNE_NOISE_H
#define BST_TUNE_NOISE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BST_NOISE_BLOCK = 8, /* updates that are drawn together, since neighbours resemble each other */
    BST_NOISE_BLOCKS = 96, /* kept; older ones are added up in the last, so that the averages stay
                              those of the whole past */
    BST_NOISE_SPAN = 256,  /* updates: the averages' time constant */
};

/* Squared norms of the mean gradient over b_small and over b_big samples of one update. Where
 * several small parts were measured: the mean of their squared norms, and the harmonic mean of
 * their samples, which keeps both estimates unbiased. */
struct bst_noise_pair {
    double b_small, g_small, b_big, g_big;
};

/* |G|² and S (the trace of the per-sample covariance) of one pair; false when it says nothing
 * (equal batches, a number that is not finite). Either may be negative. */
bool bst_noise_estimate(const struct bst_noise_pair *p, double *grad_sq, double *trace);

struct bst_noise_block { /* weighted sums */
    double weight, grad_sq, trace;
};

struct bst_noise {
    double keep;                                     /* of a weight from one update to the next */
    struct bst_noise_block blocks[BST_NOISE_BLOCKS]; /* oldest first */
    int n_blocks;                                    /* the last one may be growing */
    int n_newest;                                    /* pairs in it */
    uint64_t n_pairs;
};

#define BST_NOISE_STATES(X)                                                                        \
    X(KNOWN, "known")                                                                              \
    X(OFF, "not measured")                                                                         \
    X(ONE_PART, "one device and one micro-batch")                                                  \
    X(FEW, "too few updates yet")                                                                  \
    X(NO_GRADIENT, "no gradient beyond the noise")                                                 \
    X(WIDE, "interval spans more than 10 times")

enum bst_noise_state {
#define X(name, text) BST_NOISE_##name,
    BST_NOISE_STATES(X)
#undef X
        BST_N_NOISE_STATES
};
const char *bst_noise_state_text(enum bst_noise_state s);

struct bst_noise_answer {
    enum bst_noise_state state;
    double scale, low, high; /* samples; high may be infinite unless KNOWN. 0 before FEW is over */
    double grad_sq, trace;   /* the averages */
    uint64_t n_pairs;
};

/* `span` ≥ 1: updates after which a pair weighs 1/e. */
void bst_noise_init(struct bst_noise *n, double span);
/* Once an update that was not skipped. True when a block was completed, which is when a new answer
 * is worth its cost. Of a pair that says nothing, as that of an update without parts, only the time
 * counts: those before it are of weights that are gone. */
bool bst_noise_add(struct bst_noise *n, const struct bst_noise_pair *p);
/* Costs at most 800 random numbers a block, under 10⁵; the same averages give the same interval. */
void bst_noise_ask(const struct bst_noise *n, struct bst_noise_answer *out);

/* Progress per sample at batch b, as a share of that at batch b0: (φ+b0)/(φ+b). */
double bst_noise_efficiency(double scale, double b0, double b);
/* Batches worth choosing: from φ/2 (two thirds of the progress a sample that a tiny batch makes) to
 * 2φ (one third; beyond it twice the samples save less than a fifth of the updates). */
void bst_noise_range(double scale, double *least, double *most);

#endif
