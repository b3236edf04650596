#include "core/data/bin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"

enum { PIECE = 16384 /* tokens read at a time */ };

static uint32_t word(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* llm.c's headers: magic, version, and what a token takes. */
static const struct {
    uint32_t magic, version;
    int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static enum bst_err with_header(const uint8_t *head, uint64_t bytes, int i,
                                struct bst_bin_shape *out)
{
    uint32_t version = word(head + 4), n = word(head + 8);
    if (version != headers[i].version)
        return bst_fail(BST_E_UNSUPPORTED, "its header is of version %" PRIu32 ", not %" PRIu32,
                        version, headers[i].version);
    uint64_t holds = (bytes - BST_BIN_HEADER) / (uint64_t)headers[i].width;
    uint64_t over = (bytes - BST_BIN_HEADER) % (uint64_t)headers[i].width;
    if (n != holds || over)
        return bst_fail(BST_E_CORRUPT,
                        "its header tells of %" PRIu32 " tokens of %d bytes, %" PRIu64
                        " bytes follow it: %s",
                        n, headers[i].width, bytes - BST_BIN_HEADER,
                        n > holds ? "the file is cut short" : "the file is too long");
    *out = (struct bst_bin_shape){BST_BIN_HEADER, n, headers[i].width};
    return BST_OK;
}

/* What a file of `bytes` bytes is that begins with head[0 … n), n the lesser of bytes and
 * BST_BIN_HEADER. The text is for the file's name to go before. */
static enum bst_err shape_of(const uint8_t *head, size_t n, uint64_t bytes, int width,
                             struct bst_bin_shape *out)
{
    for (int i = 0; i < 2 && n >= 12; i++) {
        if (word(head) != headers[i].magic)
            continue;
        if (n < BST_BIN_HEADER)
            return bst_fail(BST_E_CORRUPT, "%zu bytes, cut short within its header of %d", n,
                            BST_BIN_HEADER);
        return with_header(head, bytes, i, out);
    }
    width = width ? width : 2;
    if (width != 2 && width != 4)
        return bst_fail(BST_E_ARG, "tokens of %d bytes; 2 and 4 are possible", width);
    if (!bytes)
        return bst_fail(BST_E_CORRUPT, "empty");
    if (bytes % (uint64_t)width)
        return bst_fail(BST_E_CORRUPT,
                        "%" PRIu64 " bytes are not whole tokens of %d bytes: cut short, or of "
                        "another kind",
                        bytes, width);
    *out = (struct bst_bin_shape){0, bytes / (uint64_t)width, width};
    return BST_OK;
}

/* All n bytes, or as many as there are. */
static enum bst_err read_at(int fd, const char *path, uint8_t *out, size_t n, uint64_t at,
                            size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t k = pread(fd, out + *got, n - *got, (off_t)(at + *got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return bst_fail(BST_E_IO, "%s: %s", path, strerror(errno));
        if (!k)
            break;
        *got += (size_t)k;
    }
    return BST_OK;
}

static enum bst_err look(struct bst_bin *b, int width)
{
    struct stat st;
    uint8_t head[BST_BIN_HEADER];
    size_t n = 0;
    if (fstat(b->fd, &st))
        return bst_fail(BST_E_IO, "%s: %s", b->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bst_fail(BST_E_UNSUPPORTED, "%s: not a regular file", b->path);
    BST_TRY(read_at(b->fd, b->path, head, sizeof head, 0, &n));
    enum bst_err err = shape_of(head, n, (uint64_t)st.st_size, width, &b->shape);
    return err ? bst_fail_in(err, "%s", b->path) : BST_OK;
}

enum bst_err bst_bin_open(const char *path, int width, struct bst_bin *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *out = (struct bst_bin){.fd = -1};
    if (fd < 0)
        return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", path,
                        strerror(errno));
    *out = (struct bst_bin){.path = bst_xstrdup(path), .fd = fd};
    enum bst_err err = look(out, width);
    if (err)
        bst_bin_close(out);
    return err;
}

void bst_bin_close(struct bst_bin *b)
{
    if (b->fd >= 0)
        close(b->fd);
    bst_free(b->path);
    *b = (struct bst_bin){.fd = -1};
}

/* n ≤ PIECE */
static enum bst_err read_piece(const struct bst_bin *b, uint64_t at, int n, int32_t vocab,
                               int32_t *out)
{
    uint8_t raw[PIECE * 4];
    size_t width = (size_t)b->shape.width, got = 0;
    BST_TRY(read_at(b->fd, b->path, raw, (size_t)n * width, b->shape.start + at * width, &got));
    if (got < (size_t)n * width)
        return bst_fail(BST_E_CORRUPT, "%s: ends at token %" PRIu64 " of %" PRIu64, b->path,
                        at + got / width, b->shape.n);
    for (int i = 0; i < n; i++) {
        uint32_t t =
            width == 4 ? word(raw + 4 * i) : (uint32_t)raw[2 * i] | (uint32_t)raw[2 * i + 1] << 8;
        if (t >= (uint32_t)vocab)
            return bst_fail(BST_E_CORRUPT,
                            "%s: token %" PRIu64 " is %" PRIu32 ", the vocabulary has %" PRId32,
                            b->path, at + (uint64_t)i, t, vocab);
        out[i] = (int32_t)t;
    }
    return BST_OK;
}

enum bst_err bst_bin_read(const struct bst_bin *b, uint64_t at, int n, int32_t vocab, int32_t *out)
{
    BST_ASSERT(at <= b->shape.n && (uint64_t)n <= b->shape.n - at);
    for (int i = 0; i < n; i += PIECE)
        BST_TRY(read_piece(b, at + (uint64_t)i, n - i < PIECE ? n - i : PIECE, vocab, out + i));
    return BST_OK;
}

enum bst_err bst_bin_scan(const struct bst_bin *b, uint64_t n, int32_t vocab, int32_t *largest)
{
    int32_t piece[PIECE];
    for (uint64_t at = 0; at < n; at += PIECE) {
        int k = n - at < PIECE ? (int)(n - at) : PIECE;
        BST_TRY(bst_bin_read(b, at, k, vocab, piece));
        for (int i = 0; i < k; i++)
            *largest = piece[i] > *largest ? piece[i] : *largest;
    }
    return BST_OK;
}
