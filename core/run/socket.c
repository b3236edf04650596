#include "core/run/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/crc32c.h"
#include "core/run/field.h"

static enum bst_err check_dir(const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno));
    if (lstat(dir, &st))
        return bst_fail(BST_E_IO, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return bst_fail(BST_E_DENIED, "%s: is not a folder; remove it or set BSTUNE_SOCKET_DIR",
                        dir);
    if (st.st_uid != geteuid())
        return bst_fail(BST_E_DENIED, "%s: belongs to user %u; set BSTUNE_SOCKET_DIR", dir,
                        (unsigned)st.st_uid);
    if (st.st_mode & 077)
        return bst_fail(BST_E_DENIED, "%s: is open to others (mode %03o, wanted 700)", dir,
                        (unsigned)(st.st_mode & 0777));
    return BST_OK;
}

enum bst_err bst_socket_dir(char out[BST_SOCKET_PATH])
{
    const char *given = getenv("BSTUNE_SOCKET_DIR");
    if (!given || !*given)
        snprintf(out, BST_SOCKET_PATH, "/tmp/bstune-%u", (unsigned)geteuid());
    else if (strlen(given) >= BST_SOCKET_PATH)
        return bst_fail(BST_E_RANGE, "BSTUNE_SOCKET_DIR is longer than %d bytes",
                        BST_SOCKET_PATH - 1);
    else
        bst_copy_text(out, BST_SOCKET_PATH, given);
    return BST_OK;
}

enum bst_err bst_socket_path(const char *run_dir, char out[BST_SOCKET_PATH])
{
    char dir[BST_SOCKET_PATH], host[256] = "", name[64];
    BST_TRY(bst_socket_dir(dir));
    if (gethostname(host, sizeof host - 1))
        host[0] = '\0';
    /* A shared folder may show other machines' sockets: the host's name keeps them apart. */
    uint32_t crc = bst_crc32c(0, host, strlen(host) + 1);
    crc = bst_crc32c(crc, run_dir, strlen(run_dir));
    const char *base = strrchr(run_dir, '/');
    base = base ? base + 1 : run_dir;
    snprintf(name, sizeof name, "%.40s-%08x", base, (unsigned)crc);
    size_t fixed = strlen(dir) + 1 + strlen(".sock");
    const char *use = fixed + strlen(name) < BST_SOCKET_PATH ? name : strrchr(name, '-') + 1;
    if (fixed + strlen(use) >= BST_SOCKET_PATH)
        return bst_fail(BST_E_RANGE,
                        "%.200s: too long for a socket's path (%d bytes); set BSTUNE_SOCKET_DIR",
                        dir, BST_SOCKET_PATH - 1);
    struct bst_sb all;
    bst_sb_init(&all, BST_SOCKET_PATH);
    bst_sb_addf(&all, "%s/%s.sock", dir, use);
    bst_copy_text(out, BST_SOCKET_PATH, all.data);
    bst_sb_fini(&all);
    return BST_OK;
}

static enum bst_err parent_dir(const char *path)
{
    char dir[BST_SOCKET_PATH];
    bst_copy_text(dir, sizeof dir, path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        return bst_fail(BST_E_ARG, "%s: not a full path", path);
    *slash = '\0';
    return check_dir(dir);
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    bst_copy_text(a.sun_path, sizeof a.sun_path, path);
    return a;
}

/* 0600 from birth: a chmod afterwards would leave a gap. */
static int bind_private(int fd, const char *path)
{
    struct sockaddr_un a = address(path);
    mode_t before = umask(0177);
    int rc = bind(fd, (const struct sockaddr *)&a, sizeof a);
    int why = errno;
    umask(before);
    errno = why;
    return rc;
}

static enum bst_err replace_stale(int fd, const char *path)
{
    int probe;
    enum bst_err err = bst_socket_connect(path, &probe);
    if (!err) {
        close(probe);
        return bst_fail(BST_E_EXISTS, "%s: another trainer answers here", path);
    }
    if (unlink(path) && errno != ENOENT)
        return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    if (bind_private(fd, path))
        return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    return BST_OK;
}

enum bst_err bst_socket_listen(struct bst_socket *s, const char *path)
{
    struct stat st;
    enum bst_err err;
    *s = (struct bst_socket){.fd = -1};
    bst_copy_text(s->path, sizeof s->path, path);
    BST_TRY(parent_dir(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bst_fail(BST_E_IO, "socket: %s", strerror(errno));
    if (bind_private(fd, path)) {
        err = errno == EADDRINUSE ? replace_stale(fd, path)
                                  : bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
        if (err)
            goto out;
    }
    err = BST_E_IO;
    if (listen(fd, 64) || lstat(path, &st)) {
        bst_fail(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    s->fd = fd;
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return BST_OK;
out:
    close(fd);
    return err;
}

bool bst_socket_is_there(const struct bst_socket *s)
{
    struct stat st;
    return s->fd >= 0 && !lstat(s->path, &st) && st.st_dev == s->dev && st.st_ino == s->ino;
}

void bst_socket_close(struct bst_socket *s)
{
    if (s->fd < 0)
        return;
    if (bst_socket_is_there(s))
        unlink(s->path);
    close(s->fd);
    s->fd = -1;
}

enum bst_err bst_socket_connect(const char *path, int *fd)
{
    if (strlen(path) >= BST_SOCKET_PATH)
        return bst_fail(BST_E_NOTFOUND, "%.200s: not a socket's path", path);
    struct sockaddr_un a = address(path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return bst_fail(BST_E_IO, "socket: %s", strerror(errno));
    int rc;
    do
        rc = connect(*fd, (const struct sockaddr *)&a, sizeof a);
    while (rc && errno == EINTR);
    if (!rc)
        return BST_OK;
    int why = errno;
    close(*fd);
    *fd = -1;
    if (why == ENOENT || why == ECONNREFUSED)
        return bst_fail(BST_E_NOTFOUND, "%s: no trainer answers", path);
    return bst_fail(why == EACCES ? BST_E_DENIED : BST_E_IO, "%s: %s", path, strerror(why));
}
