/* Where a module lies, and opening it; apart from module.c, in whose place tests put a backend that
 * is linked. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backend/module.h"

/* Folder of the running binary, or so many above it: no ".." in a path that people are shown. */
static bool own_folder(int above, char out[BST_MODULE_PATH])
{
    ssize_t n = readlink("/proc/self/exe", out, BST_MODULE_PATH - 1);

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
static const char *place(int i, const char *name, char out[BST_MODULE_PATH])
{
    static const char *const below[] = {"", "/" BST_MODULE_LIBDIR};
    const char *given = getenv("BSTUNE_MODULE_DIR");
    char own[BST_MODULE_PATH];
    int n;

    if (given && *given) {
        if (i > 0)
            return NULL;
        n = snprintf(out, BST_MODULE_PATH, "%s/%s.so", given, name);
    } else {
        if (i >= (int)(sizeof below / sizeof below[0]) || !own_folder(i, own))
            return NULL;
        n = snprintf(out, BST_MODULE_PATH, "%s%s/%s.so", own, below[i], name);
    }
    return n > 0 && n < BST_MODULE_PATH ? out : NULL;
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

enum bst_err bst_module_open(const char *name, const char *needs, char path[BST_MODULE_PATH],
                             void **library)
{
    char looked[2 * BST_MODULE_PATH] = "";

    for (int i = 0; place(i, name, path); i++) {
        if (!access(path, R_OK)) {
            *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            return *library ? BST_OK : explain(path, needs, dlerror());
        }
        size_t n = strlen(looked);
        snprintf(looked + n, sizeof looked - n, "%s%s", n ? ", " : "", path);
    }
    return bst_fail(BST_E_NOTFOUND,
                    "%s.so is not there (looked for %s): this bstune was built without it, or the "
                    "file has been left behind",
                    name, looked);
}

enum bst_err bst_module_refuse(void *library, const char *path)
{
    dlclose(library);
    return bst_fail(BST_E_STATE, "%s is of another build of bstune than this one (%s)", path,
                    BST_VERSION);
}

enum bst_err bst_module_symbol(const char *name, const char *needs, const char *symbol, void **out)
{
    char path[BST_MODULE_PATH];
    void *library = NULL;

    BST_TRY(bst_module_open(name, needs, path, &library));
    *out = dlsym(library, symbol);
    return *out ? BST_OK : bst_module_refuse(library, path);
}
