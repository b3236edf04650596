#include "core/run/gpu.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/text.h"
#include "core/run/field.h"

enum { FILE_BYTES_MAX = 64 * 1024, NAMES_MAX = 64 };
static const char suffix[] = ".json";

static bool ends_in_suffix(const char *name)
{
    size_t n = strlen(name), n_suffix = sizeof suffix - 1;
    return n > n_suffix && !strcmp(name + n - n_suffix, suffix);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the devices in all folders, heap each; sorted, some perhaps twice. */
static int list_names(const struct bst_preset_env *env, char *names[NAMES_MAX])
{
    int n = 0;
    for (int d = 0; env->dirs && env->dirs[d]; d++) {
        char *path = bst_xasprintf("%s/devices", env->dirs[d]);
        DIR *dir = opendir(path);
        bst_free(path);
        if (!dir)
            continue;
        for (const struct dirent *e = readdir(dir); e && n < NAMES_MAX; e = readdir(dir)) {
            if (ends_in_suffix(e->d_name))
                names[n++] =
                    bst_xasprintf("%.*s", (int)(strlen(e->d_name) - sizeof suffix + 1), e->d_name);
        }
        closedir(dir);
    }
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

static enum bst_err not_found(const struct bst_preset_env *env, const char *what)
{
    char *names[NAMES_MAX];
    int n = list_names(env, names);
    struct bst_sb list, clean;
    bst_sb_init(&list, 1024);
    bst_sb_init(&clean, 256);
    bst_text_clean(&clean, what, strnlen(what, 100));
    for (int i = 0; i < n; i++) {
        if (!i || strcmp(names[i], names[i - 1]) != 0)
            bst_sb_addf(&list, "%s%s", list.len ? ", " : "", names[i]);
    }
    enum bst_err err =
        bst_fail(BST_E_NOTFOUND, "no GPU is called %s; there are %s, or the path of a .json",
                 clean.data, list.len ? list.data : "none here");
    for (int i = 0; i < n; i++)
        bst_free(names[i]);
    bst_sb_fini(&list);
    bst_sb_fini(&clean);
    return err;
}

/* Heap; NULL when there is no such device. */
static char *find_path(const struct bst_preset_env *env, const char *what)
{
    if (strchr(what, '/') || ends_in_suffix(what))
        return bst_xstrdup(what);
    for (int d = 0; bst_text_is_name(what) && env->dirs && env->dirs[d]; d++) {
        char *path = bst_xasprintf("%s/devices/%s%s", env->dirs[d], what, suffix);
        if (bst_io_exists(path))
            return path;
        bst_free(path);
    }
    return NULL;
}

static enum bst_err read_json(const char *path, const json_t *root, struct bst_gpu *out)
{
    const json_t *own = json_object_get(root, "properties");
    const json_t *p = json_is_object(own) ? own : root;
    json_int_t version = json_integer_value(json_object_get(p, "deviceVer"));
    json_int_t memory = json_integer_value(json_object_get(p, "totalGlobalMem"));
    if (version < 100 || memory <= 0)
        return bst_fail(BST_E_PARSE,
                        "%s: not a device: it needs cuDNN's properties, deviceVer and "
                        "totalGlobalMem among them",
                        path);
    const char *title = bst_json_text(root, "title");
    bst_copy_clean(out->title, sizeof out->title, *title ? title : bst_json_text(p, "deviceName"));
    out->capability = (int)(version / 10);
    out->memory = bst_json_count(root, "memory_bytes", (uint64_t)memory);
    out->memory_gb_s = bst_json_real(root, "memory_gb_s", 0);
    out->tensor16_tflops = bst_json_real(root, "tensor16_tflops", 0);
    char *text = json_dumps(p, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text)
        return bst_fail(BST_E_NOMEM, "%s: cannot be written as JSON again", path);
    out->properties = bst_xstrdup(text);
    out->n_properties = strlen(text);
    free(text); /* jansson's */
    return BST_OK;
}

enum bst_err bst_gpu_load(const struct bst_preset_env *env, const char *what, struct bst_gpu *out)
{
    char *path = find_path(env, what), *text = NULL;
    size_t n = 0;
    json_error_t bad;
    *out = (struct bst_gpu){0};
    if (!path)
        return not_found(env, what);
    enum bst_err err = bst_io_read_file(path, FILE_BYTES_MAX, &text, &n);
    if (err) {
        bst_free(path);
        return bst_io_exists(what) ? err : bst_fail_in(BST_E_NOTFOUND, "the GPU's file");
    }
    json_t *root = json_loadb(text, n, 0, &bad);
    if (json_is_object(root))
        err = read_json(path, root, out);
    else
        err = bst_fail(BST_E_PARSE, "%s:%d: %s", path, root ? 1 : bad.line,
                       root ? "not a JSON object" : bad.text);
    const char *slash = strrchr(path, '/');
    bst_copy_clean(out->id, sizeof out->id, slash ? slash + 1 : path);
    if (ends_in_suffix(out->id))
        out->id[strlen(out->id) - sizeof suffix + 1] = '\0';
    json_decref(root);
    bst_free(text);
    bst_free(path);
    if (err)
        bst_gpu_fini(out);
    return err;
}

void bst_gpu_fini(struct bst_gpu *g)
{
    bst_free(g->properties);
    g->properties = NULL;
}
