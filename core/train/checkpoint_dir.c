#include "core/train/checkpoint_dir.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"

/* Decimal digits without a leading zero; NULL when there are none or too many. */
static const char *read_number(const char *s, uint64_t *out)
{
    const char *at = s;
    *out = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*at - '0'), out))
            return NULL;
    return at == s || (*s == '0' && at != s + 1) ? NULL : at;
}

static bool parse_name(const char *name, struct bst_entry *e)
{
    static const char middle[] = "-update-";
    const char *at = read_number(name, &e->seq);
    if (!at || strncmp(at, middle, sizeof middle - 1) || strlen(name) >= sizeof e->name)
        return false;
    at = read_number(at + sizeof middle - 1, &e->update);
    if (!at)
        return false;
    if (!*at)
        e->kind = BST_ENTRY_COMMITTED;
    else if (!strncmp(at, ".bad", 4))
        e->kind = BST_ENTRY_BAD;
    else if (!strncmp(at, ".tmp-", 5))
        e->kind = BST_ENTRY_TEMP;
    else
        return false;
    memcpy(e->name, name, strlen(name) + 1);
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const struct bst_entry *x = a, *y = b;
    if (x->seq != y->seq)
        return x->seq > y->seq ? -1 : 1;
    return strcmp(x->name, y->name);
}

enum bst_err bst_checkpoint_scan(const char *dir, struct bst_entry **out, int *n)
{
    struct bst_entry *all = NULL;
    int count = 0, room = 0;
    *out = NULL;
    *n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? BST_OK : bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno));
    for (;;) {
        struct bst_entry e;
        errno = 0;
        const struct dirent *de = readdir(d);
        if (!de)
            break;
        if (!parse_name(de->d_name, &e))
            continue;
        all = bst_xgrow(all, count, &room, sizeof *all);
        all[count++] = e;
    }
    enum bst_err err = errno ? bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno)) : BST_OK;
    closedir(d);
    if (err) {
        bst_free(all);
        return err;
    }
    if (count)
        qsort(all, (size_t)count, sizeof *all, newest_first);
    *out = all;
    *n = count;
    return BST_OK;
}

enum bst_err bst_checkpoint_sweep(const char *dir)
{
    struct bst_entry *all = NULL;
    int n = 0;
    BST_TRY(bst_checkpoint_scan(dir, &all, &n));
    enum bst_err err = BST_OK;
    for (int i = 0; i < n && !err; i++) {
        if (all[i].kind != BST_ENTRY_TEMP)
            continue;
        char *path = bst_xasprintf("%s/%s", dir, all[i].name);
        err = bst_io_remove_tree(path);
        bst_free(path);
    }
    bst_free(all);
    return err;
}
