#include "core/tune/schedule.h"

#include <math.h>

#include "core/base/err.h"

/* A place in the schedule, in updates of the present batch. With a constant batch these are whole
 * numbers and the formulas then round exactly as PyTorch's do, which count updates. */
struct place {
    double at;   /* the update's own position */
    double edge; /* end of the warm-up */
    double end;  /* end of the run */
};

static struct place find_place(const struct bst_schedule *sch, uint64_t s, uint64_t batch)
{
    double b = (double)(batch ? batch : 1);
    struct place p = {(double)s / b, sch->warmup / b, (double)sch->total / b};
    if (sch->kind == BST_SCHEDULE_NOAM)
        p.at += 1; /* the paper counts from 1 */
    if (sch->kind == BST_SCHEDULE_ONE_CYCLE) {
        p.edge -= 1; /* PyTorch's phases end on the update before */
        p.end -= 1;
    }
    return p;
}

static double progress(const struct bst_schedule *sch, struct place p, uint64_t batch)
{
    double s0 = sch->s0 / (double)(batch ? batch : 1);
    if (p.at >= p.edge)
        return 1;
    if (p.at <= s0)
        return sch->x0;
    return sch->x0 + (1 - sch->x0) * ((p.at - s0) / (p.edge - s0));
}

static double warmup_lr(const struct bst_schedule *sch, double x)
{
    double a = sch->start_lr, p = sch->peak;
    if (sch->kind == BST_SCHEDULE_NOAM)
        return p * x;
    if (sch->kind == BST_SCHEDULE_ONE_CYCLE)
        return p + (a - p) / 2 * (cos(M_PI * x) + 1);
    switch (sch->curve) {
    case BST_WARMUP_EXPONENTIAL:
        return a * pow(p / a, x);
    case BST_WARMUP_COSINE:
        return a + (p - a) * (1 - cos(M_PI * x)) / 2;
    case BST_WARMUP_LOGARITHMIC:
        /* A warm-up of one update has no curve; the limit for n → 1 is the line. */
        if (sch->log_n > 1)
            return a + (p - a) * log1p(x * (sch->log_n - 1)) / log(sch->log_n);
        break;
    case BST_WARMUP_LINEAR:
    case BST_N_WARMUPS:
        break;
    }
    return a + (p - a) * x;
}

/* π·k/n of the way, k and n counted in updates as in CosineAnnealingLR; past the end it stays. */
static double cosine_part(struct place p)
{
    double k = p.at - p.edge, n = p.end - p.edge;
    return k < n ? 1 + cos(M_PI * k / n) : 0;
}

static double linear_part(struct place p)
{
    double k = p.at - p.edge, n = p.end - p.edge;
    return k < n ? k / n : 1;
}

static double inverse_sqrt(struct place p)
{
    double edge = p.edge > 0 ? p.edge : 1;
    return p.at > edge ? sqrt(edge / p.at) : 1;
}

static int passed(const struct bst_schedule *sch, uint64_t s)
{
    int n = 0;
    while (n < sch->n_milestones && s >= sch->milestones[n])
        n++;
    return n;
}

double bst_schedule_lr(const struct bst_schedule *sch, uint64_t s, uint64_t batch)
{
    struct place p = find_place(sch, s, batch);
    double x = progress(sch, p, batch);
    double peak = sch->peak, end = sch->min_lr_ratio * sch->peak;
    if (x < 1)
        return warmup_lr(sch, x);
    switch (sch->kind) {
    case BST_SCHEDULE_COSINE:
        return end + (peak - end) * cosine_part(p) / 2;
    case BST_SCHEDULE_ONE_CYCLE:
        return end + (peak - end) / 2 * cosine_part(p);
    case BST_SCHEDULE_LINEAR:
        return peak + (end - peak) * linear_part(p);
    case BST_SCHEDULE_MULTISTEP:
        return peak * pow(sch->gamma, passed(sch, s));
    case BST_SCHEDULE_INVERSE_SQRT:
    case BST_SCHEDULE_NOAM:
        return peak * inverse_sqrt(p);
    case BST_SCHEDULE_CONSTANT:
    case BST_N_SCHEDULES:
        break;
    }
    return peak;
}

double bst_schedule_warmup_done(const struct bst_schedule *sch, uint64_t s, uint64_t batch)
{
    return progress(sch, find_place(sch, s, batch), batch);
}

uint64_t bst_schedule_warmup_end(const struct bst_schedule *sch)
{
    return (uint64_t)ceil(sch->warmup);
}

double bst_schedule_noam_peak(double d_model, double factor, double warmup_updates)
{
    return factor / sqrt(d_model) / sqrt(warmup_updates);
}

void bst_schedule_scale_peak(struct bst_schedule *sch, double factor)
{
    sch->peak *= factor;
    sch->start_lr *= factor;
}

/* Makes the warm-up end just before the update at s. */
static void end_warmup(struct bst_schedule *sch, uint64_t s, uint64_t batch)
{
    sch->warmup = (double)s;
    if (sch->kind == BST_SCHEDULE_NOAM || sch->kind == BST_SCHEDULE_ONE_CYCLE)
        sch->warmup += (double)batch;
    sch->s0 = sch->x0 = 0;
}

/* Lets the warm-up go on from progress x at s to its end as it stands. */
static void stretch(struct bst_schedule *sch, double x, uint64_t s, uint64_t batch)
{
    sch->s0 = (double)s;
    if (sch->kind == BST_SCHEDULE_NOAM)
        sch->s0 += (double)batch;
    sch->x0 = x;
}

enum bst_err bst_schedule_set_warmup(struct bst_schedule *sch, double warmup, uint64_t s,
                                     uint64_t batch, bool jump)
{
    double x = bst_schedule_warmup_done(sch, s, batch);
    if (x >= 1 && !(sch->warmup > 0))
        return bst_fail(BST_E_STATE, "this run has no warm-up to change; `lr` changes the rate");
    if (x >= 1)
        return bst_fail(BST_E_STATE,
                        "the warm-up ended at sample %.0f, nothing of it is left to change; `lr` "
                        "changes the rate",
                        sch->warmup);
    sch->warmup = warmup;
    struct place p = find_place(sch, s, batch);
    if (p.edge <= p.at) {
        end_warmup(sch, s, batch);
    } else if (jump) {
        sch->s0 = sch->x0 = 0;
    } else {
        stretch(sch, x, s, batch);
    }
    return BST_OK;
}

/* The warm-up that the run has had stands for the one that it will not have: the rest of the curve
 * is where it would be after that. One that lives off its warm-up begins at the top of it. */
static void take_done(struct bst_schedule *next, const struct bst_schedule *now, uint64_t s,
                      uint64_t batch)
{
    bool needs = next->kind == BST_SCHEDULE_NOAM || next->kind == BST_SCHEDULE_INVERSE_SQRT;
    if (needs && !(now->warmup > 0)) {
        end_warmup(next, s, batch);
        return;
    }
    next->warmup = now->warmup;
    next->s0 = next->x0 = 0;
}

void bst_schedule_take_over(struct bst_schedule *next, const struct bst_schedule *now, uint64_t s,
                            uint64_t batch)
{
    struct place p = find_place(next, s, batch);
    double x = bst_schedule_warmup_done(now, s, batch);
    /* Before the first update nothing is under way; past next's own warm-up nothing is left of it.
     */
    if (!s || p.edge <= p.at)
        return;
    if (x >= 1)
        take_done(next, now, s, batch);
    else
        stretch(next, x, s, batch);
}

void bst_schedule_go_back(struct bst_schedule *old, const struct bst_schedule *now, uint64_t s,
                          uint64_t batch)
{
    if (old->warmup == now->warmup && old->s0 == now->s0 && old->x0 == now->x0)
        return;
    bst_schedule_take_over(old, now, s, batch);
}
