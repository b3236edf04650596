/* Generated sequences, what is hidden in them, in which order they come, and batches of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/data/augment.h"
#include "tests/unit/data_sequences.h"

static void rows_are_copied_and_reversed(void **state)
{
    (void)state;
    for (int reverse = 0; reverse <= 1; reverse++) {
        struct bst_data_cfg cfg = {.format = reverse ? "reverse" : "copy",
                                   .length = 12,
                                   .seed = 5,
                                   .input = BST_INPUT_TRANSLATE};
        struct bst_dataset *ds = sequence_open(&cfg);
        int seen[13] = {0}, digits[10] = {0};
        struct sequence_sample s, again;
        for (int64_t i = 0; i < 500; i++) {
            sequence_get(ds, i % 2 ? BST_EVAL : BST_TRAIN, i, 0, &s);
            int n = s.length[0] - 1;
            assert_int_equal(s.length[1], n + 1);
            seen[n]++;
            for (int k = 0; k < n; k++) {
                assert_int_equal(s.labels[k], s.tokens[0][reverse ? n - 1 - k : k]);
                digits[s.tokens[0][k]]++;
            }
            sequence_get(ds, i % 2 ? BST_EVAL : BST_TRAIN, i, 99, &again);
            assert_memory_equal(&s, &again, sizeof s);
        }
        for (int n = 1; n <= 12; n++)
            assert_int_equal(seen[n] > 0, n >= 5 && n <= 11);
        for (int d = 0; d < 10; d++)
            assert_true(digits[d] > 200);
        bst_dataset_close(ds);
    }
}

static void sums_are_right_and_kept_apart(void **state)
{
    static bool seen[1000000];
    (void)state;
    struct bst_data_cfg cfg = {.format = "addition", .input = BST_INPUT_NEXT, .seed = 1};
    struct bst_dataset *ds = sequence_open(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    struct sequence_sample s;
    assert_int_equal(info->length[0], 12);
    assert_int_equal(info->n[BST_TRAIN], 100000);
    assert_int_equal(info->n[BST_EVAL], 2000);
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < info->n[part]; i++) {
            sequence_get(ds, (enum bst_part)part, i, 0, &s);
            const int32_t *t = s.tokens[0];
            int a = t[0] * 100 + t[1] * 10 + t[2], b = t[4] * 100 + t[5] * 10 + t[6];
            int sum = s.labels[7] + 10 * s.labels[8] + 100 * s.labels[9] + 1000 * s.labels[10];
            assert_int_equal(sum, a + b);
            assert_int_equal(s.labels[6], BST_TOKEN_IGNORED);
            assert_int_equal(s.labels[11], info->special.end);
            assert_false(seen[a * 1000 + b]);
            seen[a * 1000 + b] = true;
        }
    bst_dataset_close(ds);
    cfg.digits = 1;
    cfg.train_count = 90;
    cfg.eval_count = 11;
    sequence_refused(&cfg, BST_E_RANGE, "100 pairs of numbers are fewer than 90");
    cfg.digits = 10;
    sequence_refused(&cfg, BST_E_RANGE, "numbers of 10 digits");
    cfg.digits = 3;
    cfg.length = 11;
    sequence_refused(&cfg, BST_E_RANGE, "need sequences of 12, the net takes 11");
}

/* Devlin et al.: structure, 15 %, and 80/10/10 over many samples. */
static void masks_are_as_berts(void **state)
{
    const char *dir = *state;
    enum { N = 20000, LENGTH = 43, HIDDEN = 6, VOCAB = 30000 };
    struct bst_data_cfg cfg = {.format = "tokens",
                               .path = dir,
                               .length = LENGTH,
                               .classes = VOCAB,
                               .special = {VOCAB - 4, VOCAB - 3, VOCAB - 2, VOCAB - 1},
                               .input = BST_INPUT_MASKED};
    int masked = 0, kept = 0, other = 0, pairs = 0, n = 0;
    struct sequence_sample s, again;
    sequence_write_tokens(dir, "train.bin", N, 2, 0, false);
    sequence_write_tokens(dir, "val.bin", 100, 2, 0, false);
    struct bst_dataset *ds = sequence_open(&cfg);
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], N / (LENGTH - 3));
    assert_int_equal(bst_dataset_count(ds, BST_TRAIN, 0).targets, HIDDEN);
    for (int64_t i = 0; i < N / (LENGTH - 3); i++, n++) {
        int hidden = 0, b = 0;
        sequence_get(ds, BST_TRAIN, i, 77, &s);
        sequence_get(ds, BST_TRAIN, i, 77, &again);
        assert_memory_equal(&s, &again, sizeof s);
        sequence_get(ds, BST_TRAIN, i, 78, &again);
        assert_memory_not_equal(s.labels, again.labels, sizeof s.labels);
        while (!s.tokens[1][b])
            b++;
        assert_in_range(b, 10 + 2, 31 + 2);
        assert_int_equal(s.tokens[0][0], VOCAB - 3);
        assert_int_equal(s.tokens[0][b - 1], VOCAB - 2);
        assert_int_equal(s.tokens[0][LENGTH - 1], VOCAB - 2);
        /* What was there: consecutive numbers in A, and on into B where it follows. */
        int first = (int)(i * (LENGTH - 3));
        int far = s.labels[b] >= 0 ? s.labels[b] : s.tokens[0][b];
        pairs += s.pair;
        assert_int_equal(s.pair, far != first + b - 2);
        for (int k = 0; k < LENGTH; k++) {
            int was = k > 0 && k < b - 1         ? first + k - 1
                      : k >= b && k < LENGTH - 1 ? far + k - b
                                                 : s.tokens[0][k];
            if (s.labels[k] == BST_TOKEN_IGNORED) {
                assert_int_equal(s.tokens[0][k], was);
                continue;
            }
            hidden++;
            assert_int_equal(s.labels[k], was);
            masked += s.tokens[0][k] == VOCAB - 1;
            kept += s.tokens[0][k] == was;
            other += s.tokens[0][k] != was && s.tokens[0][k] != VOCAB - 1;
        }
        assert_int_equal(hidden, HIDDEN);
    }
    int all = masked + kept + other;
    assert_int_equal(all, n * HIDDEN);
    /* Four deviations of 3000 draws. */
    assert_in_range(masked * 1000 / all, 770, 830);
    assert_in_range(kept * 1000 / all, 78, 122);
    assert_in_range(pairs * 100 / n, 40, 60);
    bst_dataset_close(ds);
    cfg.special = (struct bst_special){0, 1, 2, VOCAB};
    sequence_refused(&cfg, BST_E_RANGE,
                     "data.special_tokens: 30000 is not in a vocabulary of 30000");
}

/* Lines of 1 to 60 bytes, 3000 of them. */
static void write_lines(const char *dir)
{
    enum { N = 3000 };
    char *text[2];
    for (int k = 0; k < 2; k++) {
        text[k] = bst_xalloc(N * 62 + 1);
        char *at = text[k];
        for (int i = 0; i < N; i++) {
            int n = 1 + (i * 37 + i / 60 * 11 + 7 * k) % 60;
            memset(at, 'a' + i % 26, (size_t)n);
            at[n] = '\n';
            at += n + 1;
        }
        sequence_write_text(dir, k ? "train.de" : "train.en", text[k]);
        bst_free(text[k]);
    }
}

static void like_lengths_come_together(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = dir,
                               .languages = "en-de",
                               .length = 64,
                               .input = BST_INPUT_TRANSLATE};
    double padding[2] = {0, 0};
    write_lines(dir);
    for (int bucket = 0; bucket <= 1; bucket++) {
        cfg.bucket = bucket;
        struct bst_dataset *ds = sequence_open(&cfg);
        int64_t n = bst_dataset_info(ds)->n[BST_TRAIN];
        struct bst_order *o = bst_order_new(ds, BST_TRAIN, true, 9);
        struct bst_order *other = bst_order_new(ds, BST_TRAIN, true, 9);
        uint8_t *seen = bst_xalloc((size_t)n);
        int same = 0;
        for (uint64_t p = 0; p < 2 * (uint64_t)n; p++) {
            int64_t i = bst_order_index(o, p);
            assert_in_range(i, 0, n - 1);
            assert_int_equal(seen[i], p / (uint64_t)n);
            seen[i]++;
            same += p >= (uint64_t)n && i == bst_order_index(o, p - (uint64_t)n);
            /* Another way through the stream comes to the same. */
            uint64_t q = p * 1009 % (2 * (uint64_t)n);
            if (p % 50 == 0)
                assert_int_equal(bst_order_index(other, q), bst_order_index(o, q));
        }
        assert_true(same < 20);
        for (uint64_t p = 0; p + 32 <= (uint64_t)n; p += 32) {
            int most = 0, sum = 0;
            for (uint64_t k = 0; k < 32; k++) {
                int t = bst_dataset_count(ds, BST_TRAIN, bst_order_index(o, p + k)).tokens;
                most = t > most ? t : most;
                sum += t;
            }
            padding[bucket] += 32 * most - sum;
        }
        bst_order_free(o);
        bst_order_free(other);
        bst_free(seen);
        bst_dataset_close(ds);
    }
    assert_true(padding[1] < 0.2 * padding[0]);
}

/* Rows cut to the longest of a batch begin as they did, and nothing but padding is behind. */
static void check_cut(struct bst_loader *l, struct bst_dataset *ds, struct bst_batch *b)
{
    const struct bst_data_info *info = bst_dataset_info(ds);
    int longest = 1;
    for (int k = 0; k < info->streams; k++)
        for (int i = 0; i < b->n; i++)
            longest = b->lengths[k][i] > longest ? b->lengths[k][i] : longest;
    assert_true(longest < b->length);
    bst_loader_cut(l, b, longest);
    assert_int_equal(b->length, longest);
    for (int i = 0; i < b->n; i++) {
        struct sequence_sample s;
        sequence_get(ds, BST_TRAIN, b->index[i], 0, &s);
        for (int k = 0; k < info->streams; k++)
            assert_memory_equal(s.tokens[k], b->tokens[k] + longest * i, (size_t)longest * 4);
        assert_memory_equal(s.labels, b->labels + longest * i, (size_t)longest * 4);
        for (int k = longest; k < info->n_labels; k++)
            assert_int_equal(s.labels[k], BST_TOKEN_IGNORED);
    }
}

/* Whatever the threads, a batch holds what get gives for each sample, and as many labels as were
 * counted beforehand. */
static void batches_hold_their_samples(void **state)
{
    const char *dir = *state;
    static const char *const formats[] = {"pairs", "reverse", "text"};
    write_lines(dir);
    for (int f = 0; f < 3; f++)
        for (int threads = 0; threads <= 2; threads++) {
            struct bst_data_cfg cfg = {.format = formats[f],
                                       .path = f == 1 ? NULL : dir,
                                       .languages = "en-de",
                                       .length = 128,
                                       .bucket = true,
                                       .input = f == 2 ? BST_INPUT_MASKED
                                                : f    ? BST_INPUT_NEXT
                                                       : BST_INPUT_TRANSLATE};
            struct bst_dataset *ds = sequence_open(&cfg);
            const struct bst_data_info *info = bst_dataset_info(ds);
            struct bst_loader_cfg lc = {.ds = ds,
                                        .part = BST_TRAIN,
                                        .shuffle = true,
                                        .seed = 4,
                                        .max_batch = 70,
                                        .slots = 2,
                                        .threads = threads};
            struct bst_loader *l = NULL;
            struct bst_order *o = bst_order_new(ds, BST_TRAIN, true, 4);
            assert_int_equal(bst_loader_new(&lc, &l), BST_OK);
            assert_int_equal(bst_loader_bytes(l), bst_loader_bytes_for(&lc));
            for (uint64_t first = 0; first < 700; first += 70) {
                struct bst_batch b;
                struct sequence_sample s;
                int64_t tokens, targets, counted = 0, n_tokens = 0;
                bst_loader_ask(l, first, 70);
                assert_int_equal(bst_loader_take(l, first, 70, NULL, &b), BST_OK);
                assert_null(b.images);
                assert_int_equal(b.lengths[0] != NULL, info->padded);
                for (int i = 0; i < 70; i++) {
                    uint64_t epoch = (first + (uint64_t)i) / (uint64_t)info->n[BST_TRAIN];
                    int64_t index = bst_order_index(o, first + (uint64_t)i);
                    assert_int_equal(b.index[i], index);
                    sequence_get(ds, BST_TRAIN, index, bst_augment_key(4, epoch, index), &s);
                    for (int k = 0; k < info->streams; k++) {
                        assert_memory_equal(s.tokens[k], b.tokens[k] + 128 * i, 128 * 4);
                        if (info->padded)
                            assert_int_equal(b.lengths[k][i], s.length[k]);
                        n_tokens += f == 2 && k ? 0 : s.length[k];
                    }
                    assert_memory_equal(s.labels, b.labels + 128 * i, 128 * 4);
                    assert_int_equal(b.pair[i], s.pair);
                    for (int k = 0; k < 128; k++)
                        counted += s.labels[k] != BST_TOKEN_IGNORED;
                }
                bst_order_count(o, first, 70, &tokens, &targets);
                assert_int_equal(targets, counted);
                assert_int_equal(tokens, n_tokens);
                assert_int_equal(b.length, info->padded ? 128 : 0);
                if (f == 0)
                    check_cut(l, ds, &b);
                bst_loader_give_back(l, &b);
            }
            bst_loader_free(l);
            bst_order_free(o);
            bst_dataset_close(ds);
        }
    assert_int_equal(bst_alloc_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_copied_and_reversed),
        cmocka_unit_test(sums_are_right_and_kept_apart),
        WITH_FOLDER(masks_are_as_berts),
        WITH_FOLDER(like_lengths_come_together),
        WITH_FOLDER(batches_hold_their_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
