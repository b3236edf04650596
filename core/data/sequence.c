#include "core/data/sequence.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"

/* Devlin et al. 2019: of a hundred tokens fifteen are hidden; of ten of those eight become the
 * mask, one another token, one stays. */
static int n_hidden(int length)
{
    int n = (int)(0.15 * bst_window_stride(BST_INPUT_MASKED, length) + 0.5);
    return n < 1 ? 1 : n;
}

enum bst_err bst_sequences_check(const struct bst_token_source *source,
                                 const struct bst_data_cfg *cfg, int length)
{
    if (length < BST_LENGTH_LEAST || length > BST_LENGTH_MOST)
        return bst_fail(BST_E_RANGE, "%s: sequences of %d tokens, expected %d to %d", source->name,
                        length, BST_LENGTH_LEAST, BST_LENGTH_MOST);
    if (cfg->input == BST_INPUT_IMAGES)
        return bst_fail(BST_E_ARG, "%s is a set of sequences, the net takes images", source->name);
    if (cfg->input == BST_INPUT_TRANSLATE && !source->pair)
        return bst_fail(BST_E_ARG,
                        "%s has no pairs to translate; the net needs pairs, copy, reverse or "
                        "addition",
                        source->name);
    if (cfg->input == BST_INPUT_MASKED && !source->run)
        return bst_fail(BST_E_ARG, "%s cannot be masked; the net needs tokens or text",
                        source->name);
    return BST_OK;
}

enum bst_err bst_sequences_check_pair(enum bst_net_input o, int length, int source, int target,
                                      const char *where)
{
    int longer = source > target ? source : target;
    int needs = o == BST_INPUT_NEXT ? source + target + 1 : longer + 1;
    if (needs <= length)
        return BST_OK;
    return bst_fail(BST_E_RANGE,
                    "%s: a source of %d and a target of %d tokens need sequences of %d, the net "
                    "takes %d",
                    where, source, target, needs, length);
}

static void tell_shape(enum bst_net_input input, int length, int vocab, struct bst_data_info *info)
{
    info->classes = vocab;
    info->streams = input == BST_INPUT_NEXT ? 1 : 2;
    for (int i = 0; i < info->streams; i++)
        info->length[i] = length; /* which bst_loader_cut() and dropout's numbering rely on */
    info->n_labels = length;
}

enum bst_err bst_sequences_shape(const struct bst_token_source *source,
                                 const struct bst_data_cfg *cfg, int vocab,
                                 struct bst_data_info *info)
{
    int length = cfg->length ? cfg->length : BST_LENGTH_OWN;
    BST_TRY(bst_sequences_check(source, cfg, length));
    tell_shape(cfg->input, length, cfg->classes ? cfg->classes : vocab, info);
    return BST_OK;
}

struct bst_sequences *bst_sequences_new(const struct bst_sequences *s, struct bst_data_info *info)
{
    struct bst_sequences *own = bst_xalloc(sizeof *own);
    *own = *s;
    info->n[BST_TRAIN] = s->n[BST_TRAIN];
    info->n[BST_EVAL] = s->n[BST_EVAL];
    tell_shape(s->input, s->length, s->vocab, info);
    info->padded = info->answers = s->source->pair;
    info->special = s->special;
    if (s->source->run)
        info->each = (struct bst_token_count){
            .tokens = s->length,
            .targets = s->input == BST_INPUT_MASKED ? n_hidden(s->length) : s->length};
    return own;
}

void bst_sequences_close(void *state)
{
    struct bst_sequences *s = state;
    s->source->close(s->own);
    bst_free(s);
}

void bst_sequences_measure(void *state, enum bst_part part, int64_t index,
                           struct bst_token_count *out)
{
    const struct bst_sequences *s = state;
    int source, target;
    if (!s->source->pair) /* as info.each says */
        return;
    s->source->pair_lengths(s->own, part, index, &source, &target);
    out->tokens = source + target + (s->input == BST_INPUT_NEXT ? 1 : 2);
    out->targets = target + 1;
}

static void fill(int32_t *out, int from, int to, int32_t with)
{
    for (int i = from; i < to; i++)
        out[i] = with;
}

static enum bst_err next_of_run(const struct bst_sequences *s, enum bst_part part, int64_t index,
                                const struct bst_token_sample *out)
{
    BST_TRY(s->source->run(s->own, part, index, 0, 1, out->tokens[0]));
    BST_TRY(s->source->run(s->own, part, index, 1, s->length, out->labels));
    memcpy(out->tokens[0] + 1, out->labels, (size_t)(s->length - 1) * sizeof *out->labels);
    *out->length[0] = s->length;
    return BST_OK;
}

static enum bst_err next_of_pair(const struct bst_sequences *s, enum bst_part part, int64_t index,
                                 const struct bst_token_sample *out)
{
    int n, m;
    int32_t *t = out->tokens[0];
    s->source->pair_lengths(s->own, part, index, &n, &m);
    int end = n + 1 + m;
    BST_TRY(s->source->pair(s->own, part, index, t, t + n + 1));
    t[n] = s->special.start;
    fill(t, end, s->length, s->special.pad);
    fill(out->labels, 0, n, BST_TOKEN_IGNORED);
    memcpy(out->labels + n, t + n + 1, (size_t)m * sizeof *t);
    out->labels[n + m] = s->special.end;
    fill(out->labels, end, s->length, BST_TOKEN_IGNORED);
    *out->length[0] = end;
    return BST_OK;
}

static enum bst_err translate(const struct bst_sequences *s, enum bst_part part, int64_t index,
                              const struct bst_token_sample *out)
{
    int n, m;
    int32_t *from = out->tokens[0], *to = out->tokens[1];
    s->source->pair_lengths(s->own, part, index, &n, &m);
    BST_TRY(s->source->pair(s->own, part, index, from, out->labels));
    from[n] = s->special.end;
    fill(from, n + 1, s->length, s->special.pad);
    to[0] = s->special.start;
    memcpy(to + 1, out->labels, (size_t)m * sizeof *to);
    fill(to, m + 1, s->length, s->special.pad);
    out->labels[m] = s->special.end;
    fill(out->labels, m + 1, s->length, BST_TOKEN_IGNORED);
    *out->length[0] = n + 1;
    *out->length[1] = m + 1;
    return BST_OK;
}

/* Hides tokens of one segment, t[from … to); `left` of the `rest` candidates still to come are. */
static void hide(const struct bst_sequences *s, struct bst_rng *r,
                 const struct bst_token_sample *out, int from, int to, int *left, int *rest)
{
    for (int i = from; i < to; i++, --*rest) {
        if ((int)bst_rng_below(r, (uint32_t)*rest) >= *left)
            continue;
        --*left;
        int32_t *t = &out->tokens[0][i];
        out->labels[i] = *t;
        uint32_t lot = bst_rng_below(r, 10);
        if (lot < 8)
            *t = s->special.mask;
        else if (lot == 8)
            *t = (int32_t)bst_rng_below(r, (uint32_t)s->vocab);
    }
}

static enum bst_err masked(const struct bst_sequences *s, enum bst_part part, int64_t index,
                           uint64_t key, const struct bst_token_sample *out)
{
    struct bst_rng r;
    int all = bst_window_stride(BST_INPUT_MASKED, s->length), left = n_hidden(s->length);
    int32_t *t = out->tokens[0];
    bst_rng_init(&r, key, BST_RNG_MASK, (uint64_t)index * 2 + (uint64_t)part);
    /* A is a quarter to three quarters of both. */
    int a = all / 4 + (int)bst_rng_below(&r, (uint32_t)(all / 2 + 1));
    int64_t n = s->n[part], other = index;
    a = a < 1 ? 1 : a < all ? a : all - 1;
    *out->pair = n > 1 && bst_rng_below(&r, 2);
    if (*out->pair)
        other = (index + 1 + (int64_t)(bst_rng_u64(&r) % (uint64_t)(n - 1))) % n;
    t[0] = s->special.start;
    BST_TRY(s->source->run(s->own, part, index, 0, a, t + 1));
    t[a + 1] = s->special.end;
    BST_TRY(s->source->run(s->own, part, other, a, all - a, t + a + 2));
    t[all + 2] = s->special.end;
    fill(out->tokens[1], 0, a + 2, 0);
    fill(out->tokens[1], a + 2, s->length, 1);
    fill(out->labels, 0, s->length, BST_TOKEN_IGNORED);
    int rest = all;
    hide(s, &r, out, 1, a + 1, &left, &rest);
    hide(s, &r, out, a + 2, all + 2, &left, &rest);
    *out->length[0] = *out->length[1] = s->length;
    return BST_OK;
}

enum bst_err bst_sequences_get(void *state, enum bst_part part, int64_t index, uint64_t key,
                               const struct bst_token_sample *out)
{
    const struct bst_sequences *s = state;
    *out->pair = 0;
    switch (s->input) {
    case BST_INPUT_TRANSLATE:
        return translate(s, part, index, out);
    case BST_INPUT_MASKED:
        return masked(s, part, index, key, out);
    default:
        return s->source->run ? next_of_run(s, part, index, out)
                              : next_of_pair(s, part, index, out);
    }
}
