#include "core/tune/health.h"

#include <math.h>

static const double spike_ratio = 10;
static const uint64_t spike_after = 20;

const char *bst_health_name(enum bst_verdict v)
{
    static const char *const names[] = {"unknown", "ok", "low", "high", "not finite"};
    return names[v];
}

struct bst_band bst_health_resnet_band(void)
{
    return (struct bst_band){10, 100};
}

enum bst_verdict bst_health_judge(struct bst_band band, double norm)
{
    if (!isfinite(norm))
        return BST_HEALTH_NONFINITE;
    if (band.low == 0 && band.high == 0)
        return BST_HEALTH_UNKNOWN;
    if (norm < band.low)
        return BST_HEALTH_LOW;
    return norm > band.high ? BST_HEALTH_HIGH : BST_HEALTH_OK;
}

void bst_health_add(struct bst_health_track *t, double norm)
{
    t->last = norm;
    if (!isfinite(norm)) {
        t->n_nonfinite++;
        return;
    }
    if (norm <= 0) {
        t->n_zero++; /* no logarithm; `last` shows it */
        return;
    }
    t->n++;
    double d = log(norm) - t->mean_log;
    t->ratio = t->n > 1 ? exp(d) : 1;
    /* A plain mean until the window is full, so that the first value does not linger. */
    double a = 1.0 / (double)(t->n < BST_HEALTH_WINDOW ? t->n : BST_HEALTH_WINDOW);
    t->mean_log += a * d;
    t->var_log = (1 - a) * (t->var_log + a * d * d);
}

double bst_health_usual(const struct bst_health_track *t)
{
    return t->n ? exp(t->mean_log) : 0;
}

bool bst_health_is_spike(const struct bst_health_track *t)
{
    return t->n > spike_after && isfinite(t->last) && t->last > 0 && t->ratio > spike_ratio;
}

static double badness(const struct bst_health_track *t)
{
    if (t->n + t->n_zero + t->n_nonfinite == 0)
        return 0;
    if (!isfinite(t->last))
        return INFINITY;
    return t->last > 0 ? fabs(log(t->ratio)) : 1e300;
}

void bst_health_order(const struct bst_health_track *layers, int n, int *order)
{
    for (int i = 0; i < n; i++) {
        double bad = badness(&layers[i]);
        int at = i;
        for (; at > 0 && badness(&layers[order[at - 1]]) < bad; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}
