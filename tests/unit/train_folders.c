#include "train_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "train_support.h"

int folder_count(const char *dir, const char *like)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += strstr(e->d_name, like) != NULL;
    if (d)
        closedir(d);
    return n;
}

static void copy_file(const char *from, const char *to)
{
    char *data = NULL;
    size_t n = 0;
    int fd = -1;
    ok(bst_io_read_file(from, 1 << 20, &data, &n));
    ok(bst_io_open_write(to, O_TRUNC, 0666, &fd));
    ok(bst_io_write_full(fd, data, n, to));
    close(fd);
    bst_free(data);
}

void folder_copy(const char *from, const char *to)
{
    ok(bst_io_make_dirs(to, 0777));
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        char *a = bst_xasprintf("%s/%s", from, e->d_name);
        char *b = bst_xasprintf("%s/%s", to, e->d_name);
        if (e->d_type == DT_DIR)
            folder_copy(a, b);
        else
            copy_file(a, b);
        bst_free(a);
        bst_free(b);
    }
    closedir(d);
}
