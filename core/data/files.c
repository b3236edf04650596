#include "core/data/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"

enum { FILES_MOST = 65536 };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add(struct bst_files *f, int *room, const char *dir, const char *name)
{
    f->path = bst_xgrow(f->path, f->n, room, sizeof *f->path);
    f->path[f->n++] = bst_xasprintf("%s/%s", dir, name);
}

static enum bst_err read_folder(DIR *d, const char *dir, const char *what,
                                bool (*takes)(int dir_fd, const char *name), struct bst_files *out)
{
    int room = 0;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e)
            return errno ? bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno)) : BST_OK;
        if (e->d_name[0] == '.' || !takes(dirfd(d), e->d_name))
            continue;
        if (out->n == FILES_MOST)
            return bst_fail(BST_E_RANGE, "%s: more than %d %ss", dir, FILES_MOST, what);
        add(out, &room, dir, e->d_name);
    }
}

enum bst_err bst_files_list(const char *dir, const char *what,
                            bool (*takes)(int dir_fd, const char *name), struct bst_files *out)
{
    *out = (struct bst_files){0};
    DIR *d = opendir(dir);
    if (!d)
        return bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno));
    enum bst_err err = read_folder(d, dir, what, takes, out);
    closedir(d);
    if (!err && !out->n)
        err = bst_fail(BST_E_NOTFOUND, "%s: no %s", dir, what);
    if (err)
        bst_files_fini(out);
    else
        qsort(out->path, (size_t)out->n, sizeof *out->path, by_name);
    return err;
}

void bst_files_one(const char *path, struct bst_files *out)
{
    *out = (struct bst_files){bst_xcalloc(1, sizeof *out->path), 1};
    out->path[0] = bst_xstrdup(path);
}

void bst_files_fini(struct bst_files *f)
{
    for (int i = 0; i < f->n; i++)
        bst_free(f->path[i]);
    bst_free(f->path);
    *f = (struct bst_files){0};
}
