#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/safetensors.h"

#define CHUNK 8192 /* numbers converted at a time */

struct declared {
    char *name;
    int rank;
    int64_t d[BST_TENSOR_MAX_RANK];
    int64_t count;
};

struct bst_tensors_writer {
    enum bst_dtype dtype;
    struct declared *t;
    int n, room;
    int next; /* tensor whose data come next */
    int fd;
    char *path;
    bool finished;
};

struct bst_tensors_writer *bst_tensors_writer_new(enum bst_dtype dtype)
{
    BST_ASSERT(dtype == BST_DT_F32 || dtype == BST_DT_F64);
    struct bst_tensors_writer *w = bst_xalloc(sizeof *w);
    w->dtype = dtype;
    w->fd = -1;
    return w;
}

void bst_tensors_writer_add(struct bst_tensors_writer *w, const char *name, int rank,
                            const int64_t *d)
{
    BST_ASSERT(w->fd < 0 && rank >= 0 && rank <= BST_TENSOR_MAX_RANK);
    w->t = bst_xgrow(w->t, w->n, &w->room, sizeof *w->t);
    struct declared *t = &w->t[w->n++];
    *t = (struct declared){.name = bst_xstrdup(name), .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        t->d[i] = d[i];
        BST_ASSERT(d[i] >= 0 && !__builtin_mul_overflow(t->count, d[i], &t->count));
    }
}

static void header_tensor(struct bst_json *j, const struct bst_tensors_writer *w,
                          const struct declared *t, uint64_t *at)
{
    uint64_t to = *at + (uint64_t)t->count * bst_dtype_bytes(w->dtype);
    bst_json_open(j, t->name, '{');
    bst_json_str(j, "dtype", bst_dtype_name(w->dtype));
    bst_json_open(j, "shape", '[');
    for (int i = 0; i < t->rank; i++)
        bst_json_int(j, NULL, t->d[i]);
    bst_json_close(j, ']');
    bst_json_open(j, "data_offsets", '[');
    bst_json_uint(j, NULL, *at);
    bst_json_uint(j, NULL, to);
    bst_json_close(j, ']');
    bst_json_close(j, '}');
    *at = to;
}

static enum bst_err write_header(struct bst_tensors_writer *w)
{
    struct bst_sb sb;
    struct bst_json j;
    uint64_t at = 0;
    unsigned char head[8];
    bst_sb_init(&sb, 100 * 1000 * 1000);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    /* "pt": what readers of PyTorch's ecosystem expect to find. */
    bst_json_open(&j, "__metadata__", '{');
    bst_json_str(&j, "format", "pt");
    bst_json_close(&j, '}');
    for (int i = 0; i < w->n; i++)
        header_tensor(&j, w, &w->t[i], &at);
    bst_json_close(&j, '}');
    while (sb.len % 8 && !sb.full) /* data aligned, as the format's own writer does */
        bst_sb_addc(&sb, ' ');
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)sb.len >> 8 * i);
    enum bst_err err = BST_OK;
    if (sb.full)
        err = bst_fail(BST_E_RANGE, "%s: header of more than 100 MB", w->path);
    if (!err)
        err = bst_io_write_full(w->fd, head, 8, w->path);
    if (!err)
        err = bst_io_write_full(w->fd, sb.data, sb.len, w->path);
    bst_sb_fini(&sb);
    return err;
}

enum bst_err bst_tensors_writer_start(struct bst_tensors_writer *w, const char *path)
{
    BST_ASSERT(w->fd < 0 && !w->path);
    BST_TRY(bst_io_open_write(path, O_TRUNC, 0666, &w->fd));
    w->path = bst_xstrdup(path);
    return write_header(w);
}

enum bst_err bst_tensors_writer_put(struct bst_tensors_writer *w, const double *values,
                                    int64_t count)
{
    BST_ASSERT(w->fd >= 0 && w->next < w->n && count == w->t[w->next].count);
    w->next++;
    if (w->dtype == BST_DT_F64)
        return bst_io_write_full(w->fd, values, (size_t)count * 8, w->path);
    float chunk[CHUNK];
    while (count > 0) {
        size_t n = count < CHUNK ? (size_t)count : CHUNK;
        for (size_t i = 0; i < n; i++)
            chunk[i] = (float)values[i];
        BST_TRY(bst_io_write_full(w->fd, chunk, n * sizeof *chunk, w->path));
        values += n;
        count -= (int64_t)n;
    }
    return BST_OK;
}

enum bst_err bst_tensors_writer_finish(struct bst_tensors_writer *w)
{
    BST_ASSERT(w->fd >= 0 && w->next == w->n);
    enum bst_err err = BST_OK;
    if (fsync(w->fd))
        err = bst_fail(BST_E_IO, "%s: %s", w->path, strerror(errno));
    if (close(w->fd) && !err)
        err = bst_fail(BST_E_IO, "%s: %s", w->path, strerror(errno));
    w->fd = -1;
    w->finished = !err;
    return err;
}

void bst_tensors_writer_free(struct bst_tensors_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->path && !w->finished)
        (void)unlink(w->path);
    for (int i = 0; i < w->n; i++)
        bst_free(w->t[i].name);
    bst_free(w->t);
    bst_free(w->path);
    bst_free(w);
}
