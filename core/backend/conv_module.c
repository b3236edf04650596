#include "core/backend/conv_module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"

enum { PLACES = 5 };

/* The program's folder with its slash, heap. */
static char *own_folder(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return bst_xstrdup("./");
    slash[1] = '\0';
    return bst_xstrdup(path);
}

static int list_places(const char *file, char *places[PLACES])
{
    const char *given = getenv("BSTUNE_MODULE_DIR");
    char *own = own_folder();
    int n = 0;
    if (given && *given) {
        bst_free(own);
        places[0] = bst_xasprintf("%s/%s", given, file);
        return 1;
    }
    places[n++] = bst_xasprintf("%s%s", own, file);
    places[n++] = bst_xasprintf("%s../lib/bstune/%s", own, file);
    places[n++] = bst_xasprintf("%s../%s/bstune/%s", own, BST_LIBDIR, file); /* lib/ARCH, lib64 */
    bst_free(own);
    return n;
}

/* "libcudnn.so.9: cannot open shared object file: …" → the library's name alone, when it is that
 * one which is missing. */
static enum bst_err load_failed(const char *file, const char *path)
{
    const char *text = dlerror();
    const char *colon = text ? strchr(text, ':') : NULL;
    if (colon && strncmp(text, path, strlen(path)) != 0 && strstr(colon, "cannot open shared"))
        return bst_fail(BST_E_LIBRARY, "%s needs %.*s, which is not installed here", file,
                        (int)(colon - text), text);
    return bst_fail(BST_E_LIBRARY, "%s: %s", file, text ? text : "cannot be loaded");
}

enum bst_err bst_conv_module_open(const char *file, const char *symbol, void **out)
{
    char *places[PLACES];
    int n = list_places(file, places), at = 0;
    void *library = NULL;
    enum bst_err err = BST_OK;
    *out = NULL;
    while (at < n && !bst_io_exists(places[at]))
        at++;
    if (at == n) {
        err = bst_fail(BST_E_NOTFOUND, "this build of bstune has no %s", file);
        goto out;
    }
    library = dlopen(places[at], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        err = load_failed(file, places[at]);
        goto out;
    }
    *out = dlsym(library, symbol);
    if (!*out) {
        dlclose(library);
        err = bst_fail(BST_E_LIBRARY, "%s: no %s in it", file, symbol);
    }
out:
    for (int i = 0; i < n; i++)
        bst_free(places[i]);
    return err;
}
