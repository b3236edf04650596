/* What the formats of sequences have in common. A source gives runs of tokens, or pairs of them;
 * sequence.c makes samples of those, as the net reads them (data.h). Internal to core/data. Any
 * thread once it is open. */
#ifndef BST_DATA_SEQUENCE_H
#define BST_DATA_SEQUENCE_H

#include "core/data/data.h"

enum {
    BST_LENGTH_LEAST = 4,
    BST_LENGTH_MOST = 1 << 16,
    BST_LENGTH_OWN = 256,
    /* A vocabulary of bytes. */
    BST_BYTES = 256,
    BST_BYTE_PAD = BST_BYTES,
    BST_BYTE_START,
    BST_BYTE_END,
    BST_BYTE_MASK,
    BST_BYTE_VOCAB,
};

/* One of `run` and `pair` is NULL. */
struct bst_token_source {
    const char *name;
    /* n tokens from `skip` tokens into window `index` on. A window has bst_window_stride() tokens
     * and, under NEXT, the one behind it. */
    enum bst_err (*run)(void *own, enum bst_part part, int64_t index, int skip, int n,
                        int32_t *out);
    void (*pair_lengths)(void *own, enum bst_part part, int64_t index, int *source, int *target);
    enum bst_err (*pair)(void *own, enum bst_part part, int64_t index, int32_t *source,
                         int32_t *target);
    void (*close)(void *own);
};

struct bst_sequences {
    const struct bst_token_source *source;
    void *own;
    enum bst_net_input input;
    int length, vocab;
    struct bst_special special;
    int64_t n[2];
};

/* Tokens by which the windows of a run are apart; and that a window needs. */
static inline int bst_window_stride(enum bst_net_input o, int length)
{
    return o == BST_INPUT_MASKED ? length - 3 : length;
}

static inline int bst_window_need(enum bst_net_input o, int length)
{
    return o == BST_INPUT_MASKED ? length - 3 : length + 1;
}

/* Whether the source can serve a net that reads cfg->input, at that length. */
BST_MUST_USE enum bst_err bst_sequences_check(const struct bst_token_source *source,
                                              const struct bst_data_cfg *cfg, int length);
/* Whether a pair fits; `where` begins the error's text. */
BST_MUST_USE enum bst_err bst_sequences_check_pair(enum bst_net_input o, int length, int source,
                                                   int target, const char *where);

/* A format's state, and the rest of its row: take `own` over, fill in `info`. */
struct bst_sequences *bst_sequences_new(const struct bst_sequences *s, struct bst_data_info *info);
/* The shape alone, of sequences of cfg's length or BST_LENGTH_OWN, over cfg's vocabulary or this.
 */
BST_MUST_USE enum bst_err bst_sequences_shape(const struct bst_token_source *source,
                                              const struct bst_data_cfg *cfg, int vocab,
                                              struct bst_data_info *info);
void bst_sequences_close(void *state);
enum bst_err bst_sequences_get(void *state, enum bst_part part, int64_t index, uint64_t key,
                               const struct bst_token_sample *out);
void bst_sequences_measure(void *state, enum bst_part part, int64_t index,
                           struct bst_token_count *out);

#endif
