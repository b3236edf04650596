#include "tests/net/rounded.h"

#include <string.h>

#include "core/base/alloc.h"
#include "tests/rounding.h"

static struct bst_backend backend;
static enum bst_precision precision;

static bool is_product(enum bst_instr_op op)
{
    return op == BST_I_CONV_FWD || op == BST_I_CONV_BWD_DATA || op == BST_I_CONV_BWD_WEIGHT ||
           op == BST_I_LINEAR_FWD || op == BST_I_LINEAR_BWD_DATA || op == BST_I_LINEAR_BWD_WEIGHT;
}

static void round_all(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = rounding_to(precision, x[i]);
}

static int64_t count_of(const struct bst_program *p, int value)
{
    return bst_shape_count(&p->values[value].shape);
}

static double *rounded_copy(const struct bst_program *p, int value, const void *from)
{
    const int64_t n = count_of(p, value);
    double *x = bst_xcalloc((size_t)n, sizeof *x);

    memcpy(x, from, (size_t)n * sizeof *x);
    round_all(x, n);
    return x;
}

static enum bst_err inner(struct bst_be *be, const struct bst_call *c)
{
    return bst_backend_find("ref64")->run(be, c->p, c->in, c->src, c->dst, c->scratch, c->step);
}

/* A filter's gradient by itself, rounded, then to its place. */
static enum bst_err filter_gradient(struct bst_be *be, const struct bst_call *c)
{
    const struct bst_value *v = &c->p->values[c->in->dst[0]];
    const bool adds = v->memory == BST_MEM_GRAD && (c->step->accumulate || c->in->adds & 1u);
    const int64_t n = bst_shape_count(&v->shape);
    double *made = bst_xcalloc((size_t)n, sizeof *made), *to = c->dst[0];
    struct bst_instr in = *c->in;
    struct bst_step step = *c->step;
    void *dst[] = {made};
    const struct bst_call alone = {c->p, &in, c->src, dst, c->scratch, &step};

    in.adds = 0;
    step.accumulate = false;
    enum bst_err err = inner(be, &alone);
    round_all(made, n);
    for (int64_t i = 0; i < n; i++)
        to[i] = made[i] + (adds ? to[i] : 0);
    bst_free(made);
    return err;
}

static enum bst_err run(struct bst_be *be, const struct bst_program *p, const struct bst_instr *in,
                        void *const *src, void *const *dst, void *scratch,
                        const struct bst_step *step)
{
    void *from[BST_MAX_SRC];
    const struct bst_call c = {p, in, from, dst, scratch, step};
    const int n_factors = is_product(in->op) ? 2 : 0;

    memcpy(from, src, (size_t)in->n_src * sizeof *from);
    for (int k = 0; k < n_factors; k++)
        from[k] = rounded_copy(p, in->src[k], src[k]);
    enum bst_err err = in->op == BST_I_CONV_BWD_WEIGHT ? filter_gradient(be, &c) : inner(be, &c);
    for (int k = 0; k < n_factors; k++)
        bst_free(from[k]);
    for (int k = 0; k < in->n_dst; k++) {
        const struct bst_value *v = &p->values[in->dst[k]];

        if (v->shape.rank == 4 && v->memory == BST_MEM_ARENA && !v->raw)
            round_all(dst[k], count_of(p, in->dst[k]));
    }
    return err;
}

const struct bst_backend *rounded_ref64(enum bst_precision p)
{
    const struct bst_backend *exact = bst_backend_find("ref64");

    if (!rounding_bits(p))
        return exact;
    precision = p;
    backend = *exact;
    backend.run = run;
    return &backend;
}
