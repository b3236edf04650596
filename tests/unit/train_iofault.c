#include "train_iofault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
int __real_mkdir(const char *path, mode_t mode);
ssize_t __real_write(int fd, const void *data, size_t n);
int __real_fsync(int fd);
int __real_close(int fd);
int __real_rename(const char *from, const char *to);
int __real_unlinkat(int at, const char *name, int flags);
int __wrap_open(const char *path, int flags, ...);
int __wrap_mkdir(const char *path, mode_t mode);
ssize_t __wrap_write(int fd, const void *data, size_t n);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlinkat(int at, const char *name, int flags);

enum { MOST_FDS = 256, MOST_OPS = 256 };

enum op_kind { OP_CREATE, OP_MKDIR, OP_RENAME };

/* A change of a folder's names that is not synced yet. */
struct op {
    enum op_kind kind;
    char dir[PATH_MAX], path[PATH_MAX], from[PATH_MAX];
};

static struct {
    char root[PATH_MAX];
    enum iofault kind;
    int at, count, power;
    bool ignore_fsync;
    bool mine[MOST_FDS], is_dir[MOST_FDS], dirty[MOST_FDS];
    char name[MOST_FDS][PATH_MAX];
    int lost[MOST_FDS]; /* duplicates of descriptors closed while dirty; 0: none */
    int n_lost;
    struct op ops[MOST_OPS];
    int n_ops;
} io;

void iofault_arm(const char *root, enum iofault kind, int at, int power)
{
    snprintf(io.root, sizeof io.root, "%s", root);
    io.kind = kind;
    io.at = at;
    io.count = 0;
    io.power = power;
}

int iofault_count(void)
{
    return io.count;
}

void iofault_disarm(void)
{
    io.kind = IOFAULT_NONE;
    io.root[0] = '\0';
}

void iofault_ignore_fsync(bool on)
{
    io.ignore_fsync = on;
}

void iofault_power_loss(int power)
{
    iofault_disarm();
    for (int i = 0; power & POWER_LOSES_DATA && i < io.n_lost; i++)
        if (ftruncate(io.lost[i], 0))
            _exit(98);
    for (int fd = 0; power & POWER_LOSES_DATA && fd < MOST_FDS; fd++)
        if (io.mine[fd] && io.dirty[fd] && ftruncate(fd, 0))
            _exit(98);
    for (int i = io.n_ops - 1; power & POWER_LOSES_NAMES && i >= 0; i--) {
        const struct op *op = &io.ops[i];
        int rc = op->kind == OP_RENAME   ? __real_rename(op->path, op->from)
                 : op->kind == OP_CREATE ? unlink(op->path)
                                         : rmdir(op->path);
        /* A folder that still has synced files in it cannot vanish alone. */
        if (rc && errno != ENOENT && errno != ENOTEMPTY)
            _exit(97);
    }
}

static bool below(const char *path)
{
    return io.root[0] && !strncmp(path, io.root, strlen(io.root));
}

static void die(void)
{
    iofault_power_loss(io.power);
    _exit(9);
}

/* Counts an operation. True: it is to fail. */
static bool before(bool removal)
{
    io.count++;
    if (io.kind == IOFAULT_KILL_BEFORE && io.count == io.at)
        die();
    return (io.kind == IOFAULT_FAIL && io.count == io.at) ||
           (io.kind == IOFAULT_FAIL_ALL && io.count >= io.at && !removal);
}

static void after(void)
{
    if (io.kind == IOFAULT_KILL_AFTER && io.count == io.at)
        die();
}

static void remember(enum op_kind kind, const char *path, const char *from)
{
    if (io.n_ops == MOST_OPS)
        _exit(96);
    struct op *op = &io.ops[io.n_ops++];
    op->kind = kind;
    snprintf(op->path, sizeof op->path, "%s", path);
    snprintf(op->from, sizeof op->from, "%s", from ? from : "");
    snprintf(op->dir, sizeof op->dir, "%s", path);
    *strrchr(op->dir, '/') = '\0';
}

static void forget_dir(const char *dir)
{
    char real[PATH_MAX];
    int kept = 0;
    if (!realpath(dir, real))
        return;
    for (int i = 0; i < io.n_ops; i++)
        if (strcmp(io.ops[i].dir, real))
            io.ops[kept++] = io.ops[i];
    io.n_ops = kept;
}

int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;
    if (flags & O_CREAT) {
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    bool ours = below(path) && flags & (O_CREAT | O_DIRECTORY);
    if (!ours)
        return __real_open(path, flags, mode);
    if (before(false)) {
        errno = flags & O_CREAT ? ENOSPC : EIO;
        return -1;
    }
    bool existed = !access(path, F_OK);
    int fd = __real_open(path, flags, mode);
    if (fd >= 0 && fd < MOST_FDS) {
        io.mine[fd] = true;
        io.is_dir[fd] = flags & O_DIRECTORY;
        io.dirty[fd] = flags & O_TRUNC && existed;
        snprintf(io.name[fd], PATH_MAX, "%s", path);
        if (!existed)
            remember(OP_CREATE, path, NULL);
    }
    after();
    return fd;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    if (!below(path))
        return __real_mkdir(path, mode);
    if (before(false)) {
        errno = ENOSPC;
        return -1;
    }
    int rc = __real_mkdir(path, mode);
    if (!rc)
        remember(OP_MKDIR, path, NULL);
    after();
    return rc;
}

ssize_t __wrap_write(int fd, const void *data, size_t n)
{
    if (fd < 0 || fd >= MOST_FDS || !io.mine[fd])
        return __real_write(fd, data, n);
    if (before(false)) {
        errno = ENOSPC;
        return -1;
    }
    if (io.kind == IOFAULT_SHORT && io.count == io.at && n > 1)
        n /= 2;
    io.dirty[fd] = true;
    ssize_t did = __real_write(fd, data, n);
    after();
    return did;
}

int __wrap_fsync(int fd)
{
    if (fd < 0 || fd >= MOST_FDS || !io.mine[fd])
        return __real_fsync(fd);
    if (before(false)) {
        errno = EIO;
        return -1;
    }
    if (!io.ignore_fsync) {
        io.dirty[fd] = false;
        if (io.is_dir[fd])
            forget_dir(io.name[fd]);
    }
    after();
    return 0;
}

int __wrap_close(int fd)
{
    if (fd < 0 || fd >= MOST_FDS || !io.mine[fd])
        return __real_close(fd);
    bool fails = before(true);
    if (io.dirty[fd] && io.n_lost < MOST_FDS)
        io.lost[io.n_lost++] = dup(fd);
    io.mine[fd] = io.dirty[fd] = false;
    int rc = __real_close(fd);
    after();
    if (fails) {
        errno = EIO;
        return -1;
    }
    return rc;
}

int __wrap_rename(const char *from, const char *to)
{
    if (!below(to))
        return __real_rename(from, to);
    if (before(true)) {
        errno = EIO;
        return -1;
    }
    int rc = __real_rename(from, to);
    if (!rc)
        remember(OP_RENAME, to, from);
    after();
    return rc;
}

int __wrap_unlinkat(int at, const char *name, int flags)
{
    if (!io.root[0])
        return __real_unlinkat(at, name, flags);
    if (before(true)) {
        errno = EIO;
        return -1;
    }
    int rc = __real_unlinkat(at, name, flags);
    after();
    return rc;
}
