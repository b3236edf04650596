/* Layouts by number: 0 is plain; above it type and padding. Of a tensor of another rank than 4, a
 * sequence's, it is the plain order in that type. */
#include "core/backend/cuda/be.h"

uint32_t cuda_layout(enum kern_type type, enum cuda_pad pad)
{
    return 1u + (uint32_t)type + 4u * (uint32_t)pad;
}

static bool is_known(uint32_t layout)
{
    return layout >= 1 && (layout - 1) % 4 < KERN_N_TYPES && (layout - 1) / 4 <= CUDA_PAD_8;
}

enum cuda_pad cuda_layout_pad(uint32_t layout)
{
    return is_known(layout) ? (enum cuda_pad)((layout - 1) / 4) : CUDA_PAD_NONE;
}

bool cuda_layout_is_last(uint32_t layout, enum kern_type type)
{
    return is_known(layout) && (layout - 1) % 4 == (uint32_t)type;
}

static size_t type_bytes(enum kern_type type)
{
    return type == KERN_F32 ? 4 : 2;
}

enum bst_err cuda_form_of(uint32_t layout, const struct bst_shape *s, struct cuda_form *out)
{
    static const int multiple[] = {1, 4, 8};
    int64_t c = s->rank > 1 ? s->d[1] : 1, pixels = 1;

    if (layout != BST_LAYOUT_PLAIN &&
        (!is_known(layout) || (s->rank != 4 && cuda_layout_pad(layout) != CUDA_PAD_NONE)))
        return bst_fail(BST_E_UNSUPPORTED, "cuda: layout %u of a tensor of rank %d", layout,
                        s->rank);
    for (int i = 2; i < s->rank; i++)
        pixels *= s->d[i];
    *out = (struct cuda_form){
        .n = s->rank ? s->d[0] : 1, .pixels = pixels, .c = (int)c, .c_stored = (int)c};
    if (layout != BST_LAYOUT_PLAIN)
        out->type = (enum kern_type)((layout - 1) % 4);
    if (layout != BST_LAYOUT_PLAIN && s->rank == 4) {
        const int m = multiple[cuda_layout_pad(layout)];

        out->last = true;
        out->c_stored = ((int)c + m - 1) / m * m;
    }
    return BST_OK;
}

size_t cuda_layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    struct cuda_form f = {0};

    (void)be;
    if (cuda_form_of(layout, s, &f))
        BST_ASSERT(!"a layout that describe() never names");
    return (size_t)f.n * (size_t)f.pixels * (size_t)f.c_stored * type_bytes(f.type);
}
