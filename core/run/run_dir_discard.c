/* A start that came to nothing: what it left in the run's folder, and the folder, are taken away.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/run/run_dir.h"

/* All that a run writes before its first checkpoint; the lock last, since a folder without it may
 * be taken by another. */
static const char *const files[] = {"metrics.jsonl", "journal.jsonl", "preset.yaml", "status.json",
                                    "run.json",      "log",           "checkpoints", "lock"};
enum { N_FILES = sizeof files / sizeof files[0] };

unsigned bst_run_dir_had(const char *dir)
{
    char path[768];
    unsigned had = 0;
    for (int i = 0; i < N_FILES; i++) {
        bst_run_path(dir, files[i], path);
        if (!access(path, F_OK))
            had |= 1u << i;
    }
    return had;
}

static bool is_empty(const char *dir)
{
    bool empty = true;
    struct dirent *e;
    DIR *d = opendir(dir);
    while (d && empty && (e = readdir(d)) != NULL)
        empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    if (d)
        closedir(d);
    return empty;
}

/* Whether metrics.jsonl has an update; notes may come before the first. */
static bool has_update(const char *dir)
{
    enum { HEAD = 64 << 10 };
    char path[768], *head = bst_xalloc(HEAD + 1);
    bst_run_path(dir, "metrics.jsonl", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, head, HEAD) : 0;
    head[n > 0 ? n : 0] = '\0';
    bool has = n < 0 || n == HEAD || strstr(head, "\"type\":\"update\"");
    if (fd >= 0)
        close(fd);
    bst_free(head);
    return has;
}

bool bst_run_dir_untrained(const char *dir)
{
    char path[768];
    bst_run_path(dir, "checkpoints", path);
    return is_empty(path) && !has_update(dir);
}

void bst_run_dir_discard(const char *dir, int made, unsigned had)
{
    char path[768];
    for (int i = 0; i < N_FILES; i++) {
        bst_run_path(dir, files[i], path);
        /* A folder goes only when it is empty. */
        if (!(had & 1u << i) && unlink(path))
            rmdir(path);
    }
    snprintf(path, sizeof path, "%s", dir);
    for (; made > 0 && !rmdir(path); made--) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return;
        *slash = '\0';
    }
}
