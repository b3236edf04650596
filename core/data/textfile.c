#include "core/data/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

static enum bst_err read_all(int fd, const char *path, struct bst_textfile *t)
{
    size_t got = 0;
    while (got < t->n) {
        ssize_t k = read(fd, t->bytes + got, t->n - got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
        if (!k)
            return bst_fail(BST_E_CORRUPT, "%s: shrank to %zu bytes while it was read", path, got);
        got += (size_t)k;
    }
    return BST_OK;
}

static enum bst_err check(const char *path, const struct bst_textfile *t)
{
    size_t line = 1, len;
    uint32_t point;
    if (t->n >= 2 && (!memcmp(t->bytes, "\xff\xfe", 2) || !memcmp(t->bytes, "\xfe\xff", 2)))
        return bst_fail(BST_E_CORRUPT, "%s: UTF-16; iconv -f UTF-16 -t UTF-8 makes UTF-8 of it",
                        path);
    for (size_t i = 0; i < t->n; i += len) {
        const char *at = (const char *)t->bytes + i;
        len = t->bytes[i] < 0x80 ? 1 : bst_text_utf8(at, t->n - i, &point);
        if (!len)
            return bst_fail(BST_E_CORRUPT, "%s:%zu: byte %zu, 0x%02X, is not UTF-8", path, line, i,
                            t->bytes[i]);
        line += t->bytes[i] == '\n';
    }
    return BST_OK;
}

static enum bst_err read_file(int fd, const char *path, struct bst_textfile *t)
{
    struct stat st;
    void *p = NULL;
    if (fstat(fd, &st))
        return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bst_fail(BST_E_UNSUPPORTED, "%s: not a regular file", path);
    if (!st.st_size)
        return bst_fail(BST_E_CORRUPT, "%s: empty", path);
    BST_TRY(bst_alloc((size_t)st.st_size, &p));
    *t = (struct bst_textfile){p, (size_t)st.st_size, (size_t)st.st_size};
    BST_TRY(read_all(fd, path, t));
    BST_TRY(check(path, t));
    if (t->n < 3 || memcmp(t->bytes, "\xef\xbb\xbf", 3) != 0)
        return BST_OK;
    t->n -= 3;
    memmove(t->bytes, t->bytes + 3, t->n);
    return t->n ? BST_OK : bst_fail(BST_E_CORRUPT, "%s: empty but for its byte order mark", path);
}

enum bst_err bst_textfile_read(const char *path, struct bst_textfile *out)
{
    *out = (struct bst_textfile){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", path,
                        strerror(errno));
    enum bst_err err = read_file(fd, path, out);
    close(fd);
    if (err)
        bst_textfile_free(out);
    return err;
}

void bst_textfile_free(struct bst_textfile *t)
{
    if (t->bytes)
        bst_alloc_free(t->bytes, t->room);
    *t = (struct bst_textfile){0};
}
