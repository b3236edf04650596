#include "core/backend/module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/base/alloc.h"

enum { MODULES_MOST = 4 };

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

static enum bst_err open_backend(const char *name, const char *needs, const struct bst_module **out)
{
    char path[BST_MODULE_PATH];
    void *library = NULL;
    bst_module_entry_fn *entry = NULL;

    BST_TRY(bst_module_open(name, needs, path, &library));
    /* POSIX: the cast by way of an object is how a function is got from dlsym(). */
    *(void **)&entry = dlsym(library, BST_MODULE_ENTRY);
    *out = entry ? entry(the_host()) : NULL;
    return *out ? BST_OK : bst_module_refuse(library, path);
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
        err = open_backend(name, needs, &loaded[i].module);
    if (!err) {
        loaded[i].name = name;
        *out = loaded[i].module;
    }
    pthread_mutex_unlock(&lock);
    return err;
}
