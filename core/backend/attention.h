/* The operands of an attention instruction as backends on the host see them: where a head's
 * queries, keys and values lie, and how many keys a query may see. Pure; any thread. */
#ifndef BST_BACKEND_ATTENTION_H
#define BST_BACKEND_ATTENTION_H

#include "core/backend/backend.h"

/* Row i of sample n and head h starts at real (n·T + i)·row + at + h·dim. */
struct bst_attn_operand {
    int64_t row, at, length;
};

struct bst_attn {
    int64_t n, heads, dim;
    struct bst_attn_operand q, k, v, y; /* y: the result, and its gradient */
    bool packed, causal;
    int key_stream;
    double scale; /* of q·k */
};

static inline struct bst_attn bst_attn_of(const struct bst_program *p, const struct bst_instr *in)
{
    int first = in->op == BST_I_ATTN_FWD ? 0 : 1;
    const struct bst_shape *q = &p->values[in->src[first]].shape;
    struct bst_attn a = {.n = q->d[0],
                         .heads = in->attr.heads,
                         .packed = bst_instr_is_packed(in),
                         .causal = in->attr.causal,
                         .key_stream = in->attr.stream};
    int64_t width = q->d[2] / (a.packed ? 3 : 1), row = q->d[2];
    int64_t tk = a.packed ? q->d[1] : p->values[in->src[first + 1]].shape.d[1];
    a.dim = width / a.heads;
    a.q = (struct bst_attn_operand){row, 0, q->d[1]};
    a.k = (struct bst_attn_operand){row, a.packed ? width : 0, tk};
    a.v = (struct bst_attn_operand){row, a.packed ? 2 * width : 0, tk};
    a.y = (struct bst_attn_operand){width, 0, q->d[1]};
    a.scale = 1 / __builtin_sqrt((double)a.dim);
    return a;
}

/* Real at which row i of sample n and head h starts. */
static inline int64_t bst_attn_at(const struct bst_attn *a, const struct bst_attn_operand *o,
                                  int64_t n, int64_t h, int64_t i)
{
    return (n * o->length + i) * o->row + o->at + h * a->dim;
}

/* Keys that are there for sample n: 0 for a sample that does not count. */
static inline int64_t bst_attn_keys(const struct bst_attn *a, const struct bst_step *step,
                                    int64_t n)
{
    if (n >= step->n_valid)
        return 0;
    const int32_t *lengths = a->key_stream < 0 ? NULL : step->lengths[a->key_stream];
    if (!lengths)
        return a->k.length;
    return lengths[n] < 0 ? 0 : lengths[n] < a->k.length ? lengths[n] : a->k.length;
}

/* Keys that query i sees, the first so many: masks are prefixes here. */
static inline int64_t bst_attn_sees(const struct bst_attn *a, int64_t keys, int64_t i)
{
    return a->causal && i + 1 < keys ? i + 1 : keys;
}

#endif
