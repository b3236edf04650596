#include "core/backend/module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"

enum { MODULES_MOST = 4, PATH_BYTES = 4096 };

static struct loaded {
    const char *name;
    const struct bst_module *module;
} loaded[MODULES_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum bst_err host_fail(enum bst_err code, const char *text)
{
    return bst_fail(code, "%s", text);
}

static enum bst_err host_fail_in(enum bst_err code, const char *text)
{
    return bst_fail_in(code, "%s", text);
}

static void host_panic(const char *file, int line, const char *text)
{
    bst_panic(file, line, "%s", text);
}

static const struct bst_module_host *the_host(void)
{
    static const struct bst_module_host host = {
        .build = BST_MODULE_BUILD,
        .fail = host_fail,
        .fail_in = host_fail_in,
        .err_text = bst_err_text,
        .err_name = bst_err_name,
        .panic = host_panic,
        .xalloc = bst_xalloc,
        .xcalloc = bst_xcalloc,
        .xrealloc = bst_xrealloc,
        .xstrdup = bst_xstrdup,
        .free = bst_free,
        .alloc = bst_alloc,
        .alloc_free = bst_alloc_free,
        .mul_size = bst_mul_size,
        .add_size = bst_add_size,
    };

    return &host;
}

/* Folder of the running binary, or so many above it: no ".." in a path that people are shown. */
static bool own_folder(int above, char out[PATH_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES - 1);

    if (n <= 0)
        return false;
    out[n] = '\0';
    for (int i = 0; i <= above; i++) {
        char *slash = strrchr(out, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return true;
}

/* Where a module may lie, in order; NULL past the last. $BSTUNE_MODULE_DIR alone, where it is set.
 */
static const char *place(int i, const char *name, char out[PATH_BYTES])
{
    static const char *const below[] = {"", "/" BST_MODULE_LIBDIR};
    const char *given = getenv("BSTUNE_MODULE_DIR");
    char own[PATH_BYTES];
    int n;

    if (given && *given) {
        if (i > 0)
            return NULL;
        n = snprintf(out, PATH_BYTES, "%s/%s.so", given, name);
    } else {
        if (i >= (int)(sizeof below / sizeof below[0]) || !own_folder(i, own))
            return NULL;
        n = snprintf(out, PATH_BYTES, "%s%s/%s.so", own, below[i], name);
    }
    return n > 0 && n < PATH_BYTES ? out : NULL;
}

/* The dynamic linker names the file it misses first: "libcudnn.so.9: cannot open shared object
 * file: No such file or directory". */
static enum bst_err explain(const char *path, const char *needs, const char *why)
{
    const char *colon = strchr(why, ':');

    if (strstr(why, "cannot open shared object file") && colon && strncmp(why, path, strlen(path)))
        return bst_fail(BST_E_NOTFOUND, "%s needs %.*s, which is not on this machine: install %s",
                        path, (int)(colon - why), why, needs);
    return bst_fail(BST_E_NOTFOUND, "%s cannot be loaded: %s", path, why);
}

static enum bst_err open_at(const char *path, const char *needs, const struct bst_module **out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bst_module_entry_fn *entry = NULL;

    if (!library)
        return explain(path, needs, dlerror());
    /* POSIX: the cast by way of an object is how a function is got from dlsym(). */
    *(void **)&entry = dlsym(library, BST_MODULE_ENTRY);
    *out = entry ? entry(the_host()) : NULL;
    if (*out)
        return BST_OK;
    dlclose(library);
    return bst_fail(BST_E_STATE, "%s is of another build of bstune than this one (%s)", path,
                    BST_VERSION);
}

static enum bst_err find_and_open(const char *name, const char *needs,
                                  const struct bst_module **out)
{
    char path[PATH_BYTES], looked[2 * PATH_BYTES] = "";

    for (int i = 0; place(i, name, path); i++) {
        if (!access(path, R_OK))
            return open_at(path, needs, out);
        size_t n = strlen(looked);
        snprintf(looked + n, sizeof looked - n, "%s%s", n ? ", " : "", path);
    }
    return bst_fail(BST_E_NOTFOUND,
                    "%s.so is not there (looked for %s): this bstune was built without it, or the "
                    "file has been left behind",
                    name, looked);
}

enum bst_err bst_module_load(const char *name, const char *needs, const struct bst_module **out)
{
    enum bst_err err = BST_OK;
    int i = 0;

    *out = NULL;
    pthread_mutex_lock(&lock);
    while (i < MODULES_MOST && loaded[i].name && strcmp(loaded[i].name, name))
        i++;
    BST_ASSERT(i < MODULES_MOST);
    if (!loaded[i].module)
        err = find_and_open(name, needs, &loaded[i].module);
    if (!err) {
        loaded[i].name = name;
        *out = loaded[i].module;
    }
    pthread_mutex_unlock(&lock);
    return err;
}
