/* Sets of sequences from files: tokens, text, pairs; and what of them is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "tests/unit/data_sequences.h"

static void check_windows(const struct bst_dataset *ds, enum bst_part part, int64_t first,
                          int64_t n, int from)
{
    struct sequence_sample s;
    for (int64_t i = 0; i < n; i++) {
        sequence_get(ds, part, first + i, 0, &s);
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
        sequence_write_tokens(dir, "x_train_000001.bin", 81, kinds[i].width, 0, kinds[i].header);
        sequence_write_tokens(dir, "x_train_000002.bin", 80, kinds[i].width, 200, kinds[i].header);
        sequence_write_tokens(dir, "x_val_000000.bin", 17, kinds[i].width, 400, kinds[i].header);
        struct bst_dataset *ds = sequence_open(&cfg);
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
    sequence_write_tokens(*state, "all.bin", 400, 2, 0, false);
    struct bst_dataset *ds = sequence_open(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], 44);
    assert_int_equal(info->n[BST_EVAL], 4);
    assert_int_equal(info->classes, 1000);
    check_windows(ds, BST_TRAIN, 0, 44, 0);
    check_windows(ds, BST_EVAL, 0, 4, 360);
    bst_dataset_close(ds);
    bst_free(path);
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
    sequence_write_tokens(dir, "val.bin", 100, 2, 0, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bst_data_cfg cfg = {.format = "tokens",
                                   .input = BST_INPUT_NEXT,
                                   .path = dir,
                                   .length = 8,
                                   .token_bytes = rows[i].given,
                                   .classes = rows[i].classes};
        sequence_write_tokens(dir, "train.bin", rows[i].n, rows[i].width, 0, rows[i].header);
        if (rows[i].cut)
            files_cut(dir, "train.bin", (size_t)rows[i].cut);
        sequence_refused(&cfg, rows[i].err, rows[i].words);
    }
    struct bst_data_cfg cfg = {
        .format = "tokens", .input = BST_INPUT_NEXT, .path = dir, .length = 8};
    sequence_write_tokens(dir, "train.bin", 100, 4, 0, true);
    sequence_write_tokens(dir, "other.bin", 100, 2, 0, false);
    sequence_refused(&cfg, BST_E_ARG, "other.bin: neither train nor val");
    cfg.path = NULL;
    sequence_refused(&cfg, BST_E_ARG, "data.path");
    cfg.path = "/nowhere";
    sequence_refused(&cfg, BST_E_NOTFOUND, "/nowhere");
    cfg.input = BST_INPUT_TRANSLATE;
    sequence_refused(&cfg, BST_E_ARG, "has no pairs");
    cfg.input = BST_INPUT_NEXT;
    cfg.length = 3;
    sequence_refused(&cfg, BST_E_RANGE, "sequences of 3 tokens");
    uint8_t next[BST_BIN_HEADER] = {0xc8, 0xd9, 0x34, 0x01, 2};
    uint32_t magic = 20240520;
    memcpy(next, &magic, 4);
    files_write(dir, "train.bin", next, sizeof next);
    cfg.length = 8;
    cfg.path = dir;
    char *other = bst_xasprintf("%s/other.bin", dir);
    remove(other);
    bst_free(other);
    sequence_refused(&cfg, BST_E_UNSUPPORTED, "version 2, not 1");
}

/* What comes after the start: a file that shrinks or is written over under the run. */
static void what_changes_under_the_run_is_told(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {
        .format = "tokens", .input = BST_INPUT_NEXT, .path = dir, .length = 8, .classes = 1000};
    int32_t out[2][SEQUENCE_MOST], length[2], labels[SEQUENCE_MOST], pair;
    struct bst_token_sample to = {{out[0], out[1]}, {&length[0], &length[1]}, labels, &pair};
    sequence_write_tokens(dir, "train.bin", 100, 2, 0, false);
    sequence_write_tokens(dir, "val.bin", 100, 2, 0, false);
    struct bst_dataset *ds = sequence_open(&cfg);
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
    struct sequence_sample s;
    assert_int_equal(strlen(text), 41);
    files_write(dir, "a.txt", text, 41);
    files_write(dir, "b.txt", text, 41);
    struct bst_dataset *ds = sequence_open(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->classes, 256);
    assert_int_equal(info->n[BST_TRAIN], (2 * 36 - 5) / 4 + 1);
    assert_int_equal(info->n[BST_EVAL], 2);
    sequence_get(ds, BST_TRAIN, 8, 0, &s);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s.tokens[0][i], (uint8_t)text[32 + i]);
    /* Behind a.txt's é comes b.txt's 0. */
    assert_int_equal(s.labels[3], '0');
    sequence_get(ds, BST_EVAL, 0, 0, &s);
    assert_int_equal(s.tokens[0][0], 0xc3);
    assert_int_equal(s.tokens[0][1], 0xa9);
    assert_int_equal(s.tokens[0][2], 'z');
    assert_int_equal(s.labels[3], '2');
    sequence_get(ds, BST_EVAL, 1, 0, &s);
    assert_int_equal(s.tokens[0][0], '2');
    assert_int_equal(s.tokens[0][1], 0xc3);
    bst_dataset_close(ds);
}

static void bad_text_is_refused(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "text", .input = BST_INPUT_NEXT, .path = dir, .length = 8};
    sequence_refused(&cfg, BST_E_NOTFOUND, "no text file");
    files_write(dir, "t",
                "one\ntwo\nthr\xe9"
                "e\nfour four four",
                27);
    sequence_refused(&cfg, BST_E_CORRUPT, "/t:3: byte 11, 0xE9, is not UTF-8");
    files_write(dir, "t", "one\ntwo\nthr\xc3", 12);
    sequence_refused(&cfg, BST_E_CORRUPT, "/t:3: byte 11, 0xC3, is not UTF-8");
    files_write(dir, "t", "", 0);
    sequence_refused(&cfg, BST_E_CORRUPT, "/t: empty");
    files_write(dir, "t", "0123456789", 10);
    sequence_refused(&cfg, BST_E_RANGE, "1 bytes for evaluation are too few, a sample takes 9");
    cfg.classes = 255;
    sequence_refused(&cfg, BST_E_RANGE, "vocabulary of 255");
    cfg.path = "/nowhere";
    sequence_refused(&cfg, BST_E_RANGE, "vocabulary of 255");
    cfg.classes = 0;
    sequence_refused(&cfg, BST_E_NOTFOUND, "/nowhere");
}

static void pairs_are_translated(void **state)
{
    const char *dir = *state;
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = dir,
                               .languages = "en-de",
                               .length = 8,
                               .input = BST_INPUT_TRANSLATE};
    struct sequence_sample s;
    enum { PAD = 256, START, END };
    sequence_write_text(dir, "train.en", "abc\nde\r\nf");
    sequence_write_text(dir, "train.de", "XY\nZ\nUVW\n");
    sequence_write_text(dir, "val.en", "q\n");
    sequence_write_text(dir, "val.de", "Q\n");
    struct bst_dataset *ds = sequence_open(&cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], 3);
    assert_int_equal(info->n[BST_EVAL], 1);
    assert_int_equal(info->streams, 2);
    assert_int_equal(info->classes, 260);
    assert_true(info->padded);
    sequence_get(ds, BST_TRAIN, 0, 0, &s);
    static const int32_t from[] = {'a', 'b', 'c', END, PAD, PAD, PAD, PAD};
    static const int32_t to[] = {START, 'X', 'Y', PAD, PAD, PAD, PAD, PAD};
    static const int32_t labels[] = {'X', 'Y', END, -100, -100, -100, -100, -100};
    assert_memory_equal(s.tokens[0], from, sizeof from);
    assert_memory_equal(s.tokens[1], to, sizeof to);
    assert_memory_equal(s.labels, labels, sizeof labels);
    assert_int_equal(s.length[0], 4);
    assert_int_equal(s.length[1], 3);
    sequence_get(ds, BST_TRAIN, 1, 0, &s);
    assert_int_equal(s.tokens[0][1], 'e');
    assert_int_equal(s.tokens[0][2], END);
    sequence_get(ds, BST_TRAIN, 2, 0, &s);
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
    ds = sequence_open(&cfg);
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], 2);
    assert_int_equal(bst_dataset_info(ds)->n[BST_EVAL], 1);
    sequence_get(ds, BST_TRAIN, 0, 0, &s);
    assert_memory_equal(s.tokens[0], row, sizeof row);
    assert_memory_equal(s.labels, next, sizeof next);
    assert_int_equal(s.length[0], 6);
    sequence_get(ds, BST_EVAL, 0, 0, &s);
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
        sequence_write_text(dir, "train.en", rows[i].en);
        sequence_write_text(dir, "train.de", rows[i].de);
        sequence_refused(&cfg, rows[i].err, rows[i].words);
    }
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = dir,
                               .languages = "en-de",
                               .length = 8,
                               .input = BST_INPUT_MASKED};
    sequence_refused(&cfg, BST_E_ARG, "pairs cannot be masked");
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
