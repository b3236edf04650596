#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tests/unit/data_files.h"

char *files_scratch(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = bst_xasprintf("%s/bst-data-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(dir));
    return dir;
}

int files_set_up(void **state)
{
    *state = files_scratch();
    return 0;
}

int files_tear_down(void **state)
{
    int failed = bst_io_remove_tree(*state) != BST_OK;
    bst_free(*state);
    return failed;
}

void files_write(const char *dir, const char *name, const void *data, size_t n)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    int fd = -1;
    assert_int_equal(bst_io_open_write(path, 0, 0600, &fd), BST_OK);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(bst_io_write_full(fd, data, n, path), BST_OK);
    close(fd);
    bst_free(path);
}

void files_write_gz(const char *dir, const char *name, const void *data, size_t n)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    gzFile gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, data, (unsigned)n), (int)n);
    assert_int_equal(gzclose(gz), Z_OK);
    bst_free(path);
}

void files_cut(const char *dir, const char *name, size_t n)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    assert_int_equal(truncate(path, (off_t)n), 0);
    bst_free(path);
}

bool files_is_under(const char *s, const char *dir, const char *rest)
{
    size_t n = strlen(dir);
    return !strncmp(s, dir, n) && s[n] == '/' && !strcmp(s + n + 1, rest);
}
