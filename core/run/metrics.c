#include "core/run/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/run/run_dir.h"

enum { WAITING_MAX = 4 << 20 };
#define RETRY_FIRST 1.0
#define RETRY_MOST 60.0

struct bst_metrics {
    int fd;
    char dir[512], path[768];
    uint64_t bytes; /* of whole lines in the file */
    struct bst_sb waiting;
    bool failing;
    double again, pause;
    char why[128];
};

static enum bst_err fail_at(const char *path)
{
    return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
}

static enum bst_err copy_bytes(int from, int to, uint64_t n, const char *path)
{
    char some[65536];
    uint64_t left = n;
    while (left) {
        size_t part = left < sizeof some ? (size_t)left : sizeof some;
        BST_TRY(bst_io_read_full(from, some, part, path));
        BST_TRY(bst_io_write_full(to, some, part, path));
        left -= part;
    }
    return fsync(to) ? fail_at(path) : BST_OK;
}

/* The first `keep` bytes under a new inode, in place of the old file. */
static enum bst_err cut(struct bst_metrics *m, uint64_t keep)
{
    char temp[800];
    int from = -1, to = -1;
    enum bst_err err;
    snprintf(temp, sizeof temp, "%s.tmp-%ld", m->path, (long)getpid());
    unlink(temp);
    from = open(m->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return fail_at(m->path);
    err = bst_io_open_write(temp, O_EXCL, 0600, &to);
    if (!err)
        err = copy_bytes(from, to, keep, temp);
    if (!err && rename(temp, m->path))
        err = fail_at(m->path);
    if (!err)
        err = bst_io_sync_dir(m->dir);
    else
        unlink(temp);
    close(from);
    if (to >= 0)
        close(to);
    return err;
}

static enum bst_err open_at_end(struct bst_metrics *m)
{
    struct stat st;
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    BST_TRY(bst_io_open_write(m->path, O_APPEND, 0600, &m->fd));
    if (fstat(m->fd, &st))
        return fail_at(m->path);
    m->bytes = (uint64_t)st.st_size;
    return BST_OK;
}

enum bst_err bst_metrics_back(struct bst_metrics *m, uint64_t keep)
{
    if (keep < m->bytes)
        BST_TRY(cut(m, keep));
    bst_sb_clear(&m->waiting);
    return open_at_end(m);
}

enum bst_err bst_metrics_open(const char *dir, uint64_t keep, struct bst_sb *notes,
                              struct bst_metrics **out)
{
    struct bst_metrics *m = bst_xalloc(sizeof *m);
    m->fd = -1;
    m->pause = RETRY_FIRST;
    snprintf(m->dir, sizeof m->dir, "%s", dir);
    bst_run_path(dir, "metrics.jsonl", m->path);
    bst_sb_init(&m->waiting, WAITING_MAX);
    enum bst_err err = open_at_end(m);
    if (!err && m->bytes < keep)
        bst_sb_addf(notes, "%s has %llu bytes, the checkpoint knew of %llu: some lines are lost\n",
                    m->path, (unsigned long long)m->bytes, (unsigned long long)keep);
    if (!err)
        err = bst_metrics_back(m, keep);
    if (err) {
        bst_metrics_close(m);
        return err;
    }
    *out = m;
    return BST_OK;
}

bool bst_metrics_is_there(const struct bst_metrics *m)
{
    return m->fd >= 0 && bst_io_is_at(m->fd, m->path);
}

enum bst_err bst_metrics_again(struct bst_metrics *m)
{
    return open_at_end(m);
}

void bst_metrics_close(struct bst_metrics *m)
{
    if (!m)
        return;
    if (m->fd >= 0)
        close(m->fd);
    bst_sb_fini(&m->waiting);
    bst_free(m);
}

static bool write_whole(struct bst_metrics *m, const char *data, size_t n)
{
    ssize_t did;
    do
        did = write(m->fd, data, n);
    while (did < 0 && errno == EINTR);
    if (did == (ssize_t)n) {
        m->bytes += n;
        return true;
    }
    int why = did < 0 ? errno : ENOSPC;
    /* Half a line would be read as a whole one with the next. */
    if (did > 0 && ftruncate(m->fd, (off_t)m->bytes))
        why = errno;
    snprintf(m->why, sizeof m->why, "%s", strerror(why));
    return false;
}

static void fail_for_now(struct bst_metrics *m)
{
    m->pause = m->failing ? (2 * m->pause < RETRY_MOST ? 2 * m->pause : RETRY_MOST) : RETRY_FIRST;
    m->failing = true;
    m->again = bst_clock_now() + m->pause;
}

static void wait_with(struct bst_metrics *m, const char *line, size_t n)
{
    /* Past the bound the newest are lost: what is there stays without a gap. */
    if (m->waiting.len + n < m->waiting.cap)
        bst_sb_addn(&m->waiting, line, n);
}

void bst_metrics_retry(struct bst_metrics *m)
{
    if (!m->failing || bst_clock_now() < m->again)
        return;
    if (!write_whole(m, m->waiting.data, m->waiting.len)) {
        fail_for_now(m);
        return;
    }
    bst_sb_clear(&m->waiting);
    m->failing = false;
}

void bst_metrics_add(struct bst_metrics *m, const char *line)
{
    struct bst_sb whole;
    bst_sb_init(&whole, strlen(line) + 2);
    bst_sb_add(&whole, line);
    bst_sb_addc(&whole, '\n');
    if (m->failing) {
        wait_with(m, whole.data, whole.len);
        bst_metrics_retry(m);
    } else if (!write_whole(m, whole.data, whole.len)) {
        wait_with(m, whole.data, whole.len);
        fail_for_now(m);
    }
    bst_sb_fini(&whole);
}

bool bst_metrics_failing(const struct bst_metrics *m, const char **why)
{
    *why = m->why;
    return m->failing;
}

enum bst_err bst_metrics_sync(struct bst_metrics *m, uint64_t *bytes)
{
    *bytes = m->bytes;
    return fsync(m->fd) ? fail_at(m->path) : BST_OK;
}

uint64_t bst_metrics_bytes(const struct bst_metrics *m)
{
    return m->bytes;
}
