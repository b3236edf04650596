/* IDX reader: any bytes as one file of an otherwise sound set, as they are (plain or gzipped by
 * nature) or packed, are read whole or refused with words, and every sample of what was read can be
 * had. The first byte says which file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/dataset.h"
#include "tests/fuzz/fuzz.h"

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
static char folder[64];

static void remove_folder(void)
{
    (void)!bst_io_remove_tree(folder);
}

static char *path_of(const char *name, const char *ending)
{
    return bst_xasprintf("%s/%s%s", folder, name, ending);
}

static void put_file(const char *name, const uint8_t *data, size_t size)
{
    char *path = path_of(name, "");
    FILE *f = fopen(path, "wb");
    BST_ASSERT(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    bst_free(path);
}

static void put_packed(const char *name, const uint8_t *data, size_t size)
{
    char *plain = path_of(name, ""), *path = path_of(name, ".gz");
    unlink(plain);
    gzFile gz = gzopen(path, "wb1");
    BST_ASSERT(gz && gzwrite(gz, data, (unsigned)size) == (int)size);
    gzclose(gz);
    bst_free(plain);
    bst_free(path);
}

/* Two 2 × 3 images of classes 0 and 1. */
static void put_sound_file(int i)
{
    static const uint8_t images[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3};
    static const uint8_t labels[8 + 2] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    put_file(names[i], i % 2 ? labels : images, i % 2 ? sizeof labels : sizeof images);
}

static void set_up(void)
{
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "%s/bst-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    BST_ASSERT(mkdtemp(folder));
    (void)atexit(remove_folder);
    for (int i = 0; i < 4; i++)
        put_sound_file(i);
}

static void read_all(struct bst_dataset *ds)
{
    const struct bst_data_info *info = bst_dataset_info(ds);
    size_t bytes = (size_t)info->height * (size_t)info->width * (size_t)info->channels;
    uint8_t *out = bst_xalloc(bytes);
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < info->n[part]; i++) {
            int32_t label = -1;
            BST_ASSERT(!bst_dataset_get(ds, (enum bst_part)part, i, 0, out, &label));
            BST_ASSERT(label >= 0 && label < info->classes);
        }
    bst_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct bst_dataset *ds = NULL;
    struct bst_data_cfg cfg = {.format = "idx", .path = folder};
    size_t before = bst_alloc_held();
    const char *name = names[data[0] % 4];
    set_up();
    if (data[0] & 4)
        put_packed(name, data + 1, size - 1);
    else
        put_file(name, data + 1, size - 1);
    if (!bst_dataset_open(&cfg, &ds))
        read_all(ds);
    else
        BST_ASSERT(bst_err_text()[0] && !ds);
    bst_dataset_close(ds);
    BST_ASSERT(bst_alloc_held() == before);
    char *packed = path_of(name, ".gz");
    unlink(packed);
    bst_free(packed);
    put_sound_file(data[0] % 4);
    return 0;
}
