/* A step's tokens, as every backend's embedding takes them from the host. Pure; any thread. */
#ifndef BST_BACKEND_TOKENS_H
#define BST_BACKEND_TOKENS_H

#include "core/backend/backend.h"

/* Those of an embedding over [N, T, D] into a table of that many rows; *rows of them count.
 * BST_E_ARG: the step has none for so many samples. BST_E_RANGE: one is no row of the table. */
static inline enum bst_err bst_step_tokens(const struct bst_step *step, int stream,
                                           const struct bst_shape *s, int64_t table,
                                           const int32_t **tokens, int64_t *rows)
{
    *tokens = step->tokens[stream];
    *rows = step->n_valid * s->d[1];
    if (!*tokens || step->n_valid > s->d[0])
        return bst_fail(BST_E_ARG, "the step has no tokens of stream %d for %d samples", stream,
                        step->n_valid);
    for (int64_t i = 0; i < *rows; i++) {
        if ((*tokens)[i] < 0 || (*tokens)[i] >= table)
            return bst_fail(BST_E_RANGE, "token %d at position %d of sample %d; the table has %d",
                            (int)(*tokens)[i], (int)(i % s->d[1]), (int)(i / s->d[1]), (int)table);
    }
    return BST_OK;
}

#endif
