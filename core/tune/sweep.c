#include "core/tune/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/order.h"

#define DELTA_LEAST 0.003
#define TARGET_UNDER_BEST 0.01

/* Where a run came to the target; NaN: nowhere. Accuracy does not have to rise from one evaluation
 * to the next: the first crossing counts. */
static struct bst_sweep_eval reach(const struct bst_sweep *s, const struct bst_sweep_run *r)
{
    struct bst_sweep_eval before = {0};
    double target = s->target_used;
    for (int i = 0; i < r->n_evals; i++) {
        const struct bst_sweep_eval *e = &r->evals[i];
        if (e->accuracy >= target) {
            double rise = e->accuracy - before.accuracy;
            double x = i && rise > 0 ? (target - before.accuracy) / rise : 1;
            before.samples += x * (e->samples - before.samples);
            before.seconds += x * (e->seconds - before.seconds);
            return before;
        }
        before = *e;
    }
    return (struct bst_sweep_eval){NAN, NAN, NAN};
}

static struct bst_sweep_row *row_of(struct bst_sweep *s, uint64_t batch)
{
    int i = s->n_rows;
    for (int k = 0; k < s->n_rows; k++)
        if (s->rows[k].batch == batch)
            return &s->rows[k];
    BST_ASSERT(s->n_rows < BST_SWEEP_BATCHES);
    for (; i && s->rows[i - 1].batch > batch; i--)
        s->rows[i] = s->rows[i - 1];
    s->n_rows++;
    s->rows[i] = (struct bst_sweep_row){.batch = batch, .whole = true};
    return &s->rows[i];
}

static void add(struct bst_sweep_row *row, const struct bst_sweep_run *r)
{
    row->runs++;
    row->memory_planned = fmax(row->memory_planned, r->memory_planned);
    row->memory_peak = fmax(row->memory_peak, r->memory_peak);
    row->accuracy += r->accuracy;
    row->best_accuracy += r->best_accuracy;
    row->loss += r->loss;
    row->whole &= r->whole;
}

static double epoch_of(const struct bst_sweep *s, const struct bst_sweep_run *r)
{
    (void)s;
    return r->epoch_seconds;
}

static double rate_of(const struct bst_sweep *s, const struct bst_sweep_run *r)
{
    (void)s;
    return r->samples_per_sec;
}

static double seconds_of(const struct bst_sweep *s, const struct bst_sweep_run *r)
{
    return reach(s, r).seconds;
}

struct runs {
    const struct bst_sweep_run *v;
    int n;
};

/* Over a batch's runs; NaN unless it is known of each. */
static double median_of(const struct bst_sweep *s, uint64_t batch, struct runs all,
                        double (*of)(const struct bst_sweep *, const struct bst_sweep_run *))
{
    double x[BST_SWEEP_REPEATS];
    size_t n = 0;
    for (int i = 0; i < all.n; i++) {
        if (all.v[i].batch != batch)
            continue;
        BST_ASSERT(n < BST_SWEEP_REPEATS);
        x[n] = of(s, &all.v[i]);
        if (isnan(x[n++]))
            return NAN;
    }
    return bst_median(x, n);
}

static void settle(const struct bst_sweep *s, struct bst_sweep_row *row, struct runs all)
{
    row->epoch_seconds = median_of(s, row->batch, all, epoch_of);
    row->samples_per_sec = median_of(s, row->batch, all, rate_of);
    row->accuracy /= row->runs;
    row->best_accuracy /= row->runs;
    row->loss /= row->runs;
}

/* With one right and one wrong more: all of few samples right is not known without error. */
static double error_of_one(double accuracy, double n)
{
    double p = (accuracy * n + 1) / (n + 2);
    return sqrt(p * (1 - p) / n);
}

static double error_of(const struct bst_sweep_row *row, const struct bst_sweep_run *runs, int n)
{
    double squares = 0, of_one = NAN;
    for (int i = 0; i < n; i++) {
        if (runs[i].batch != row->batch)
            continue;
        double p = runs[i].accuracy, off = p - row->accuracy;
        squares += off * off;
        of_one = error_of_one(p, runs[i].eval_samples);
    }
    return row->runs > 1 ? sqrt(squares / (row->runs - 1) / row->runs) : of_one;
}

static struct bst_sweep_row *most(struct bst_sweep *s, double (*of)(const struct bst_sweep_row *))
{
    struct bst_sweep_row *best = NULL;
    for (int i = 0; i < s->n_rows; i++)
        if (isfinite(of(&s->rows[i])) && (!best || of(&s->rows[i]) > of(best)))
            best = &s->rows[i];
    return best;
}

static double accuracy_of(const struct bst_sweep_row *row)
{
    return row->accuracy;
}

static double speed_of(const struct bst_sweep_row *row)
{
    return -row->epoch_seconds;
}

static double size_of(const struct bst_sweep_row *row)
{
    return row->whole ? (double)row->batch : NAN;
}

static double seconds_with(struct runs all, uint64_t batch, uint64_t seed)
{
    for (int i = 0; i < all.n; i++)
        if (all.v[i].batch == batch && all.v[i].seed == seed)
            return all.v[i].epoch_seconds;
    return NAN;
}

struct slower {
    double by, doubt;
};

/* How much longer an epoch of `row` takes than one of `than`, and how much of that may be chance.
 */
static struct slower slower_than(const struct bst_sweep_row *row, const struct bst_sweep_row *than,
                                 struct runs all)
{
    double sum = 0, squares = 0;
    int n = 0;
    for (int i = 0; i < all.n; i++) {
        if (all.v[i].batch != row->batch)
            continue;
        double x = log(all.v[i].epoch_seconds / seconds_with(all, than->batch, all.v[i].seed));
        if (!isfinite(x))
            continue;
        sum += x;
        squares += x * x;
        n++;
    }
    if (!n)
        return (struct slower){row->epoch_seconds / than->epoch_seconds - 1, BST_SWEEP_SLOWER};
    double mean = sum / n, error = n > 1 ? sqrt(fmax(0, squares / n - mean * mean) / (n - 1)) : 0;
    return (struct slower){expm1(mean), fmax(BST_SWEEP_SLOWER, expm1(2 * error))};
}

static void compare_speed(struct bst_sweep *s, const struct bst_sweep_row *fastest, struct runs all)
{
    for (int i = 0; i < s->n_rows; i++) {
        struct bst_sweep_row *row = &s->rows[i];
        struct slower d = slower_than(row, fastest, all);
        row->slower = d.by;
        row->as_fast = d.by <= d.doubt;
        s->told_apart |= d.by > d.doubt;
    }
}

/* How far under the best a row may be and still be taken for it; NaN: what it came to says nothing
 * of that. */
static double delta_of(const struct bst_sweep *s, const struct bst_sweep_row *row,
                       const struct bst_sweep_row *best)
{
    double doubt = 2 * hypot(row->error, best->error);
    if (s->delta >= 0)
        return s->delta;
    return isfinite(doubt) && doubt <= BST_SWEEP_DOUBT_MOST ? fmax(DELTA_LEAST, doubt) : NAN;
}

static void mark_choice(struct bst_sweep *s, const struct bst_sweep_row *best, struct runs all)
{
    struct bst_sweep_row *good[BST_SWEEP_BATCHES], *fast = NULL, *choice = NULL;
    int n = 0;
    s->delta_used = delta_of(s, best, best);
    s->vague = isnan(s->delta_used);
    for (int i = 0; i < s->n_rows && !s->vague; i++) {
        struct bst_sweep_row *row = &s->rows[i];
        double delta = delta_of(s, row, best);
        if (!isfinite(row->epoch_seconds) || !(best->accuracy - row->accuracy <= delta))
            continue;
        s->delta_used = fmax(s->delta_used, delta);
        good[n++] = row;
        if (!fast || row->epoch_seconds < fast->epoch_seconds)
            fast = row;
    }
    for (int i = 0; i < n; i++) {
        struct slower d = slower_than(good[i], fast, all);
        if (d.by <= d.doubt && (!choice || good[i]->accuracy > choice->accuracy))
            choice = good[i];
    }
    if (choice)
        choice->choice = true;
}

static void find_target(struct bst_sweep *s, struct runs all)
{
    double least = INFINITY;
    for (int i = 0; i < s->n_rows; i++) {
        struct bst_sweep_row *row = &s->rows[i];
        double samples = 0;
        for (int k = 0; k < all.n; k++)
            if (all.v[k].batch == row->batch)
                samples += reach(s, &all.v[k]).samples;
        row->samples_to_target = samples / row->runs;
        row->seconds_to_target = median_of(s, row->batch, all, seconds_of);
        least = fmin(least, row->samples_to_target);
    }
    for (int i = 0; i < s->n_rows; i++)
        s->rows[i].efficiency = least / s->rows[i].samples_to_target;
}

void bst_sweep_table(struct bst_sweep *s, const struct bst_sweep_run *runs, int n)
{
    struct runs all = {runs, n};
    s->n_rows = 0;
    s->delta_used = s->target_used = NAN;
    s->told_apart = s->vague = false;
    for (int i = 0; i < n; i++)
        add(row_of(s, runs[i].batch), &runs[i]);
    for (int i = 0; i < s->n_rows; i++) {
        settle(s, &s->rows[i], all);
        s->rows[i].error = error_of(&s->rows[i], runs, n);
    }
    struct bst_sweep_row *best = most(s, accuracy_of), *fast = most(s, speed_of);
    struct bst_sweep_row *large = most(s, size_of);
    if (!best || !fast)
        return;
    fast->fastest = true;
    if (large)
        large->largest = true;
    compare_speed(s, fast, all);
    mark_choice(s, best, all);
    best->accurate = !s->vague;
    s->target_used = isnan(s->target) ? best->accuracy - TARGET_UNDER_BEST : s->target;
    find_target(s, all);
}

bool bst_sweep_parse(const char *text, uint64_t *out, int *n)
{
    *n = 0;
    for (const char *p = text;; p++) {
        char *end;
        if (*p < '1' || *p > '9' || *n == BST_SWEEP_BATCHES)
            return false;
        unsigned long long batch = strtoull(p, &end, 10);
        if (end - p > 8)
            return false;
        for (int i = 0; i < *n; i++)
            if (out[i] == batch)
                return false;
        out[(*n)++] = batch;
        p = end;
        if (!*p)
            return true;
        if (*p != ',')
            return false;
    }
}
