/* Scratch folders and files for the tests of readers; every function fails the test on error. */
#ifndef BST_TESTS_DATA_FILES_H
#define BST_TESTS_DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* A new folder under $TMPDIR or /tmp; the caller removes it with bst_io_remove_tree and frees the
 * path. */
char *files_scratch(void);
/* The same as a fixture: *state is the folder's path while a test runs. */
int files_set_up(void **state);
int files_tear_down(void **state);
#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, files_set_up, files_tear_down)

void files_write(const char *dir, const char *name, const void *data, size_t n);
void files_write_gz(const char *dir, const char *name, const void *data, size_t n);
void files_cut(const char *dir, const char *name, size_t n);
/* True when s is `dir`, a slash and `rest`. */
bool files_is_under(const char *s, const char *dir, const char *rest);

#endif
