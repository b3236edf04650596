/* The largest batch that runs, found by trying: says which size to try next and is told what came
 * of it. Only sizes that ran are answers. Memory need not be monotone (a library may want more
 * workspace for 16 than for 32): what failed below the answer is told of. Pure; any thread. */
#ifndef BST_TUNE_BATCH_SEARCH_H
#define BST_TUNE_BATCH_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

enum { BST_SEARCH_TRIES = 192 }; /* growth, bisection and looking ahead of 2^31 stay below it */

struct bst_batch_try {
    int64_t n;
    bool ran;
};

struct bst_batch_search { /* caller's storage; read it, change it through the functions */
    int64_t start, most;
    int64_t step;    /* of the growth past the largest that ran */
    int64_t largest; /* that ran; 0: none did */
    struct bst_batch_try tries[BST_SEARCH_TRIES];
    int n_tries;
    bool over; /* an error that is not about memory */
};

/* `most` and `start` are brought to at least 1, `start` to at most `most`. */
void bst_batch_search_init(struct bst_batch_search *s, int64_t start, int64_t most);

/* The size to try now; 0 once it is settled: `largest` + 1 failed or `largest` is `most`. */
int64_t bst_batch_search_next(const struct bst_batch_search *s);

/* What trying `n`, the size that was next, gave: BST_OK it ran, BST_E_NOMEM it did not fit. Any
 * other error ends the search and is handed back; the caller's text stays. */
BST_MUST_USE enum bst_err bst_batch_search_told(struct bst_batch_search *s, int64_t n,
                                                enum bst_err err);

/* The least and the greatest size that failed although a larger one ran; false: there is none. */
bool bst_batch_search_hole(const struct bst_batch_search *s, int64_t *least, int64_t *greatest);

#endif
