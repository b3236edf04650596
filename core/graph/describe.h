/* What the compiler asks of a backend, as a table handed in, so that core/graph knows no backend.
 * On the context's thread. */
#ifndef BST_GRAPH_DESCRIBE_H
#define BST_GRAPH_DESCRIBE_H

#include "core/graph/program.h"

struct bst_be; /* a backend's context for one device */

/* In: the layouts the values have now (BST_LAYOUT_ANY: the backend may choose). Out: the layouts
 * wanted. Where a wanted layout differs from one that is fixed, the compiler puts a reorder in
 * between. */
struct bst_wants {
    uint32_t src[BST_MAX_SRC], dst[BST_MAX_DST];
    size_t raw_bytes[BST_MAX_DST]; /* of destinations that are raw */
    size_t scratch_bytes;
    int inplace[BST_MAX_DST]; /* dst i may take over the bytes of src inplace[i]; -1: may not */
    void *handle;             /* kept in the instruction; freed by release() */
};

struct bst_describe {
    /* Chooses layouts and prepares whatever the instruction needs to run (primitives, tables).
     * Values are read from p->values. For a gradient's destination w->dst holds the layout of the
     * value it is the gradient of, as a hint; for a parameter's gradient the parameter's, which is
     * fixed. `accumulate`: a destination in BST_MEM_GRAD will sometimes be added to. May be asked
     * again for the same instruction after one that named another layout for such a destination.
     * BST_E_UNSUPPORTED for a fused form (a flag of BST_IF_*) makes the compiler ask for the
     * unfused ones. */
    enum bst_err (*describe)(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w);
    void (*release)(struct bst_be *be, void *handle);
    size_t (*layout_bytes)(struct bst_be *be, uint32_t layout, const struct bst_shape *s);
    size_t alignment; /* of every offset; a power of two */
    unsigned fuses;   /* BST_IF_SUM, BST_IF_STATS: of these forms, which it has at all */
};

#endif
