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

int bst_throughput_knee(const struct bst_throughput *rows, int n)
{
    int at = next_known(rows, n, -1), last = -1;
    for (int next; at >= 0; at = next) {
        next = next_known(rows, n, at);
        if (next < 0)
            return last < 0 ? -1 : at;
        double doublings = log2((double)rows[next].micro / (double)rows[at].micro);
        if (pow(rows[next].rate / rows[at].rate, 1 / doublings) < KNEE_GAIN)
            return at;
        last = at;
    }
    return -1;
}
