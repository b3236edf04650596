/* What the tests of sets of sequences share; every function fails the test on error. */
#ifndef BST_TESTS_DATA_SEQUENCES_H
#define BST_TESTS_DATA_SEQUENCES_H

#include "core/data/bin.h"
#include "core/data/dataset.h"
#include "tests/unit/data_files.h"

enum { SEQUENCE_MOST = 512 };

/* One sample; what a set does not write stays 0x5a. */
struct sequence_sample {
    int32_t tokens[2][SEQUENCE_MOST], labels[SEQUENCE_MOST], length[2], pair;
};

struct bst_dataset *sequence_open(const struct bst_data_cfg *cfg);
void sequence_get(const struct bst_dataset *ds, enum bst_part part, int64_t index, uint64_t key,
                  struct sequence_sample *s);
/* Opening fails with this error, whose text has these words in it, and leaves nothing behind. */
void sequence_refused(const struct bst_data_cfg *cfg, enum bst_err err, const char *words);

/* Tokens from, from + 1, … of `width` bytes, behind llm.c's header or bare. */
void sequence_write_tokens(const char *dir, const char *name, int n, int width, int from,
                           bool header);
void sequence_write_text(const char *dir, const char *name, const char *text);

#endif
