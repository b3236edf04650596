#include "core/tune/trial.h"

#include <math.h>

enum { COMPARED = BST_TRIAL_PARTS / 2 };

/* Student's t for 95 % and COMPARED - 1 = 11 degrees of freedom. */
#define STUDENT_95 2.201
#define RHO_MOST 0.6 /* from so few parts no more can be told */

const char *bst_trial_verdict_text(enum bst_trial_verdict v)
{
    static const char *const texts[] = {
#define X(name, text) text,
        BST_TRIAL_VERDICTS(X)
#undef X
    };
    return texts[v];
}

/* Mean loss over the samples of each part; an update that lies in two parts counts in both. */
static bool parts_of(const struct bst_trial_update *u, int n, double samples,
                     double mean[BST_TRIAL_PARTS])
{
    double weight[BST_TRIAL_PARTS] = {0}, part = samples / BST_TRIAL_PARTS, from = 0;
    for (int k = 0; k < BST_TRIAL_PARTS; k++)
        mean[k] = 0;
    for (int i = 0; i < n; i++) {
        double to = fmin((double)u[i].samples, samples);
        if (!isfinite(u[i].loss))
            return false;
        for (int k = (int)(from / part); k < BST_TRIAL_PARTS && k * part < to; k++) {
            double share = fmin(to, (k + 1) * part) - fmax(from, k * part);
            mean[k] += share * u[i].loss;
            weight[k] += share;
        }
        from = to;
    }
    for (int k = 0; k < BST_TRIAL_PARTS; k++) {
        if (!(weight[k] > 0))
            return false;
        mean[k] /= weight[k];
    }
    return true;
}

/* Standard error of the mean of numbers in order of time, from what each is off it. One arm that is
 * ahead in a part is likely to be so in the next, too: as in a first-order autoregression the error
 * is that of independent parts times √((1+ρ)/(1-ρ)). ρ is that of what is left beside a line, since
 * a difference that grows is no noise; such an estimate is low by about (2+4ρ)/n (Kendall 1954, for
 * a line taken out), which is put back. Less than 0 is taken for none. */
static double error_of_mean(const double off[COMPARED])
{
    const double n = COMPARED, mid = (n - 1) / 2;
    double squares = 0, slope = 0, left = 0, products = 0, before = 0;
    for (int k = 0; k < COMPARED; k++) {
        squares += off[k] * off[k];
        slope += (k - mid) * off[k] / (n * (n * n - 1) / 12);
    }
    for (int k = 0; k < COMPARED; k++) {
        double beside = off[k] - slope * (k - mid);
        left += beside * beside;
        products += beside * before;
        before = beside;
    }
    double rho = left > 0 ? (products / left + 2 / n) / (1 - 4 / n) : 0;
    rho = fmin(fmax(rho, 0), RHO_MOST);
    return sqrt(squares / (n - 1) / n * (1 + rho) / (1 - rho));
}

void bst_trial_compare(const struct bst_trial_update *a, int n_a, const struct bst_trial_update *b,
                       int n_b, uint64_t samples, struct bst_trial_answer *out)
{
    double x[BST_TRIAL_PARTS], y[BST_TRIAL_PARTS], off[COMPARED];
    *out = (struct bst_trial_answer){.verdict = BST_TRIAL_BOTH_DIVERGED, .loss = {NAN, NAN}};
    out->difference = out->low = out->high = NAN;
    bool without = parts_of(a, n_a, (double)samples, x);
    bool with = parts_of(b, n_b, (double)samples, y);
    if (!without || !with) {
        if (without || with)
            out->verdict = with ? BST_TRIAL_RESCUED : BST_TRIAL_DIVERGED;
        return;
    }
    out->loss[0] = out->loss[1] = out->difference = 0;
    for (int k = COMPARED; k < BST_TRIAL_PARTS; k++) {
        out->loss[0] += x[k] / COMPARED;
        out->loss[1] += y[k] / COMPARED;
        out->difference += (y[k] - x[k]) / COMPARED;
    }
    for (int k = 0; k < COMPARED; k++)
        off[k] = y[COMPARED + k] - x[COMPARED + k] - out->difference;
    double error = error_of_mean(off);
    out->low = out->difference - STUDENT_95 * error;
    out->high = out->difference + STUDENT_95 * error;
    const double trifle = BST_TRIAL_TRIFLE_SHARE * fabs(out->loss[0]);
    if (out->low <= 0 && out->high >= 0)
        out->verdict = BST_TRIAL_EQUAL;
    else if (fabs(out->difference) < trifle)
        out->verdict = BST_TRIAL_TRIFLE;
    else
        out->verdict = out->high < 0 ? BST_TRIAL_BETTER : BST_TRIAL_WORSE;
}
