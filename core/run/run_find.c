/* Which run is meant: by name, by folder, or by none at all. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"
#include "core/run/field.h"
#include "core/run/run_dir.h"

enum { NAMES_CAP = 900 };

/* `path` is `folder` or in it; both in full. */
static bool is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n && folder[n - 1] == '/')
        n--;
    return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

bool bst_run_is_here(const char *root, const char *dir)
{
    char runs[PATH_MAX], here[PATH_MAX];
    const char *last = strrchr(dir, '/');
    if (realpath(root, runs) && is_in(dir, runs))
        return true;
    if (!realpath(".", here))
        return false;
    /* One called by --run-dir stands in this folder, or this folder is one of its own. */
    size_t parent = last ? (size_t)(last - dir) : 0;
    return is_in(here, dir) ||
           (last && !strncmp(here, dir, parent) && (!here[parent] || !strcmp(here, "/")));
}

/* Its name, and its folder where the name alone would not find it or could be another's. */
static void add_name(struct bst_sb *names, const char *root, const struct bst_run_info *run)
{
    bst_sb_addf(names, "%s%s", names->len ? ", " : "", run->name);
    if (!bst_run_is_here(root, run->dir))
        bst_sb_addf(names, " (%s)", run->dir);
}

enum which { ALL, LIVE };

static int count(const struct bst_run_info *list, int n, enum which which)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += which == ALL || list[i].live;
    return sum;
}

static void add_names(struct bst_sb *names, const char *root, const struct bst_run_info *list,
                      int n, enum which which)
{
    for (int i = 0; i < n; i++)
        if (which == ALL || list[i].live)
            add_name(names, root, &list[i]);
}

static enum bst_err not_one(const char *root, const struct bst_run_info *list, int n, int n_live)
{
    struct bst_sb names;
    if (!n)
        return bst_fail(BST_E_NOTFOUND, "no run under %s/, and none lives on this machine", root);
    bst_sb_init(&names, NAMES_CAP);
    add_names(&names, root, list, n, n_live ? LIVE : ALL);
    enum bst_err err = bst_fail(BST_E_NOTFOUND,
                                n_live ? "%d runs are live, say which: %s"
                                       : "no run is live; of the %d that ended say which: %s",
                                n_live ? n_live : n, names.data);
    bst_sb_fini(&names);
    return err;
}

/* The newest of those that are live, of this folder, or both; NULL: there is none. */
static const struct bst_run_info *newest(const char *root, const struct bst_run_info *list, int n,
                                         bool live, bool here)
{
    for (int i = 0; i < n; i++)
        if ((!live || list[i].live) && (!here || bst_run_is_here(root, list[i].dir)))
            return &list[i];
    return NULL;
}

static const struct bst_run_info *first_live(const struct bst_run_info *list, int n)
{
    return newest(NULL, list, n, true, false);
}

static int count_live_here(const char *root, const struct bst_run_info *list, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i].live && bst_run_is_here(root, list[i].dir);
    return sum;
}

static enum bst_err not_here(const struct bst_run_info *live)
{
    return bst_fail(BST_E_NOTFOUND,
                    "no run of this folder is live; elsewhere %s (%s) is, which has to be named",
                    live->name, live->dir);
}

/* Which is meant by no name, by the rules of enum bst_run_use; the list is newest first. */
static enum bst_err choose(const char *root, enum bst_run_use use, const struct bst_run_info *list,
                           int n, const struct bst_run_info **out)
{
    const struct bst_run_info *live = newest(root, list, n, true, false);
    int n_live = count(list, n, LIVE);
    *out = NULL;
    if (use == BST_RUN_RECORD)
        *out = newest(root, list, n, true, true);
    if (use == BST_RUN_RECORD && !*out)
        *out = newest(root, list, n, false, true);
    if (use == BST_RUN_STATE && count_live_here(root, list, n) == 1)
        *out = newest(root, list, n, true, true);
    if (use == BST_RUN_CHANGE && n && !n_live)
        return bst_fail(BST_E_NOTFOUND, "no run is live; `bstune list` shows those that ended");
    if (use == BST_RUN_CHANGE && n_live == 1 && !bst_run_is_here(root, live->dir))
        return not_here(live);
    if (!*out && n_live == 1)
        *out = live;
    if (!*out && !n_live && n == 1)
        *out = list;
    return *out ? BST_OK : not_one(root, list, n, n_live);
}

static enum bst_err find_unnamed(const char *root, enum bst_run_use use, char dir[512])
{
    struct bst_run_info *list;
    const struct bst_run_info *meant;
    int n;
    BST_TRY(bst_run_list(root, &list, &n));
    enum bst_err err = choose(root, use, list, n, &meant);
    if (!err)
        bst_copy_text(dir, 512, meant->dir);
    bst_free(list);
    return err;
}

/* A name may be borne in several folders: then the one that lives is meant, if only one does. */
static enum bst_err find_by_name(const char *root, const char *name, char dir[512])
{
    struct bst_run_info *list;
    struct bst_sb names;
    int n, n_named = 0;
    BST_TRY(bst_run_list(root, &list, &n));
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            list[n_named++] = list[i];
    int n_live = count(list, n_named, LIVE);
    enum bst_err err = BST_OK;
    bst_sb_init(&names, NAMES_CAP);
    if (!n_named) {
        err =
            bst_fail(BST_E_NOTFOUND, "%s: no such run; `bstune list` shows those there are", name);
    } else if (n_live == 1) {
        bst_copy_text(dir, 512, first_live(list, n_named)->dir);
    } else if (n_named == 1) {
        bst_copy_text(dir, 512, list[0].dir);
    } else {
        add_names(&names, root, list, n_named, n_live ? LIVE : ALL);
        err = bst_fail(BST_E_NOTFOUND, "%d runs are called %s, say which by its folder: %s",
                       n_live ? n_live : n_named, name, names.data);
    }
    bst_sb_fini(&names);
    bst_free(list);
    return err;
}

enum bst_err bst_run_find(const char *root, const char *what, enum bst_run_use use, char dir[512])
{
    char path[768];
    struct bst_run_info info;
    enum bst_err err = BST_E_NOTFOUND;
    if (!what)
        return find_unnamed(root, use, dir);
    if (bst_text_is_name(what)) {
        bst_run_path(root, what, path);
        err = bst_run_info_read(path, &info);
    }
    if (err == BST_E_NOTFOUND)
        err = bst_run_info_read(what, &info);
    if (err == BST_E_NOTFOUND)
        return find_by_name(root, what, dir);
    bst_copy_text(dir, 512, info.dir);
    return err;
}
