#include "core/backend/cuda/keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cuda/dnn_graph.h"
#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/base/sb.h"

enum {
    FILE_BYTES_MAX = 64 << 20,
    FORM = 2,  /* of the file; another one is not read */
    TAIL = 10, /* " #" and the line's CRC-32C in hexadecimal */
};

struct entry {
    char key[CUDA_KEEP_KEY]; /* "": free */
    char *text;
};

struct cuda_keep {
    char *heading;
    char *path; /* NULL: nothing is kept */
    struct entry *entries;
    size_t room, n; /* room: a power of two, half of it free */
    bool fresh;     /* there is what is not on disk */
};

/* Where the key is, or where it belongs. */
static struct entry *place_of(const struct cuda_keep *k, const char *key)
{
    size_t i = bst_crc32c(0, key, strlen(key)) & (k->room - 1);

    while (k->entries[i].key[0] && strcmp(k->entries[i].key, key) != 0)
        i = (i + 1) & (k->room - 1);
    return &k->entries[i];
}

static void grow(struct cuda_keep *k)
{
    struct entry *old = k->entries;
    const size_t n = k->room;

    k->room = n ? 2 * n : 1024;
    k->entries = bst_xcalloc(k->room, sizeof *k->entries);
    for (size_t i = 0; i < n; i++)
        if (old[i].key[0])
            *place_of(k, old[i].key) = old[i];
    bst_free(old);
}

static bool remember(struct cuda_keep *k, const char *key, const char *text, size_t n)
{
    if (2 * (k->n + 1) > k->room)
        grow(k);
    struct entry *e = place_of(k, key);
    if (e->key[0])
        return false;
    snprintf(e->key, sizeof e->key, "%s", key);
    e->text = bst_xasprintf("%.*s", (int)n, text);
    k->n++;
    return true;
}

/* "KEY = TEXT #CRC", n bytes. */
static void read_line(struct cuda_keep *k, const char *line, size_t n)
{
    static const char between[] = " = ";
    char key[CUDA_KEEP_KEY];
    uint32_t crc = 0;

    if (n <= TAIL || sscanf(line + n - TAIL, " #%8" SCNx32, &crc) != 1 ||
        crc != bst_crc32c(0, line, n - TAIL))
        return;
    const char *is = memmem(line, n - TAIL, between, strlen(between));
    if (!is || is == line || is - line >= (ptrdiff_t)sizeof key)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(is - line), line);
    const char *text = is + strlen(between);
    remember(k, key, text, (size_t)(line + n - TAIL - text));
}

static void read_file(struct cuda_keep *k)
{
    char *text = NULL;
    size_t n = 0, n_head = strlen(k->heading);

    if (k->path && bst_io_exists(k->path) &&
        !bst_io_read_file(k->path, FILE_BYTES_MAX, &text, &n) && n >= n_head &&
        !strncmp(text, k->heading, n_head)) {
        for (const char *line = text + n_head, *end; (end = strchr(line, '\n')); line = end + 1)
            read_line(k, line, (size_t)(end - line));
    }
    bst_free(text);
}

static void print_all(const struct cuda_keep *k, struct bst_sb *out)
{
    bst_sb_add(out, k->heading);
    for (size_t i = 0; i < k->room; i++) {
        const struct entry *e = &k->entries[i];
        const size_t from = out->len;

        if (!e->key[0])
            continue;
        bst_sb_addf(out, "%s = %s", e->key, e->text);
        bst_sb_addf(out, " #%08" PRIx32 "\n", bst_crc32c(0, out->data + from, out->len - from));
    }
}

void cuda_keep_write(struct cuda_keep *k)
{
    struct bst_sb text;

    if (!k->path || !k->fresh)
        return;
    read_file(k); /* another process may have written meanwhile */
    bst_sb_init(&text, FILE_BYTES_MAX);
    print_all(k, &text);
    char *slash = strrchr(k->path, '/');
    *slash = '\0';
    enum bst_err err = text.full ? BST_E_RANGE : bst_io_make_dirs(k->path, 0777);
    *slash = '/';
    if (!err)
        err = bst_io_replace_file(k->path, text.data, text.len);
    k->fresh = false; /* tried once: a folder that cannot be written is not tried at every update */
    bst_sb_fini(&text);
}

static char *path_of(const char *name, const char *cudnn, uint32_t crc, const char *folder)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL, *root = NULL;

    if (folder)
        root = bst_xstrdup(folder);
    else if (xdg && *xdg == '/')
        root = bst_xasprintf("%s/bstune", xdg);
    else if (home && *home == '/')
        root = bst_xasprintf("%s/.cache/bstune", home);
    if (root && *root)
        path = bst_xasprintf("%s/%s-%s-%08" PRIx32 ".txt", root, name, cudnn, crc);
    bst_free(root);
    return path;
}

struct cuda_keep *cuda_keep_open(const char *name, const char *properties, size_t n,
                                 const char *folder)
{
    struct cuda_keep *k = bst_xalloc(sizeof *k);
    const uint32_t crc = bst_crc32c(0, properties, n);
    char cudnn[32];

    cuda_dnn_version(cudnn);
    k->path = path_of(name, cudnn, crc, folder);
    /* The file's name has it only in short. */
    k->heading =
        bst_xasprintf("bstune %s %d, cuDNN %s, device %08" PRIx32 " of %zu bytes: %.*s\n", name,
                      FORM, cudnn, crc, n, (int)strcspn(properties, "\n"), properties);
    grow(k);
    read_file(k);
    return k;
}

void cuda_keep_close(struct cuda_keep *k)
{
    if (!k)
        return;
    cuda_keep_write(k);
    for (size_t i = 0; i < k->room; i++)
        bst_free(k->entries[i].text);
    bst_free(k->entries);
    bst_free(k->heading);
    bst_free(k->path);
    bst_free(k);
}

const char *cuda_keep_find(const struct cuda_keep *k, const char *key)
{
    return place_of(k, key)->text;
}

void cuda_keep_add(struct cuda_keep *k, const char *key, const char *text)
{
    if (remember(k, key, text, strlen(text)))
        k->fresh = true;
}

void cuda_keep_set(struct cuda_keep *k, const char *key, const char *text)
{
    struct entry *e = place_of(k, key);

    if (!e->key[0]) {
        cuda_keep_add(k, key, text);
    } else if (strcmp(e->text, text) != 0) {
        char *before = e->text; /* `text` may be a part of it */

        e->text = bst_xstrdup(text);
        bst_free(before);
        k->fresh = true;
    }
}

bool cuda_keep_next(const struct cuda_keep *k, size_t *at, const char **key, const char **text)
{
    while (*at < k->room && !k->entries[*at].key[0])
        ++*at;
    if (*at == k->room)
        return false;
    *key = k->entries[*at].key;
    *text = k->entries[*at].text;
    ++*at;
    return true;
}
