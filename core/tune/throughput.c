#include "core/tune/throughput.h"

#include <math.h>
#include <stdbool.h>

#define KNEE_GAIN 1.05

static bool is_known(const struct bst_throughput *row)
{
    return isfinite(row->rate) && row->rate > 0;
}

static int next_known(const struct bst_throughput *rows, int n, int after)
{
    for (int i = after + 1; i < n; i++)
        if (is_known(&rows[i]))
            return i;
    return -1;
}

int bst_throughput_fastest(const struct bst_throughput *rows, int n)
{
    int best = -1;
    for (int i = next_known(rows, n, -1); i >= 0; i = next_known(rows, n, i))
        if (best < 0 || rows[i].rate > rows[best].rate)
            best = i;
    return best;
}

/* Whether some larger row has 5 % more for every doubling from row `at` on. One by one a slow row
 * would hide what the next one brings. */
static bool still_pays(const struct bst_throughput *rows, int n, int at)
{
    for (int i = next_known(rows, n, at); i >= 0; i = next_known(rows, n, i)) {
        double doublings = log2((double)rows[i].micro / (double)rows[at].micro);
        if (rows[i].rate >= rows[at].rate * pow(KNEE_GAIN, doublings) * (1 - 1e-12))
            return true;
    }
    return false;
}

int bst_throughput_knee(const struct bst_throughput *rows, int n)
{
    int at = next_known(rows, n, -1);
    if (at < 0 || next_known(rows, n, at) < 0)
        return -1;
    while (still_pays(rows, n, at))
        at = next_known(rows, n, at);
    return at;
}
