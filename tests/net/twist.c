#include "tests/net/twist.h"

#include <string.h>

#include "core/base/alloc.h"

/* Layout l > 0 of n numbers: l zeros, the numbers in reverse, l zeros. */
struct twist twist;

static const struct bst_backend *inner(void)
{
    return bst_backend_find("ref64");
}

static size_t layout_bytes(struct bst_be *be, uint32_t layout, const struct bst_shape *s)
{
    (void)be;
    return ((size_t)bst_shape_count(s) + 2 * (size_t)layout) * sizeof(double);
}

static void to_layout(double *to, const double *from, int64_t n, uint32_t layout)
{
    if (!layout) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    memset(to, 0, ((size_t)n + 2 * (size_t)layout) * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[(int64_t)layout + n - 1 - i] = from[i];
}

static void from_layout(double *to, const double *from, int64_t n, uint32_t layout)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = layout ? from[(int64_t)layout + n - 1 - i] : from[i];
}

/* What each operation insists on: never what its neighbours have, where that is possible. */
static void want(const struct bst_program *p, const struct bst_instr *in, struct bst_wants *w)
{
    uint32_t given = w->src[0], hint = w->dst[0];
    for (int k = 0; k < in->n_src; k++)
        w->src[k] = p->values[in->src[k]].param >= 0 ? BST_LAYOUT_PLAIN : given;
    for (int k = 0; k < in->n_dst; k++)
        w->dst[k] = p->values[in->dst[k]].param >= 0 ? BST_LAYOUT_PLAIN : given;
    switch (in->op) {
    case BST_I_CONV_FWD:
        w->src[0] = 1, w->src[1] = 2, w->dst[0] = 3;
        break;
    case BST_I_CONV_BWD_DATA:
        w->src[0] = 4, w->src[1] = 5, w->dst[0] = hint == BST_LAYOUT_ANY ? 6 : hint;
        break;
    case BST_I_CONV_BWD_WEIGHT:
        w->src[0] = 7, w->src[1] = 4, w->dst[0] = 5;
        break;
    case BST_I_MAX_POOL_FWD:
    case BST_I_AVG_POOL_FWD:
    case BST_I_LINEAR_FWD:
        w->src[0] = 8, w->dst[0] = 9;
        break;
    case BST_I_LINEAR_BWD_WEIGHT:
        w->src[0] = w->src[1] = 2, w->dst[1] = 1;
        break;
    case BST_I_REORDER:
        w->dst[0] = hint;
        break;
    case BST_I_IMAGE:
        w->dst[0] = 3;
        break;
    default:
        break;
    }
}

static enum bst_err describe(struct bst_be *be, const struct bst_program *p,
                             const struct bst_instr *in, bool accumulate, struct bst_wants *w)
{
    struct bst_wants plain = *w;
    if (in->flags & twist.refuse)
        return bst_fail(BST_E_UNSUPPORTED, "twist: no such fused form");
    if (++twist.n_described == twist.fail_at)
        return bst_fail(BST_E_NOMEM, "twist: as asked");
    BST_TRY(inner()->describe.describe(be, p, in, accumulate, &plain));
    if (!twist.plain)
        want(p, in, w);
    else
        *w = plain;
    memcpy(w->raw_bytes, plain.raw_bytes, sizeof w->raw_bytes);
    memcpy(w->inplace, plain.inplace, sizeof w->inplace);
    w->scratch_bytes = plain.scratch_bytes;
    for (int k = 0; k < in->n_dst; k++) {
        if (plain.inplace[k] >= 0 && w->src[plain.inplace[k]] != w->dst[k])
            w->inplace[k] = -1;
    }
    w->handle = bst_xalloc(1);
    twist.held++;
    return BST_OK;
}

static void release(struct bst_be *be, void *handle)
{
    (void)be;
    bst_free(handle);
    twist.held--;
}

static int64_t count(const struct bst_program *p, int v)
{
    return p->values[v].raw ? 0 : bst_shape_count(&p->values[v].shape);
}

/* Copies in the plain layout around ref64's function. */
static enum bst_err run(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step)
{
    void *s[BST_MAX_SRC], *d[BST_MAX_DST];
    for (int k = 0; k < in->n_src; k++) {
        int64_t n = count(p, in->src[k]);
        s[k] = n && p->values[in->src[k]].layout ? bst_xcalloc((size_t)n, sizeof(double)) : src[k];
        if (s[k] != src[k])
            from_layout(s[k], src[k], n, p->values[in->src[k]].layout);
    }
    for (int k = 0; k < in->n_dst; k++) {
        int64_t n = count(p, in->dst[k]);
        d[k] = n && p->values[in->dst[k]].layout ? bst_xcalloc((size_t)n, sizeof(double)) : dst[k];
        if (d[k] != dst[k] && p->values[in->dst[k]].memory == BST_MEM_GRAD)
            from_layout(d[k], dst[k], n, p->values[in->dst[k]].layout);
    }
    enum bst_err err = inner()->run(be, p, in, s, d, scratch, step);
    for (int k = 0; k < in->n_dst; k++) {
        if (d[k] == dst[k])
            continue;
        to_layout(dst[k], d[k], count(p, in->dst[k]), p->values[in->dst[k]].layout);
        bst_free(d[k]);
    }
    for (int k = 0; k < in->n_src; k++) {
        if (s[k] != src[k])
            bst_free(s[k]);
    }
    return err;
}

static enum bst_err export_plain(struct bst_be *be, const struct bst_param_slot *slot,
                                 const void *at, double *out)
{
    (void)be;
    from_layout(out, at, bst_shape_count(&slot->shape), slot->layout);
    return BST_OK;
}

static enum bst_err import_plain(struct bst_be *be, const struct bst_param_slot *slot,
                                 const double *in, void *at)
{
    (void)be;
    to_layout(at, in, bst_shape_count(&slot->shape), slot->layout);
    return BST_OK;
}

const struct bst_backend *twist_backend(void)
{
    static struct bst_backend b;
    b = *inner();
    b.name = "twist";
    b.describe = (struct bst_describe){
        .describe = describe, .release = release, .layout_bytes = layout_bytes, .alignment = 128};
    b.run = run;
    b.export_plain = export_plain;
    b.import_plain = import_plain;
    return &b;
}
