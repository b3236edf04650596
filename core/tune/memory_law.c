#include "core/tune/memory_law.h"

#include <math.h>

bool bst_memory_law_fit(const struct bst_memory_point *a, const struct bst_memory_point *b,
                        struct bst_memory_law *out)
{
    double slope = (b->bytes - a->bytes) / (b->batch - a->batch);
    if (!isfinite(slope) || !(slope > 0))
        return false;
    *out = (struct bst_memory_law){.fixed = a->bytes - slope * a->batch, .per_sample = slope};
    return true;
}

double bst_memory_law_bytes(const struct bst_memory_law *l, double batch)
{
    return l->fixed + l->per_sample * batch;
}

int64_t bst_memory_law_largest(const struct bst_memory_law *l, double capacity, int64_t most)
{
    double n = floor((capacity - l->fixed) / l->per_sample);
    if (!(n > 0))
        return 0;
    return n < (double)most ? (int64_t)n : most;
}

static const double BYTES = 4;

bool bst_textbook_fit(struct bst_textbook *t, const struct bst_memory_point *a,
                      const struct bst_memory_point *b)
{
    struct bst_memory_law law;
    double sample = (t->inputs + t->outputs) * BYTES;
    if (!(sample > 0) || !bst_memory_law_fit(a, b, &law))
        return false;
    t->factor = law.per_sample / sample;
    return true;
}

double bst_textbook_bytes(const struct bst_textbook *t, double batch)
{
    return BYTES * (t->parameters + batch * (t->inputs + t->outputs) * t->factor);
}

double bst_memory_error(double estimate, double truth)
{
    return (estimate - truth) / truth;
}
