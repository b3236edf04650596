/* What cannot be trained on, by format: one row a fault, each told before training starts with the
 * file, the place and the value; and what looks like a fault and is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/data/dataset.h"
#include "tests/unit/data_files.h"

enum kind { BYTES, LONG_LINE, LONG_TOKENS, FOLDER, PIPE, LOOP };

struct file {
    const char *name;
    enum kind kind;
    const char *bytes; /* BYTES; of the long ones what ends them */
    size_t n;
};

/* A literal, its NULs counted. */
#define TEXT(name, s)                                                                              \
    {                                                                                              \
        (name), BYTES, (s), sizeof(s) - 1                                                          \
    }
#define SOUND_TOKENS(name) TEXT(name, "\1\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0\11\0\12\0")
#define SOUND_TEXT(name)                                                                           \
    TEXT(name, "Sixty bytes and more of text are enough for windows of four.\n")

struct row {
    const char *about, *format, *path; /* below the folder; "": the folder */
    enum bst_net_input input;
    int classes, token_bytes;
    struct file files[4];
    enum bst_err err; /* BST_OK: it is read */
    const char *words;
};

static const struct row rows[] = {
    /* Files of tokens. */
    {"odd length",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("train.bin", "\1\0\2\0\3"), SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "train.bin: 5 bytes are not whole tokens of 2 bytes"},
    {"no multiple of four",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     4,
     {TEXT("train.bin", "\1\0\0\0\2\0"), SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "train.bin: 6 bytes are not whole tokens of 4 bytes"},
    {"empty",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("train.bin", ""), SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "train.bin: empty"},
    {"a token of the vocabulary's size",
     "tokens",
     "",
     BST_INPUT_NEXT,
     11,
     0,
     {TEXT("train.bin", "\1\0\2\0\12\0\13\0\5\0\6\0"), SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "train.bin: token 3 is 11, the vocabulary has 11"},
    {"one late in a long file",
     "tokens",
     "",
     BST_INPUT_NEXT,
     50,
     0,
     {{"train.bin", LONG_TOKENS, "\377\377", 2}, SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "train.bin: token 100000 is 65535, the vocabulary has 50"},
    {"one in the evaluation",
     "tokens",
     "",
     BST_INPUT_NEXT,
     5,
     0,
     {TEXT("train.bin", "\1\0\2\0\3\0\4\0\1\0\2\0"), SOUND_TOKENS("val.bin")},
     BST_E_CORRUPT,
     "val.bin: token 4 is 5, the vocabulary has 5"},
    {"above what four bytes may be",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     4,
     {TEXT("train.bin", "\1\0\0\0\377\377\377\377\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0"),
      TEXT("val.bin", "\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0")},
     BST_E_CORRUPT,
     "train.bin: token 1 is 4294967295"},
    {"a folder for a file",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {{"train.bin", FOLDER, NULL, 0}, SOUND_TOKENS("val.bin")},
     BST_E_UNSUPPORTED,
     "train.bin: not a regular file"},
    {"a pipe",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {{"train.bin", PIPE, NULL, 0}, SOUND_TOKENS("val.bin")},
     BST_E_UNSUPPORTED,
     "train.bin: not a regular file"},
    {"a pipe alone",
     "tokens",
     "p.bin",
     BST_INPUT_NEXT,
     0,
     0,
     {{"p.bin", PIPE, NULL, 0}},
     BST_E_UNSUPPORTED,
     "p.bin: not a regular file"},
    {"unreadable",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {{"train.bin", LOOP, NULL, 0}, SOUND_TOKENS("val.bin")},
     BST_E_IO,
     "train.bin: Too many"},
    {"no file",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("train.txt", "x")},
     BST_E_NOTFOUND,
     "no .bin file"},
    {"no evaluation",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {SOUND_TOKENS("train.bin")},
     BST_E_RANGE,
     "no file for evaluation"},
    {"too short for one window",
     "tokens",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("train.bin", "\1\0\2\0\3\0\4\0"), SOUND_TOKENS("val.bin")},
     BST_E_RANGE,
     "too few tokens for training: a sample takes 5"},
    /* Text. */
    {"Latin-1",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "one\ntwo\ncaf\351 four five\n")},
     BST_E_CORRUPT,
     "a.txt:3: byte 11, 0xE9, is not UTF-8"},
    {"cut within a character",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {SOUND_TEXT("a.txt"), TEXT("b.txt", "one\n\342\202")},
     BST_E_CORRUPT,
     "b.txt:2: byte 4, 0xE2, is not UTF-8"},
    {"longer than need be",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "one \300\200 two")},
     BST_E_CORRUPT,
     "a.txt:1: byte 4, 0xC0"},
    {"half of a pair",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "one \355\240\200 two")},
     BST_E_CORRUPT,
     "a.txt:1: byte 4, 0xED"},
    {"past the last character",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "one \364\220\200\200 two")},
     BST_E_CORRUPT,
     "a.txt:1: byte 4, 0xF4"},
    {"UTF-16",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "\377\376o\0n\0e\0")},
     BST_E_CORRUPT,
     "a.txt: UTF-16; iconv"},
    {"empty",
     "text",
     "a.txt",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "")},
     BST_E_CORRUPT,
     "a.txt: empty"},
    {"nothing but a mark",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "\357\273\277")},
     BST_E_CORRUPT,
     "a.txt: empty but for its byte order mark"},
    {"one of many is empty",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {SOUND_TEXT("a.txt"), TEXT("b.txt", "")},
     BST_E_CORRUPT,
     "b.txt: empty"},
    {"a pipe",
     "text",
     "a.txt",
     BST_INPUT_NEXT,
     0,
     0,
     {{"a.txt", PIPE, NULL, 0}},
     BST_E_UNSUPPORTED,
     "a.txt: not a regular file"},
    {"unreadable",
     "text",
     "a.txt",
     BST_INPUT_NEXT,
     0,
     0,
     {{"a.txt", LOOP, NULL, 0}},
     BST_E_IO,
     "a.txt: Too many"},
    {"too short",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "0123456789")},
     BST_E_RANGE,
     "1 bytes for evaluation are too few, a sample takes 5"},
    {"a vocabulary without all bytes",
     "text",
     "",
     BST_INPUT_NEXT,
     255,
     0,
     {SOUND_TEXT("a.txt")},
     BST_E_RANGE,
     "a vocabulary of 255; bytes need 256"},
    /* Pairs. */
    {"fewer lines",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\nc\n"), TEXT("train.de", "A\nB\n")},
     BST_E_CORRUPT,
     "train.en has 3 lines, "},
    {"an empty line",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\n\nc\n"), TEXT("train.de", "A\nB\nC\n")},
     BST_E_CORRUPT,
     "train.en:2: an empty line"},
    {"empty but for a return",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\r\n\r\nc\r\n"), TEXT("train.de", "A\nB\nC\n")},
     BST_E_CORRUPT,
     "train.en:2: an empty line"},
    {"not UTF-8",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\nc\n"), TEXT("train.de", "A\nB\377\nC\n")},
     BST_E_CORRUPT,
     "train.de:2: byte 3, 0xFF"},
    {"longer than the net",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\nabcd\n"), TEXT("train.de", "A\nB\nC\n")},
     BST_E_RANGE,
     "train.en:3: a source of 4 and a target of 1 tokens need sequences of 5, the net takes 4"},
    {"a line of a megabyte",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {{"train.en", LONG_LINE, "\nb\n", 3}, TEXT("train.de", "A\nB\n")},
     BST_E_RANGE,
     "train.en:1: a source of 1000000 and a target of 1 tokens need sequences of 1000001"},
    {"both in one stream",
     "pairs",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("train.en", "a\nbc\n"), TEXT("train.de", "A\nBC\n")},
     BST_E_RANGE,
     "train.en:2: a source of 2 and a target of 2 tokens need sequences of 5"},
    {"one of two languages",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\n")},
     BST_E_NOTFOUND,
     "train.de"},
    {"an evaluation in one language",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\n"), TEXT("train.de", "A\nB\n"), TEXT("valid.en", "a\n")},
     BST_E_NOTFOUND,
     "valid.de"},
    {"a folder for a file",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {{"train.en", FOLDER, NULL, 0}, TEXT("train.de", "A\nB\n")},
     BST_E_UNSUPPORTED,
     "train.en: not a regular file"},
    {"a file for the folder",
     "pairs",
     "train.en",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\n"), TEXT("train.de", "A\nB\n")},
     BST_E_IO,
     "Not a directory"},
    {"a pipe",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\n"), {"train.de", PIPE, NULL, 0}},
     BST_E_UNSUPPORTED,
     "train.de: not a regular file"},
    {"unreadable",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {{"train.en", LOOP, NULL, 0}, TEXT("train.de", "A\nB\n")},
     BST_E_IO,
     "train.en: Too many"},
    {"empty",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "a\nb\n"), TEXT("train.de", "")},
     BST_E_CORRUPT,
     "train.de: empty"},
    /* No faults. */
    {"text with a mark, of Windows, with a NUL",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {TEXT("a.txt", "\357\273\277one\r\ntwo\0three four five six seven eight nine ten eleven\r\n")},
     BST_OK,
     NULL},
    {"text of one long line",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {{"a.txt", LONG_LINE, "", 0}},
     BST_OK,
     NULL},
    {"text beside a folder and a pipe",
     "text",
     "",
     BST_INPUT_NEXT,
     0,
     0,
     {SOUND_TEXT("a.txt"), {"b", FOLDER, NULL, 0}, {"c", PIPE, NULL, 0}},
     BST_OK,
     NULL},
    {"pairs with marks, of Windows",
     "pairs",
     "",
     BST_INPUT_TRANSLATE,
     0,
     0,
     {TEXT("train.en", "\357\273\277abc\r\nb\r\n"), TEXT("train.de", "\357\273\277ABC\nB")},
     BST_OK,
     NULL},
};

static void make(const char *dir, const struct file *f)
{
    enum { LONG = 1000000, TOKENS = 100000 };
    char *path = bst_xasprintf("%s/%s", dir, f->name);
    size_t n = f->kind == LONG_LINE ? LONG : 2 * TOKENS;
    if (f->kind == FOLDER) {
        assert_int_equal(mkdir(path, 0700), 0);
    } else if (f->kind == PIPE) {
        assert_int_equal(mkfifo(path, 0600), 0);
    } else if (f->kind == LOOP) {
        assert_int_equal(symlink(f->name, path), 0);
    } else if (f->kind == BYTES) {
        files_write(dir, f->name, f->bytes, f->n);
    } else {
        char *some = bst_xalloc(n + f->n);
        for (size_t i = 0; i < n; i++)
            some[i] = f->kind == LONG_LINE ? 'x' : (char)(i % 2 ? 0 : i % 50);
        memcpy(some + n, f->bytes, f->n);
        files_write(dir, f->name, some, n + f->n);
        bst_free(some);
    }
    bst_free(path);
}

static void check(const char *parent, int number, const struct row *r)
{
    char *dir = bst_xasprintf("%s/%d", parent, number);
    char *path = bst_xasprintf("%s%s%s", dir, r->path[0] ? "/" : "", r->path);
    struct bst_data_cfg cfg = {.format = r->format,
                               .path = path,
                               .input = r->input,
                               .length = 4,
                               .classes = r->classes,
                               .token_bytes = r->token_bytes,
                               .languages = "en-de"};
    struct bst_dataset *ds = NULL;
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int i = 0; i < 4 && r->files[i].name; i++)
        make(dir, &r->files[i]);
    size_t held = bst_alloc_held();
    enum bst_err got = bst_dataset_open(&cfg, &ds);
    if (got != r->err || (got && !strstr(bst_err_text(), r->words)))
        fail_msg("%s, %s: %s: %s, expected %s: …%s…", r->format, r->about, bst_err_name(got),
                 got ? bst_err_text() : "", bst_err_name(r->err), r->words ? r->words : "");
    assert_true(!got == !!ds);
    bst_dataset_close(ds);
    assert_int_equal(bst_alloc_held(), held);
    bst_free(dir);
    bst_free(path);
}

static void every_fault_is_told(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(*state, (int)i, &rows[i]);
}

static void sample(const struct bst_dataset *ds, int32_t tokens[2][8], int32_t labels[8])
{
    int32_t length[2], pair;
    const struct bst_token_sample out = {
        {tokens[0], tokens[1]}, {&length[0], &length[1]}, labels, &pair};
    assert_int_equal(bst_dataset_get_tokens(ds, BST_TRAIN, 0, 0, &out), BST_OK);
}

/* A byte order mark and the returns of Windows are no tokens of a pair; of a text only the mark is
 * none. */
static void marks_are_not_trained_on(void **state)
{
    static const char mark[] = "\357\273\277";
    int32_t tokens[2][8], labels[8];
    struct bst_dataset *ds = NULL;
    struct bst_data_cfg cfg = {.format = "pairs",
                               .path = *state,
                               .input = BST_INPUT_TRANSLATE,
                               .length = 8,
                               .languages = "en-de"};
    files_write(*state, "train.en", "\357\273\277ab\r\nc\r\n", 10);
    files_write(*state, "train.de", "XY\r\nZ", 5);
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_OK);
    sample(ds, tokens, labels);
    assert_true(tokens[0][0] == 'a' && tokens[0][1] == 'b' && tokens[0][2] >= 256);
    assert_true(labels[0] == 'X' && labels[1] == 'Y' && labels[2] >= 256);
    bst_dataset_close(ds);

    char text[100];
    memset(text, 'z', sizeof text);
    memcpy(text, mark, 3);
    memcpy(text + 3, "a\r\nb", 4);
    files_write(*state, "t", text, sizeof text);
    char *path = bst_xasprintf("%s/t", (const char *)*state);
    cfg =
        (struct bst_data_cfg){.format = "text", .path = path, .input = BST_INPUT_NEXT, .length = 4};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_OK);
    sample(ds, tokens, labels);
    assert_true(tokens[0][0] == 'a' && tokens[0][1] == '\r' && tokens[0][2] == '\n');
    bst_dataset_close(ds);
    bst_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(every_fault_is_told),
        WITH_FOLDER(marks_are_not_trained_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
