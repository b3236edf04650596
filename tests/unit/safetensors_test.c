#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/safetensors.h"

static char dir[] = "/tmp/bst-safetensors-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/t", mkdtemp(dir));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* A file in memory with this header (its length filled in) and `data` zero bytes behind it. */
static int file_of(const char *header, size_t n, uint64_t said, size_t data)
{
    int fd = memfd_create("safetensors", MFD_CLOEXEC);
    assert_true(fd >= 0);
    unsigned char head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)(said >> 8 * i);
    assert_int_equal(write(fd, head, 8), 8);
    assert_int_equal(write(fd, header, n), (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)(8 + n + data)), 0);
    return fd;
}

static const double values[] = {1.5, -0.0, 1e-300, 65504, 3.4028234663852886e38, 0.1};

static void write_sample(enum bst_dtype dtype)
{
    struct bst_tensors_writer *w = bst_tensors_writer_new(dtype);
    bst_tensors_writer_add(w, "layer1.0.conv1.weight", 4, (int64_t[]){3, 1, 2, 1});
    bst_tensors_writer_add(w, "empty", 2, (int64_t[]){0, 7});
    bst_tensors_writer_add(w, "a \"quoted\"\tname", 0, NULL);
    assert_int_equal(bst_tensors_writer_start(w, path), BST_OK);
    assert_int_equal(bst_tensors_writer_put(w, values, 6), BST_OK);
    assert_int_equal(bst_tensors_writer_put(w, values, 0), BST_OK);
    assert_int_equal(bst_tensors_writer_put(w, values + 5, 1), BST_OK);
    assert_int_equal(bst_tensors_writer_finish(w), BST_OK);
    bst_tensors_writer_free(w);
}

static void check_sample(enum bst_dtype dtype)
{
    struct bst_tensors *r = NULL;
    double got[6], one = 0;
    write_sample(dtype);
    assert_int_equal(bst_tensors_open(path, &r), BST_OK);
    assert_int_equal(bst_tensors_count(r), 3);
    const struct bst_tensor *t = bst_tensors_find(r, "layer1.0.conv1.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, 4);
    assert_int_equal(t->d[2], 2);
    assert_int_equal(bst_tensors_read(r, t, got), BST_OK);
    for (int i = 0; i < 6; i++) {
        double want = dtype == BST_DT_F32 ? (double)(float)values[i] : values[i];
        assert_memory_equal(&got[i], &want, sizeof want);
    }
    assert_int_equal(bst_tensors_find(r, "empty")->count, 0);
    t = bst_tensors_find(r, "a \"quoted\"\tname");
    assert_non_null(t);
    assert_int_equal(t->rank, 0);
    assert_int_equal(bst_tensors_read(r, t, &one), BST_OK);
    assert_null(bst_tensors_find(r, "conv1"));
    assert_null(bst_tensors_at(r, 3));
    bst_tensors_close(r);
}

static void round_trip_is_exact(void **state)
{
    (void)state;
    check_sample(BST_DT_F32);
    check_sample(BST_DT_F64);
}

/* Any prefix, and any file with something behind it, is refused. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct bst_tensors *r = NULL;
    struct stat st;
    write_sample(BST_DT_F32);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size + 1), 0);
    assert_int_equal(bst_tensors_open(path, &r), BST_E_CORRUPT);
    for (off_t n = st.st_size - 1; n >= 0; n--) {
        assert_int_equal(truncate(path, n), 0);
        assert_int_equal(bst_tensors_open(path, &r), BST_E_CORRUPT);
        assert_null(r);
        assert_non_null(strstr(bst_err_text(), path));
    }
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    struct bst_tensors *r = NULL;
    struct stat st;
    double got[6];
    write_sample(BST_DT_F32);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(bst_tensors_open(path, &r), BST_OK);
    assert_int_equal(truncate(path, st.st_size - 28), 0);
    const struct bst_tensor *t = bst_tensors_find(r, "layer1.0.conv1.weight");
    assert_int_equal(bst_tensors_read(r, t, got), BST_E_CORRUPT);
    bst_tensors_close(r);
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data;
    const char *says; /* NULL: fine */
} headers[] = {
    {"{}", 0, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}}   ", 0, NULL},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("I64", "[]", "[0,8]") "}", 8, NULL},
    {"{\"b\":" T("F32", "[1]", "[4,8]") ",\"a\":" T("F32", "[1]", "[0,4]") "}", 8, NULL},
    {"{\"b\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[0]", "[0,0]") "}", 4, NULL},
    {"{}", 1, "belong to no tensor"},
    {"[]", 0, "not a JSON object"},
    {"{\"a\":1}", 0, "not an object"},
    {"{\"a\":" T("F32", "[2]", "[0,8]"), 8, "not JSON"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"a\":" T("F32", "[2]", "[0,8]") "}", 8, "not JSON"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "no data_offsets"},
    {"{\"a\":" T("Q4", "[2]", "[0,8]") "}", 8, "dtype that is not known"},
    {"{\"a\":" T("F32", "[3]", "[0,8]") "}", 8, "disagree"},
    {"{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8, "a dimension"},
    {"{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8, "a dimension"},
    {"{\"a\":" T("F32", "[\"2\"]", "[0,8]") "}", 8, "a dimension"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, "more than 8"},
    {"{\"a\":" T("F32", "[2]", "[0,12]") "}", 8, "outside the file"},
    {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, "outside the file"},
    {"{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, "no data_offsets"},
    {"{\"a\":" T("F32", "[2]", "[0,8,8]") "}", 8, "no data_offsets"},
    {"{\"a\":" T("F32", "[2]", "[0,18446744073709551615]") "}", 8, "not JSON"},
    {"{\"a\":" T("F32", "[9223372036854775807]", "[0,8]") "}", 8, "disagree"},
    {"{\"a\":" T("F32", "[4611686018427387905]", "[0,4]") "}", 4, "disagree"},
    {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "more elements"},
    {"{\"a\":" T("F32", "[2305843009213693954,4]", "[0,8]") "}", 8, "more elements"},
    {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, "a gap"},
    {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[8,12]") "}", 12, "a gap"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[1]", "[4,8]") "}", 8, "overlaps"},
    {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[0,4]") "}", 4, "overlaps"},
    {"{\"\\u001b[31m\":" T("F32", "[3]", "[0,8]") "}", 8, "disagree"},
};

static void lying_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct bst_tensors *r = NULL;
        size_t n = strlen(headers[i].header);
        int fd = file_of(headers[i].header, n, n, headers[i].data);
        enum bst_err err = bst_tensors_open_fd(fd, "some file", &r);
        if (!headers[i].says) {
            if (err)
                fail_msg("%s: %s", headers[i].header, bst_err_text());
        } else {
            assert_int_equal(err, BST_E_CORRUPT);
            if (!strstr(bst_err_text(), headers[i].says))
                fail_msg("%s: %s", headers[i].header, bst_err_text());
            assert_null(strchr(bst_err_text(), 27));
        }
        bst_tensors_close(r);
        close(fd);
    }
}

static void lying_lengths_are_refused(void **state)
{
    (void)state;
    static const uint64_t said[] = {
        0, 1, 3, 100000001, INT32_MAX, (uint64_t)1 << 32, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct bst_tensors *r = NULL;
        int fd = file_of("{}", 2, said[i], 0);
        assert_int_equal(bst_tensors_open_fd(fd, "some file", &r), BST_E_CORRUPT);
        close(fd);
    }
}

static void short_floats_are_read(void **state)
{
    (void)state;
    static const char header[] = "{\"h\":" T("F16", "[6]", "[0,12]") ",\"b\":" T(
        "BF16", "[2]", "[12,16]") ",\"i\":" T("I32", "[1]", "[16,20]") "}";
    static const uint16_t raw[] = {0x3c00, 0x0001, 0x8400, 0x7bff, 0x7c00, 0xfe00, 0x3fc0, 0xff80};
    static const double want[] = {1, 0x1p-24, -0x1p-14, 65504};
    struct bst_tensors *r = NULL;
    double got[6];
    int fd = file_of(header, strlen(header), strlen(header), 20);
    assert_int_equal(pwrite(fd, raw, sizeof raw, 8 + (off_t)strlen(header)), sizeof raw);
    assert_int_equal(bst_tensors_open_fd(fd, "some file", &r), BST_OK);
    assert_int_equal(bst_tensors_read(r, bst_tensors_find(r, "h"), got), BST_OK);
    assert_memory_equal(got, want, sizeof want);
    assert_true(isinf(got[4]) && isnan(got[5]));
    assert_int_equal(bst_tensors_read(r, bst_tensors_find(r, "b"), got), BST_OK);
    assert_true(got[0] == 1.5 && got[1] == -INFINITY);
    assert_int_equal(bst_tensors_read(r, bst_tensors_find(r, "i"), got), BST_E_UNSUPPORTED);
    bst_tensors_close(r);
    close(fd);
}

static void a_failed_write_leaves_no_file(void **state)
{
    (void)state;
    struct bst_tensors_writer *w = bst_tensors_writer_new(BST_DT_F32);
    bst_tensors_writer_add(w, "a", 1, (int64_t[]){1});
    unlink(path);
    assert_int_equal(bst_tensors_writer_start(w, path), BST_OK);
    assert_int_equal(access(path, F_OK), 0);
    bst_tensors_writer_free(w);
    assert_int_not_equal(access(path, F_OK), 0);

    w = bst_tensors_writer_new(BST_DT_F32);
    bst_tensors_writer_add(w, "a", 1, (int64_t[]){1});
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(bst_tensors_writer_start(w, path), BST_E_IO);
    bst_tensors_writer_free(w);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct bst_tensors *r = NULL;
    assert_int_equal(bst_tensors_open("/nonexistent", &r), BST_E_NOTFOUND);
    assert_int_equal(bst_tensors_open(dir, &r), BST_E_ARG);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(bst_tensors_open(path, &r), BST_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_is_exact),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_file_that_shrinks_is_an_error),
        cmocka_unit_test(lying_headers_are_refused),
        cmocka_unit_test(lying_lengths_are_refused),
        cmocka_unit_test(short_floats_are_read),
        cmocka_unit_test(a_failed_write_leaves_no_file),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
