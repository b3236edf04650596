#include "core/base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"

/* Far above any tree of a run; bounds the descriptors held at once. */
enum { DEPTH_MAX = 64 };

static enum bst_err fail_errno(const char *what)
{
    return bst_fail(BST_E_IO, "%s: %s", what, strerror(errno));
}

enum bst_err bst_io_write_full(int fd, const void *data, size_t n, const char *what)
{
    const char *p = data;
    while (n) {
        ssize_t did = write(fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return fail_errno(what);
        p += did;
        n -= (size_t)did;
    }
    return BST_OK;
}

enum bst_err bst_io_read_full(int fd, void *data, size_t n, const char *what)
{
    char *p = data;
    while (n) {
        ssize_t did = read(fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return fail_errno(what);
        if (!did)
            return bst_fail(BST_E_IO, "%s: ends %zu bytes early", what, n);
        p += did;
        n -= (size_t)did;
    }
    return BST_OK;
}

/* Reads to the end of file, whatever stat says the size is (/proc says 0). */
static enum bst_err read_all(int fd, const char *path, size_t cap, char **data, size_t *n)
{
    enum bst_err err = BST_OK;
    size_t room = 4096, len = 0;
    char *buf = bst_xalloc(room);
    for (;;) {
        if (len + 1 == room) {
            room *= 2;
            buf = bst_xrealloc(buf, room, 1);
        }
        ssize_t did = read(fd, buf + len, room - 1 - len);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0) {
            err = fail_errno(path);
            goto out;
        }
        if (!did)
            break;
        len += (size_t)did;
        if (len > cap) {
            err = bst_fail(BST_E_RANGE, "%s: larger than %zu bytes", path, cap);
            goto out;
        }
    }
    buf[len] = '\0';
    *data = buf;
    *n = len;
    return BST_OK;
out:
    bst_free(buf);
    return err;
}

enum bst_err bst_io_read_file(const char *path, size_t cap, char **data, size_t *n)
{
    *data = NULL;
    *n = 0;
    struct stat st;
    /* A pipe that nobody writes to would hold the opening for ever. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? bst_fail(BST_E_NOTFOUND, "%s: %s", path, strerror(errno))
                   : fail_errno(path);
    enum bst_err err = BST_OK;
    if (fstat(fd, &st))
        err = fail_errno(path);
    else if (!S_ISREG(st.st_mode))
        err = bst_fail(BST_E_IO, "%s: is %s, not a file", path,
                       S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a pipe"
                                              : "a device");
    if (!err)
        err = read_all(fd, path, cap, data, n);
    close(fd);
    return err;
}

enum bst_err bst_io_open_write(const char *path, int flags, mode_t mode, int *fd)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, mode);
    if (*fd < 0)
        return errno == EEXIST ? bst_fail(BST_E_EXISTS, "%s: %s", path, strerror(errno))
                               : fail_errno(path);
    return BST_OK;
}

enum bst_err bst_io_sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path);
    enum bst_err err = fsync(fd) ? fail_errno(path) : BST_OK;
    close(fd);
    return err;
}

static enum bst_err sync_parent(const char *path)
{
    char *dir = bst_xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    enum bst_err err = bst_io_sync_dir(slash ? dir : ".");
    bst_free(dir);
    return err;
}

static enum bst_err open_temp(const char *temp, int *fd)
{
    enum bst_err err = bst_io_open_write(temp, O_EXCL, 0666, fd);
    if (err != BST_E_EXISTS)
        return err;
    /* Left behind by a dead process that had this one's number. */
    if (unlink(temp))
        return fail_errno(temp);
    return bst_io_open_write(temp, O_EXCL, 0666, fd);
}

static char *temp_beside(const char *path)
{
    static atomic_uint count;
    return bst_xasprintf("%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&count, 1));
}

/* The last error, of the temporary file, is one of the file that was asked for. */
static enum bst_err fail_as(enum bst_err err, const char *temp, const char *path)
{
    const size_t n = strlen(temp);
    const char *why = bst_err_text();
    return strncmp(why, temp, n) ? err : bst_fail(err, "%s%s", path, why + n);
}

enum bst_err bst_io_replace_file(const char *path, const void *data, size_t n)
{
    char *temp = temp_beside(path);
    int fd = -1;
    enum bst_err err = open_temp(temp, &fd);
    if (err) {
        fail_as(err, temp, path);
        bst_free(temp);
        return err;
    }
    err = bst_io_write_full(fd, data, n, path);
    /* After a failing fsync the data is lost even if a second one succeeds: give the file up. */
    if (!err && fsync(fd))
        err = fail_errno(path);
    if (close(fd) && !err)
        err = fail_errno(path);
    if (!err && rename(temp, path))
        err = fail_errno(path);
    if (err)
        (void)unlink(temp);
    else
        err = sync_parent(path);
    bst_free(temp);
    return err;
}

enum bst_err bst_io_may_replace(const char *path)
{
    struct stat st;
    int fd;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return fail_errno(path);
    }
    char *temp = temp_beside(path);
    enum bst_err err = open_temp(temp, &fd);
    if (!err) {
        close(fd);
        if (unlink(temp))
            err = fail_errno(temp);
    }
    if (err)
        fail_as(err, temp, path);
    bst_free(temp);
    return err;
}

static enum bst_err make_dir(const char *path, mode_t mode)
{
    struct stat st;
    if (!mkdir(path, mode))
        return BST_OK;
    int why = errno;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return BST_OK;
    errno = why == EEXIST ? ENOTDIR : why;
    return fail_errno(path);
}

enum bst_err bst_io_make_dirs(const char *path, mode_t mode)
{
    char *part = bst_xstrdup(path);
    enum bst_err err = BST_OK;
    for (char *p = part; *p && !err; p++) {
        if (*p != '/' || p == part)
            continue;
        *p = '\0';
        err = make_dir(part, mode);
        *p = '/';
    }
    if (!err)
        err = make_dir(part, mode);
    bst_free(part);
    return err;
}

static enum bst_err remove_at(int at, const char *name, const char *path, int depth);

static enum bst_err remove_entries(DIR *dir, const char *path, int depth)
{
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e)
            return errno ? fail_errno(path) : BST_OK;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        BST_TRY(remove_at(dirfd(dir), e->d_name, path, depth + 1));
    }
}

/* Works on descriptors and follows no link, so nothing outside the tree can be reached. */
static enum bst_err remove_at(int at, const char *name, const char *path, int depth)
{
    if (!unlinkat(at, name, 0) || errno == ENOENT)
        return BST_OK;
    if (errno != EISDIR && errno != EPERM)
        return fail_errno(path);
    if (depth > DEPTH_MAX)
        return bst_fail(BST_E_RANGE, "%s: deeper than %d folders", path, DEPTH_MAX);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        enum bst_err err = fail_errno(path);
        close(fd);
        return err;
    }
    enum bst_err err = remove_entries(dir, path, depth);
    closedir(dir);
    if (!err && unlinkat(at, name, AT_REMOVEDIR))
        err = fail_errno(path);
    return err;
}

enum bst_err bst_io_remove_tree(const char *path)
{
    return remove_at(AT_FDCWD, path, path, 0);
}

bool bst_io_exists(const char *path)
{
    struct stat st;
    return !lstat(path, &st);
}

bool bst_io_is_at(int fd, const char *path)
{
    struct stat own, there;
    if (lstat(path, &there))
        return errno != ENOENT && errno != ENOTDIR;
    return !fstat(fd, &own) && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}
