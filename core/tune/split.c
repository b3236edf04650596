#include "core/tune/split.h"

#include <inttypes.h>
#include <math.h>

/* i-th of n parts of `whole`: the first whole % n are one larger. */
static uint64_t part(uint64_t whole, uint64_t n, uint64_t i)
{
    return whole / n + (i < whole % n);
}

static uint64_t part_start(uint64_t whole, uint64_t n, uint64_t i)
{
    uint64_t larger = whole % n;
    return i * (whole / n) + (i < larger ? i : larger);
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

enum bst_err bst_split_make(const struct bst_split_ask *ask, struct bst_split *out)
{
    if (!ask->ranks || ask->ranks > BST_BATCH_MAX)
        return bst_fail(BST_E_RANGE, "%" PRIu64 " ranks", ask->ranks);
    if (!ask->batch || ask->batch > BST_BATCH_MAX)
        return bst_fail(BST_E_RANGE, "a batch of %" PRIu64 " is not 1 to %" PRIu64, ask->batch,
                        BST_BATCH_MAX);
    if (ask->batch < ask->ranks && !ask->may_be_empty)
        return bst_fail(BST_E_RANGE,
                        "a batch of %" PRIu64 " leaves some of %" PRIu64 " ranks without a sample",
                        ask->batch, ask->ranks);
    uint64_t most = divide_up(ask->batch, ask->ranks);
    uint64_t k = ask->accumulate ? ask->accumulate : ask->cap ? divide_up(most, ask->cap) : 1;
    if (k > most)
        k = most;
    BST_ASSERT(k > 0);
    uint64_t micro = divide_up(most, k);
    if (ask->cap && micro > ask->cap)
        return bst_fail(BST_E_SHAPE,
                        "%" PRIu64 " micro-batches of %" PRIu64 " for a batch of %" PRIu64
                        " are above the largest allowed, %" PRIu64,
                        k, micro, ask->batch, ask->cap);
    *out = (struct bst_split){ask->batch, ask->ranks, k, micro};
    return BST_OK;
}

uint64_t bst_split_rank(const struct bst_split *sp, uint64_t rank)
{
    return part(sp->batch, sp->ranks, rank);
}

uint64_t bst_split_rank_start(const struct bst_split *sp, uint64_t rank)
{
    return part_start(sp->batch, sp->ranks, rank);
}

uint64_t bst_split_n_micro(const struct bst_split *sp, uint64_t rank)
{
    uint64_t n = bst_split_rank(sp, rank);
    return n < sp->accumulate ? n : sp->accumulate;
}

uint64_t bst_split_micro(const struct bst_split *sp, uint64_t rank, uint64_t i)
{
    uint64_t n = bst_split_n_micro(sp, rank);
    return i < n ? part(bst_split_rank(sp, rank), n, i) : 0;
}

uint64_t bst_split_micro_start(const struct bst_split *sp, uint64_t rank, uint64_t i)
{
    uint64_t n = bst_split_n_micro(sp, rank);
    return n ? part_start(bst_split_rank(sp, rank), n, i < n ? i : n) : 0;
}

__extension__ typedef unsigned __int128 wide;

uint64_t bst_split_samples_of_tokens(uint64_t tokens, uint64_t all, uint64_t n)
{
    BST_ASSERT(all > 0);
    wide samples = ((wide)tokens * n * 2 + all) / ((wide)all * 2);
    return samples < 1 ? 1 : samples > UINT64_MAX ? UINT64_MAX : (uint64_t)samples;
}

static bool power(uint64_t base, int n, wide *out)
{
    wide value = 1;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(value, (wide)base, &value))
            return false;
    *out = value;
    return true;
}

/* batch·(over/under)ⁿ rounded half up in integers; false where 128 bits are too few. */
static bool press_exact(uint64_t batch, uint64_t over, uint64_t under, int n, wide *out)
{
    for (uint64_t f = 2; f <= 5; f += 3) /* 100 is 2·2·5·5 */
        while (over % f == 0 && under % f == 0) {
            over /= f;
            under /= f;
        }
    wide num, den;
    if (!power(over, n, &num) || !power(under, n, &den) || den >> 126)
        return false;
    if (__builtin_mul_overflow(num, (wide)batch * 2, &num) ||
        __builtin_add_overflow(num, den, &num))
        return false;
    *out = num / (2 * den);
    return true;
}

enum bst_err bst_split_press(uint64_t batch, double percent, int n, uint64_t *out)
{
    int times = n < 0 ? -n : n;
    if (!(percent > 0 && percent <= 1000) || (n < 0 && percent >= 100))
        return bst_fail(
            BST_E_RANGE,
            "%+g %% is not a change of a batch: above 0 %% and up to 1000 %% more, or below "
            "100 %% less",
            n < 0 ? -percent : percent);
    if (times > BST_PRESSES_MAX || batch > BST_BATCH_MAX)
        return bst_fail(BST_E_RANGE,
                        "%d times %g %% of %" PRIu64 "; at most %d times, of at most %" PRIu64, n,
                        percent, batch, BST_PRESSES_MAX, BST_BATCH_MAX);
    double over = n < 0 ? 100 - percent : 100 + percent;
    wide exact = 0;
    long double about = (long double)batch * powl((long double)over / 100, times);
    if (about > (long double)BST_BATCH_MAX)
        return bst_fail(BST_E_RANGE, "a batch of %.4Lg is more than %" PRIu64, about,
                        BST_BATCH_MAX);
    if (percent != floor(percent) || !press_exact(batch, (uint64_t)over, 100, times, &exact))
        exact = (wide)floorl(about + 0.5L);
    *out = exact ? (uint64_t)exact : 1;
    return BST_OK;
}
