#include "core/base/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/sb.h"
#include "core/base/text.h"

#define HEADER_CAP ((uint64_t)100 * 1000 * 1000) /* as the format's own reader */
#define NAME_CAP 1024                            /* bytes of a tensor's name */
#define CHUNK 8192                               /* numbers converted at a time */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[BST_DT_N] = {
    [BST_DT_F32] = {"F32", 4},   [BST_DT_F64] = {"F64", 8}, [BST_DT_F16] = {"F16", 2},
    [BST_DT_BF16] = {"BF16", 2}, [BST_DT_I64] = {"I64", 8}, [BST_DT_I32] = {"I32", 4},
    [BST_DT_I16] = {"I16", 2},   [BST_DT_I8] = {"I8", 1},   [BST_DT_U64] = {"U64", 8},
    [BST_DT_U32] = {"U32", 4},   [BST_DT_U16] = {"U16", 2}, [BST_DT_U8] = {"U8", 1},
    [BST_DT_BOOL] = {"BOOL", 1},
};

struct bst_tensors {
    int fd;
    bool own_fd;
    char *name;          /* of the file, for texts */
    uint64_t data_start; /* file offset of the data part */
    uint64_t data_bytes;
    struct bst_tensor *t; /* by offset */
    int n;
    int *by_name; /* indices into t, names ascending */
    json_t *json; /* owns the names */
};

const char *bst_dtype_name(enum bst_dtype t)
{
    return (unsigned)t < BST_DT_N ? dtypes[t].name : "?";
}

size_t bst_dtype_bytes(enum bst_dtype t)
{
    return (unsigned)t < BST_DT_N ? dtypes[t].bytes : 0;
}

/* "file: tensor "name": why", the name made safe to show. */
static enum bst_err bad_tensor(const struct bst_tensors *r, const char *tensor, const char *why)
{
    struct bst_sb clean;
    bst_sb_init(&clean, 160);
    bst_text_clean(&clean, tensor, strlen(tensor));
    enum bst_err err = bst_fail(BST_E_CORRUPT, "%s: tensor \"%s\": %s", r->name, clean.data, why);
    bst_sb_fini(&clean);
    return err;
}

static enum bst_err read_at(const struct bst_tensors *r, void *out, size_t n, uint64_t at)
{
    char *p = out;
    while (n) {
        ssize_t did = pread(r->fd, p, n, (off_t)at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return bst_fail(BST_E_IO, "%s: %s", r->name, strerror(errno));
        if (!did)
            return bst_fail(BST_E_CORRUPT, "%s: ends %zu bytes early", r->name, n);
        p += did;
        at += (uint64_t)did;
        n -= (size_t)did;
    }
    return BST_OK;
}

static bool get_u64(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static enum bst_err parse_shape(const struct bst_tensors *r, const json_t *shape,
                                struct bst_tensor *t)
{
    if (!json_is_array(shape))
        return bad_tensor(r, t->name, "no shape");
    if (json_array_size(shape) > BST_TENSOR_MAX_RANK)
        return bad_tensor(r, t->name, "more than 8 dimensions");
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        uint64_t d = 0;
        if (!get_u64(json_array_get(shape, (size_t)i), &d) || d > INT64_MAX)
            return bad_tensor(r, t->name, "a dimension that is not a number of elements");
        t->d[i] = (int64_t)d;
        if (__builtin_mul_overflow(t->count, t->d[i], &t->count))
            return bad_tensor(r, t->name, "more elements than can be counted");
    }
    return BST_OK;
}

static enum bst_err parse_extent(const struct bst_tensors *r, const json_t *offsets,
                                 struct bst_tensor *t)
{
    uint64_t from = 0, to = 0, want = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !get_u64(json_array_get(offsets, 0), &from) || !get_u64(json_array_get(offsets, 1), &to))
        return bad_tensor(r, t->name, "no data_offsets");
    if (from > to || to > r->data_bytes)
        return bad_tensor(r, t->name, "data_offsets outside the file");
    if (__builtin_mul_overflow((uint64_t)t->count, (uint64_t)dtypes[t->dtype].bytes, &want) ||
        want != to - from)
        return bad_tensor(r, t->name, "shape and data_offsets disagree");
    t->offset = from;
    t->bytes = want;
    return BST_OK;
}

static enum bst_err parse_tensor(const struct bst_tensors *r, const json_t *v, struct bst_tensor *t)
{
    if (!json_is_object(v))
        return bad_tensor(r, t->name, "not an object");
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (!dtype)
        return bad_tensor(r, t->name, "no dtype");
    int k = 0;
    while (k < BST_DT_N && strcmp(dtype, dtypes[k].name))
        k++;
    if (k == BST_DT_N)
        return bad_tensor(r, t->name, "a dtype that is not known here");
    t->dtype = (enum bst_dtype)k;
    BST_TRY(parse_shape(r, json_object_get(v, "shape"), t));
    return parse_extent(r, json_object_get(v, "data_offsets"), t);
}

static int by_extent(const void *a, const void *b)
{
    const struct bst_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    /* Empty tensors share an offset; they come before the one that has bytes there. */
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static enum bst_err check_tiling(const struct bst_tensors *r)
{
    uint64_t at = 0;
    for (int i = 0; i < r->n; i++) {
        if (r->t[i].offset < at)
            return bad_tensor(r, r->t[i].name, "overlaps the tensor before it");
        if (r->t[i].offset > at)
            return bad_tensor(r, r->t[i].name, "leaves a gap before it");
        at += r->t[i].bytes;
    }
    if (at != r->data_bytes)
        return bst_fail(BST_E_CORRUPT, "%s: %llu bytes of data belong to no tensor", r->name,
                        (unsigned long long)(r->data_bytes - at));
    return BST_OK;
}

static int by_name(const void *a, const void *b, void *tensors)
{
    const struct bst_tensor *t = tensors;
    return strcmp(t[*(const int *)a].name, t[*(const int *)b].name);
}

static enum bst_err parse_tensors(struct bst_tensors *r)
{
    const char *key;
    json_t *v;
    r->t = bst_xcalloc(json_object_size(r->json) + 1, sizeof *r->t);
    json_object_foreach(r->json, key, v)
    {
        if (!strcmp(key, "__metadata__"))
            continue;
        if (strlen(key) > NAME_CAP)
            return bad_tensor(r, key, "a name of more than 1024 bytes");
        r->t[r->n].name = key;
        BST_TRY(parse_tensor(r, v, &r->t[r->n]));
        r->n++;
    }
    qsort(r->t, (size_t)r->n, sizeof *r->t, by_extent);
    r->by_name = bst_xcalloc((size_t)r->n + 1, sizeof *r->by_name);
    for (int i = 0; i < r->n; i++)
        r->by_name[i] = i;
    qsort_r(r->by_name, (size_t)r->n, sizeof *r->by_name, by_name, r->t);
    return check_tiling(r);
}

static enum bst_err parse_header(struct bst_tensors *r, uint64_t bytes)
{
    char *text = NULL;
    json_error_t why;
    BST_TRY(bst_alloc(bytes, (void **)&text));
    enum bst_err err = read_at(r, text, bytes, 8);
    if (err)
        goto out;
    r->json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!r->json) {
        struct bst_sb clean;
        bst_sb_init(&clean, 200);
        bst_text_clean(&clean, why.text, strlen(why.text));
        err = bst_fail(BST_E_CORRUPT, "%s: header is not JSON: %s", r->name, clean.data);
        bst_sb_fini(&clean);
    } else if (!json_is_object(r->json)) {
        err = bst_fail(BST_E_CORRUPT, "%s: header is not a JSON object", r->name);
    } else {
        err = parse_tensors(r);
    }
out:
    bst_alloc_free(text, bytes);
    return err;
}

static enum bst_err open_reader(struct bst_tensors *r)
{
    struct stat st;
    unsigned char head[8];
    if (fstat(r->fd, &st))
        return bst_fail(BST_E_IO, "%s: %s", r->name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bst_fail(BST_E_ARG, "%s: not a file", r->name);
    uint64_t size = (uint64_t)st.st_size;
    if (size < 8)
        return bst_fail(BST_E_CORRUPT, "%s: %llu bytes is too short for safetensors", r->name,
                        (unsigned long long)size);
    BST_TRY(read_at(r, head, 8, 0));
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > HEADER_CAP)
        return bst_fail(BST_E_CORRUPT, "%s: header of %llu bytes, at most 100 MB are allowed",
                        r->name, (unsigned long long)n);
    if (n > size - 8 || n < 2)
        return bst_fail(BST_E_CORRUPT, "%s: header of %llu bytes in a file of %llu", r->name,
                        (unsigned long long)n, (unsigned long long)size);
    r->data_start = 8 + n;
    r->data_bytes = size - r->data_start;
    return parse_header(r, n);
}

static enum bst_err open_fd(int fd, bool own, const char *name, struct bst_tensors **out)
{
    struct bst_tensors *r = bst_xalloc(sizeof *r);
    r->fd = fd;
    r->own_fd = own;
    r->name = bst_xstrdup(name);
    enum bst_err err = open_reader(r);
    if (err) {
        bst_tensors_close(r);
        r = NULL;
    }
    *out = r;
    return err;
}

enum bst_err bst_tensors_open(const char *path, struct bst_tensors **out)
{
    *out = NULL;
    /* Non-blocking, so that a FIFO of that name cannot hold the caller. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return bst_fail(errno == ENOENT ? BST_E_NOTFOUND : BST_E_IO, "%s: %s", path,
                        strerror(errno));
    return open_fd(fd, true, path, out);
}

enum bst_err bst_tensors_open_fd(int fd, const char *name, struct bst_tensors **out)
{
    return open_fd(fd, false, name, out);
}

void bst_tensors_close(struct bst_tensors *r)
{
    if (!r)
        return;
    if (r->own_fd)
        close(r->fd);
    json_decref(r->json);
    bst_free(r->t);
    bst_free(r->by_name);
    bst_free(r->name);
    bst_free(r);
}

int bst_tensors_count(const struct bst_tensors *r)
{
    return r->n;
}

const struct bst_tensor *bst_tensors_at(const struct bst_tensors *r, int i)
{
    return i >= 0 && i < r->n ? &r->t[i] : NULL;
}

const struct bst_tensor *bst_tensors_find(const struct bst_tensors *r, const char *name)
{
    int lo = 0, hi = r->n - 1;
    while (lo <= hi) {
        int mid = lo + (hi - lo) / 2;
        const struct bst_tensor *t = &r->t[r->by_name[mid]];
        int c = strcmp(name, t->name);
        if (!c)
            return t;
        if (c < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}

/* IEEE 754 binary16, subnormals included. */
static double half_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 0    ? ldexp(m, -24)
               : e == 31 ? (m ? (double)NAN : (double)INFINITY)
                         : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

static double bf16_value(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void convert(enum bst_dtype dtype, const void *raw, size_t n, double *out)
{
    const float *f = raw;
    const uint16_t *h = raw;
    switch (dtype) {
    case BST_DT_F32:
        for (size_t i = 0; i < n; i++)
            out[i] = f[i];
        break;
    case BST_DT_F64:
        memcpy(out, raw, n * 8);
        break;
    case BST_DT_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = half_value(h[i]);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            out[i] = bf16_value(h[i]);
    }
}

enum bst_err bst_tensors_read(struct bst_tensors *r, const struct bst_tensor *t, double *out)
{
    if (t->dtype > BST_DT_BF16)
        return bst_fail(BST_E_UNSUPPORTED, "%s: tensor \"%s\" is %s, not a float", r->name, t->name,
                        bst_dtype_name(t->dtype));
    uint64_t raw[CHUNK] = {0};
    size_t each = dtypes[t->dtype].bytes;
    for (int64_t done = 0; done < t->count;) {
        size_t n = t->count - done < CHUNK ? (size_t)(t->count - done) : CHUNK;
        BST_TRY(read_at(r, raw, n * each, r->data_start + t->offset + (uint64_t)done * each));
        convert(t->dtype, raw, n, out + done);
        done += (int64_t)n;
    }
    return BST_OK;
}

enum bst_err bst_tensors_same(struct bst_tensors *r, const struct bst_tensor *a,
                              const struct bst_tensor *b, bool *out)
{
    enum { BYTES = 1 << 16 };
    *out = a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->d, b->d, (size_t)a->rank * sizeof *a->d);
    char *raw = bst_xalloc(2 * BYTES);
    enum bst_err err = BST_OK;
    for (uint64_t done = 0; *out && !err && done < a->bytes; done += BYTES) {
        size_t n = a->bytes - done < BYTES ? (size_t)(a->bytes - done) : BYTES;
        err = read_at(r, raw, n, r->data_start + a->offset + done);
        if (!err)
            err = read_at(r, raw + BYTES, n, r->data_start + b->offset + done);
        *out = !err && !memcmp(raw, raw + BYTES, n);
    }
    bst_free(raw);
    return err;
}
