/* What this build knows by name, and where presets lie on this machine. */
#include "core/run/preset.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backend/backend.h"
#include "core/base/alloc.h"
#include "core/data/data.h"
#include "core/graph/net.h"

enum { DIRS_MAX = 5, NAMES_MAX = 32 };

struct owned_env {
    struct bst_preset_env env; /* first: what callers hold */
    char *dirs[DIRS_MAX];
    const char *nets[NAMES_MAX], *formats[NAMES_MAX], *backends[NAMES_MAX];
    unsigned precisions[NAMES_MAX];
};

/* The folder that the running binary's own lies in, heap; NULL where /proc does not say. */
static char *own_prefix(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    /* Twice, since what is shown to people should not go through "build/..". */
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return bst_xstrdup(path);
}

static void find_dirs(char *dirs[DIRS_MAX])
{
    int n = 0;
    const char *given = getenv("BSTUNE_PRESET_DIR"), *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char *own = own_prefix();
    if (given && *given)
        dirs[n++] = bst_xstrdup(given);
    if (own) {
        dirs[n++] = bst_xasprintf("%s/presets", own); /* build/bstune beside presets/ */
        dirs[n++] = bst_xasprintf("%s/share/bstune/presets", own);
    }
    if (config && *config == '/')
        dirs[n++] = bst_xasprintf("%s/bstune/presets", config);
    else if (home && *home == '/')
        dirs[n++] = bst_xasprintf("%s/.config/bstune/presets", home);
    bst_free(own);
}

struct bst_preset_env *bst_preset_env_new(const struct bst_net_table *nets)
{
    struct owned_env *e = bst_xalloc(sizeof *e);
    find_dirs(e->dirs);
    BST_ASSERT(nets->n_nets < NAMES_MAX);
    for (int i = 0; i < nets->n_nets; i++)
        e->nets[i] = nets->nets[i].name;
    for (int i = 0; bst_data_formats[i]; i++) {
        BST_ASSERT(i < NAMES_MAX - 1);
        e->formats[i] = bst_data_formats[i]->name;
    }
    for (int i = 0; bst_backends[i]; i++) {
        BST_ASSERT(i < NAMES_MAX - 1);
        e->backends[i] = bst_backends[i]->name;
        e->precisions[i] = bst_backends[i]->precisions;
    }
    e->env = (struct bst_preset_env){.dirs = (const char *const *)e->dirs,
                                     .nets = e->nets,
                                     .formats = e->formats,
                                     .backends = e->backends,
                                     .precisions = e->precisions,
                                     .table = nets};
    return &e->env;
}

void bst_preset_env_free(struct bst_preset_env *env)
{
    struct owned_env *e = (struct owned_env *)env;
    for (int i = 0; e && i < DIRS_MAX; i++)
        bst_free(e->dirs[i]);
    bst_free(e);
}
