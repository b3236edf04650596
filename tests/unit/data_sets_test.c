/* CIFAR-10 files, generated shapes, and the augmentation of small images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"
#include "tests/unit/data_files.h"

enum { RECORD = 3073, RECORDS = 10000, PLANE = 1024 };

static const char *const cifar_files[6] = {"data_batch_1.bin", "data_batch_2.bin",
                                           "data_batch_3.bin", "data_batch_4.bin",
                                           "data_batch_5.bin", "test_batch.bin"};

/* Zeros but for record 9999 - f of file f, which is of class f + 1 and holds (plane, place)'s
 * number. */
static void write_cifar(const char *dir)
{
    for (int f = 0; f < 6; f++) {
        uint8_t record[RECORD] = {(uint8_t)(f + 1)};
        for (int i = 0; i < RECORD - 1; i++)
            record[1 + i] = (uint8_t)(i % 251 + f);
        files_write(dir, cifar_files[f], "", 0);
        files_cut(dir, cifar_files[f], (size_t)RECORDS * RECORD);
        char *path = bst_xasprintf("%s/%s", dir, cifar_files[f]);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, (long)(RECORDS - 1 - f) * RECORD, SEEK_SET), 0);
        assert_int_equal(fwrite(record, 1, RECORD, file), RECORD);
        fclose(file);
        bst_free(path);
    }
}

static enum bst_err open_cifar(const char *dir, struct bst_dataset **ds)
{
    struct bst_data_cfg cfg = {.format = "cifar10", .path = dir};
    return bst_dataset_open(&cfg, ds);
}

static void check_cifar(const char *dir)
{
    struct bst_dataset *ds;
    uint8_t out[3 * PLANE];
    int32_t label;
    assert_int_equal(open_cifar(dir, &ds), BST_OK);
    const struct bst_data_info *info = bst_dataset_info(ds);
    assert_int_equal(info->n[BST_TRAIN], 50000);
    assert_int_equal(info->n[BST_EVAL], 10000);
    assert_int_equal(info->height * 10000 + info->width * 100 + info->channels, 323203);
    for (int f = 0; f < 6; f++) {
        int64_t index = (f < 5 ? f * RECORDS : 0) + RECORDS - 1 - f;
        enum bst_part part = f < 5 ? BST_TRAIN : BST_EVAL;
        assert_int_equal(bst_dataset_get(ds, part, index, 0, out, &label), BST_OK);
        assert_int_equal(label, f + 1);
        for (int i = 0; i < 3 * PLANE; i++)
            assert_int_equal(out[i], (uint8_t)((i % 3 * PLANE + i / 3) % 251 + f));
        assert_int_equal(bst_dataset_get(ds, part, index - 1, 0, out, &label), BST_OK);
        assert_int_equal(label, 0);
    }
    assert_string_equal(bst_dataset_class(ds, 9), "truck");
    assert_null(bst_dataset_class(ds, 10));
    assert_null(bst_dataset_class(ds, -1));
    bst_dataset_close(ds);
}

static void cifar_is_read_planes_to_pixels(void **state)
{
    char *dir = *state;
    char *inner = bst_xasprintf("%s/cifar-10-batches-bin", dir);
    assert_int_equal(mkdir(inner, 0700), 0);
    write_cifar(inner);
    check_cifar(inner);
    check_cifar(dir);
    bst_free(inner);
}

static void cifar_faults_are_told(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    size_t before = bst_alloc_held();
    struct bst_data_cfg cfg = {.format = "cifar10"};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_ARG);
    assert_string_equal(bst_err_text(), "cifar10 needs data.path: the folder of data_batch_1.bin");
    assert_int_equal(open_cifar(dir, &ds), BST_E_NOTFOUND);
    assert_true(files_is_under(bst_err_text(), dir,
                               "data_batch_1.bin: neither it nor data_batch_1.bin.gz is there"));
    write_cifar(dir);
    files_cut(dir, "data_batch_4.bin", (size_t)RECORDS * RECORD - RECORD);
    assert_int_equal(open_cifar(dir, &ds), BST_E_CORRUPT);
    assert_true(files_is_under(bst_err_text(), dir,
                               "data_batch_4.bin: has 30726927 bytes, CIFAR-10 has 30730000"));
    files_cut(dir, "data_batch_4.bin", (size_t)RECORDS * RECORD + 1);
    assert_int_equal(open_cifar(dir, &ds), BST_E_CORRUPT);
    write_cifar(dir);
    char *path = bst_xasprintf("%s/test_batch.bin", dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 7L * RECORD, SEEK_SET), 0);
    fputc(10, file);
    fclose(file);
    bst_free(path);
    assert_int_equal(open_cifar(dir, &ds), BST_E_CORRUPT);
    assert_true(files_is_under(bst_err_text(), dir,
                               "test_batch.bin: offset 21511: found label 10, expected 0 to 9"));
    assert_int_equal(bst_alloc_held(), before);
}

static struct bst_dataset *open_shapes(struct bst_data_cfg cfg)
{
    struct bst_dataset *ds;
    cfg.format = "shapes";
    if (bst_dataset_open(&cfg, &ds))
        fail_msg("%s", bst_err_text());
    return ds;
}

static uint32_t shapes_crc(struct bst_data_cfg cfg, enum bst_part part, int from, int n,
                           uint64_t key)
{
    static uint8_t out[64 * 64 * 4];
    struct bst_dataset *ds = open_shapes(cfg);
    const struct bst_data_info *info = bst_dataset_info(ds);
    size_t bytes = (size_t)(info->height * info->width * info->channels);
    uint32_t crc = 0;
    for (int i = from; i < from + n; i++) {
        int32_t label;
        assert_int_equal(bst_dataset_get(ds, part, i, key, out, &label), BST_OK);
        assert_in_range(label, 0, info->classes - 1);
        assert_string_not_equal(bst_dataset_class(ds, label), "");
        crc = bst_crc32c(crc, out, bytes);
        crc = bst_crc32c(crc, &label, sizeof label);
    }
    bst_dataset_close(ds);
    return crc;
}

static void shapes_depend_on_seed_part_and_index(void **state)
{
    (void)state;
    struct bst_data_cfg own = {0}, seeded = {.seed = 1}, moving = {.augment = true};
    uint32_t first = shapes_crc(own, BST_TRAIN, 0, 1, 0);
    assert_int_equal(shapes_crc(own, BST_TRAIN, 0, 1, 77), first);
    assert_int_not_equal(shapes_crc(own, BST_TRAIN, 1, 1, 0), first);
    assert_int_not_equal(shapes_crc(own, BST_EVAL, 0, 1, 0), first);
    assert_int_not_equal(shapes_crc(seeded, BST_TRAIN, 0, 1, 0), first);
    assert_int_not_equal(shapes_crc(moving, BST_TRAIN, 0, 1, 1),
                         shapes_crc(moving, BST_TRAIN, 0, 1, 2));
    assert_int_equal(shapes_crc(moving, BST_EVAL, 0, 1, 1), shapes_crc(own, BST_EVAL, 0, 1, 0));
}

/* Exactly rounded operations only: the same pixels under every compiler and on every machine. */
static void shapes_are_the_same_everywhere(void **state)
{
    (void)state;
    struct bst_data_cfg own = {0};
    struct bst_data_cfg colour = {.image_size = 64, .channels = 3, .classes = 16, .seed = 9};
    assert_int_equal(shapes_crc(own, BST_TRAIN, 0, 500, 0), 0x2142CC4C);
    assert_int_equal(shapes_crc(colour, BST_TRAIN, 0, 200, 0), 0xBE10327A);
}

static void shapes_are_balanced(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_shapes((struct bst_data_cfg){.train_count = 20000});
    assert_int_equal(bst_dataset_info(ds)->n[BST_TRAIN], 20000);
    uint8_t out[28 * 28];
    int count[10] = {0};
    for (int i = 0; i < 20000; i++) {
        int32_t label;
        assert_int_equal(bst_dataset_get(ds, BST_TRAIN, i, 0, out, &label), BST_OK);
        count[label]++;
    }
    for (int c = 0; c < 10; c++)
        assert_in_range(count[c], 1800, 2200);
    bst_dataset_close(ds);
}

static void shapes_limits_are_told(void **state)
{
    (void)state;
    static const struct {
        struct bst_data_cfg cfg;
        const char *text;
    } wrong[] = {
        {{.image_size = 7}, "shapes: image size 7, expected 8 to 1024"},
        {{.image_size = 1025}, "shapes: image size 1025, expected 8 to 1024"},
        {{.channels = 5}, "shapes: 5 channels, expected 1 to 4"},
        {{.channels = -1}, "shapes: -1 channels, expected 1 to 4"},
        {{.classes = 1}, "shapes: 1 classes, expected 2 to 16"},
        {{.classes = 17}, "shapes: 17 classes, expected 2 to 16"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bst_dataset *ds;
        struct bst_data_cfg cfg = wrong[i].cfg;
        cfg.format = "shapes";
        assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_RANGE);
        assert_string_equal(bst_err_text(), wrong[i].text);
    }
    bst_dataset_close(open_shapes((struct bst_data_cfg){.image_size = 8, .channels = 4}));
}

/* The same by definition: pad with zeros, crop, then mirror. */
static int shift_flip_slowly(const uint8_t *src, const uint8_t *got, int h, int w, int c, int dy,
                             int dx, bool flip)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c; k++) {
                int sy = y + dy, sx = (flip ? w - 1 - x : x) + dx;
                bool in = sy >= 0 && sy < h && sx >= 0 && sx < w;
                if (got[(y * w + x) * c + k] != (in ? src[(sy * w + sx) * c + k] : 0))
                    return 0;
            }
    return 1;
}

static void check_augment(int h, int w, int c, int pad)
{
    uint8_t src[17 * 13 * 3], got[17 * 13 * 3];
    int seen[9][9][2] = {{{0}}};
    for (int i = 0; i < h * w * c; i++)
        src[i] = (uint8_t)(1 + i % 255);
    for (uint64_t key = 0; key < 3000; key++) {
        int matches = 0;
        memset(got, 0xEE, sizeof got);
        bst_augment_shift_flip(src, got, h, w, c, pad, key);
        for (int dy = -pad; dy <= pad; dy++)
            for (int dx = -pad; dx <= pad; dx++)
                for (int flip = 0; flip < 2; flip++)
                    if (shift_flip_slowly(src, got, h, w, c, dy, dx, flip)) {
                        matches++;
                        seen[dy + 4][dx + 4][flip]++;
                    }
        assert_int_equal(matches, 1);
        if (h * w * c < 17 * 13 * 3)
            assert_int_equal(got[h * w * c], 0xEE);
    }
    int variants = (2 * pad + 1) * (2 * pad + 1) * 2;
    for (int dy = -pad; dy <= pad; dy++)
        for (int dx = -pad; dx <= pad; dx++)
            for (int flip = 0; flip < 2; flip++)
                assert_in_range(seen[dy + 4][dx + 4][flip], 1, 3 * 3000 / variants);
}

static void augmentation_is_shift_and_mirror(void **state)
{
    (void)state;
    check_augment(17, 13, 3, 4);
    check_augment(9, 11, 1, 4);
    check_augment(3, 3, 1, 1);
}

/* Smaller than the pad: what is left over is blank, and nothing outside is touched. */
static void tiny_images_may_shift_out(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 300; key++) {
        uint8_t one = 200, got[3] = {0xEE, 0xEE, 0xEE};
        bst_augment_shift_flip(&one, got + 1, 1, 1, 1, 4, key);
        assert_int_equal(got[0], 0xEE);
        assert_int_equal(got[2], 0xEE);
        assert_true(got[1] == 0 || got[1] == 200);
    }
}

static void keys_differ_by_seed_epoch_and_index(void **state)
{
    (void)state;
    uint64_t key = bst_augment_key(1, 2, 3);
    assert_int_equal(bst_augment_key(1, 2, 3), key);
    assert_true(bst_augment_key(2, 2, 3) != key);
    assert_true(bst_augment_key(1, 3, 3) != key);
    assert_true(bst_augment_key(1, 2, 4) != key);
    assert_true(bst_augment_key(1, 3, 2) != key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(cifar_is_read_planes_to_pixels),
        WITH_FOLDER(cifar_faults_are_told),
        cmocka_unit_test(shapes_depend_on_seed_part_and_index),
        cmocka_unit_test(shapes_are_the_same_everywhere),
        cmocka_unit_test(shapes_are_balanced),
        cmocka_unit_test(shapes_limits_are_told),
        cmocka_unit_test(augmentation_is_shift_and_mirror),
        cmocka_unit_test(tiny_images_may_shift_out),
        cmocka_unit_test(keys_differ_by_seed_epoch_and_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
