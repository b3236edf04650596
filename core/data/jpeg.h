/* Decodes a part of a JPEG image to RGB bytes, at full size or scaled down by 2, 4 or 8 in the
 * inverse transform. Every pixel handed out was decoded: damage in the part that was read is an
 * error, never grey. One thread a decoder; a decoder keeps its memory from image to image. Internal
 * to core/data. */
#ifndef BST_DATA_JPEG_H
#define BST_DATA_JPEG_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bst_jpeg;

struct bst_jpeg_rect {
    int x, y, w, h;
};

/* Borrowed until the decoder's next call. 64 bytes may be read past the last row's end. */
struct bst_jpeg_view {
    const uint8_t *pixels; /* [part.h, part.w, 3], rows `stride` bytes apart */
    size_t stride;
    struct bst_jpeg_rect part; /* in scaled pixels; holds the part asked for */
    int denominator;
};

struct bst_jpeg *bst_jpeg_new(void);
void bst_jpeg_free(struct bst_jpeg *j);

/* Reads the header of the n bytes at `data`, which must stay until the next call. Refuses what is
 * not a JPEG, is cut off, or is too large (64 M pixels). */
BST_MUST_USE enum bst_err bst_jpeg_header(struct bst_jpeg *j, const uint8_t *data, size_t n,
                                          int *width, int *height);
/* Once after each header: the part, given in pixels of the full size, inside the image. */
BST_MUST_USE enum bst_err bst_jpeg_decode(struct bst_jpeg *j, struct bst_jpeg_rect part,
                                          int denominator, struct bst_jpeg_view *out);
/* Bytes held for pixels. */
size_t bst_jpeg_bytes(const struct bst_jpeg *j);

#endif
