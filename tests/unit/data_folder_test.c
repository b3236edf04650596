/* imagefolder: the tree, what comes out of it, and what happens when files are bad. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/data/crop.h"
#include "core/data/dataset.h"
#include "core/data/folder_list.h"
#include "tests/unit/data_encode.h"
#include "tests/unit/data_files.h"

enum { SIZE = 16, SAMPLE = SIZE * SIZE * 3 };

static void make_dir(const char *dir, const char *name)
{
    char *path = bst_xasprintf("%s/%s", dir, name);
    assert_int_equal(bst_io_make_dirs(path, 0700), BST_OK);
    bst_free(path);
}

static void write_jpeg(const char *dir, const char *name, int w, int h)
{
    size_t n;
    struct encode e = {.w = w, .h = h, .from = JCS_RGB};
    uint8_t *data = encode_jpeg(&e, &n);
    files_write(dir, name, data, n);
    free(data);
}

/* Files of different sizes, so that each gives other pixels. */
static void write_tree(const char *dir, int n_train, int n_val)
{
    static const char *const classes[2] = {"cat", "dog"};
    for (int i = 0; i < n_train + n_val; i++) {
        bool val = i >= n_train;
        char *folder = bst_xasprintf("%s/%s", val ? "val" : "train", classes[i % 2]);
        char *name = bst_xasprintf("%s/%04d.jpg", folder, i);
        make_dir(dir, folder);
        write_jpeg(dir, name, 30 + i % 23, 24 + i % 19);
        bst_free(folder);
        bst_free(name);
    }
}

static enum bst_err open_tree(const char *dir, bool augment, struct bst_dataset **ds)
{
    struct bst_data_cfg cfg = {
        .format = "imagefolder", .path = dir, .image_size = SIZE, .augment = augment};
    return bst_dataset_open(&cfg, ds);
}

/* The order of torchvision's make_dataset: folders by whole path, then names, all bytewise. */
static void order_is_torchvisions(void **state)
{
    char *dir = *state;
    static const char *const files[] = {
        "B/z.jpg",       "a/10.JPEG",   "a/2.jpg",       "a/Z.jpeg",  "a/b.JPG",
        "a/sub-x/1.jpg", "a/sub/1.jpg", "a/sub/2/1.jpg", "a-b/1.jpg", "\xC3\xA9/1.jpg",
    };
    static const char *const order[] = {
        "B/z.jpg",     "a/10.JPEG",     "a/2.jpg",       "a/Z.jpeg",  "a/b.JPG",
        "a/sub/1.jpg", "a/sub-x/1.jpg", "a/sub/2/1.jpg", "a-b/1.jpg", "\xC3\xA9/1.jpg",
    };
    static const int labels[] = {0, 1, 1, 1, 1, 1, 1, 1, 2, 3};
    enum { N = 10 };
    for (int i = 0; i < N; i++) {
        char *folder = bst_xstrdup(files[i]);
        *strrchr(folder, '/') = '\0';
        make_dir(dir, folder);
        files_write(dir, files[i], "", 0);
        bst_free(folder);
    }
    make_dir(dir, ".ipynb_checkpoints");
    files_write(dir, "a/notes.txt", "", 0);
    files_write(dir, "a/._2.jpg", "", 0);
    files_write(dir, "stray.jpg", "", 0);
    struct bst_folder_list l;
    if (bst_folder_list_read(&l, dir, NULL))
        fail_msg("%s", bst_err_text());
    assert_int_equal(l.n, N);
    assert_int_equal(l.n_ignored, 1);
    assert_int_equal(l.n_classes, 4);
    for (int i = 0; i < N; i++) {
        assert_string_equal(bst_folder_list_path(&l, i), order[i]);
        assert_int_equal(bst_folder_list_label(&l, i), labels[i]);
    }
    bst_folder_list_fini(&l);
}

static void many_files_keep_their_names(void **state)
{
    char *dir = *state;
    struct bst_folder_list l;
    size_t before = bst_alloc_held();
    make_dir(dir, "only");
    for (int i = 0; i < 5000; i++) {
        char *name = bst_xasprintf("only/photograph-with-a-rather-long-name-%05d.jpg", i);
        files_write(dir, name, "", 0);
        bst_free(name);
    }
    assert_int_equal(bst_folder_list_read(&l, dir, NULL), BST_OK);
    assert_int_equal(l.n, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(
            atoi(bst_folder_list_path(&l, i) + strlen("only/photograph-with-a-rather-long-name-")),
            i);
    bst_folder_list_fini(&l);
    assert_int_equal(bst_alloc_held(), before);
}

static void check_open_fails(const char *dir, enum bst_err err, const char *text)
{
    struct bst_dataset *ds;
    assert_int_equal(open_tree(dir, false, &ds), err);
    if (!files_is_under(bst_err_text(), dir, text))
        fail_msg("\"%s\", expected \"%s\"", bst_err_text(), text);
}

static void faults_of_the_tree_are_told(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    size_t before = bst_alloc_held();
    struct bst_data_cfg cfg = {.format = "imagefolder"};
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_ARG);
    cfg.path = dir;
    cfg.image_size = 4;
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_RANGE);
    check_open_fails(dir, BST_E_NOTFOUND,
                     "train: No such file or directory; imagefolder expects PATH/train/CLASS/*.jpg "
                     "and PATH/val/CLASS/*.jpg");
    make_dir(dir, "train");
    check_open_fails(dir, BST_E_CORRUPT, "train: no class folders");
    make_dir(dir, "train/cat");
    files_write(dir, "train/cat/readme.md", "", 0);
    check_open_fails(dir, BST_E_CORRUPT, "train/cat: no .jpg or .jpeg file");
    write_tree(dir, 4, 0);
    check_open_fails(dir, BST_E_NOTFOUND,
                     "val: No such file or directory; imagefolder expects PATH/train/CLASS/*.jpg "
                     "and PATH/val/CLASS/*.jpg");
    make_dir(dir, "val/cow");
    check_open_fails(dir, BST_E_CORRUPT, "val/cow: no such class in the training part");
    char *cow = bst_xasprintf("%s/val/cow", dir);
    rmdir(cow);
    write_tree(dir, 4, 2);
    char *loop = bst_xasprintf("%s/val/cat/loop", dir);
    assert_int_equal(symlink("..", loop), 0);
    assert_int_equal(open_tree(dir, false, &ds), BST_E_CORRUPT);
    assert_non_null(strstr(bst_err_text(), ": deeper than 8 folders"));
    unlink(loop);
    cfg.image_size = SIZE;
    cfg.classes = 1;
    assert_int_equal(bst_dataset_open(&cfg, &ds), BST_E_RANGE);
    assert_true(files_is_under(bst_err_text(), dir, "train: 2 class folders, but 1 classes"));
    assert_int_equal(bst_alloc_held(), before);
    assert_int_equal(open_tree(dir, false, &ds), BST_OK);
    assert_string_equal(bst_dataset_info(ds)->note,
                        "1 files without .jpg or .jpeg in their name are not used");
    assert_string_equal(bst_dataset_class(ds, 1), "dog");
    assert_int_equal(bst_dataset_info(ds)->classes, 2);
    bst_dataset_close(ds);
    assert_int_equal(bst_alloc_held(), before);
    bst_free(cow);
    bst_free(loop);
}

static void get(struct bst_dataset *ds, enum bst_part part, int64_t i, uint64_t key,
                uint8_t out[SAMPLE])
{
    int32_t label;
    memset(out, 0xA5, SAMPLE);
    if (bst_dataset_get(ds, part, i, key, out, &label))
        fail_msg("%s", bst_err_text());
}

/* The whole picture decoded by libjpeg, resized at full size. */
static void by_hand(const char *dir, const char *name, uint8_t out[SAMPLE])
{
    char *path = bst_xasprintf("%s/%s", dir, name), *data;
    size_t n;
    int w, h, channels;
    assert_int_equal(bst_io_read_file(path, 1 << 20, &data, &n), BST_OK);
    uint8_t *whole = decode_jpeg((const uint8_t *)data, n, 1, &w, &h, &channels);
    whole = realloc(whole, (size_t)(w * h * 3) + 64);
    struct bst_crop c;
    struct bst_resample_axis x, y;
    struct bst_resampler r = {.loops = &bst_resample_portable};
    struct bst_jpeg_view v = {.part = {0, 0, w, h}, .denominator = 1};
    bst_crop_centre(&c, w, h, SIZE);
    bst_crop_axes(&c, &v, &x, &y);
    assert_int_equal(bst_resample(&r, whole, (size_t)w * 3, &x, &y, out), BST_OK);
    bst_resampler_fini(&r);
    free(whole);
    bst_free(data);
    bst_free(path);
}

static void evaluation_is_resize_and_centre(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    uint8_t got[SAMPLE], want[SAMPLE];
    write_tree(dir, 2, 2);
    write_jpeg(dir, "val/dog/big.jpg", 801, 603);
    assert_int_equal(open_tree(dir, true, &ds), BST_OK);
    get(ds, BST_EVAL, 0, 0, got);
    by_hand(dir, "val/cat/0002.jpg", want);
    assert_memory_equal(got, want, SAMPLE);
    /* Decoded at a quarter: the same picture but for rounding. */
    get(ds, BST_EVAL, 2, 0, got);
    by_hand(dir, "val/dog/big.jpg", want);
    int off = 0;
    for (int i = 0; i < SAMPLE; i++)
        off += abs(got[i] - want[i]);
    assert_in_range(off, 1, 2 * SAMPLE);
    bst_dataset_close(ds);
}

static void training_crops_follow_the_key(void **state)
{
    char *dir = *state;
    struct bst_dataset *ds;
    uint8_t a[SAMPLE], b[SAMPLE];
    write_tree(dir, 2, 2);
    assert_int_equal(open_tree(dir, true, &ds), BST_OK);
    get(ds, BST_TRAIN, 0, 1, a);
    get(ds, BST_TRAIN, 0, 1, b);
    assert_memory_equal(a, b, SAMPLE);
    get(ds, BST_TRAIN, 0, 2, b);
    assert_memory_not_equal(a, b, SAMPLE);
    bst_dataset_close(ds);
    assert_int_equal(open_tree(dir, false, &ds), BST_OK);
    get(ds, BST_TRAIN, 0, 1, a);
    get(ds, BST_TRAIN, 0, 2, b);
    assert_memory_equal(a, b, SAMPLE);
    by_hand(dir, "train/cat/0000.jpg", b);
    assert_memory_equal(a, b, SAMPLE);
    bst_dataset_close(ds);
}

/* Two epochs: what was delivered, which samples, and the bad ones noted, as one number. */
static uint32_t run(const char *dir, int threads, enum bst_err *err)
{
    struct bst_dataset *ds;
    struct bst_loader *l;
    uint32_t crc = 0;
    assert_int_equal(open_tree(dir, true, &ds), BST_OK);
    struct bst_loader_cfg cfg = {.ds = ds,
                                 .part = BST_TRAIN,
                                 .shuffle = true,
                                 .seed = 5,
                                 .max_batch = 20,
                                 .slots = 3,
                                 .threads = threads};
    assert_int_equal(bst_loader_new(&cfg, &l), BST_OK);
    *err = BST_OK;
    for (uint64_t at = 0; at < 400 && !*err; at += 20) {
        struct bst_batch b;
        bst_loader_ask(l, at, 20);
        bst_loader_ask(l, at + 20, 20);
        *err = bst_loader_take(l, at, 20, NULL, &b);
        if (*err)
            break;
        crc = bst_crc32c(crc, b.images, 20 * SAMPLE);
        crc = bst_crc32c(crc, b.labels, 20 * sizeof *b.labels);
        crc = bst_crc32c(crc, b.index, 20 * sizeof *b.index);
        bst_loader_give_back(l, &b);
    }
    bst_loader_free(l);
    for (int64_t i = 0; i < bst_dataset_n_bad(ds); i++) {
        struct bst_data_bad bad;
        assert_true(bst_dataset_bad(ds, i, &bad));
        crc = bst_crc32c(crc, bad.reason, strlen(bad.reason));
    }
    bst_dataset_close(ds);
    return crc;
}

static void bad_files_do_not_depend_on_threads(void **state)
{
    char *dir = *state;
    enum bst_err err;
    size_t before = bst_alloc_held();
    write_tree(dir, 200, 2);
    uint32_t good = run(dir, 1, &err);
    assert_int_equal(err, BST_OK);
    assert_int_equal(run(dir, 8, &err), good);
    assert_int_equal(run(dir, 0, &err), good);
    files_write(dir, "train/cat/0100.jpg", "\x89PNG\r\n", 6);
    files_cut(dir, "train/dog/0033.jpg", 700);
    uint32_t with_bad = run(dir, 1, &err);
    assert_int_equal(err, BST_OK);
    assert_int_not_equal(with_bad, good);
    assert_int_equal(run(dir, 8, &err), with_bad);
    assert_int_equal(err, BST_OK);
    /* The third is more than 1 %. */
    char *gone = bst_xasprintf("%s/train/dog/0007.jpg", dir);
    unlink(gone);
    files_write(dir, "train/dog/0007.jpg", "", 0);
    (void)run(dir, 8, &err);
    assert_int_equal(err, BST_E_CORRUPT);
    assert_int_equal(
        strncmp(bst_err_text(), "BST-503: 3 of 200 samples cannot be read, more than 1 %; ", 57),
        0);
    bst_free(gone);
    assert_int_equal(bst_alloc_held(), before);
}

static void bad_files_are_named(void **state)
{
    char *dir = *state;
    static const struct {
        const char *data, *reason;
        size_t n;
    } bad[] = {
        {"", "train/cat/0000.jpg: empty file", 0},
        {"\x89PNG\r\n", "train/cat/0000.jpg: a PNG file, expected a JPEG", 6},
        {"\xFF\xD8\xFF", "train/cat/0000.jpg: damaged JPEG: cut off at byte 3, no end marker", 3},
    };
    struct bst_dataset *ds;
    uint8_t out[SAMPLE];
    int32_t label;
    write_tree(dir, 2, 2);
    assert_int_equal(open_tree(dir, true, &ds), BST_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        files_write(dir, "train/cat/0000.jpg", bad[i].data, bad[i].n);
        enum bst_err err = bst_dataset_get(ds, BST_TRAIN, 0, 0, out, &label);
        assert_true(bst_dataset_is_bad_sample(err));
        assert_true(files_is_under(bst_err_text(), dir, bad[i].reason));
    }
    char *path = bst_xasprintf("%s/train/cat/0000.jpg", dir);
    unlink(path);
    assert_int_equal(bst_dataset_get(ds, BST_TRAIN, 0, 0, out, &label), BST_E_IO);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(bst_dataset_get(ds, BST_TRAIN, 0, 0, out, &label), BST_E_UNSUPPORTED);
    bst_free(path);
    bst_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(order_is_torchvisions),         WITH_FOLDER(many_files_keep_their_names),
        WITH_FOLDER(faults_of_the_tree_are_told),   WITH_FOLDER(evaluation_is_resize_and_centre),
        WITH_FOLDER(training_crops_follow_the_key), WITH_FOLDER(bad_files_do_not_depend_on_threads),
        WITH_FOLDER(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
