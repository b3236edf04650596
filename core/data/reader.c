#include "core/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/alloc.h"

/* One byte of deflate stands for at most 1032 (zlib's technical notes). */
static const uint64_t deflate_most = 1032;
enum { CHUNK = 1 << 17 };

struct bst_reader {
    char *path;
    gzFile gz; /* zlib reads plain files too */
    uint64_t offset, file_bytes;
};

static enum bst_err open_path(const char *path, int *fd, uint64_t *bytes)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return bst_fail(errno == ENOENT || errno == ENOTDIR ? BST_E_NOTFOUND : BST_E_IO, "%s: %s",
                        path, strerror(errno));
    if (fstat(*fd, &st) || !S_ISREG(st.st_mode)) {
        close(*fd);
        return bst_fail(BST_E_IO, "%s: not a regular file", path);
    }
    *bytes = (uint64_t)st.st_size;
    return BST_OK;
}

enum bst_err bst_reader_open(const char *dir, const char *name, struct bst_reader **out)
{
    int fd;
    uint64_t bytes = 0;
    *out = NULL;
    char *path = bst_xasprintf("%s/%s", dir, name);
    enum bst_err err = open_path(path, &fd, &bytes);
    if (err == BST_E_NOTFOUND) {
        char *packed = bst_xasprintf("%s.gz", path);
        err = open_path(packed, &fd, &bytes);
        if (err == BST_E_NOTFOUND) {
            err = bst_fail(BST_E_NOTFOUND, "%s: neither it nor %s.gz is there", path, name);
            bst_free(packed);
        } else {
            bst_free(path);
            path = packed;
        }
    }
    if (err) {
        bst_free(path);
        return err;
    }
    gzFile gz = gzdopen(fd, "rb");
    if (!gz) {
        close(fd);
        bst_free(path);
        return bst_fail(BST_E_NOMEM, "zlib: out of memory");
    }
    gzbuffer(gz, CHUNK);
    struct bst_reader *r = bst_xalloc(sizeof *r);
    *r = (struct bst_reader){.path = path, .gz = gz, .file_bytes = bytes};
    *out = r;
    return BST_OK;
}

void bst_reader_close(struct bst_reader *r)
{
    if (!r)
        return;
    gzclose_r(r->gz);
    bst_free(r->path);
    bst_free(r);
}

const char *bst_reader_path(const struct bst_reader *r)
{
    return r->path;
}

static enum bst_err fail_zlib(struct bst_reader *r)
{
    int code;
    const char *words = gzerror(r->gz, &code);
    if (code == Z_ERRNO)
        return bst_fail(BST_E_IO, "%s: %s", r->path, strerror(errno));
    /* zlib puts "<fd:3>: " in front, of no use to a person. */
    const char *plain = strstr(words, ">: ");
    return bst_fail(BST_E_CORRUPT, "%s: damaged gzip data after offset %" PRIu64 " unpacked: %s",
                    r->path, r->offset, plain ? plain + 3 : words);
}

enum bst_err bst_reader_read(struct bst_reader *r, void *out, size_t n)
{
    uint8_t *p = out;
    while (n) {
        int did = gzread(r->gz, p, n < INT_MAX ? (unsigned)n : (unsigned)INT_MAX);
        if (did < 0)
            return fail_zlib(r);
        r->offset += (uint64_t)did;
        p += did;
        n -= (size_t)did;
        if (!did) {
            int code;
            gzerror(r->gz, &code);
            if (code)
                return fail_zlib(r);
            return bst_fail(BST_E_CORRUPT, "%s: ends at offset %" PRIu64 ", %zu bytes early",
                            r->path, r->offset, n);
        }
    }
    return BST_OK;
}

enum bst_err bst_reader_expect(struct bst_reader *r, uint64_t bytes, const char *who)
{
    uint64_t total;
    if (__builtin_add_overflow(r->offset, bytes, &total))
        total = UINT64_MAX;
    if (gzdirect(r->gz) ? total != r->file_bytes : total / deflate_most > r->file_bytes)
        return bst_fail(BST_E_CORRUPT, "%s: has %" PRIu64 " %sbytes, %s %" PRIu64, r->path,
                        r->file_bytes, gzdirect(r->gz) ? "" : "packed ", who, total);
    return BST_OK;
}

enum bst_err bst_reader_end(struct bst_reader *r)
{
    uint8_t one;
    int did = gzread(r->gz, &one, 1);
    if (did < 0)
        return fail_zlib(r);
    int code;
    gzerror(r->gz, &code);
    if (!did && code)
        return fail_zlib(r);
    if (did)
        return bst_fail(BST_E_CORRUPT, "%s: goes on at offset %" PRIu64 ", where it should end",
                        r->path, r->offset);
    return BST_OK;
}
