/* Sets of sequences: files of tokens, text, pairs, generated tasks; what is made of them, what is
 * refused, and in which order they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/augment.h"
#include "core/data/bin.h"
#include "core/data/dataset.h"
#include "tests/unit/data_files.h"

enum { MOST = 512 };

/* One sample and where it is put. */
struct sample {
    int32_t tokens[2][MOST], labels[MOST], length[2], pair;
};

static struct bst_dataset *open_set(const struct bst_data_cfg *cfg)
{
    struct bst_dataset *ds = NULL;
    if (bst_dataset_open(cfg, &ds))
        fail_msg("%s", bst_err_text());
    return ds;
}

static void get(const struct bst_dataset *ds, enum bst_part part, int64_t index, uint64_t key,
                struct sample *s)
{
    struct bst_token_sample out = {.tokens = {s->tokens[0], s->tokens[1]},
                                   .length = {&s->length[0], &s->length[1]},
                                   .labels = s->labels,
                                   .pair = &s->pair};
    memset(s, 0x5a, sizeof *s);
    if (bst_dataset_get_tokens(ds, part, index, key, &out))
        fail_msg("%s", bst_err_text());
}

static void write_tokens(const char *dir, const char *name, int n, int width, int from, bool header)
{
    uint8_t *data = bst_xalloc(BST_BIN_HEADER + (size_t)n * 4);
    uint32_t words[3] = {width == 4 ? 20240801 : 20240520, width == 4 ? 7 : 1, (uint32_t)n};
    size_t at = 0;
    if (header) {
        memcpy(data, words, sizeof words);
        at = BST_BIN_HEADER;
    }
    for (int i = 0; i < n; i++, at += (size_t)width) {
        uint32_t t = (uint32_t)(from + i);
        memcpy(data + at, &t, (size_t)width);
    }
    files_write(dir, name, data, at);
    bst_free(data);
}

static void check_windows(const struct bst_dataset *ds, enum bst_part part, int64_t first,
                          int64_t n, int from)
{
    struct sample s;
    for (int64_t i = 0; i < n; i++) {
        get(ds, part, first + i, 0, &s);
        assert_int_equal(s.length[0], 8);
        for (int k = 0; k < 8; k++) {
            assert_int_equal(s.tokens[0][k], from + 8 * i + k);
            assert_int_equal(s.labels[k], from + 8 * i + k + 1);
        }
    }
}

static void files_of_tokens_are_cut_into_windows(void **state)
{
    static const struct {
        int width, given;
        bool header;
    } kinds[] = {{2, 0, false}, {2, 2, true}, {4, 4, false}, {4, 0, true}};
    const char *dir = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct bst_data_cfg cfg = {.format = "tokens",
                                   .input = BST_INPUT_NEXT,
                                   .path = dir,
                                   .length = 8,
                                   .token_bytes = kinds[i].given};
        /* 81 tokens are 10 windows and the token behind the last; 80 are 9. */
        write_tokens(dir, "x_train_000001.bin", 81, kinds[i].width, 0, kinds[i].header);
        write_tokens(dir, "x_train_000002.bin", 80, kinds[i].width, 200, kinds[i].header);
        write_tokens(dir, "x_val_000000.bin", 17, kinds[i].width, 400, kinds[i].header);
        struct bst_dataset *ds = open_set(&cfg);
        const struct bst_data_info *info = bst_dataset_info(ds);
        assert_int_equal(info->n[BST_TRAIN], 19);
        assert_int_equal(info->n[BST_EVAL], 2);
        assert_int_equal(info->streams, 1);
        assert_int_equal(info->length[0], 8);
        assert_int_equal(info->n_labels, 8);
        assert_int_equal(info->classes, 417);
        assert_false(info->padded);
        check_windows(ds, BST_TRAIN, 0, 10, 0);
        check_windows(ds, BST_TRAIN, 10, 9, 200);
        check_windows(ds, BST_EVAL, 0, 2, 400);
        struct bst_token_count c = bst_dataset_count(ds, BST_TRAIN, 3);
        assert_int_equal(c.tokens, 8);
        assert_int_equal(c.targets, 8);
        bst_dataset_close(ds);
    }
}

static void one_file_is_cut_in_two(void **state)
{
    char *path = bst_xasprintf("%s/all.bin", (const char *)*state);
    struct bst_data_cfg cfg = {
        .format = "tokens", .input = BST_INPUT_NEXT, .path = path, .length = 8, .classes = 1000};
    write_tokens(*state, "all.bin", 400, 2, 0, false);
    struct bst_dataset *ds = open_set(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], 44);
    assert_int_equal(info->n[BST_EVAL], 4);
    assert_int_equal(info->classes, 1000);
    check_windows(ds, BST_TRAIN, 0, 44, 0);
    check_windows(ds, BST_EVAL, 0, 4, 360);
    bst_dataset_close(ds);
    bst_free(path);
}

static void must_refuse(const struct bst_data_cfg *cfg, enum bst_err err, const char *words)
{
    struct bst_dataset *ds = NULL;
    size_t held = bst_alloc_held();
    enum bst_err got = bst_dataset_open(cfg, &ds);
    if (got != err || !strstr(bst_err_text(), words))
        fail_msg("%s: %s, expected %s: …%s…", bst_err_name(got), got ? bst_err_text() : "",
                 bst_err_name(err), words);
    assert_null(ds);
    assert_int_equal(bst_alloc_held(), held);
}

static void bad_files_of_tokens_are_refused(void **state)
{
    static const struct {
        int n, width, given, classes, cut; /* cut: bytes left; 0: all */
        bool header;
        enum bst_err err;
        const char *words;
    } rows[] = {
        {100, 2, 0, 0, 199, false, BST_E_CORRUPT, "train.bin: 199 bytes are not whole tokens of 2"},
        {100, 4, 4, 0, 398, false, BST_E_CORRUPT, "train.bin: 398 bytes are not whole tokens of 4"},
        {100, 2, 0, 0, 1200, true, BST_E_CORRUPT, "tells of 100 tokens of 2 bytes, 176 bytes"},
        {100, 2, 0, 0, 1000, true, BST_E_CORRUPT, "cut short within its header"},
        {100, 4, 0, 0, 1423, true, BST_E_CORRUPT, "cut short"},
        {0, 2, 0, 0, 0, false, BST_E_CORRUPT, "train.bin: empty"},
        {8, 2, 0, 0, 0, false, BST_E_RANGE, "too few tokens for training: a sample takes 9"},
        {100, 2, 0, 50, 0, false, BST_E_CORRUPT,
         "train.bin: token 50 is 50, the vocabulary has 50"},
        {100, 4, 4, 99, 0, false, BST_E_CORRUPT,
         "train.bin: token 99 is 99, the vocabulary has 99"},
        {100, 2, 3, 0, 0, false, BST_E_ARG, "tokens of 3 bytes"},
    };
    const char *dir = *state;
    write_tokens(dir, "val.bin", 100, 2, 0, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bst_data_cfg cfg = {.format = "tokens",
                                   .input = BST_INPUT_NEXT,
                                   .path = dir,
                                   .length = 8,
                                   .token_bytes = rows[i].given,
                                   .classes = rows[i].classes};
        write_tokens(dir, "train.bin", rows[i].n, rows[i].width, 0, rows[i].header);
        if (rows[i].cut)
            files_cut(dir, "train.bin", (size_t)rows[i].cut);
        must_refuse(&cfg, rows[i].err, rows[i].words);
    }
    struct bst_data_cfg cfg = {
        .format = "tokens", .input = BST_INPUT_NEXT, .path = dir, .length = 8};
    write_tokens(dir, "train.bin", 100, 4, 0, true);
    write_tokens(dir, "other.bin", 100, 2, 0, false);
    must_refuse(&cfg, BST_E_ARG, "other.bin: neither train nor val");
    cfg.path = NULL;
    must_refuse(&cfg, BST_E_ARG, "data.path");
    cfg.path = "/nowhere";
    must_refuse(&cfg, BST_E_NOTFOUND, "/nowhere");
    cfg.input = BST_INPUT_TRANSLATE;
    must_refuse(&cfg, BST_E_ARG, "has no pairs");
    cfg.input = BST_INPUT_NEXT;
    cfg.length = 3;
    must_refuse(&cfg, BST_E_RANGE, "sequences of 3 tokens");
    uint8_t next[BST_BIN_HEADER] = {0xc8, 0xd9, 0x34, 0x01, 2};
    uint32_t magic = 20240520;
    memcpy(next, &magic, 4);
    files_write(dir, "train.bin", next, sizeof next);
    cfg.length = 8;
    cfg.path = dir;
    char *other = bst_xasprintf("%s/other.bin", dir);
    remove(other);
    bst_free(other);
    must_refuse(&cfg, BST_E_UNSUPPORTED, "version 2, not 1");
}

/* What comes after the start: a file that shrinks or is written over under the run. */
static void what_changes_under_the_run_is_told(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {
        .format = "tokens", .input = BST_INPUT_NEXT, .path = dir, .length = 8, .classes = 1000};
    int32_t out[2][MOST], length[2], labels[MOST], pair;
    struct bst_token_sample to = {{out[0], out[1]}, {&length[0], &length[1]}, labels, &pair};
    write_tokens(dir, "train.bin", 100, 2, 0, false);
    write_tokens(dir, "val.bin", 100, 2, 0, false);
    struct bst_dataset *ds = open_set(&cfg);
    files_cut(dir, "train.bin", 100);
    assert_int_equal(bst_dataset_get_tokens(ds, BST_TRAIN, 6, 0, &to), BST_E_CORRUPT);
    assert_non_null(strstr(bst_err_text(), "train.bin: ends at token 50 of 100"));
    bst_dataset_close(ds);
}

static void text_is_bytes(void **state)
{
    /* 41 bytes, of which the last tenth, from byte 37 on, would begin within é */
    static const char text[] = "0123456789012345678901234567890123\xc3\xa9\xc3\xa9z12";
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "text", .input = BST_INPUT_NEXT, .path = dir, .length = 4};
    struct sample s;
    assert_int_equal(strlen(text), 41);
    files_write(dir, "a.txt", text, 41);
    files_write(dir, "b.txt", text, 41);
    struct bst_dataset *ds = open_set(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->classes, 256);
    assert_int_equal(info->n[BST_TRAIN], (2 * 36 - 5) / 4 + 1);
    assert_int_equal(info->n[BST_EVAL], 2);
    get(ds, BST_TRAIN, 8, 0, &s);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s.tokens[0][i], (uint8_t)text[32 + i]);
    /* Behind a.txt's é comes b.txt's 0. */
    assert_int_equal(s.labels[3], '0');
    get(ds, BST_EVAL, 0, 0, &s);
    assert_int_equal(s.tokens[0][0], 0xc3);
    assert_int_equal(s.tokens[0][1], 0xa9);
    assert_int_equal(s.tokens[0][2], 'z');
    assert_int_equal(s.labels[3], '2');
    get(ds, BST_EVAL, 1, 0, &s);
    assert_int_equal(s.tokens[0][0], '2');
    assert_int_equal(s.tokens[0][1], 0xc3);
    bst_dataset_close(ds);
}

static void bad_text_is_refused(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "text", .input = BST_INPUT_NEXT, .path = dir, .length = 8};
    must_refuse(&cfg, BST_E_NOTFOUND, "no text file");
    files_write(dir, "t",
                "one\ntwo\nthr\xe9"
                "e\nfour four four",
                27);
    must_refuse(&cfg, BST_E_CORRUPT, "/t:3: byte 11, 0xE9, is not UTF-8");
    files_write(dir, "t", "one\ntwo\nthr\xc3", 12);
    must_refuse(&cfg, BST_E_CORRUPT, "/t:3: byte 11, 0xC3, is not UTF-8");
    files_write(dir, "t", "", 0);
    must_refuse(&cfg, BST_E_CORRUPT, "/t: empty");
    files_write(dir, "t", "0123456789", 10);
    must_refuse(&cfg, BST_E_RANGE, "1 bytes for evaluation are too few, a sample takes 9");
    cfg.classes = 255;
    must_refuse(&cfg, BST_E_RANGE, "vocabulary of 255");
    cfg.path = "/nowhere";
    must_refuse(&cfg, BST_E_RANGE, "vocabulary of 255");
    cfg.classes = 0;
    must_refuse(&cfg, BST_E_NOTFOUND, "/nowhere");
}

static void put_text(const char *dir, const char *name, const char *text)
{
    files_write(dir, name, text, strlen(text));
}

static void pairs_are_translated(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = dir,
                               .languages = "en-de",
                               .length = 8,
                               .input = BST_INPUT_TRANSLATE};
    struct sample s;
    enum { PAD = 256, START, END };
    put_text(dir, "train.en", "abc\nde\r\nf");
    put_text(dir, "train.de", "XY\nZ\nUVW\n");
    put_text(dir, "val.en", "q\n");
    put_text(dir, "val.de", "Q\n");
    struct bst_dataset *ds = open_set(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], 3);
    assert_int_equal(info->n[BST_EVAL], 1);
    assert_int_equal(info->streams, 2);
    assert_int_equal(info->classes, 260);
    assert_true(info->padded);
    get(ds, BST_TRAIN, 0, 0, &s);
    static const int32_t from[] = {'a', 'b', 'c', END, PAD, PAD, PAD, PAD};
    static const int32_t to[] = {START, 'X', 'Y', PAD, PAD, PAD, PAD, PAD};
    static const int32_t labels[] = {'X', 'Y', END, -100, -100, -100, -100, -100};
    assert_memory_equal(s.tokens[0], from, sizeof from);
    assert_memory_equal(s.tokens[1], to, sizeof to);
    assert_memory_equal(s.labels, labels, sizeof labels);
    assert_int_equal(s.length[0], 4);
    assert_int_equal(s.length[1], 3);
    get(ds, BST_TRAIN, 1, 0, &s);
    assert_int_equal(s.tokens[0][1], 'e');
    assert_int_equal(s.tokens[0][2], END);
    get(ds, BST_TRAIN, 2, 0, &s);
    assert_int_equal(s.tokens[0][0], 'f');
    assert_int_equal(s.length[0], 2);
    struct bst_token_count c = bst_dataset_count(ds, BST_TRAIN, 2);
    assert_int_equal(c.tokens, 6);
    assert_int_equal(c.targets, 4);
    bst_dataset_close(ds);

    /* In one stream, and evaluation from the end of the same files. */
    static const int32_t row[] = {'a', 'b', 'c', START, 'X', 'Y', PAD, PAD};
    static const int32_t next[] = {-100, -100, -100, 'X', 'Y', END, -100, -100};
    char *val = bst_xasprintf("%s/val.en", dir);
    remove(val);
    bst_free(val);
    cfg.input = BST_INPUT_NEXT;
    ds = open_set(&cfg);
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], 2);
    assert_int_equal(bst_dataset_info(ds)->n[BST_EVAL], 1);
    get(ds, BST_TRAIN, 0, 0, &s);
    assert_memory_equal(s.tokens[0], row, sizeof row);
    assert_memory_equal(s.labels, next, sizeof next);
    assert_int_equal(s.length[0], 6);
    get(ds, BST_EVAL, 0, 0, &s);
    assert_int_equal(s.tokens[0][0], 'f');
    bst_dataset_close(ds);
}

static void bad_pairs_are_refused(void **state)
{
    static const struct {
        const char *en, *de, *languages;
        enum bst_err err;
        const char *words;
    } rows[] = {
        {"a\nb\nc\n", "A\nB\n", "en-de", BST_E_CORRUPT, "train.en has 3 lines, "},
        {"a\n\nc\n", "A\nB\nC\n", "en-de", BST_E_CORRUPT, "train.en:2: an empty line"},
        {"a\nb\nc\n", "A\nB\n\r\n", "en-de", BST_E_CORRUPT, "train.de:3: an empty line"},
        {"a\nb\xff\nc\n", "A\nB\nC\n", "en-de", BST_E_CORRUPT, "train.en:2: byte 3, 0xFF"},
        {"a\nb\n01234567\n", "A\nB\nC\n", "en-de", BST_E_RANGE,
         "train.en:3: a source of 8 and a target of 1 tokens need sequences of 9, the net takes 8"},
        {"a\nb\n", "A\n01234567\n", "en-de", BST_E_RANGE, "train.en:2: a source of 1"},
        {"a\n", "A\n", "en-de", BST_E_RANGE, "leaves nothing for evaluation"},
        {"", "A\n", "en-de", BST_E_CORRUPT, "train.en: empty"},
        {"a\n", "A\n", "en-fr", BST_E_NOTFOUND, "train.fr"},
        {"a\n", "A\n", "en", BST_E_ARG, "data.languages"},
        {"a\n", "A\n", "-de", BST_E_ARG, "data.languages"},
        {"a\n", "A\n", "en-../de", BST_E_ARG, "data.languages"},
    };
    const char *dir = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bst_data_cfg cfg = {.format = "pairs",
                                   .path = dir,
                                   .languages = rows[i].languages,
                                   .length = 8,
                                   .input = BST_INPUT_TRANSLATE};
        put_text(dir, "train.en", rows[i].en);
        put_text(dir, "train.de", rows[i].de);
        must_refuse(&cfg, rows[i].err, rows[i].words);
    }
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = dir,
                               .languages = "en-de",
                               .length = 8,
                               .input = BST_INPUT_MASKED};
    must_refuse(&cfg, BST_E_ARG, "pairs cannot be masked");
}

static void rows_are_copied_and_reversed(void **state)
{
    (void)state;
    for (int reverse = 0; reverse <= 1; reverse++) {
        struct bst_data_cfg cfg = {.format = reverse ? "reverse" : "copy",
                                   .length = 12,
                                   .seed = 5,
                                   .input = BST_INPUT_TRANSLATE};
        struct bst_dataset *ds = open_set(&cfg);
        int seen[13] = {0}, digits[10] = {0};
        struct sample s, again;
        for (int64_t i = 0; i < 500; i++) {
            get(ds, i % 2 ? BST_EVAL : BST_TRAIN, i, 0, &s);
            int n = s.length[0] - 1;
            assert_int_equal(s.length[1], n + 1);
            seen[n]++;
            for (int k = 0; k < n; k++) {
                assert_int_equal(s.labels[k], s.tokens[0][reverse ? n - 1 - k : k]);
                digits[s.tokens[0][k]]++;
            }
            get(ds, i % 2 ? BST_EVAL : BST_TRAIN, i, 99, &again);
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
    struct bst_dataset *ds = open_set(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    struct sample s;
    assert_int_equal(info->length[0], 12);
    assert_int_equal(info->n[BST_TRAIN], 100000);
    assert_int_equal(info->n[BST_EVAL], 2000);
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < info->n[part]; i += part ? 1 : 1) {
            get(ds, (enum bst_part)part, i, 0, &s);
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
    must_refuse(&cfg, BST_E_RANGE, "100 pairs of numbers are fewer than 90");
    cfg.digits = 10;
    must_refuse(&cfg, BST_E_RANGE, "numbers of 10 digits");
    cfg.digits = 3;
    cfg.length = 11;
    must_refuse(&cfg, BST_E_RANGE, "need sequences of 12, the net takes 11");
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
    struct sample s, again;
    write_tokens(dir, "train.bin", N, 2, 0, false);
    write_tokens(dir, "val.bin", 100, 2, 0, false);
    struct bst_dataset *ds = open_set(&cfg);
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], N / (LENGTH - 3));
    assert_int_equal(bst_dataset_count(ds, BST_TRAIN, 0).targets, HIDDEN);
    for (int64_t i = 0; i < N / (LENGTH - 3); i++, n++) {
        int hidden = 0, b = 0;
        get(ds, BST_TRAIN, i, 77, &s);
        get(ds, BST_TRAIN, i, 77, &again);
        assert_memory_equal(&s, &again, sizeof s);
        get(ds, BST_TRAIN, i, 78, &again);
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
    must_refuse(&cfg, BST_E_RANGE, "data.special_tokens: 30000 is not in a vocabulary of 30000");
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
        put_text(dir, k ? "train.de" : "train.en", text[k]);
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
        struct bst_dataset *ds = open_set(&cfg);
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
        struct sample s;
        get(ds, BST_TRAIN, b->index[i], 0, &s);
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
            struct bst_dataset *ds = open_set(&cfg);
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
                struct sample s;
                int64_t tokens, targets, counted = 0, n_tokens = 0;
                bst_loader_ask(l, first, 70);
                assert_int_equal(bst_loader_take(l, first, 70, NULL, &b), BST_OK);
                assert_null(b.images);
                assert_int_equal(b.lengths[0] != NULL, info->padded);
                for (int i = 0; i < 70; i++) {
                    uint64_t epoch = (first + (uint64_t)i) / (uint64_t)info->n[BST_TRAIN];
                    int64_t index = bst_order_index(o, first + (uint64_t)i);
                    assert_int_equal(b.index[i], index);
                    get(ds, BST_TRAIN, index, bst_augment_key(4, epoch, index), &s);
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
        WITH_FOLDER(files_of_tokens_are_cut_into_windows),
        WITH_FOLDER(one_file_is_cut_in_two),
        WITH_FOLDER(bad_files_of_tokens_are_refused),
        WITH_FOLDER(what_changes_under_the_run_is_told),
        WITH_FOLDER(text_is_bytes),
        WITH_FOLDER(bad_text_is_refused),
        WITH_FOLDER(pairs_are_translated),
        WITH_FOLDER(bad_pairs_are_refused),
        cmocka_unit_test(rows_are_copied_and_reversed),
        cmocka_unit_test(sums_are_right_and_kept_apart),
        WITH_FOLDER(masks_are_as_berts),
        WITH_FOLDER(like_lengths_come_together),
        WITH_FOLDER(batches_hold_their_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
