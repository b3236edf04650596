/* CIFAR-10 reader: any bytes as a file of as many records as the first byte says. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "core/data/cifar10.h"
#include "tests/fuzz/fuzz.h"

static char folder[64];

static void remove_folder(void)
{
    (void)!bst_io_remove_tree(folder);
}

static void set_up(void)
{
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "%s/bst-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    BST_ASSERT(mkdtemp(folder));
    (void)atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bst_inmem set = {.height = 32, .width = 32, .channels = 3};
    if (!size)
        return 0;
    set_up();
    char *path = bst_xasprintf("%s/batch", folder);
    FILE *f = fopen(path, "wb");
    BST_ASSERT(f && fwrite(data + 1, 1, size - 1, f) == size - 1);
    fclose(f);
    int64_t n = 1 + data[0] % 8;
    BST_ASSERT(!bst_inmem_reserve(&set, BST_TRAIN, n));
    if (!bst_cifar10_read(&set.part[BST_TRAIN], 0, n, folder, "batch")) {
        BST_ASSERT(data[1] == 0x1F || (int64_t)size - 1 == n * 3073);
        for (int64_t i = 0; i < n; i++)
            BST_ASSERT(set.part[BST_TRAIN].labels[i] < 10);
    }
    bst_inmem_free(&set);
    bst_free(path);
    return 0;
}
