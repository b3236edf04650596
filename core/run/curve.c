#include "core/run/curve.h"

#include "core/base/order.h"

enum { EVEN = 48, IN_WARMUP = 12 };

int bst_curve_make(const struct bst_schedule *sch, uint64_t batch, double samples[BST_MAX_CURVE],
                   double rate[BST_MAX_CURVE])
{
    double total = (double)sch->total, edge = (double)bst_schedule_warmup_end(sch);
    int n = 0, kept = 0;
    edge = edge < total ? edge : total;
    for (int i = 0; i <= EVEN; i++)
        samples[n++] = total * i / EVEN;
    for (int i = 1; i <= IN_WARMUP && edge > 0; i++)
        samples[n++] = edge * i / IN_WARMUP;
    /* A step is drawn as one: the last sample before it, and the first after. */
    for (int i = 0; i < sch->n_milestones && n + 2 <= BST_MAX_CURVE; i++) {
        double at = (double)sch->milestones[i];
        if (at < 1 || at > total)
            continue;
        samples[n++] = at - 1;
        samples[n++] = at;
    }
    for (int i = 0; i < n; i++)
        samples[i] = (double)(uint64_t)samples[i];
    bst_order(samples, (size_t)n);
    for (int i = 0; i < n; i++)
        if (!kept || samples[i] > samples[kept - 1])
            samples[kept++] = samples[i];
    for (int i = 0; i < kept; i++)
        rate[i] = bst_schedule_lr(sch, (uint64_t)samples[i], batch);
    return kept;
}
