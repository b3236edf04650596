/* A folder of made-up pictures, as imagefolder reads it.       test_cuda_pictures DIR CLASSES N
 * SIZE DIR/train/cK/I.jpg and DIR/val/cK/I.jpg, N and N / 2 of them a class, a class a hue. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/data_encode.h"

enum { SIZE_MOST = 256, PATH_BYTES = 600 };

static uint8_t pixels[3 * SIZE_MOST * SIZE_MOST];

static int write_picture(const char *path, int class, int i, int size)
{
    size_t n = 0;

    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++)
            for (int c = 0; c < 3; c++)
                pixels[3 * (y * size + x) + c] =
                    (uint8_t)((class * 61 * (c + 1) + i * 13 + x + y * 2) % 256);
    const struct encode e = {
        .w = size, .h = size, .from = JCS_RGB, .into = JCS_YCbCr, .pixels = pixels};
    uint8_t *data = encode_jpeg(&e, &n);
    FILE *f = fopen(path, "wb");
    const int bad = !f || fwrite(data, 1, n, f) != n;
    free(data);
    return (f && fclose(f)) || bad;
}

static int write_part(const char *dir, const char *part, int classes, int n, int size)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s/%s", dir, part);
    if (mkdir(path, 0700))
        return 1;
    for (int k = 0; k < classes; k++) {
        snprintf(path, sizeof path, "%s/%s/c%d", dir, part, k);
        if (mkdir(path, 0700))
            return 1;
        for (int i = 0; i < n; i++) {
            snprintf(path, sizeof path, "%s/%s/c%d/%d.jpg", dir, part, k, i);
            if (write_picture(path, k, i, size))
                return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const int classes = atoi(argv[2]), n = atoi(argv[3]), size = atoi(argv[4]);
    if (size < 8 || size > SIZE_MOST)
        return 2;
    return write_part(argv[1], "train", classes, n, size) ||
           write_part(argv[1], "val", classes, (n + 1) / 2, size);
}
