/* Feeds a target every file of the folders given, each also cut at every length up to 64 and with
 * every one of its first 256 bytes changed: a small fuzzer without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/io.h"
#include "tests/fuzz/fuzz.h"

enum { CUTS = 64, FLIPS = 256, FILE_CAP = 1 << 20 };

/* The copy has no byte to spare, so that a sanitizer sees a read past the end. */
static void feed(const char *data, size_t n)
{
    uint8_t *copy = bst_xalloc(n);
    if (n)
        memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    bst_free(copy);
}

static void feed_variants(char *data, size_t n)
{
    feed(data, n);
    for (size_t cut = 0; cut < n && cut < CUTS; cut++)
        feed(data, cut);
    static const unsigned char masks[] = {0x01, 0x80, 0xFF};
    for (size_t i = 0; i < n && i < FLIPS; i++) {
        for (size_t m = 0; m < sizeof masks; m++) {
            data[i] = (char)((unsigned char)data[i] ^ masks[m]);
            feed(data, n);
            data[i] = (char)((unsigned char)data[i] ^ masks[m]);
        }
    }
}

static int feed_folder(const char *path)
{
    DIR *dir = opendir(path);
    int n_files = 0;
    if (!dir)
        return 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        char *file = bst_xasprintf("%s/%s", path, e->d_name);
        char *data;
        size_t n;
        if (!bst_io_read_file(file, FILE_CAP, &data, &n)) {
            feed_variants(data, n);
            n_files++;
            bst_free(data);
        }
        bst_free(file);
    }
    closedir(dir);
    return n_files;
}

int main(int argc, char **argv)
{
    int n_files = 0;
    for (int i = 1; i < argc; i++)
        n_files += feed_folder(argv[i]);
    printf("%d files\n", n_files);
    return n_files ? 0 : 1;
}
