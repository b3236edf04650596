/* CIFAR-10's binary version (A. Krizhevsky): records of one label byte and 3072 image bytes, the
 * red plane first, rows from the top. */
#include "core/data/cifar10.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/formats.h"
#include "core/data/reader.h"

enum {
    SIDE = 32,
    PLANE = SIDE * SIDE,
    RECORD = 1 + 3 * PLANE,
    FILE_RECORDS = 10000,
    TRAIN_FILES = 5,
    CLASSES = 10,
};

static enum bst_err take_record(const uint8_t *record, const struct bst_reader *r, int64_t at,
                                uint8_t *image, uint8_t *label)
{
    if (record[0] >= CLASSES)
        return bst_fail(BST_E_CORRUPT, "%s: offset %" PRId64 ": found label %d, expected 0 to %d",
                        bst_reader_path(r), at * RECORD, record[0], CLASSES - 1);
    *label = record[0];
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < 3; c++)
            image[3 * i + c] = record[1 + c * PLANE + i];
    return BST_OK;
}

enum bst_err bst_cifar10_read(struct bst_inmem_part *p, int64_t first, int64_t n, const char *dir,
                              const char *name)
{
    uint8_t record[RECORD];
    struct bst_reader *r;
    BST_TRY(bst_reader_open(dir, name, &r));
    enum bst_err err = bst_reader_expect(r, (uint64_t)n * RECORD, "CIFAR-10 has");
    for (int64_t i = 0; i < n && !err; i++) {
        err = bst_reader_read(r, record, sizeof record);
        if (!err)
            err = take_record(record, r, i, p->images + (size_t)(first + i) * 3 * PLANE,
                              p->labels + first + i);
    }
    if (!err)
        err = bst_reader_end(r);
    bst_reader_close(r);
    return err;
}

static enum bst_err read_all(struct bst_inmem *set, const char *dir)
{
    BST_TRY(bst_inmem_reserve(set, BST_TRAIN, TRAIN_FILES * FILE_RECORDS));
    BST_TRY(bst_inmem_reserve(set, BST_EVAL, FILE_RECORDS));
    for (int i = 0; i < TRAIN_FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        BST_TRY(bst_cifar10_read(&set->part[BST_TRAIN], (int64_t)i * FILE_RECORDS, FILE_RECORDS,
                                 dir, name));
    }
    return bst_cifar10_read(&set->part[BST_EVAL], 0, FILE_RECORDS, dir, "test_batch.bin");
}

static void close_cifar10(void *state)
{
    bst_inmem_free(state);
    bst_free(state);
}

static enum bst_err open_cifar10(const struct bst_data_cfg *cfg, void **state,
                                 struct bst_data_info *info)
{
    if (!cfg->path)
        return bst_fail(BST_E_ARG, "cifar10 needs data.path: the folder of data_batch_1.bin");
    struct bst_inmem *set = bst_xalloc(sizeof *set);
    *set =
        (struct bst_inmem){.height = SIDE, .width = SIDE, .channels = 3, .augment = cfg->augment};
    /* The published archive unpacks into a folder of its own. */
    char *inner = bst_xasprintf("%s/cifar-10-batches-bin", cfg->path);
    enum bst_err err = read_all(set, bst_io_exists(inner) ? inner : cfg->path);
    bst_free(inner);
    if (err) {
        close_cifar10(set);
        return err;
    }
    info->n[BST_TRAIN] = set->part[BST_TRAIN].n;
    info->n[BST_EVAL] = set->part[BST_EVAL].n;
    info->height = info->width = SIDE;
    info->channels = 3;
    info->classes = CLASSES;
    *state = set;
    return BST_OK;
}

static enum bst_err get_cifar10(void *state, enum bst_part part, int64_t index, uint64_t key,
                                uint8_t *out, int32_t *label)
{
    bst_inmem_get(state, part, index, key, out, label);
    return BST_OK;
}

static const char *cifar10_class(void *state, int label)
{
    static const char *const names[CLASSES] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                               "dog",      "frog",       "horse", "ship", "truck"};
    (void)state;
    return names[label];
}

const struct bst_data_format bst_data_cifar10 = {
    .name = "cifar10",
    .about = "CIFAR-10, the binary version",
    .open = open_cifar10,
    .close = close_cifar10,
    .get = get_cifar10,
    .class_name = cifar10_class,
};
