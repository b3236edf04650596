/* oneDNN behind one face for its majors 2 and 3: only dnnl_*.c and .h know a dnnl_ name. What it
 * offers is a primitive over tensors given as shape and layout number, with the arguments by
 * role.
 *
 * A layout number is PLAIN, or the library's own format tag: a tag does not depend on the shape, so
 * that the same number describes a weight whatever the batch. Numbers are never stored in files.
 * A context and its primitives belong to the thread that made them. */
#ifndef BST_BACKEND_CPU_DNNL_SHIM_H
#define BST_BACKEND_CPU_DNNL_SHIM_H

#include "core/graph/program.h"

struct shim;
struct shim_prim;

struct shim_tensor {
    struct bst_shape shape;
    uint32_t layout; /* BST_LAYOUT_ANY: the library may choose; set once it has */
    uint32_t now; /* the layout the value has already, BST_LAYOUT_ANY: none yet. Several numbers can
                     name the same bytes (kernels of 1×1); then this one is given */
};

enum shim_kind {
    SHIM_CONV_FWD,
    SHIM_CONV_BWD_DATA,
    SHIM_CONV_BWD_WEIGHT,
    SHIM_LINEAR_FWD,
    SHIM_LINEAR_BWD_DATA,
    SHIM_LINEAR_BWD_WEIGHT,
    SHIM_REORDER, /* src → dst */
    SHIM_N_KINDS
};

/* The roles are those of the forward pass: BWD_DATA reads dst (dy) and weight and writes src (dx).
 */
enum shim_role { SHIM_SRC, SHIM_WEIGHT, SHIM_BIAS, SHIM_DST, SHIM_N_ROLES };

struct shim_op {
    enum shim_kind kind;
    struct bst_window window; /* of a convolution; its bias is there where it has a shape */
    struct shim_tensor t[SHIM_N_ROLES];
    int lanes; /* 0: the team works on it together. Else one thread does, and so many may at a time,
                  each in a lane of its own; at most those of shim_open() */
};

enum bst_err shim_open(int lanes, struct shim **out);
void shim_close(struct shim *s);
void shim_version(char *out, size_t room); /* "oneDNN 2.6.3" */

/* Makes the first implementation that is not a reference one (100 times slower, and chosen by the
 * library without a word) and whose activations have channel blocks that the CPU backend knows.
 * Fills in the layouts chosen. BST_E_UNSUPPORTED: there is none for these layouts. */
enum bst_err shim_prim_new(struct shim *s, struct shim_op *op, struct shim_prim **out);
void shim_prim_free(struct shim_prim *p);
const char *shim_prim_impl(const struct shim_prim *p); /* "jit:avx2"; lives as long as p */
size_t shim_prim_scratch(const struct shim_prim *p);
enum bst_err shim_prim_run(struct shim_prim *p, void *const at[SHIM_N_ROLES], void *scratch);
enum bst_err shim_prim_run_lane(struct shim_prim *p, int lane, void *const at[SHIM_N_ROLES],
                                void *scratch);

/* dst[rows, out] = src[rows, in] times a weight that was packed for it, plus the bias if there is
 * one: to the library a convolution of 1×1 whose pixels are the rows. Both sizes are multiples of
 * 8. BST_E_UNSUPPORTED: the library has no kernel of its own for it. */
struct shim_rows {
    int64_t rows, in, out;
    bool bias;
    int lanes;
};
enum bst_err shim_rows_new(struct shim *s, const struct shim_rows *how, struct shim_prim **out,
                           uint32_t *packed);
/* Packs a weight that lies [out, in] or, `in_out`, [in, out]; src → dst, by the whole team. */
enum bst_err shim_rows_pack_new(struct shim *s, const struct shim_rows *how, bool in_out,
                                uint32_t packed, struct shim_prim **out);

/* c = or += a·b over plain matrices; a is [m, k], or [k, m] where it is turned; b [k, n], or [n,
 * k]. lda, ldb, ldc: reals from row to row as they lie. The calling thread's OpenMP team. */
struct shim_gemm {
    const float *a, *b;
    float *c;
    int64_t m, n, k, lda, ldb, ldc;
    bool turn_a, turn_b, add;
};
enum bst_err shim_gemm(const struct shim_gemm *g);

size_t shim_layout_bytes(uint32_t layout, const struct bst_shape *s);
/* Channels kept together in an activation: 1 (plain), 8, 16; 0: a layout the CPU backend does not
 * know. */
int shim_layout_block(uint32_t layout);
uint32_t shim_layout_of_block(int block); /* of 1, 8 or 16 */
/* Of a filter for one input channel, with 8 or 16 output channels innermost. */
uint32_t shim_layout_of_grey_filter(int block);

#endif
