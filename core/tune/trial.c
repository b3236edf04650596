#include "core/tune/trial.h"

#include <math.h>

enum { COMPARED = BST_TRIAL_PARTS / 2 };

/* Student's t for 95 % and COMPARED - 1 = 11 degrees of freedom. */
#define STUDENT_95 2.201

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

void bst_trial_compare(const struct bst_trial_update *a, int n_a, const struct bst_trial_update *b,
                       int n_b, uint64_t samples, struct bst_trial_answer *out)
{
    double x[BST_TRIAL_PARTS], y[BST_TRIAL_PARTS], squares = 0;
    *out = (struct bst_trial_answer){.verdict = BST_TRIAL_DIVERGED, .loss = {NAN, NAN}};
    out->difference = out->low = out->high = NAN;
    bool known = parts_of(a, n_a, (double)samples, x);
    if (!parts_of(b, n_b, (double)samples, y) || !known)
        return;
    out->loss[0] = out->loss[1] = out->difference = 0;
    for (int k = COMPARED; k < BST_TRIAL_PARTS; k++) {
        out->loss[0] += x[k] / COMPARED;
        out->loss[1] += y[k] / COMPARED;
        out->difference += (y[k] - x[k]) / COMPARED;
    }
    for (int k = COMPARED; k < BST_TRIAL_PARTS; k++) {
        double off = y[k] - x[k] - out->difference;
        squares += off * off;
    }
    double error = sqrt(squares / (COMPARED - 1) / COMPARED);
    out->low = out->difference - STUDENT_95 * error;
    out->high = out->difference + STUDENT_95 * error;
    out->verdict = out->high < 0  ? BST_TRIAL_BETTER
                   : out->low > 0 ? BST_TRIAL_WORSE
                                  : BST_TRIAL_EQUAL;
}
