/* The learning rate as a pure function of samples seen: warm-up, then decay. Plain values that are
 * copied freely; any thread. Nothing here counts steps, so a batch change, a skipped update or a
 * resume moves no part of a schedule. */
#ifndef BST_TUNE_SCHEDULE_H
#define BST_TUNE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/tune/interval.h"

#define BST_SCHEDULES(X)                                                                           \
    X(CONSTANT, "constant")                                                                        \
    X(COSINE, "cosine")                                                                            \
    X(LINEAR, "linear")                                                                            \
    X(MULTISTEP, "multistep")                                                                      \
    X(INVERSE_SQRT, "inverse-sqrt")                                                                \
    X(NOAM, "noam")                                                                                \
    X(ONE_CYCLE, "one-cycle")

enum bst_schedule_kind {
#define X(name, text) BST_SCHEDULE_##name,
    BST_SCHEDULES(X)
#undef X
        BST_N_SCHEDULES
};

#define BST_WARMUPS(X)                                                                             \
    X(LINEAR, "linear")                                                                            \
    X(EXPONENTIAL, "exponential")                                                                  \
    X(COSINE, "cosine")                                                                            \
    X(LOGARITHMIC, "logarithmic")

enum bst_warmup_curve {
#define X(name, text) BST_WARMUP_##name,
    BST_WARMUPS(X)
#undef X
        BST_N_WARMUPS
};

enum { BST_MILESTONES_MAX = 32 };

/* noam and one-cycle bring their own warm-up: linear from 0, and half a cosine; `curve` is then not
 * used, and noam uses no start_lr. Their live changes work as all others do. */
struct bst_schedule {
    enum bst_schedule_kind kind;
    enum bst_warmup_curve curve;
    double peak;         /* rate at the end of the warm-up */
    double start_lr;     /* rate at s = 0, with a warm-up */
    double min_lr_ratio; /* end rate / peak */
    double warmup;       /* W in samples; a fraction only under one-cycle (pct × total) */
    uint64_t total;      /* T in samples */
    double log_n;        /* logarithmic curve: W / B when the plan was made */
    double gamma;        /* multistep */
    int n_milestones;
    uint64_t milestones[BST_MILESTONES_MAX]; /* samples, rising */

    /* The warm-up's progress is x = x0 + (1-x0)(s-s0)/(W-s0): 0 and 0 until a live change. */
    double s0, x0;
};

/* What a preset says, to make a schedule from. Rates are those at the batch in `scale`. */
struct bst_schedule_spec {
    enum bst_schedule_kind kind;
    enum bst_warmup_curve curve;
    double peak, start_lr, min_lr_ratio, gamma;
    struct bst_interval warmup;
    int n_milestones;
    double milestones[BST_MILESTONES_MAX]; /* epochs */
    double pct, div, final_div; /* one-cycle; 0: PyTorch's 0.3, 25, 1e4. warmup goes before pct */
};

const char *bst_schedule_name(enum bst_schedule_kind kind);
const char *bst_warmup_name(enum bst_warmup_curve curve);
bool bst_schedule_by_name(const char *name, enum bst_schedule_kind *out);
bool bst_warmup_by_name(const char *name, enum bst_warmup_curve *out);

/* BST_E_RANGE with what is wrong: rates not finite or not positive, an exponential warm-up from 0,
 * inverse-sqrt or noam without a warm-up, milestones not rising, … */
BST_MUST_USE enum bst_err bst_schedule_make(const struct bst_schedule_spec *spec,
                                            const struct bst_scale *scale,
                                            struct bst_schedule *out);
BST_MUST_USE enum bst_err bst_schedule_check(const struct bst_schedule *sch);

/* Peak of Vaswani et al. 2017: factor · d_model^-0.5 · warmup_updates^-0.5. */
double bst_schedule_noam_peak(double d_model, double factor, double warmup_updates);

/* Rate of the update that starts at s and takes `batch` samples. */
double bst_schedule_lr(const struct bst_schedule *sch, uint64_t s, uint64_t batch);

/* Progress of the warm-up, 0 … 1; 1 is over. And the sample it ends at. */
double bst_schedule_warmup_done(const struct bst_schedule *sch, uint64_t s, uint64_t batch);
uint64_t bst_schedule_warmup_end(const struct bst_schedule *sch);

/* The whole curve times `factor`: start, peak and end. */
void bst_schedule_scale_peak(struct bst_schedule *sch, double factor);

/* The warm-up's new length W' in samples, decided at s. The rest of the rise is stretched, so the
 * rate does not jump; W' ≤ s ends it now. With `jump` the formula is kept: x = s/W'. BST_E_STATE,
 * nothing changed, once the warm-up is over. */
BST_MUST_USE enum bst_err bst_schedule_set_warmup(struct bst_schedule *sch, double warmup,
                                                  uint64_t s, uint64_t batch, bool jump);

/* `next` (another preset's schedule, made as if from the start) taken up at s by a run that was
 * under `now`: a warm-up that is over stays over, with the length that it had; one in progress goes
 * on from where it is. */
void bst_schedule_take_over(struct bst_schedule *next, const struct bst_schedule *now, uint64_t s,
                            uint64_t batch);

/* Undo: `old` put back at s in place of `now`. Where the warm-up differs it is reached by a stretch
 * from where it is now, and one that is over by now stays over; else *old is left as it was. */
void bst_schedule_go_back(struct bst_schedule *old, const struct bst_schedule *now, uint64_t s,
                          uint64_t batch);

#endif
