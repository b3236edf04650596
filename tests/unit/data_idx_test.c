#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/dataset.h"
#include "core/data/formats.h"
#include "tests/unit/data_files.h"

enum { H = 3, W = 5, N_TRAIN = 7, N_EVAL = 4 };

static const char train_images[] = "train-images-idx3-ubyte";
static const char train_labels[] = "train-labels-idx1-ubyte";
static const char eval_images[] = "t10k-images-idx3-ubyte";
static const char eval_labels[] = "t10k-labels-idx1-ubyte";

typedef void writer(const char *dir, const char *name, const void *data, size_t n);

static void put_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static void write_part(const char *dir, const char *images, const char *labels, uint32_t n,
                       uint32_t classes, uint8_t salt, writer *write)
{
    uint8_t buf[16 + N_TRAIN * H * W];
    put_u32(buf, 0x803);
    put_u32(buf + 4, n);
    put_u32(buf + 8, H);
    put_u32(buf + 12, W);
    for (uint32_t i = 0; i < n * H * W; i++)
        buf[16 + i] = (uint8_t)(i * 7 + salt);
    write(dir, images, buf, 16 + (size_t)n * H * W);
    put_u32(buf, 0x801);
    for (uint32_t i = 0; i < n; i++)
        buf[8 + i] = (uint8_t)(i % classes);
    write(dir, labels, buf, 8 + n);
}

static void write_set(const char *dir)
{
    write_part(dir, train_images, train_labels, N_TRAIN, 3, 1, files_write);
    write_part(dir, eval_images, eval_labels, N_EVAL, 3, 2, files_write);
}

static enum bst_err open_dir(const char *dir, struct bst_dataset **ds)
{
    struct bst_data_cfg cfg = {.format = "idx", .path = dir};
    return bst_dataset_open(&cfg, ds);
}

static void check_set(const char *dir)
{
    struct bst_dataset *ds;
    uint8_t out[H * W];
    int32_t label;
    size_t before = bst_alloc_held();
    if (open_dir(dir, &ds))
        fail_msg("%s", bst_err_text());
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], N_TRAIN);
    assert_int_equal(info->n[BST_EVAL], N_EVAL);
    assert_int_equal(info->height, H);
    assert_int_equal(info->width, W);
    assert_int_equal(info->channels, 1);
    assert_int_equal(info->classes, 3);
    assert_string_equal(info->note, "");
    assert_null(info->diagnostic);
    assert_null(bst_dataset_class(ds, 0));
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < (part ? N_EVAL : N_TRAIN); i++) {
            assert_int_equal(bst_dataset_get(ds, (enum bst_part)part, i, 99, out, &label), BST_OK);
            assert_int_equal(label, i % 3);
            for (int k = 0; k < H * W; k++)
                assert_int_equal(out[k], (uint8_t)((i * H * W + k) * 7 + part + 1));
        }
    bst_dataset_close(ds);
    assert_int_equal(bst_alloc_held(), before);
}

static void reads_plain_packed_and_renamed(void **state)
{
    char *dir = *state;
    write_set(dir);
    check_set(dir);
    assert_int_equal(bst_io_remove_tree(dir), BST_OK);
    assert_int_equal(mkdir(dir, 0700), 0);
    write_part(dir, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", N_TRAIN, 3, 1,
               files_write_gz);
    write_part(dir, "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte.gz", N_EVAL, 3, 2,
               files_write);
    check_set(dir);
}

/* One fault in a set that is otherwise right. */
static const struct fault {
    const char *file;
    long cut;    /* to so many bytes; -1: not */
    long at;     /* bytes put here … */
    int n_bytes; /* … this many */
    uint8_t bytes[8];
    enum bst_err err;
    const char *text; /* after the folder's name and a slash */
} faults[] = {
    {train_images,
     0,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: ends at offset 0, 4 bytes early"},
    {train_images,
     3,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: ends at offset 3, 1 bytes early"},
    {train_images,
     14,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: ends at offset 14, 2 bytes early"},
    {train_images,
     16,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: has 16 bytes, its header asks for 121"},
    {train_images,
     120,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: has 120 bytes, its header asks for 121"},
    {train_images,
     -1,
     121,
     1,
     {9},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: has 122 bytes, its header asks for 121"},
    {train_images,
     -1,
     0,
     4,
     {0x89, 'P', 'N', 'G'},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 0: found 89 50 4e 47, expected 00 00 08 03 (IDX, bytes, 3 "
     "dimensions)"},
    {train_images,
     -1,
     2,
     1,
     {0x0D},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 0: found 00 00 0d 03, expected 00 00 08 03 (IDX, bytes, 3 "
     "dimensions)"},
    {train_images,
     -1,
     3,
     1,
     {1},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 0: found 00 00 08 01, expected 00 00 08 03 (IDX, bytes, 3 "
     "dimensions)"},
    {train_images,
     -1,
     4,
     4,
     {0, 0, 0, 0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 4: found 0 images, expected at least 1"},
    {train_images,
     -1,
     4,
     4,
     {0xFF, 0xFF, 0xFF, 0xFF},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: has 121 bytes, its header asks for 64424509441"},
    {train_images,
     -1,
     4,
     4,
     {0, 0, 0, 8},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: has 121 bytes, its header asks for 136"},
    {train_images,
     -1,
     8,
     4,
     {0, 0, 0, 0},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 8: found images of 0 × 5, expected sides of 1 to 4096"},
    {train_images,
     -1,
     8,
     8,
     {0, 0, 0x10, 0, 0, 0, 0x10, 1},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 8: found images of 4096 × 4097, expected sides of 1 to "
     "4096"},
    /* 7 · 0x80000003 · 5: right again once cut to 32 bits. */
    {train_images,
     -1,
     8,
     4,
     {0x80, 0, 0, 3},
     BST_E_CORRUPT,
     "train-images-idx3-ubyte: offset 8: found images of 2147483651 × 5, expected sides of 1 to "
     "4096"},
    {eval_images,
     -1,
     8,
     8,
     {0, 0, 0, 5, 0, 0, 0, 3},
     BST_E_CORRUPT,
     "t10k-images-idx3-ubyte: offset 8: found images of 5 × 3, expected 3 × 5 as in the training "
     "part"},
    {train_labels,
     -1,
     3,
     1,
     {3},
     BST_E_CORRUPT,
     "train-labels-idx1-ubyte: offset 0: found 00 00 08 03, expected 00 00 08 01 (IDX, bytes, 1 "
     "dimension)"},
    {train_labels,
     -1,
     7,
     1,
     {6},
     BST_E_CORRUPT,
     "train-labels-idx1-ubyte: offset 4: found 6 labels, expected 7, one for each image"},
    {train_labels,
     14,
     0,
     0,
     {0},
     BST_E_CORRUPT,
     "train-labels-idx1-ubyte: has 14 bytes, its header asks for 15"},
    {eval_labels,
     -1,
     9,
     1,
     {3},
     BST_E_CORRUPT,
     "t10k-labels-idx1-ubyte: offset 9: found label 3, expected 0 to 2 as in the training part"},
    {eval_labels,
     -1,
     11,
     1,
     {255},
     BST_E_CORRUPT,
     "t10k-labels-idx1-ubyte: offset 11: found label 255, expected 0 to 2 as in the training "
     "part"},
};

static void apply(const char *dir, const struct fault *f)
{
    if (f->cut >= 0)
        files_cut(dir, f->file, (size_t)f->cut);
    char *path = bst_xasprintf("%s/%s", dir, f->file);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, f->at, SEEK_SET), 0);
    assert_int_equal(fwrite(f->bytes, 1, (size_t)f->n_bytes, file), (size_t)f->n_bytes);
    fclose(file);
    bst_free(path);
}

static void faults_are_told(void **state)
{
    char *dir = *state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct bst_dataset *ds;
        size_t before = bst_alloc_held();
        write_set(dir);
        apply(dir, &faults[i]);
        enum bst_err err = open_dir(dir, &ds);
        if (err != faults[i].err || !files_is_under(bst_err_text(), dir, faults[i].text))
            fail_msg("fault %zu: %d \"%s\", expected \"%s\"", i, err, err ? bst_err_text() : "",
                     faults[i].text);
        assert_null(ds);
        assert_int_equal(bst_alloc_held(), before);
    }
}

static void packed_faults_are_told(void **state)
{
    char *dir = *state;
    static const char name[] = "train-images-idx3-ubyte.gz";
    struct bst_dataset *ds;
    struct stat st;
    char *path = bst_xasprintf("%s/%s", dir, name);
    char *plain = bst_xasprintf("%s/%s", dir, train_images);
    write_set(dir);
    unlink(plain);
    write_part(dir, name, "unused", N_TRAIN, 3, 1, files_write_gz);
    check_set(dir);
    /* Cut anywhere, it is never taken for whole. */
    assert_int_equal(stat(path, &st), 0);
    for (long cut = st.st_size - 1; cut >= 0; cut--) {
        files_cut(dir, name, (size_t)cut);
        assert_int_equal(open_dir(dir, &ds), BST_E_CORRUPT);
    }
    /* A wrong checksum, and more than the header says. */
    write_part(dir, name, "unused", N_TRAIN, 3, 1, files_write_gz);
    struct fault sum = {.file = name, .cut = -1, .at = st.st_size - 8, .n_bytes = 1, .bytes = {1}};
    apply(dir, &sum);
    assert_int_equal(open_dir(dir, &ds), BST_E_CORRUPT);
    assert_true(files_is_under(bst_err_text(), dir,
                               "train-images-idx3-ubyte.gz: damaged gzip data after offset 0 "
                               "unpacked: incorrect data check"));
    uint8_t buf[200] = {0, 0, 8, 3, 0, 0, 0, N_TRAIN, 0, 0, 0, H, 0, 0, 0, W};
    files_write_gz(dir, name, buf, 122);
    assert_int_equal(open_dir(dir, &ds), BST_E_CORRUPT);
    assert_true(files_is_under(bst_err_text(), dir,
                               "train-images-idx3-ubyte.gz: goes on at offset 121, where it "
                               "should end"));
    /* A header that no such small file can keep is refused before memory is taken. */
    put_u32(buf + 4, UINT32_MAX);
    size_t peak = bst_alloc_peak();
    files_write_gz(dir, name, buf, 121);
    assert_int_equal(open_dir(dir, &ds), BST_E_CORRUPT);
    assert_non_null(strstr(bst_err_text(), " packed bytes, its header asks for 64424509441"));
    assert_int_equal(bst_alloc_peak(), peak);
    bst_free(path);
    bst_free(plain);
}

static void missing_files_are_told(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    assert_int_equal(open_dir(dir, &ds), BST_E_NOTFOUND);
    assert_true(files_is_under(bst_err_text(), dir,
                               "train-images-idx3-ubyte: neither it nor "
                               "train-images-idx3-ubyte.gz is there"));
    write_set(dir);
    char *path = bst_xasprintf("%s/%s", dir, eval_labels);
    unlink(path);
    assert_int_equal(open_dir(dir, &ds), BST_E_IO);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_dir(dir, &ds), BST_E_IO);
    assert_true(files_is_under(bst_err_text(), dir, "t10k-labels-idx1-ubyte: not a regular file"));
    bst_free(path);
    struct bst_data_cfg cfg = {.format = "hdf5"};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_ARG);
    assert_string_equal(bst_err_text(), "data format \"hdf5\" is not known");
}

/* Without the files generated images stand in, and say so; with half of them nothing does. */
static void shapes_stand_in(void **state)
{
    char *dir = *state;
    const char *place = bst_data_idx_place;
    struct bst_dataset *ds;
    struct bst_data_cfg cfg = {.format = "idx", .train_count = 500};
    bst_data_idx_place = dir;
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_OK);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_string_equal(info->diagnostic, "BST-501");
    assert_string_equal(info->note,
                        "generated shapes stand in for idx: install dataset-fashion-mnist or set "
                        "data.path");
    assert_int_equal(info->height, 28);
    assert_int_equal(info->channels, 1);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->n[BST_TRAIN], 500);
    assert_int_equal(info->n[BST_EVAL], 10000);
    bst_dataset_close(ds);
    write_part(dir, train_images, "unused", N_TRAIN, 3, 1, files_write);
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_IO);
    bst_data_idx_place = place;
}

static void counts_and_classes_are_limits(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    write_set(dir);
    struct bst_data_cfg cfg = {
        .format = "idx", .path = dir, .train_count = 5, .eval_count = 100, .classes = 12};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_OK);
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], 5);
    assert_int_equal(bst_dataset_info(ds)->n[BST_EVAL], N_EVAL);
    assert_int_equal(bst_dataset_info(ds)->classes, 12);
    bst_dataset_close(ds);
    cfg.classes = 2;
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_CORRUPT);
    assert_true(files_is_under(bst_err_text(), dir,
                               "train-labels-idx1-ubyte: offset 10: found label 2, expected 0 to "
                               "1"));
}

/* The real set, where it is installed: sums of the published files' pixels. */
static void fashion_mnist_is_whole(void **state)
{
    (void)state;
    struct bst_dataset *ds;
    struct bst_data_cfg cfg = {.format = "idx"};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_OK);
    if (bst_dataset_info(ds)->diagnostic) {
        bst_dataset_close(ds);
        skip();
    }
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], 60000);
    double sum = 0, squares = 0;
    int count[10] = {0};
    for (int64_t i = 0; i < 60000; i++) {
        uint8_t out[28 * 28];
        int32_t label;
        assert_int_equal(bst_dataset_get(ds, BST_TRAIN, i, 0, out, &label), BST_OK);
        count[label]++;
        for (int k = 0; k < 28 * 28; k++) {
            sum += out[k];
            squares += out[k] * out[k];
        }
    }
    double n = 60000.0 * 784, mean = sum / n / 255;
    assert_true(mean > 0.28595 && mean < 0.28605);
    double variance = squares / n / (255.0 * 255.0) - mean * mean;
    assert_true(variance > 0.3530 * 0.3530 - 2e-5 && variance < 0.3530 * 0.3530 + 6e-5);
    for (int c = 0; c < 10; c++)
        assert_int_equal(count[c], 6000);
    assert_string_equal(bst_dataset_class(ds, 9), "ankle boot");
    bst_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(reads_plain_packed_and_renamed),
        WITH_FOLDER(faults_are_told),
        WITH_FOLDER(packed_faults_are_told),
        WITH_FOLDER(missing_files_are_told),
        WITH_FOLDER(shapes_stand_in),
        WITH_FOLDER(counts_and_classes_are_limits),
        cmocka_unit_test(fashion_mnist_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
