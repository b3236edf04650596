/* Generated sets that need no file: copy and reverse a row of digits, add two numbers; and random
 * tokens of any vocabulary, to size and time a net by. Sample i of a part is a pure function of the
 * seed, the part and i. */
#include "core/data/formats.h"

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/sequence.h"

/* The vocabulary: ten digits, then these. */
enum { PLUS = 10, PAD, START, END, VOCAB };

enum {
    LENGTH_OWN = 32,
    DIGITS_OWN = 3,
    DIGITS_MOST = 9, /* pairs of numbers are counted in 64 bits */
    TRAIN_OWN = 100000,
    EVAL_OWN = 2000,
};

struct task {
    uint64_t seed;
    int least, most; /* copy, reverse: of a row */
    bool reverse;
    int digits; /* addition: of a number */
    int64_t numbers, n_train;
    int length, vocab; /* random */
};

static void close_task(void *own)
{
    bst_free(own);
}

static int begin_row(const struct task *k, enum bst_part part, int64_t index, struct bst_rng *r)
{
    bst_rng_init(r, k->seed, BST_RNG_TASK, (uint64_t)index * 2 + (uint64_t)part);
    return k->least + (int)bst_rng_below(r, (uint32_t)(k->most - k->least + 1));
}

static void row_lengths(void *own, enum bst_part part, int64_t index, int *source, int *target)
{
    struct bst_rng r;
    *source = *target = begin_row(own, part, index, &r);
}

static enum bst_err row_pair(void *own, enum bst_part part, int64_t index, int32_t *source,
                             int32_t *target)
{
    const struct task *k = own;
    struct bst_rng r;
    int n = begin_row(k, part, index, &r);
    for (int i = 0; i < n; i++) {
        source[i] = (int32_t)bst_rng_below(&r, 10);
        target[k->reverse ? n - 1 - i : i] = source[i];
    }
    return BST_OK;
}

static void sum_lengths(void *own, enum bst_part part, int64_t index, int *source, int *target)
{
    const struct task *k = own;
    (void)part;
    (void)index;
    *source = 2 * k->digits + 1;
    *target = k->digits + 1;
}

static void put_number(int64_t x, int digits, int32_t *out)
{
    for (int i = digits - 1; i >= 0; i--, x /= 10)
        out[i] = (int32_t)(x % 10);
}

/* 012+345 gives 7530: leading zeros, and the sum from its last digit on, in the order in which one
 * adds. All pairs of numbers lie in one shuffled row, of which the parts take different pieces: no
 * sum of the evaluation is trained on. */
static enum bst_err sum_pair(void *own, enum bst_part part, int64_t index, int32_t *source,
                             int32_t *target)
{
    const struct task *k = own;
    int64_t place = part == BST_TRAIN ? index : k->n_train + index;
    int64_t both = bst_sampler_index(k->seed, k->numbers * k->numbers, (uint64_t)place, true);
    int64_t a = both / k->numbers, b = both % k->numbers, sum = a + b;
    put_number(a, k->digits, source);
    source[k->digits] = PLUS;
    put_number(b, k->digits, source + k->digits + 1);
    for (int i = 0; i <= k->digits; i++, sum /= 10)
        target[i] = (int32_t)(sum % 10);
    return BST_OK;
}

static const struct bst_token_source copies = {
    .name = "copy", .pair_lengths = row_lengths, .pair = row_pair, .close = close_task};
static const struct bst_token_source reverses = {
    .name = "reverse", .pair_lengths = row_lengths, .pair = row_pair, .close = close_task};
static const struct bst_token_source sums = {
    .name = "addition", .pair_lengths = sum_lengths, .pair = sum_pair, .close = close_task};

static enum bst_err random_run(void *own, enum bst_part part, int64_t index, int skip, int n,
                               int32_t *out)
{
    const struct task *k = own;
    struct bst_rng r;
    bst_rng_init(&r, k->seed, BST_RNG_TASK, (uint64_t)index * 2 + (uint64_t)part);
    for (int i = -skip; i < n; i++) {
        uint32_t word = bst_rng_u32(&r);
        if (i >= 0)
            out[i] = (int32_t)((uint64_t)word * (uint64_t)k->vocab >> 32);
    }
    return BST_OK;
}

static void random_lengths(void *own, enum bst_part part, int64_t index, int *source, int *target)
{
    const struct task *k = own;
    (void)part;
    (void)index;
    *source = *target = k->length - 1;
}

static enum bst_err random_pair(void *own, enum bst_part part, int64_t index, int32_t *source,
                                int32_t *target)
{
    const struct task *k = own;
    BST_TRY(random_run(own, part, index, 0, k->length - 1, source));
    return random_run(own, part, index, k->length - 1, k->length - 1, target);
}

static const struct bst_token_source random_runs = {
    .name = "random", .run = random_run, .close = close_task};
static const struct bst_token_source random_pairs = {
    .name = "random", .pair_lengths = random_lengths, .pair = random_pair, .close = close_task};

static void count(const struct bst_data_cfg *cfg, struct bst_sequences *s)
{
    s->n[BST_TRAIN] = cfg->train_count > 0 ? cfg->train_count : TRAIN_OWN;
    s->n[BST_EVAL] = cfg->eval_count > 0 ? cfg->eval_count : EVAL_OWN;
}

/* s: length, vocabulary, special tokens and counts; the rest is the same for all. */
static void *hand_over(const struct task *made, const struct bst_token_source *source,
                       const struct bst_data_cfg *cfg, struct bst_sequences *s,
                       struct bst_data_info *info)
{
    struct task *own = bst_xalloc(sizeof *own);
    *own = *made;
    s->source = source;
    s->own = own;
    s->input = cfg->input;
    return bst_sequences_new(s, info);
}

/* Of digits. */
static enum bst_err finish(const struct task *made, const struct bst_token_source *source,
                           const struct bst_data_cfg *cfg, struct bst_sequences *s, void **state,
                           struct bst_data_info *info)
{
    BST_TRY(bst_sequences_check(source, cfg, s->length));
    if (cfg->classes && cfg->classes < VOCAB)
        return bst_fail(BST_E_RANGE, "%s: a vocabulary of %d; it has %d", source->name,
                        cfg->classes, VOCAB);
    s->vocab = cfg->classes ? cfg->classes : VOCAB;
    s->special = (struct bst_special){PAD, START, END, PAD};
    *state = hand_over(made, source, cfg, s, info);
    return BST_OK;
}

/* Rows of up to what fits, at least half of that. */
static enum bst_err open_rows(const struct bst_data_cfg *cfg, const struct bst_token_source *source,
                              void **state, struct bst_data_info *info)
{
    int length = cfg->length ? cfg->length : LENGTH_OWN;
    int most = cfg->input == BST_INPUT_NEXT ? (length - 1) / 2 : length - 1;
    struct bst_sequences s = {.length = length};
    count(cfg, &s);
    const struct task k = {.seed = cfg->seed,
                           .most = most,
                           .least = most / 2 ? most / 2 : 1,
                           .reverse = source == &reverses};
    return finish(&k, source, cfg, &s, state, info);
}

static enum bst_err open_random(const struct bst_data_cfg *cfg, void **state,
                                struct bst_data_info *info)
{
    struct task k = {.seed = cfg->seed,
                     .length = cfg->length ? cfg->length : BST_LENGTH_OWN,
                     .vocab = cfg->classes ? cfg->classes : BST_BYTE_VOCAB};
    bool pairs = cfg->input == BST_INPUT_TRANSLATE;
    const struct bst_token_source *source = pairs ? &random_pairs : &random_runs;
    BST_TRY(bst_sequences_check(source, cfg, k.length));
    if (k.vocab < BST_LENGTH_LEAST)
        return bst_fail(BST_E_RANGE, "random: a vocabulary of %d, expected at least %d", k.vocab,
                        BST_LENGTH_LEAST);
    struct bst_sequences s = {.length = k.length, .vocab = k.vocab, .special = {0, 1, 2, 3}};
    count(cfg, &s);
    *state = hand_over(&k, source, cfg, &s, info);
    if (pairs)
        info->each = (struct bst_token_count){.tokens = 2 * k.length, .targets = k.length};
    return BST_OK;
}

static enum bst_err open_copy(const struct bst_data_cfg *cfg, void **state,
                              struct bst_data_info *info)
{
    return open_rows(cfg, &copies, state, info);
}

static enum bst_err open_reverse(const struct bst_data_cfg *cfg, void **state,
                                 struct bst_data_info *info)
{
    return open_rows(cfg, &reverses, state, info);
}

/* A small set of pairs is shared out: a tenth at most, at least one, is for evaluation. */
static enum bst_err share_out(const struct bst_data_cfg *cfg, int64_t all, int64_t n[2])
{
    n[BST_EVAL] = cfg->eval_count > 0 ? cfg->eval_count : all / 10 < EVAL_OWN ? all / 10 : EVAL_OWN;
    if (n[BST_EVAL] < 1 || n[BST_EVAL] >= all)
        return bst_fail(BST_E_RANGE, "addition: %lld pairs of numbers, %lld of them for evaluation",
                        (long long)all, (long long)n[BST_EVAL]);
    int64_t left = all - n[BST_EVAL];
    n[BST_TRAIN] = cfg->train_count > 0 ? cfg->train_count : left < TRAIN_OWN ? left : TRAIN_OWN;
    if (n[BST_TRAIN] > left)
        return bst_fail(BST_E_RANGE,
                        "addition: %lld pairs of numbers are fewer than %lld to train on and %lld "
                        "for evaluation",
                        (long long)all, (long long)n[BST_TRAIN], (long long)n[BST_EVAL]);
    return BST_OK;
}

static enum bst_err open_addition(const struct bst_data_cfg *cfg, void **state,
                                  struct bst_data_info *info)
{
    struct task k = {.seed = cfg->seed, .digits = cfg->digits ? cfg->digits : DIGITS_OWN};
    struct bst_sequences s = {0};
    if (k.digits < 1 || k.digits > DIGITS_MOST)
        return bst_fail(BST_E_RANGE, "addition: numbers of %d digits, expected 1 to %d", k.digits,
                        DIGITS_MOST);
    int source = 2 * k.digits + 1, target = k.digits + 1;
    int own = cfg->input == BST_INPUT_NEXT ? source + target + 1 : source + 1;
    s.length = cfg->length ? cfg->length : own < BST_LENGTH_LEAST ? BST_LENGTH_LEAST : own;
    BST_TRY(bst_sequences_check_pair(cfg->input, s.length, source, target, "addition"));
    k.numbers = 1;
    for (int i = 0; i < k.digits; i++)
        k.numbers *= 10;
    BST_TRY(share_out(cfg, k.numbers * k.numbers, s.n));
    k.n_train = s.n[BST_TRAIN];
    return finish(&k, &sums, cfg, &s, state, info);
}

const struct bst_data_format bst_data_copy = {
    .name = "copy",
    .about = "generated rows of digits, to be repeated; needs no file",
    .open = open_copy,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .measure = bst_sequences_measure,
};

const struct bst_data_format bst_data_reverse = {
    .name = "reverse",
    .about = "generated rows of digits, to be reversed; needs no file",
    .open = open_reverse,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .measure = bst_sequences_measure,
};

const struct bst_data_format bst_data_addition = {
    .name = "addition",
    .about = "generated sums of two numbers; needs no file",
    .open = open_addition,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .measure = bst_sequences_measure,
};

const struct bst_data_format bst_data_random = {
    .name = "random",
    .about = "generated tokens without sense, of any vocabulary; needs no file",
    .open = open_random,
    .close = bst_sequences_close,
    .get_tokens = bst_sequences_get,
    .measure = bst_sequences_measure,
};
