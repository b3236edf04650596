/* Linear layers. One over a matrix with a bias, the head of a convolutional net, is oneDNN's inner
 * product (matmul.c). One over the last axis of sequences, with a weight that lies [in, out],
 * without a bias or with a GELU, works on blocks of rows (rows.c) where there are many, and is
 * oneDNN's plain matrix product where there are few. Both add to a gradient where it lies: no
 * second copy of a large table's is made. */
#include "core/backend/cpu/be.h"

static bool is_inner(const struct bst_program *p, const struct bst_instr *in, bool has_bias)
{
    return p->values[in->src[0]].shape.rank == 2 && !in->attr.in_out && !in->attr.part &&
           has_bias && !in->flags;
}

/* Of the product that the instruction is: forward, or backward to its source. */
static struct cpu_rows rows_of(const struct bst_program *p, const struct bst_instr *in)
{
    const struct bst_shape *x = &p->values[in->src[0]].shape, *y = &p->values[in->dst[0]].shape;
    bool forward = in->op == BST_I_LINEAR_FWD;

    return (struct cpu_rows){.rows = (int64_t)cpu_rows(x),
                             .in = (int64_t)cpu_width(x),
                             .out = (int64_t)cpu_width(y),
                             .in_out = in->attr.in_out == forward,
                             .bias = forward && in->n_src > 2};
}

static enum bst_err describe_with(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cpu_handle *h, const struct cpu_op *inner, bool has_bias)
{
    const struct cpu_rows rows = rows_of(p, in);
    enum bst_err err;

    h->gemm = !is_inner(p, in, has_bias);
    if (!h->gemm)
        return inner->describe(be, p, in, accumulate, w, h);
    BST_TRY(cpu_describe_plain(be, p, in, accumulate, w, h));
    if (!cpu_rows_fit(rows.rows, rows.in, rows.out))
        return BST_OK;
    err = cpu_rows_describe(be, &rows, h, w);
    return err == BST_E_UNSUPPORTED ? BST_OK : err;
}

static void add_bias(struct bst_be *be, const struct bst_call *c, const float *b, size_t rows,
                     size_t n)
{
    bool gelu = c->in->flags & BST_IF_GELU, by_tanh = c->in->attr.tanh;
    float *y = c->dst[0], *u = c->dst[gelu && c->in->n_dst > 1 ? 1 : 0];
    int team = rows * n < CPU_SMALL ? 1 : be->threads;

    if (!b && !gelu)
        return;
#pragma omp parallel for num_threads(team) schedule(static)
    for (size_t r = 0; r < rows; r++) {
        if (gelu)
            be->seq->bias_gelu(y + r * n, u + r * n, b, n, by_tanh);
        else
            be->seq->bias(y + r * n, b, n);
    }
}

static enum bst_err run_rows(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    const struct cpu_rows rows = rows_of(c->p, c->in);
    bool forward = c->in->op == BST_I_LINEAR_FWD;
    int64_t first = c->in->attr.first_row;
    const struct cpu_rows_data d = {
        .x = c->src[0],
        .w = (float *)c->src[1] + first * (forward ? rows.in : rows.out),
        .bias = rows.bias ? (float *)c->src[2] + first : NULL,
        .y = c->dst[0],
        .u = c->in->n_dst > 1 ? c->dst[1] : NULL,
        .scratch = c->scratch,
        .gelu = c->in->flags & BST_IF_GELU,
        .by_tanh = c->in->attr.tanh,
    };

    return cpu_rows_run(be, h, &rows, &d);
}

static enum bst_err describe_fwd(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    return describe_with(be, p, in, accumulate, w, h, &cpu_inner_fwd, in->n_src > 2);
}

static enum bst_err run_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    bool in_out = c->in->attr.in_out, two = c->in->n_dst > 1;
    const float *bias = c->in->n_src > 2 ? (const float *)c->src[2] + c->in->attr.first_row : NULL;
    size_t rows = cpu_rows(cpu_src_shape(c, 0)), in = cpu_width(cpu_src_shape(c, 0));
    size_t out = cpu_width(cpu_dst_shape(c, 0)), first = (size_t)c->in->attr.first_row;
    struct shim_gemm g = {.a = c->src[0],
                          .b = (const float *)c->src[1] + first * in,
                          .c = c->dst[two],
                          .m = (int64_t)rows,
                          .n = (int64_t)out,
                          .k = (int64_t)in,
                          .lda = (int64_t)in,
                          .ldb = (int64_t)(in_out ? out : in),
                          .ldc = (int64_t)out,
                          .turn_b = !in_out};

    if (!h->gemm)
        return cpu_inner_fwd.run(be, h, c);
    if (h->pack)
        return run_rows(be, h, c);
    BST_TRY(shim_gemm(&g));
    add_bias(be, c, bias, rows, out);
    return BST_OK;
}

const struct cpu_op cpu_op_linear_fwd = {describe_fwd, run_fwd};

static enum bst_err describe_bwd_data(struct bst_be *be, const struct bst_program *p,
                                      const struct bst_instr *in, bool accumulate,
                                      struct bst_wants *w, struct cpu_handle *h)
{
    return describe_with(be, p, in, accumulate, w, h, &cpu_inner_bwd_data, true);
}

static enum bst_err run_bwd_data(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    bool in_out = c->in->attr.in_out;
    int64_t in = (int64_t)cpu_width(cpu_dst_shape(c, 0));
    int64_t out = (int64_t)cpu_width(cpu_src_shape(c, 0));
    struct shim_gemm g = {.a = c->src[0],
                          .b = (const float *)c->src[1] + c->in->attr.first_row * in,
                          .c = c->dst[0],
                          .m = (int64_t)cpu_rows(cpu_src_shape(c, 0)),
                          .n = in,
                          .k = out,
                          .lda = out,
                          .ldb = in_out ? out : in,
                          .ldc = in,
                          .turn_b = in_out};

    if (!h->gemm)
        return cpu_inner_bwd_data.run(be, h, c);
    return h->pack ? run_rows(be, h, c) : shim_gemm(&g);
}

const struct cpu_op cpu_op_linear_bwd_data = {describe_bwd_data, run_bwd_data};

/* dyᵀ·x, or xᵀ·dy for a weight that lies [in, out]. */
static struct cpu_rows_grad grad_of(const struct bst_program *p, const struct bst_instr *in)
{
    const struct bst_shape *x = &p->values[in->src[0]].shape, *dy = &p->values[in->src[1]].shape;
    bool in_out = in->attr.in_out;

    return (struct cpu_rows_grad){.rows = (int64_t)cpu_rows(x),
                                  .m = (int64_t)cpu_width(in_out ? x : dy),
                                  .n = (int64_t)cpu_width(in_out ? dy : x),
                                  .in_out = in_out};
}

static enum bst_err describe_bwd_weight(struct bst_be *be, const struct bst_program *p,
                                        const struct bst_instr *in, bool accumulate,
                                        struct bst_wants *w, struct cpu_handle *h)
{
    const struct cpu_rows_grad g = grad_of(p, in);

    h->gemm = !is_inner(p, in, in->n_dst > 1);
    if (!h->gemm)
        return cpu_inner_bwd_weight.describe(be, p, in, accumulate, w, h);
    h->tiles = cpu_rows_grad_fit(&g);
    if (h->tiles)
        w->scratch_bytes = cpu_rows_grad_scratch(be, &g);
    return cpu_describe_plain(be, p, in, accumulate, w, h);
}

static enum bst_err run_bwd_weight(struct bst_be *be, struct cpu_handle *h,
                                   const struct bst_call *c)
{
    struct cpu_rows_grad grad = grad_of(c->p, c->in);
    struct shim_gemm g = {.m = grad.m,
                          .n = grad.n,
                          .k = grad.rows,
                          .lda = grad.m,
                          .ldb = grad.n,
                          .ldc = grad.n,
                          .turn_a = true};

    if (!h->gemm)
        return cpu_inner_bwd_weight.run(be, h, c);
    grad.a = g.a = c->src[grad.in_out ? 0 : 1];
    grad.b = g.b = c->src[grad.in_out ? 1 : 0];
    grad.dw = g.c = (float *)c->dst[0] + c->in->attr.first_row * grad.n;
    grad.add = g.add = cpu_adds(c, 0);
    if (c->in->n_dst > 1) {
        grad.bias = (float *)c->dst[1] + c->in->attr.first_row;
        grad.add_bias = cpu_adds(c, 1);
    }
    if (h->tiles)
        return cpu_rows_grad_run(be, &grad, c->scratch);
    BST_TRY(shim_gemm(&g));
    if (grad.bias)
        cpu_column_sums(be, grad.bias, c->src[1], (size_t)grad.rows, cpu_width(cpu_src_shape(c, 1)),
                        grad.add_bias);
    return BST_OK;
}

const struct cpu_op cpu_op_linear_bwd_weight = {describe_bwd_weight, run_bwd_weight};
