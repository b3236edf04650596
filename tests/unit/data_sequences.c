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

struct bst_dataset *sequence_open(const struct bst_data_cfg *cfg)
{
    struct bst_dataset *ds = NULL;
    if (bst_dataset_open(cfg, &ds))
        fail_msg("%s", bst_err_text());
    return ds;
}

void sequence_get(const struct bst_dataset *ds, enum bst_part part, int64_t index, uint64_t key,
                  struct sequence_sample *s)
{
    struct bst_token_sample out = {.tokens = {s->tokens[0], s->tokens[1]},
                                   .length = {&s->length[0], &s->length[1]},
                                   .labels = s->labels,
                                   .pair = &s->pair};
    memset(s, 0x5a, sizeof *s);
    if (bst_dataset_get_tokens(ds, part, index, key, &out))
        fail_msg("%s", bst_err_text());
}

void sequence_write_tokens(const char *dir, const char *name, int n, int width, int from,
                           bool header)
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

void sequence_refused(const struct bst_data_cfg *cfg, enum bst_err err, const char *words)
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

void sequence_write_text(const char *dir, const char *name, const char *text)
{
    files_write(dir, name, text, strlen(text));
}
