#include "core/backend/conv_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/conv_module.h"
#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/base/sb.h"

enum {
    KEY = 96,
    CACHE_BYTES_MAX = 16 << 20,
    CACHE_FORM = 1, /* of the file; another one is not read */
};

struct entry {
    char key[KEY]; /* "": free */
    struct bst_conv_answer answer;
    bool fresh; /* not on disk */
};

struct bst_conv_planner {
    const struct bst_conv_module *module;
    char *properties;
    size_t n_properties;
    void *device; /* opened by the first question that the cache has no answer to */
    char cudnn[32];
    char *path; /* of the cache; NULL: none */
    struct entry *entries;
    size_t room, n; /* room: a power of two, half of it free */
    int asked, planned;
};

const char *bst_conv_type_name(enum bst_conv_type type)
{
    static const char *const names[] = {
#define X(name, word) word,
        BST_CONV_TYPES(X)
#undef X
    };
    return (unsigned)type < BST_CONV_N_TYPES ? names[type] : "?";
}

const char *bst_conv_pass_name(enum bst_conv_pass pass)
{
    static const char *const names[] = {
#define X(name, word) word,
        BST_CONV_PASSES(X)
#undef X
    };
    return (unsigned)pass < BST_CONV_N_PASSES ? names[pass] : "?";
}

static void key_of(const struct bst_conv_ask *a, char out[KEY])
{
    snprintf(out, KEY, "%s%s%s%s %s %dx%dx%dx%d %d k%d s%d p%d w%" PRId64,
             bst_conv_pass_name(a->pass), a->sums ? "+sums" : "", a->add ? "+add" : "",
             a->deterministic ? "+det" : "", bst_conv_type_name(a->type), a->n, a->c, a->h, a->w,
             a->k, a->kernel, a->stride, a->pad, a->workspace_most < 0 ? -1 : a->workspace_most);
}

/* Where the key is, or where it belongs. */
static struct entry *place_of(const struct bst_conv_planner *p, const char *key)
{
    size_t i = bst_crc32c(0, key, strlen(key)) & (p->room - 1);
    while (p->entries[i].key[0] && strcmp(p->entries[i].key, key) != 0)
        i = (i + 1) & (p->room - 1);
    return &p->entries[i];
}

static void grow(struct bst_conv_planner *p)
{
    struct entry *old = p->entries;
    size_t n = p->room;
    p->room = n ? 2 * n : 1024;
    p->entries = bst_xcalloc(p->room, sizeof *p->entries);
    for (size_t i = 0; i < n; i++)
        if (old[i].key[0])
            *place_of(p, old[i].key) = old[i];
    bst_free(old);
}

static struct entry *remember(struct bst_conv_planner *p, const char *key,
                              const struct bst_conv_answer *answer)
{
    if (2 * (p->n + 1) > p->room)
        grow(p);
    struct entry *e = place_of(p, key);
    p->n += !e->key[0];
    snprintf(e->key, sizeof e->key, "%s", key);
    e->answer = *answer;
    e->fresh = false;
    return e;
}

static void write_entry(const struct entry *e, struct bst_sb *out)
{
    const struct bst_conv_answer *a = &e->answer;
    bst_sb_addf(out, "%s = %d %d %" PRId64 " %" PRId64 " %u;\n", e->key, a->accepted, a->fallback,
                a->workspace, a->engine, a->notes);
}

/* One line of the file; what is damaged is asked again. */
static void read_entry(struct bst_conv_planner *p, const char *line, size_t n)
{
    char key[KEY];
    const char *is = memchr(line, '=', n);
    int accepted = 0, fallback = 0;
    struct bst_conv_answer a = {0};
    char text[KEY + 96], end = 0;
    if (!is || is - line < 2 || is - line >= KEY || n >= sizeof text)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(is - 1 - line), line);
    snprintf(text, sizeof text, "%.*s", (int)(line + n - is), is);
    if (sscanf(text, "= %d %d %" SCNd64 " %" SCNd64 " %u%c", &accepted, &fallback, &a.workspace,
               &a.engine, &a.notes, &end) != 6 ||
        end != ';' || a.workspace < 0 || accepted >> 1 || fallback >> 1)
        return;
    a.accepted = accepted;
    a.fallback = fallback;
    if (!p->room || !place_of(p, key)->key[0])
        remember(p, key, &a);
}

/* The first line says what the answers hold for; the file's name has it only in short. */
static char *heading(const struct bst_conv_planner *p)
{
    return bst_xasprintf("bstune plans %d, cuDNN %s, device %08" PRIx32 " of %zu bytes\n",
                         CACHE_FORM, p->cudnn, bst_crc32c(0, p->properties, p->n_properties),
                         p->n_properties);
}

static void read_cache(struct bst_conv_planner *p)
{
    char *text = NULL, *head = heading(p);
    size_t n = 0, n_head = strlen(head);
    if (p->path && !bst_io_read_file(p->path, CACHE_BYTES_MAX, &text, &n) && n >= n_head &&
        !strncmp(text, head, n_head)) {
        for (const char *line = text + n_head, *end; (end = strchr(line, '\n')); line = end + 1)
            read_entry(p, line, (size_t)(end - line));
    }
    bst_free(text);
    bst_free(head);
}

static bool any_fresh(const struct bst_conv_planner *p)
{
    for (size_t i = 0; i < p->room; i++)
        if (p->entries[i].key[0] && p->entries[i].fresh)
            return true;
    return false;
}

/* Another process may have written meanwhile: its answers are kept. */
static void write_cache(struct bst_conv_planner *p)
{
    struct bst_sb text;
    char *head, *slash;
    if (!p->path || !any_fresh(p))
        return;
    read_cache(p);
    head = heading(p);
    bst_sb_init(&text, CACHE_BYTES_MAX);
    bst_sb_add(&text, head);
    for (size_t i = 0; i < p->room; i++)
        if (p->entries[i].key[0])
            write_entry(&p->entries[i], &text);
    slash = strrchr(p->path, '/');
    *slash = '\0';
    enum bst_err err = text.full ? BST_E_RANGE : bst_io_make_dirs(p->path, 0777);
    *slash = '/';
    if (!err)
        err = bst_io_replace_file(p->path, text.data, text.len);
    (void)err; /* a cache that cannot be kept costs time, no more */
    bst_sb_fini(&text);
    bst_free(head);
}

static char *cache_path(const struct bst_conv_planner *p, const char *folder)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    uint32_t crc = bst_crc32c(0, p->properties, p->n_properties);
    char *path = NULL, *root = NULL;
    if (folder)
        root = bst_xstrdup(folder);
    else if (xdg && *xdg == '/')
        root = bst_xasprintf("%s/bstune", xdg);
    else if (home && *home == '/')
        root = bst_xasprintf("%s/.cache/bstune", home);
    if (root && *root)
        path = bst_xasprintf("%s/plans-%s-%08" PRIx32 ".txt", root, p->cudnn, crc);
    bst_free(root);
    return path;
}

static enum bst_err open_module(const struct bst_conv_module **out)
{
    void *symbol = NULL;
    if (bst_conv_module_open("plan_cuda.so", "bst_conv_module", &symbol))
        return bst_fail_in(BST_E_LIBRARY, "planning for a GPU takes cuDNN");
    *out = symbol;
    if ((*out)->abi != BST_CONV_MODULE_ABI)
        return bst_fail(BST_E_LIBRARY, "plan_cuda.so is that of another version of bstune");
    return BST_OK;
}

static void version_text(const struct bst_conv_module *m, char out[32])
{
    long v = m->version();
    snprintf(out, 32, "%ld.%ld.%ld", v / 10000, v / 100 % 100, v % 100);
}

enum bst_err bst_conv_cudnn_version(char out[32])
{
    const struct bst_conv_module *m = NULL;
    BST_TRY(open_module(&m));
    version_text(m, out);
    return BST_OK;
}

enum bst_err bst_conv_planner_open(const char *properties, size_t bytes, const char *cache,
                                   struct bst_conv_planner **out)
{
    const struct bst_conv_module *m = NULL;
    *out = NULL;
    BST_TRY(open_module(&m));
    struct bst_conv_planner *p = bst_xalloc(sizeof *p);
    p->module = m;
    version_text(m, p->cudnn);
    p->properties = bst_xasprintf("%.*s", (int)bytes, properties);
    p->n_properties = bytes;
    p->path = cache_path(p, cache);
    read_cache(p);
    *out = p;
    return BST_OK;
}

void bst_conv_planner_close(struct bst_conv_planner *p)
{
    if (!p)
        return;
    write_cache(p);
    if (p->device)
        p->module->close(p->device);
    bst_free(p->entries);
    bst_free(p->properties);
    bst_free(p->path);
    bst_free(p);
}

enum bst_err bst_conv_planner_ask(struct bst_conv_planner *p, const struct bst_conv_ask *ask,
                                  struct bst_conv_answer *out)
{
    char key[KEY], why[BST_CONV_WHY] = "";
    enum bst_err err = BST_OK;
    key_of(ask, key);
    p->asked++;
    struct entry *e = p->room ? place_of(p, key) : NULL;
    if (e && e->key[0]) {
        *out = e->answer;
        return BST_OK;
    }
    if (!p->device)
        err = p->module->open(p->properties, p->n_properties, &p->device, why);
    if (!err)
        err = p->module->ask(p->device, ask, out, why);
    if (err)
        return bst_fail(err, "%s: %s", key, why);
    p->planned++;
    remember(p, key, out)->fresh = true;
    return BST_OK;
}

const char *bst_conv_planner_cudnn(const struct bst_conv_planner *p)
{
    return p->cudnn;
}

void bst_conv_planner_count(const struct bst_conv_planner *p, int *asked, int *planned)
{
    *asked = p->asked;
    *planned = p->planned;
}
