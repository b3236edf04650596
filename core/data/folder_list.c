#include "core/data/folder_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/base/alloc.h"

/* Folders are followed through links, as torchvision does; this ends a circle of them. */
enum { DEPTH_MOST = 8, CLASSES_MOST = 1 << 20 };

enum kind { OTHER, FILE_KIND, FOLDER_KIND };

/* Names while they are gathered; dir_len: of the part of the path that is the folder. */
struct item {
    char *path;
    size_t dir_len;
};

struct items {
    struct item *item;
    size_t n, room;
    int64_t n_ignored;
};

static void add_item(struct items *s, char *path, size_t dir_len)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->item = bst_xrealloc(s->item, s->room, sizeof *s->item);
    }
    s->item[s->n++] = (struct item){path, dir_len};
}

static void free_items(struct items *s)
{
    for (size_t i = 0; i < s->n; i++)
        bst_free(s->item[i].path);
    bst_free(s->item);
    *s = (struct items){0};
}

/* torchvision sorts folders by their whole path, then files by name within each. */
static int by_folder_then_name(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    size_t n = x->dir_len < y->dir_len ? x->dir_len : y->dir_len;
    int order = memcmp(x->path, y->path, n);
    if (order)
        return order;
    if (x->dir_len != y->dir_len)
        return x->dir_len < y->dir_len ? -1 : 1;
    return strcmp(x->path + n, y->path + n);
}

static enum kind kind_of(DIR *dir, const struct dirent *e)
{
    struct stat st;
    if (e->d_type == DT_REG)
        return FILE_KIND;
    if (e->d_type == DT_DIR)
        return FOLDER_KIND;
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
        return OTHER;
    if (fstatat(dirfd(dir), e->d_name, &st, 0))
        return OTHER;
    return S_ISREG(st.st_mode) ? FILE_KIND : S_ISDIR(st.st_mode) ? FOLDER_KIND : OTHER;
}

static bool is_jpeg_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static enum bst_err open_dir(const char *path, DIR **out)
{
    *out = opendir(path);
    if (*out)
        return BST_OK;
    return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", path, strerror(errno));
}

/* The next entry that is not hidden; NULL: there is none, or *err says why it cannot be read. */
static const struct dirent *next_entry(DIR *dir, const char *path, enum bst_err *err)
{
    const struct dirent *e;
    do {
        errno = 0;
        e = readdir(dir);
    } while (e && e->d_name[0] == '.');
    if (!e && errno)
        *err = bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    return e;
}

/* The folders right under root, hidden ones left out (.ipynb_checkpoints is no class). */
static enum bst_err read_classes(const char *root, struct items *out)
{
    DIR *dir;
    enum bst_err err = BST_OK;
    BST_TRY(open_dir(root, &dir));
    for (const struct dirent *e; (e = next_entry(dir, root, &err));)
        if (kind_of(dir, e) == FOLDER_KIND)
            add_item(out, bst_xstrdup(e->d_name), 0);
    closedir(dir);
    if (err)
        return err;
    if (out->n)
        qsort(out->item, out->n, sizeof *out->item, by_folder_then_name);
    if (!out->n)
        return bst_fail(BST_E_CORRUPT, "%s: no class folders", root);
    if (out->n > CLASSES_MOST)
        return bst_fail(BST_E_CORRUPT, "%s: %zu class folders, at most %d", root, out->n,
                        CLASSES_MOST);
    return BST_OK;
}

static enum bst_err walk(const char *root, const char *below, int depth, struct items *out)
{
    DIR *dir;
    char *path = bst_xasprintf("%s/%s", root, below);
    enum bst_err err = depth > DEPTH_MOST
                           ? bst_fail(BST_E_CORRUPT, "%s: deeper than %d folders", path, DEPTH_MOST)
                           : open_dir(path, &dir);
    if (err) {
        bst_free(path);
        return err;
    }
    for (const struct dirent *e; !err && (e = next_entry(dir, path, &err));) {
        enum kind kind = kind_of(dir, e);
        char *name = bst_xasprintf("%s/%s", below, e->d_name);
        if (kind == FOLDER_KIND)
            err = walk(root, name, depth + 1, out);
        if (kind == FILE_KIND && is_jpeg_name(e->d_name)) {
            add_item(out, name, strlen(below));
            continue;
        }
        out->n_ignored += kind != FOLDER_KIND;
        bst_free(name);
    }
    closedir(dir);
    bst_free(path);
    return err;
}

static enum bst_err append(struct bst_folder_list *l, const char *path, int label, size_t *used)
{
    size_t len = strlen(path) + 1, n = (size_t)l->n;
    BST_TRY(bst_block_reserve(&l->names, *used + len));
    BST_TRY(bst_block_reserve(&l->offset, (n + 1) * sizeof(uint64_t)));
    BST_TRY(bst_block_reserve(&l->label, (n + 1) * sizeof(int32_t)));
    memcpy((char *)l->names.p + *used, path, len);
    ((uint64_t *)l->offset.p)[n] = *used;
    ((int32_t *)l->label.p)[n] = label;
    *used += len;
    l->n++;
    return BST_OK;
}

static enum bst_err add_class(struct bst_folder_list *l, const char *root, const char *name,
                              int label, size_t *used)
{
    struct items files = {0};
    enum bst_err err = walk(root, name, 1, &files);
    if (files.n)
        qsort(files.item, files.n, sizeof *files.item, by_folder_then_name);
    for (size_t i = 0; i < files.n && !err; i++)
        err = append(l, files.item[i].path, label, used);
    l->n_ignored += files.n_ignored;
    if (!err && !files.n)
        err = bst_fail(BST_E_CORRUPT, "%s/%s: no .jpg or .jpeg file", root, name);
    free_items(&files);
    return err;
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The label of a class, by its name in the list that rules. */
static enum bst_err find_label(const struct bst_folder_list *classes, const char *root,
                               const char *name, int *label)
{
    char **at =
        bsearch(&name, classes->classes, (size_t)classes->n_classes, sizeof name, by_string);
    if (!at)
        return bst_fail(BST_E_CORRUPT, "%s/%s: no such class in the training part", root, name);
    *label = (int)(at - classes->classes);
    return BST_OK;
}

enum bst_err bst_folder_list_read(struct bst_folder_list *l, const char *root,
                                  const struct bst_folder_list *classes)
{
    struct items found = {0};
    size_t used = 0;
    *l = (struct bst_folder_list){0};
    enum bst_err err = read_classes(root, &found);
    if (!err) {
        l->classes = bst_xcalloc(found.n, sizeof *l->classes);
        l->n_classes = (int)found.n;
    }
    for (size_t i = 0; i < found.n && !err; i++) {
        int label = (int)i;
        l->classes[i] = bst_xstrdup(found.item[i].path);
        if (classes)
            err = find_label(classes, root, l->classes[i], &label);
        if (!err)
            err = add_class(l, root, l->classes[i], label, &used);
    }
    free_items(&found);
    if (err)
        bst_folder_list_fini(l);
    return err;
}

void bst_folder_list_fini(struct bst_folder_list *l)
{
    for (int i = 0; i < l->n_classes; i++)
        bst_free(l->classes[i]);
    bst_free(l->classes);
    bst_block_free(&l->names);
    bst_block_free(&l->offset);
    bst_block_free(&l->label);
    *l = (struct bst_folder_list){0};
}

const char *bst_folder_list_path(const struct bst_folder_list *l, int64_t i)
{
    return (const char *)l->names.p + ((const uint64_t *)l->offset.p)[i];
}

int bst_folder_list_label(const struct bst_folder_list *l, int64_t i)
{
    return ((const int32_t *)l->label.p)[i];
}
