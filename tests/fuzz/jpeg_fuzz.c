/* JPEG decoding with crop and resize: any bytes after the first four, which choose the crop.
 * Refused with words, or every byte of the result is written, which a second decoder that last held
 * something else would tell. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/data/crop.h"
#include "tests/fuzz/fuzz.h"

enum { SIZE = 8, BYTES = SIZE * SIZE * 3, PIXELS_MOST = 1 << 18 };

static struct {
    struct bst_jpeg *jpeg;
    struct bst_resampler resampler;
} decoder[2];

static void set_up(void)
{
    for (int i = 0; i < 2; i++)
        if (!decoder[i].jpeg)
            decoder[i].jpeg = bst_jpeg_new();
}

static enum bst_err decode(int which, const uint8_t *data, size_t size, uint8_t *out)
{
    int w, h;
    uint32_t key;
    struct bst_crop crop;
    struct bst_jpeg_view v;
    struct bst_resample_axis x, y;
    memcpy(&key, data, sizeof key);
    BST_TRY(bst_jpeg_header(decoder[which].jpeg, data + 4, size - 4, &w, &h));
    if ((int64_t)w * h > PIXELS_MOST)
        return bst_fail(BST_E_RANGE, "too large to fuzz");
    if (key & 1)
        bst_crop_random(&crop, w, h, SIZE, key);
    else
        bst_crop_centre(&crop, w, h, SIZE);
    BST_TRY(bst_jpeg_decode(decoder[which].jpeg, crop.part, bst_crop_denominator(&crop), &v));
    bst_crop_axes(&crop, &v, &x, &y);
    const uint8_t *first =
        v.pixels + (size_t)(y.low - v.part.y) * v.stride + (size_t)(x.low - v.part.x) * 3;
    return bst_resample(&decoder[which].resampler, first, v.stride, &x, &y, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t last[4096];
    static size_t last_size;
    uint8_t out[2][BYTES];
    if (size < 4)
        return 0;
    set_up();
    memset(out[0], 0x5A, BYTES);
    memset(out[1], 0xA5, BYTES);
    if (last_size)
        (void)!decode(1, last, last_size, out[1]);
    enum bst_err first = decode(0, data, size, out[0]);
    BST_ASSERT(decode(1, data, size, out[1]) == first);
    BST_ASSERT(first ? bst_err_text()[0] != 0 : !memcmp(out[0], out[1], BYTES));
    if (!first && size <= sizeof last)
        memcpy(last, data, last_size = size);
    return 0;
}
