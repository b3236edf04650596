/* The rows of the table in formats.c; each is defined by the file of its name. Const; any
 * thread. Internal to core/data. */
#ifndef BST_DATA_FORMATS_H
#define BST_DATA_FORMATS_H

#include "core/data/data.h"

extern const struct bst_data_format bst_data_idx;
extern const struct bst_data_format bst_data_cifar10;
extern const struct bst_data_format bst_data_imagefolder;
extern const struct bst_data_format bst_data_shapes;
extern const struct bst_data_format bst_data_tokens;
extern const struct bst_data_format bst_data_text;
extern const struct bst_data_format bst_data_pairs;
extern const struct bst_data_format bst_data_copy;
extern const struct bst_data_format bst_data_reverse;
extern const struct bst_data_format bst_data_addition;
extern const struct bst_data_format bst_data_random;

/* Folder of the idx set when none is named. A test may move it. */
extern const char *bst_data_idx_place;

#endif
