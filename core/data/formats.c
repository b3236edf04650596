#include "core/data/formats.h"

#include <stddef.h>

const struct bst_data_format *const bst_data_formats[] = {
    &bst_data_idx,     &bst_data_cifar10,  &bst_data_imagefolder, &bst_data_shapes,
    &bst_data_tokens,  &bst_data_text,     &bst_data_pairs,       &bst_data_copy,
    &bst_data_reverse, &bst_data_addition, &bst_data_random,      NULL,
};
