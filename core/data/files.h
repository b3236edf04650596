/* The files of a folder. Internal to core/data; one thread at a time. */
#ifndef BST_DATA_FILES_H
#define BST_DATA_FILES_H

#include <stdbool.h>

#include "core/base/err.h"

struct bst_files {
    char **path; /* heap each; by name, bytewise */
    int n;
};

/* Those that `takes` says yes to, by their name in the folder `dir_fd` is open on; hidden ones are
 * not asked about. `what`: what they are, "text file". BST_E_NOTFOUND: there is none, BST_E_RANGE:
 * more than one can mean. */
BST_MUST_USE enum bst_err bst_files_list(const char *dir, const char *what,
                                         bool (*takes)(int dir_fd, const char *name),
                                         struct bst_files *out);
void bst_files_one(const char *path, struct bst_files *out); /* this one, whatever it is */
void bst_files_fini(struct bst_files *f);                    /* a zeroed one is fine */

#endif
