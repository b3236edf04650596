#include "core/tune/lr_range.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Widths in decades of the rate, so that a test of 40 updates and one of 400 see the same curve. */
#define SMOOTH_DECADES 0.28 /* time constant of the averages */
#define SLOPE_DECADES 0.32  /* half the width of the line fitted for a slope */
#define DIVERGED 4.0        /* × the best */
#define APART 3.0
#define LEVEL_ABOVE                                                                                \
    1.2                 /* losses above this much of the first ones' mean say nothing of the fall  \
                         */
#define FALL_SHARE 0.02 /* of the level, that a fall must exceed */
#define FALL_NOISE 6.0  /* standard errors of a smoothed loss, likewise */

struct fall {                /* of one curve */
    double steepest, valley; /* update numbers */
    enum bst_lr_doubt doubt;
};

double bst_lr_range_rate(const struct bst_lr_range *r, double i)
{
    return r->start * pow(r->end / r->start, i / r->updates);
}

static double steps_per_decade(const struct bst_lr_range *r)
{
    return r->updates / log10(r->end / r->start);
}

/* What a loss one update old still weighs. */
static double keep_of(const struct bst_lr_range *r)
{
    return exp(-1 / (SMOOTH_DECADES * steps_per_decade(r)));
}

bool bst_lr_curve_add(struct bst_lr_curve *c, const struct bst_lr_range *r, double loss)
{
    double keep = keep_of(r);
    if (!isfinite(loss) || c->n >= r->updates || c->over) {
        c->over = true;
        return false;
    }
    c->average = keep * c->average + (1 - keep) * loss;
    c->weight = keep * c->weight + (1 - keep);
    double smooth = c->average / c->weight;
    c->loss[c->n] = loss;
    c->smooth[c->n++] = smooth;
    if (c->n == 1 || smooth < c->best)
        c->best = smooth;
    c->over = smooth > DIVERGED * c->best;
    return !c->over && c->n < r->updates;
}

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

static double level_of(const double *loss, int n)
{
    int first = n / 10 > 5 ? n / 10 : 5;
    return mean_of(loss, first < n ? first : n);
}

/* Averaged over both sides alike: a one-sided average lags behind by about its time constant, which
 * would move the suggestion up by half a decade. */
static void smooth_both_sides(const double *x, int n, double keep, double *out)
{
    double sum = 0, weight = 0;
    for (int i = 0; i < n; i++) {
        out[i] = sum;
        sum = keep * (sum + x[i]);
        weight = keep * (weight + 1);
    }
    sum = weight = 0;
    double before = 0;
    for (int i = n - 1; i >= 0; i--) {
        before = keep * (1 - pow(keep, i)) / (1 - keep); /* weights of 0 … i-1 */
        out[i] = (out[i] + x[i] + sum) / (before + 1 + weight);
        sum = keep * (sum + x[i]);
        weight = keep * (weight + 1);
    }
}

/* Least-squares slope of y over the points within `half` of i. */
static double slope_at(const double *y, int n, int i, int half)
{
    int lo = i - half < 0 ? 0 : i - half, hi = i + half >= n ? n - 1 : i + half;
    double mid = (lo + hi) / 2.0, top = 0, bottom = 0;
    for (int j = lo; j <= hi; j++) {
        top += (j - mid) * y[j];
        bottom += (j - mid) * (j - mid);
    }
    return bottom > 0 ? top / bottom : 0;
}

static int least_at(const double *x, int n)
{
    int at = 0;
    for (int i = 1; i < n; i++)
        if (x[i] < x[at])
            at = i;
    return at;
}

/* Standard error of a smoothed loss, from what smoothing took away. */
static double noise_of(const double *loss, const double *smooth, int n, double keep)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (loss[i] - smooth[i]) * (loss[i] - smooth[i]);
    /* Effective number of losses in an average of weights keep^|j|: (Σw)²/Σw². */
    double total = (1 + keep) / (1 - keep), squares = (1 + keep * keep) / (1 - keep * keep);
    return sqrt(sum / n * squares) / total;
}

/* Where the smoothed loss, on its way down to its least value, passes half of the fall. */
static double half_way(const double *smooth, int least, double level)
{
    double half = (level + smooth[least]) / 2;
    int i = least;
    while (i > 0 && smooth[i] < half)
        i--;
    double span = smooth[i] - smooth[i + 1];
    return i < least && span > 0 ? i + (smooth[i] - half) / span : i;
}

static struct fall find_fall(const struct bst_lr_range *r, const double *loss, int n, bool diverged)
{
    double clipped[BST_LR_RANGE_MOST], smooth[BST_LR_RANGE_MOST];
    double keep = keep_of(r), level = n ? level_of(loss, n) : 0;
    int half = (int)lround(SLOPE_DECADES * steps_per_decade(r));
    half = half < 1 ? 1 : half;
    if (n < BST_LR_RANGE_LEAST / 2)
        return (struct fall){.doubt = BST_LR_NO_FALL};
    for (int i = 0; i < n; i++)
        clipped[i] = fmin(loss[i], LEVEL_ABOVE * level);
    smooth_both_sides(clipped, n, keep, smooth);
    int least = least_at(smooth, n), at = 0;
    double noise = noise_of(clipped, smooth, n, keep), steepest = 0;
    if (level - smooth[least] < fmax(FALL_SHARE * fabs(level), FALL_NOISE * noise))
        return (struct fall){.doubt = BST_LR_NO_FALL};
    for (int i = 0; i <= least; i++) {
        double slope = slope_at(smooth, n, i, half);
        if (slope < steepest) {
            steepest = slope;
            at = i;
        }
    }
    struct fall f = {.steepest = at, .valley = half_way(smooth, least, level)};
    /* Averages and slopes are of one side only at the ends: a fall that begins there is seen late.
     */
    if (at < 2 * half)
        f.doubt = BST_LR_AT_START;
    else if (!diverged && at >= n - 1 - 2 * half)
        f.doubt = BST_LR_AT_END;
    return f;
}

/* The mean of the passes, as far as all of them went. */
static int mean_curve(const struct bst_lr_curve *curves, int n, double *out)
{
    int len = curves[0].n;
    for (int k = 1; k < n; k++)
        len = curves[k].n < len ? curves[k].n : len;
    for (int i = 0; i < len; i++) {
        out[i] = 0;
        for (int k = 0; k < n; k++)
            out[i] += curves[k].loss[i] / n;
    }
    return len;
}

static bool apart(double a, double b)
{
    return a > APART * b || b > APART * a;
}

static bool any_over(const struct bst_lr_curve *curves, int n)
{
    for (int k = 0; k < n; k++)
        if (curves[k].over)
            return true;
    return false;
}

void bst_lr_range_suggest(const struct bst_lr_range *r, const struct bst_lr_curve *curves, int n,
                          struct bst_lr_suggestion *out)
{
    double mean[BST_LR_RANGE_MOST];
    *out = (struct bst_lr_suggestion){.doubt = BST_LR_NO_FALL};
    if (n < 1)
        return;
    int len = mean_curve(curves, n, mean);
    struct fall f = find_fall(r, mean, len, any_over(curves, n));
    if (f.doubt == BST_LR_NO_FALL)
        return;
    out->doubt = f.doubt;
    out->steepest = bst_lr_range_rate(r, f.steepest);
    out->valley = bst_lr_range_rate(r, f.valley);
    for (int k = 0; k < n; k++) {
        struct fall one = find_fall(r, curves[k].loss, curves[k].n, curves[k].over);
        if (one.doubt == BST_LR_NO_FALL)
            continue;
        double rate = bst_lr_range_rate(r, one.steepest);
        out->lowest = out->repeats && out->lowest < rate ? out->lowest : rate;
        out->highest = out->highest > rate ? out->highest : rate;
        out->repeats++;
    }
    if (out->doubt)
        return;
    if (apart(out->steepest, out->valley))
        out->doubt = BST_LR_DISAGREE;
    else if (out->repeats < n || apart(out->lowest, out->highest))
        out->doubt = BST_LR_SPREAD;
}

int bst_lr_range_smooth(const struct bst_lr_range *r, const struct bst_lr_curve *curves, int n,
                        double *out)
{
    double mean[BST_LR_RANGE_MOST];
    int len = n < 1 ? 0 : mean_curve(curves, n, mean);
    smooth_both_sides(mean, len, keep_of(r), out);
    return len;
}

const char *bst_lr_doubt_text(enum bst_lr_doubt doubt)
{
    static const char *const texts[] = {
        [BST_LR_CLEAR] = "",
        [BST_LR_DISAGREE] = "steepest fall and valley are more than 3 times apart",
        [BST_LR_SPREAD] = "the repeats are more than 3 times apart, or not all fall",
        [BST_LR_NO_FALL] = "the loss never fell by more than its noise",
        [BST_LR_AT_START] = "the loss falls from the first rate on: start lower",
        [BST_LR_AT_END] = "the loss still falls at the last rate: end higher",
    };
    return texts[doubt];
}
