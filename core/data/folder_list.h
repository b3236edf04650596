/* The files of an image tree: ROOT/CLASS/…/name.jpg, in torchvision's order. Internal to core/data.
 * Read-only once made. */
#ifndef BST_DATA_FOLDER_LIST_H
#define BST_DATA_FOLDER_LIST_H

#include <stdint.h>

#include "core/data/block.h"

struct bst_folder_list {
    struct bst_block names;  /* paths below the root, each NUL-terminated */
    struct bst_block offset; /* uint64_t [n], of each path in names */
    struct bst_block label;  /* int32_t [n] */
    int64_t n, n_ignored;    /* ignored: files that are no JPEG by name */
    char **classes;          /* [n_classes], sorted bytewise */
    int n_classes;
};

/* `classes`: NULL, or a list whose classes this one must keep to and takes its labels from. */
BST_MUST_USE enum bst_err bst_folder_list_read(struct bst_folder_list *l, const char *root,
                                               const struct bst_folder_list *classes);
void bst_folder_list_fini(struct bst_folder_list *l);
const char *bst_folder_list_path(const struct bst_folder_list *l, int64_t i);
int bst_folder_list_label(const struct bst_folder_list *l, int64_t i);

#endif
