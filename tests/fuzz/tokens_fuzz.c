/* Files of tokens: any bytes as train.bin beside a sound val.bin are a set every sample of which
 * can be had, with tokens below the vocabulary, or refused with words. The first byte says what a
 * bare token takes, and whether the vocabulary is given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/dataset.h"
#include "tests/fuzz/fuzz.h"

enum { LENGTH = 4 };
static char folder[64];

static void remove_folder(void)
{
    (void)!bst_io_remove_tree(folder);
}

static void put_file(const char *name, const uint8_t *data, size_t size)
{
    char *path = bst_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    BST_ASSERT(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    bst_free(path);
}

static void set_up(void)
{
    static const uint8_t sound[2 * (LENGTH + 1)] = {1, 0, 2, 0, 3};
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "%s/bst-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    BST_ASSERT(mkdtemp(folder));
    (void)atexit(remove_folder);
    put_file("val.bin", sound, sizeof sound);
}

static void read_all(struct bst_dataset *ds)
{
    const struct bst_data_info *info = bst_dataset_info(ds);
    int32_t tokens[LENGTH], labels[LENGTH], length, pair;
    const struct bst_token_sample out = {{tokens, NULL}, {&length, NULL}, labels, &pair};
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < info->n[part]; i++) {
            BST_ASSERT(!bst_dataset_get_tokens(ds, (enum bst_part)part, i, 0, &out));
            for (int k = 0; k < LENGTH; k++) {
                BST_ASSERT(tokens[k] >= 0 && tokens[k] < info->classes);
                BST_ASSERT(labels[k] >= 0 && labels[k] < info->classes);
            }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct bst_dataset *ds = NULL;
    struct bst_data_cfg cfg = {.format = "tokens",
                               .input = BST_INPUT_NEXT,
                               .path = folder,
                               .length = LENGTH,
                               .token_bytes = data[0] & 1 ? 4 : 0,
                               .classes = data[0] & 2 ? 300 : 0};
    size_t before = bst_alloc_held();
    set_up();
    put_file("train.bin", data + 1, size - 1);
    if (!bst_dataset_open(&cfg, &ds))
        read_all(ds);
    else
        BST_ASSERT(bst_err_text()[0] && !ds);
    bst_dataset_close(ds);
    BST_ASSERT(bst_alloc_held() == before);
    return 0;
}
