/* Presets by name: the folders they lie in, the file a name means, the list of them all. */
#include "core/run/preset.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/run/preset_impl.h"

static const char suffix[] = ".yaml";

/* "quickstart.yaml" → "quickstart"; false when the rest is not a name. */
static bool id_of(const char *file, char out[BST_PRESET_ID])
{
    size_t n = strlen(file), n_suffix = sizeof suffix - 1;
    if (n <= n_suffix || n - n_suffix >= BST_PRESET_ID || strcmp(file + n - n_suffix, suffix) != 0)
        return false;
    snprintf(out, BST_PRESET_ID, "%.*s", (int)(n - n_suffix), file);
    return bst_text_is_name(out);
}

/* Every run's resolved preset is called preset.yaml: the name within says more. "A100×4 DDP 2048"
 * is a100x4-ddp-2048; what is no letter and no digit is one hyphen. */
static void id_of_name(const char *name, char out[BST_PRESET_ID])
{
    int n = 0;
    for (const char *p = name; *p && n < BST_PRESET_ID - 1; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
        if (!strncmp(p, "×", 2)) {
            c = 'x';
            p++;
        }
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && out[n - 1] == '-')
        n--;
    if (n)
        out[n] = '\0';
}

static bool is_path(const char *name)
{
    size_t n = strlen(name), n_suffix = sizeof suffix - 1;
    return strchr(name, '/') || (n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0);
}

/* Display names are compared with × as x and any case, since few keyboards have it. */
static bool same_label(const char *a, const char *b)
{
    while (*a && *b) {
        size_t n_a = 1, n_b = 1;
        char x = *a, y = *b;
        if (strncmp(a, "×", 2) == 0) {
            x = 'x';
            n_a = 2;
        }
        if (strncmp(b, "×", 2) == 0) {
            y = 'x';
            n_b = 2;
        }
        x = x >= 'A' && x <= 'Z' ? (char)(x + 32) : x;
        y = y >= 'A' && y <= 'Z' ? (char)(y + 32) : y;
        if (x != y)
            return false;
        a += n_a;
        b += n_b;
    }
    return *a == *b;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct bst_preset_entry *)a)->id,
                  ((const struct bst_preset_entry *)b)->id);
}

static bool has_id(const struct bst_preset_entry *list, int n, const char *id)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].id, id) == 0)
            return true;
    return false;
}

/* A preset that was found by its name is shown as a person here would write its path. */
static const char *from_here(const char *path)
{
    char here[4096];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && !strncmp(path, here, n) && path[n] == '/' ? path + n + 1 : path;
}

static enum bst_err read_path(const struct bst_preset_env *env, const char *path,
                              const char *const *sets, int n_sets, struct bst_preset *out,
                              struct bst_preset_errors *errs)
{
    char *text = NULL;
    size_t n = 0;
    enum bst_err err = bst_io_read_file(path, BST_YAML_BYTES_MAX, &text, &n);
    if (err) {
        /* The text of a failed reading begins with the path, as this line does. */
        const char *why = bst_err_text();
        size_t n_path = strlen(path);
        if (!strncmp(why, path, n_path) && !strncmp(why + n_path, ": ", 2))
            why += n_path + 2;
        errs->n = 1;
        bst_text_clean(&errs->text, path, n_path);
        bst_sb_addf(&errs->text, ": error: %s\n",
                    err == BST_E_RANGE ? "more than 256 KiB; a preset is a small file" : why);
        return err;
    }
    err = bst_preset_parse(env, path, text, n, sets, n_sets, out, errs);
    bst_free(text);
    const char *slash = strrchr(path, '/');
    if (!id_of(slash ? slash + 1 : path, out->id))
        out->id[0] = '\0';
    if (!strcmp(out->id, "preset"))
        id_of_name(out->name, out->id);
    return err;
}

static void add_entry(const struct bst_preset_env *env, const char *dir, const char *id,
                      struct bst_preset_entry *out)
{
    struct bst_preset *p = bst_xalloc(sizeof *p);
    struct bst_preset_errors errs;
    bst_preset_errors_init(&errs);
    *out = (struct bst_preset_entry){.path = bst_xasprintf("%s/%s%s", dir, id, suffix)};
    snprintf(out->id, sizeof out->id, "%s", id);
    if (read_path(env, out->path, NULL, 0, p, &errs))
        out->n_errors = errs.n ? errs.n : 1;
    snprintf(out->name, sizeof out->name, "%s", *p->name ? p->name : id);
    out->about = bst_xstrdup(p->about);
    bst_preset_errors_fini(&errs);
    bst_free(p);
}

enum bst_err bst_preset_list(const struct bst_preset_env *env, struct bst_preset_entry **out,
                             int *n)
{
    struct bst_preset_entry *list = NULL;
    int room = 0;
    *n = 0;
    for (int d = 0; env->dirs && env->dirs[d]; d++) {
        DIR *dir = opendir(env->dirs[d]);
        if (!dir)
            continue; /* a folder of the search path need not exist */
        for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
            char id[BST_PRESET_ID];
            if (!id_of(e->d_name, id) || has_id(list, *n, id))
                continue;
            list = bst_xgrow(list, *n, &room, sizeof *list);
            add_entry(env, env->dirs[d], id, &list[(*n)++]);
        }
        closedir(dir);
    }
    if (*n)
        qsort(list, (size_t)*n, sizeof *list, by_id);
    *out = list;
    return BST_OK;
}

void bst_preset_list_free(struct bst_preset_entry *list, int n)
{
    for (int i = 0; i < n; i++) {
        bst_free(list[i].about);
        bst_free(list[i].path);
    }
    bst_free(list);
}

/* Path of the preset called `name`, on the heap; NULL when there is none. */
static char *find_id(const struct bst_preset_env *env, const char *name)
{
    for (int d = 0; bst_text_is_name(name) && env->dirs && env->dirs[d]; d++) {
        char *path = bst_xasprintf("%s/%s%s", env->dirs[d], name, suffix);
        if (bst_io_exists(path))
            return path;
        bst_free(path);
    }
    return NULL;
}

static char *find_label(const struct bst_preset_entry *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (same_label(list[i].name, name))
            return bst_xstrdup(list[i].path);
    return NULL;
}

static enum bst_err not_found(const struct bst_preset_entry *list, int n, const char *name,
                              struct bst_preset_errors *errs)
{
    const char **names = bst_xcalloc((size_t)n + 1, 2 * sizeof *names);
    for (int i = 0; i < n; i++) {
        names[2 * i] = list[i].id;
        names[2 * i + 1] = list[i].name;
    }
    int near = bst_text_nearest(name, names, 2 * n);
    bst_sb_add(&errs->text, "error: no preset is called ");
    bst_quote(&errs->text, name);
    if (near >= 0)
        bst_sb_addf(&errs->text, "; did you mean '%s'?", names[near]);
    else
        bst_sb_add(&errs->text, "; `bstune preset list` shows them all");
    bst_free(names);
    errs->n = 1;
    enum bst_err err = bst_fail(BST_E_NOTFOUND, "%s", errs->text.data + strlen("error: "));
    bst_sb_addc(&errs->text, '\n');
    return err;
}

enum bst_err bst_preset_load(const struct bst_preset_env *env, const char *name,
                             const char *const *sets, int n_sets, struct bst_preset *out,
                             struct bst_preset_errors *errs)
{
    if (is_path(name))
        return read_path(env, name, sets, n_sets, out, errs);
    struct bst_preset_entry *list = NULL;
    int n = 0;
    enum bst_err err = BST_OK;
    char *path = find_id(env, name);
    if (!path) {
        err = bst_preset_list(env, &list, &n);
        path = err ? NULL : find_label(list, n, name);
    }
    if (path)
        err = read_path(env, from_here(path), sets, n_sets, out, errs);
    else if (!err)
        err = not_found(list, n, name, errs);
    bst_preset_list_free(list, n);
    bst_free(path);
    return err;
}
