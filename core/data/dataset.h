/* What the loader needs of an open data set. Internal to core/data. Any thread. */
#ifndef BST_DATA_DATASET_H
#define BST_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/data/data.h"

/* bst_dataset_open with a row that need not be in the table. */
BST_MUST_USE enum bst_err bst_dataset_open_format(const struct bst_data_format *format,
                                                  const struct bst_data_cfg *cfg,
                                                  struct bst_dataset **out);

/* Decodes one sample; out holds height · width · channels bytes. On failure out is all zeros. */
BST_MUST_USE enum bst_err bst_dataset_get(const struct bst_dataset *ds, enum bst_part part,
                                          int64_t index, uint64_t key, uint8_t *out,
                                          int32_t *label);

/* The same of a set of sequences. */
BST_MUST_USE enum bst_err bst_dataset_get_tokens(const struct bst_dataset *ds, enum bst_part part,
                                                 int64_t index, uint64_t key,
                                                 const struct bst_token_sample *out);
/* Whether samples of like length are to come together. */
bool bst_dataset_buckets(const struct bst_dataset *ds);

/* True for errors that lie in the sample itself, so that another may stand in for it. */
bool bst_dataset_is_bad_sample(enum bst_err err);

/* Notes a sample that cannot be read. Once more than 1 % of its part is noted: BST_E_CORRUPT. */
BST_MUST_USE enum bst_err bst_dataset_note_bad(struct bst_dataset *ds, enum bst_part part,
                                               int64_t index, const char *reason);

#endif
