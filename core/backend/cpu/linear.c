/* Linear layers. One over a matrix with a bias, the head of a convolutional net, is oneDNN's inner
 * product (matmul.c). One over the last axis of sequences, with a weight that lies [in, out],
 * without a bias or with a GELU, is oneDNN's plain matrix product, which also adds to a gradient
 * where it lies: no second copy of a large table's is made. */
#include "core/backend/cpu/be.h"

static enum bst_err describe_with(struct bst_be *be, const struct bst_program *p,
                                  const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                  struct cpu_handle *h, const struct cpu_op *inner, bool has_bias)
{
    h->gemm = p->values[in->src[0]].shape.rank != 2 || in->attr.in_out || in->attr.part ||
              !has_bias || in->flags;
    if (!h->gemm)
        return inner->describe(be, p, in, accumulate, w, h);
    return cpu_describe_plain(be, p, in, accumulate, w, h);
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

static enum bst_err describe_fwd(struct bst_be *be, const struct bst_program *p,
                                 const struct bst_instr *in, bool accumulate, struct bst_wants *w,
                                 struct cpu_handle *h)
{
    return describe_with(be, p, in, accumulate, w, h, &cpu_inner_fwd, in->n_src > 2);
}

static enum bst_err run_fwd(struct bst_be *be, struct cpu_handle *h, const struct bst_call *c)
{
    bool in_out = c->in->attr.in_out, two = c->in->n_dst > 1;
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
    BST_TRY(shim_gemm(&g));
    add_bias(be, c, c->in->n_src > 2 ? (const float *)c->src[2] + first : NULL, rows, out);
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

    return h->gemm ? shim_gemm(&g) : cpu_inner_bwd_data.run(be, h, c);
}

const struct cpu_op cpu_op_linear_bwd_data = {describe_bwd_data, run_bwd_data};

static enum bst_err describe_bwd_weight(struct bst_be *be, const struct bst_program *p,
                                        const struct bst_instr *in, bool accumulate,
                                        struct bst_wants *w, struct cpu_handle *h)
{
    return describe_with(be, p, in, accumulate, w, h, &cpu_inner_bwd_weight, in->n_dst > 1);
}

/* dyᵀ·x, or xᵀ·dy for a weight that lies [in, out]. */
static enum bst_err run_bwd_weight(struct bst_be *be, struct cpu_handle *h,
                                   const struct bst_call *c)
{
    int first = c->in->attr.in_out ? 0 : 1;
    int64_t m = (int64_t)cpu_width(cpu_src_shape(c, first));
    int64_t n = (int64_t)cpu_width(cpu_src_shape(c, !first));
    size_t rows = cpu_rows(cpu_src_shape(c, 0));
    struct shim_gemm g = {.a = c->src[first],
                          .b = c->src[!first],
                          .c = (float *)c->dst[0] + c->in->attr.first_row * n,
                          .m = m,
                          .n = n,
                          .k = (int64_t)rows,
                          .lda = m,
                          .ldb = n,
                          .ldc = n,
                          .turn_a = true,
                          .add = cpu_adds(c, 0)};

    if (!h->gemm)
        return cpu_inner_bwd_weight.run(be, h, c);
    BST_TRY(shim_gemm(&g));
    if (c->in->n_dst > 1)
        cpu_column_sums(be, (float *)c->dst[1] + c->in->attr.first_row, c->src[1], rows,
                        cpu_width(cpu_src_shape(c, 1)), cpu_adds(c, 1));
    return BST_OK;
}

const struct cpu_op cpu_op_linear_bwd_weight = {describe_bwd_weight, run_bwd_weight};
