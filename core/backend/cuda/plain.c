/* A parameter to and from plain host doubles, by way of its bytes as they lie on the device. */
#include "core/backend/cuda/be.h"
#include "core/base/alloc.h"

static size_t place(const struct cuda_form *f, int64_t n, int64_t c, int64_t pixel)
{
    return (size_t)(f->last ? (n * f->pixels + pixel) * f->c_stored + c
                            : (n * f->c_stored + c) * f->pixels + pixel);
}

enum bst_err cuda_export_plain(struct bst_be *be, const struct bst_param_slot *slot, const void *at,
                               double *out)
{
    const size_t bytes = cuda_layout_bytes(be, slot->layout, &slot->shape);
    struct cuda_form f;
    void *host = NULL;

    BST_TRY(cuda_form_of(slot->layout, &slot->shape, &f));
    BST_TRY(bst_alloc(bytes, &host));
    enum bst_err err = cuda_download(be, host, at, bytes);
    for (int64_t n = 0; !err && n < f.n; n++)
        for (int64_t c = 0; c < f.c; c++)
            for (int64_t x = 0; x < f.pixels; x++)
                *out++ = (double)kern_load(host, f.type, place(&f, n, c, x));
    bst_alloc_free(host, bytes);
    return err;
}

enum bst_err cuda_import_plain(struct bst_be *be, const struct bst_param_slot *slot,
                               const double *in, void *at)
{
    const size_t bytes = cuda_layout_bytes(be, slot->layout, &slot->shape);
    struct cuda_form f;
    void *host = NULL; /* zeroed: the padding */

    BST_TRY(cuda_form_of(slot->layout, &slot->shape, &f));
    BST_TRY(bst_alloc(bytes, &host));
    for (int64_t n = 0; n < f.n; n++)
        for (int64_t c = 0; c < f.c; c++)
            for (int64_t x = 0; x < f.pixels; x++)
                kern_store(host, f.type, place(&f, n, c, x), (float)*in++);
    enum bst_err err = cuda_upload(be, at, host, bytes);
    bst_alloc_free(host, bytes);
    return err;
}
