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

/* Row `to` has 5 % more than row `from` for every doubling. */
static bool pays(const struct bst_throughput *rows, int from, int to)
{
    double doublings = log2((double)rows[to].micro / (double)rows[from].micro);
    return rows[to].rate >= rows[from].rate * pow(KNEE_GAIN, doublings) * (1 - 1e-12);
}

/* Whether some larger row has 5 % more for every doubling from row `at` on. One by one a slow row
 * would hide what the next one brings. */
static bool still_pays(const struct bst_throughput *rows, int n, int at)
{
    for (int i = next_known(rows, n, at); i >= 0; i = next_known(rows, n, i))
        if (pays(rows, at, i))
            return true;
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

int bst_throughput_dip(const struct bst_throughput *rows, int n, int knee, int *next)
{
    for (int i = next_known(rows, n, -1); i >= 0 && i < knee; i = *next) {
        *next = next_known(rows, n, i);
        if (!pays(rows, i, *next))
            return i;
    }
    return -1;
}
