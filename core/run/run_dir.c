#include "core/run/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/run/field.h"
#include "core/run/socket.h"

enum { INFO_CAP = 64 << 10, NAME_TRIES = 10000 };

#define I(kind, name) BST_FIELD(struct bst_run_info, kind, name)
static const struct bst_field info_fields[] = {
    I(STR, name),   I(STR, dir),       I(STR, host),  I(INT, pid),     I(STR, socket),
    I(STR, preset), I(STR, preset_id), I(STR, state), I(F64, started), I(F64, ended),
};
#undef I
enum { N_INFO = sizeof info_fields / sizeof *info_fields };

void bst_run_path(const char *dir, const char *file, char out[768])
{
    snprintf(out, 768, "%.511s/%.200s", dir, file);
}

static enum bst_err full_path(const char *path, char dir[512])
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    if (strlen(real) >= 512)
        return bst_fail(BST_E_RANGE, "%s: a path longer than 511 bytes", path);
    bst_copy_text(dir, 512, real);
    return BST_OK;
}

static int number_of(const char *entry, const char *preset)
{
    size_t n = strlen(preset);
    int64_t number;
    if (strncmp(entry, preset, n) || entry[n] != '-' || !bst_int_parse(entry + n + 1, &number))
        return 0;
    return number > 0 && number < INT_MAX / 2 ? (int)number : 0;
}

static int highest(const char *root, const char *preset)
{
    int most = 0;
    DIR *d = opendir(root);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL) {
        int n = number_of(e->d_name, preset);
        most = n > most ? n : most;
    }
    if (d)
        closedir(d);
    return most;
}

/* Of `path`, how many folders from the last upwards are not there. */
static int missing(const char *path)
{
    char some[PATH_MAX];
    struct stat st;
    int n = 0;
    snprintf(some, sizeof some, "%s", path);
    for (size_t len = strlen(some); len && lstat(some, &st); n++) {
        while (len && some[len - 1] == '/')
            len--;
        while (len && some[len - 1] != '/')
            len--;
        while (len > 1 && some[len - 1] == '/')
            len--;
        some[len] = '\0';
    }
    return n;
}

enum bst_err bst_run_dir_new(const char *root, const char *preset, char dir[512], int *made)
{
    *made = missing(root);
    BST_TRY(bst_io_make_dirs(root, 0777));
    int first = highest(root, preset) + 1;
    for (int n = first; n < first + NAME_TRIES; n++) {
        char path[768], name[160];
        snprintf(name, sizeof name, "%.100s-%d", preset, n);
        bst_run_path(root, name, path);
        /* mkdir decides between starters that chose the same number. */
        if (!mkdir(path, 0700)) {
            ++*made;
            return full_path(path, dir);
        }
        if (errno != EEXIST)
            return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    }
    return bst_fail(BST_E_EXISTS, "%s: no number is free for %s", root, preset);
}

enum bst_err bst_run_dir_at(const char *path, char dir[512], int *made)
{
    *made = missing(path);
    BST_TRY(bst_io_make_dirs(path, 0700));
    return full_path(path, dir);
}

bool bst_run_dir_used(const char *dir)
{
    static const char *const files[] = {"metrics.jsonl", "journal.jsonl", "checkpoints"};
    char path[768];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bst_run_path(dir, files[i], path);
        if (bst_io_exists(path))
            return true;
    }
    return false;
}

/* Of the open file, not of the process: a thread or library that closes the file again, as closing
 * any descriptor of it would do with fcntl's older locks, does not lose it; and it works over NFS.
 */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

bool bst_run_lock_is_there(const char *dir, int fd)
{
    char path[768];
    bst_run_path(dir, "lock", path);
    return bst_io_is_at(fd, path);
}

/* The file may be taken away between its opening and its locking, by one that gives the folder up:
 * such a lock keeps nobody out. */
static enum bst_err open_lock(const char *path, int *fd, int *why)
{
    struct flock lock = whole_file();
    for (;;) {
        BST_TRY(bst_io_open_write(path, 0, 0600, fd));
        *why = fcntl(*fd, F_OFD_SETLK, &lock) ? errno : 0;
        if (*why || bst_io_is_at(*fd, path))
            return BST_OK;
        close(*fd);
    }
}

enum bst_err bst_run_lock(const char *dir, int *fd)
{
    char path[768];
    struct bst_run_info info;
    int why;
    bst_run_path(dir, "lock", path);
    BST_TRY(open_lock(path, fd, &why));
    if (!why)
        return BST_OK;
    close(*fd);
    *fd = -1;
    if (why != EAGAIN && why != EACCES)
        return bst_fail(BST_E_IO, "%s: %s", path, strerror(why));
    if (!bst_run_info_read(dir, &info))
        return bst_fail(BST_E_EXISTS, "%s: the run goes on already (process %d on %s)", dir,
                        info.pid, info.host);
    return bst_fail(BST_E_EXISTS, "%s: the run goes on already", dir);
}

void bst_run_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}

bool bst_run_is_live(const char *dir)
{
    char path[768];
    struct flock lock = whole_file();
    bst_run_path(dir, "lock", path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    /* Asks only: taking it, even for a moment, could turn a starter away. */
    bool held = !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
    close(fd);
    return held;
}

enum bst_err bst_run_write(const char *dir, const char *file, const struct bst_sb *text)
{
    char path[768];
    bst_run_path(dir, file, path);
    if (text->full)
        return bst_fail(BST_E_RANGE, "%s: would be larger than %zu bytes", path, text->cap);
    return bst_io_replace_file(path, text->data, text->len);
}

enum bst_err bst_run_info_write(const struct bst_run_info *info)
{
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, INFO_CAP);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_fields_print(info_fields, N_INFO, info, &j);
    bst_json_close(&j, '}');
    bst_sb_addc(&sb, '\n');
    enum bst_err err = bst_run_write(info->dir, "run.json", &sb);
    bst_sb_fini(&sb);
    return err;
}

/* As it was while it was there; the socket's name comes from it. */
static enum bst_err full_path_of_gone(const char *dir, char out[512])
{
    char path[PATH_MAX], parent[512];
    snprintf(path, sizeof path, "%s", dir);
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == path)
        return bst_fail(BST_E_NOTFOUND, "%s: no run here", dir);
    if (slash)
        *slash = '\0';
    BST_TRY(full_path(slash ? path : ".", parent));
    int n = snprintf(out, 512, "%s/%s", parent, slash ? slash + 1 : path);
    return n < 512 ? BST_OK : bst_fail(BST_E_RANGE, "%s: a path longer than 511 bytes", dir);
}

/* What is known of a trainer that answers where the run's own files do not say it. */
static bool ask_socket(const char *dir, struct bst_run_info *out)
{
    char real[512], path[BST_SOCKET_PATH];
    struct ucred peer;
    socklen_t n = sizeof peer;
    struct stat st;
    int fd;
    if (full_path(dir, real) && full_path_of_gone(dir, real))
        bst_copy_text(real, sizeof real, dir);
    if (bst_socket_path(real, path) || bst_socket_connect(path, &fd))
        return false;
    bool known = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n);
    close(fd);
    const char *base = strrchr(real, '/');
    *out = (struct bst_run_info){.pid = known ? peer.pid : 0, .live = true};
    bst_copy_text(out->name, sizeof out->name, base ? base + 1 : real);
    bst_copy_text(out->dir, sizeof out->dir, real);
    bst_copy_text(out->socket, sizeof out->socket, path);
    bool folder = !stat(real, &st) && S_ISDIR(st.st_mode);
    bst_copy_text(out->state, sizeof out->state, folder ? "running" : "no folder");
    if (gethostname(out->host, sizeof out->host - 1))
        out->host[0] = '\0';
    return true;
}

static enum bst_err read_info(const char *dir, struct bst_run_info *out)
{
    char path[768], *text;
    size_t n;
    *out = (struct bst_run_info){0};
    bst_run_path(dir, "run.json", path);
    enum bst_err err = bst_io_read_file(path, INFO_CAP, &text, &n);
    if (err)
        return err == BST_E_NOTFOUND ? bst_fail(err, "%s: no run here", dir) : err;
    json_error_t why;
    json_t *o = json_loadb(text, n, 0, &why);
    bst_free(text);
    if (!json_is_object(o) || !*bst_json_text(o, "name")) {
        json_decref(o);
        return bst_fail(BST_E_CORRUPT,
                        "%s: damaged%s%s; the run itself may be whole: --resume "
                        "writes this file anew",
                        path, o ? "" : ", ", o ? "" : why.text);
    }
    bst_fields_read(info_fields, N_INFO, o, out);
    json_decref(o);
    /* A folder that was moved is where it is now, whatever its file says. */
    BST_TRY(full_path(dir, out->dir));
    out->live = bst_run_is_live(dir);
    if (!out->live && !strcmp(out->state, "running"))
        bst_copy_text(out->state, sizeof out->state, "killed");
    return BST_OK;
}

enum bst_err bst_run_info_read(const char *dir, struct bst_run_info *out)
{
    enum bst_err err = read_info(dir, out);
    if (!err)
        return err;
    const struct bst_failure why = bst_err_keep(err);
    return ask_socket(dir, out) ? BST_OK : bst_err_restore(&why);
}

static int newer(const void *a, const void *b)
{
    const struct bst_run_info *x = a, *y = b;
    if (x->started != y->started)
        return x->started < y->started ? 1 : -1;
    return strcmp(x->name, y->name);
}

struct runs {
    struct bst_run_info *list;
    int n, room;
};

static void add_run(struct runs *runs, const char *path, bool only_live)
{
    struct bst_run_info info;
    enum bst_err err = bst_run_info_read(path, &info);
    if (err == BST_E_NOTFOUND || (only_live && !info.live))
        return;
    if (err) {
        const char *base = strrchr(path, '/');
        info = (struct bst_run_info){.state = "damaged"};
        bst_copy_text(info.name, sizeof info.name, base ? base + 1 : path);
        bst_copy_text(info.dir, sizeof info.dir, path);
    }
    for (int i = 0; i < runs->n; i++)
        if (!strcmp(runs->list[i].dir, info.dir))
            return;
    if (runs->n == runs->room) {
        runs->room *= 2;
        runs->list = bst_xrealloc(runs->list, (size_t)runs->room, sizeof *runs->list);
    }
    runs->list[runs->n++] = info;
}

static void add_under(struct runs *runs, const char *root)
{
    struct dirent *e;
    DIR *d = opendir(root);
    while (d && (e = readdir(d)) != NULL) {
        char path[768];
        bst_run_path(root, e->d_name, path);
        if (e->d_name[0] != '.')
            add_run(runs, path, false);
    }
    if (d)
        closedir(d);
}

static const char link_end[] = ".run";

static bool is_link(const char *name)
{
    size_t n = strlen(name), end = sizeof link_end - 1;
    return n > end && !strcmp(name + n - end, link_end);
}

static void add_link(struct runs *runs, const char *path)
{
    char target[512];
    struct stat st;
    int before = runs->n;
    if (!stat(path, &st) || errno != ENOENT) {
        add_run(runs, path, true);
        return;
    }
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    /* A trainer may live on without its folder. */
    if (n > 0)
        add_run(runs, target, true);
    if (runs->n == before)
        unlink(path);
}

static void add_registered(struct runs *runs)
{
    char dir[BST_SOCKET_PATH];
    struct dirent *e;
    if (bst_socket_dir(dir))
        return;
    DIR *d = opendir(dir);
    while (d && (e = readdir(d)) != NULL) {
        char path[768];
        bst_run_path(dir, e->d_name, path);
        if (is_link(e->d_name))
            add_link(runs, path);
    }
    if (d)
        closedir(d);
}

/* Socket's path with another end; false where it has none. */
static bool link_path(const struct bst_run_info *info, char out[768])
{
    size_t n = strlen(info->socket), end = strlen(".sock");
    if (n <= end)
        return false;
    snprintf(out, 768, "%.*s%s", (int)(n - end), info->socket, link_end);
    return true;
}

void bst_run_register(const struct bst_run_info *info)
{
    char path[768];
    if (!link_path(info, path))
        return;
    unlink(path);
    /* Without it the run is found by its folder. */
    if (symlink(info->dir, path))
        bst_log(BST_LOG_WARN, "%s: %s", path, strerror(errno));
}

void bst_run_unregister(const struct bst_run_info *info)
{
    char path[768];
    if (link_path(info, path))
        unlink(path);
}

enum bst_err bst_run_list(const char *root, struct bst_run_info **out, int *n)
{
    struct runs runs = {.room = 16};
    runs.list = bst_xcalloc((size_t)runs.room, sizeof *runs.list);
    add_under(&runs, root);
    add_registered(&runs);
    qsort(runs.list, (size_t)runs.n, sizeof *runs.list, newer);
    *out = runs.list;
    *n = runs.n;
    return BST_OK;
}
