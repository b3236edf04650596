#include "core/tune/batch_search.h"

enum { LOOK_AHEAD = 4 }; /* powers of two tried past a failure, which a larger size may survive */

void bst_batch_search_init(struct bst_batch_search *s, int64_t start, int64_t most)
{
    *s = (struct bst_batch_search){.start = start, .most = most < 1 ? 1 : most, .step = 1};
    if (s->start < 1)
        s->start = 1;
    if (s->start > s->most)
        s->start = s->most;
}

static bool tried(const struct bst_batch_search *s, int64_t n)
{
    for (int i = 0; i < s->n_tries; i++)
        if (s->tries[i].n == n)
            return true;
    return false;
}

/* The least size above `largest` that failed; 0: none did. */
static int64_t least_failed(const struct bst_batch_search *s)
{
    int64_t least = 0;
    for (int i = 0; i < s->n_tries; i++) {
        const struct bst_batch_try *t = &s->tries[i];
        if (!t->ran && t->n > s->largest && (!least || t->n < least))
            least = t->n;
    }
    return least;
}

/* The next size beyond the answer that might run all the same; 0: enough were tried. */
static int64_t look_ahead(const struct bst_batch_search *s)
{
    int64_t n = 1;
    while (n <= s->largest + 1)
        n *= 2;
    for (int i = 0; i < LOOK_AHEAD && n <= s->most; i++, n *= 2)
        if (!tried(s, n))
            return n;
    return 0;
}

int64_t bst_batch_search_next(const struct bst_batch_search *s)
{
    if (s->over || s->largest == s->most || s->n_tries == BST_SEARCH_TRIES)
        return 0;
    if (!s->n_tries)
        return s->start;
    int64_t failed = least_failed(s);
    if (!failed)
        return s->most - s->largest < s->step ? s->most : s->largest + s->step;
    if (failed == s->largest + 1)
        return look_ahead(s);
    /* Downwards by halves until something runs; then between the two. */
    return s->largest ? s->largest + (failed - s->largest) / 2 : failed / 2;
}

enum bst_err bst_batch_search_told(struct bst_batch_search *s, int64_t n, enum bst_err err)
{
    if (err && err != BST_E_NOMEM) {
        s->over = true;
        return err;
    }
    BST_ASSERT(n == bst_batch_search_next(s));
    bool grows = s->n_tries && !least_failed(s);
    s->tries[s->n_tries++] = (struct bst_batch_try){n, !err};
    if (err)
        return BST_OK;
    s->largest = n;
    s->step = grows ? 2 * s->step : 1;
    return BST_OK;
}

bool bst_batch_search_hole(const struct bst_batch_search *s, int64_t *least, int64_t *greatest)
{
    *least = *greatest = 0;
    for (int i = 0; i < s->n_tries; i++) {
        int64_t n = s->tries[i].n;
        if (s->tries[i].ran || n > s->largest)
            continue;
        *least = *least && *least < n ? *least : n;
        *greatest = *greatest > n ? *greatest : n;
    }
    return *least > 0;
}
