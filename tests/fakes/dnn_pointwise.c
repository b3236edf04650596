/* Pointwise operations, one table row a mode. */
#include <math.h>

#include "tests/fakes/dnn.h"

/* What the descriptor may set beside the mode. */
struct extra {
    float lower, upper, slope; /* of ReLU */
    float elu_alpha, beta;     /* of softplus and swish */
};

typedef float one_fn(float x, float b, const struct extra *e);

#define FN(name, expr)                                                                             \
    static float name(float x, float b, const struct extra *e)                                     \
    {                                                                                              \
        (void)x, (void)b, (void)e;                                                                 \
        return expr;                                                                               \
    }

/* Backward modes: x is dy, b the forward input. */
static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float gelu_slope(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
}

static float tanh_inner(float x)
{
    return 0.79788456f * (x + 0.044715f * x * x * x);
}

static float gelu_tanh_slope(float x)
{
    float t = tanhf(tanh_inner(x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x * x);
}

static float swish_slope(float x, float beta)
{
    float s = sigmoid(beta * x);
    return s + beta * x * s * (1 - s);
}

static float relu_of(float x, const struct extra *e)
{
    return x > e->upper ? e->upper : x > e->lower ? x : e->lower + e->slope * (x - e->lower);
}

FN(add, x + b)
FN(add_square, x + b * b)
FN(divide, x / b)
FN(larger, x > b ? x : b)
FN(smaller, x < b ? x : b)
FN(modulo, fmodf(x, b))
FN(times, x *b)
FN(power, powf(x, b))
FN(minus, x - b)
FN(absolute, fabsf(x))
FN(ceiling, ceilf(x))
FN(cosine, cosf(x))
FN(exponential, expf(x))
FN(floor_of, floorf(x))
FN(logarithm, logf(x))
FN(negative, -x)
FN(rsqrt, 1 / sqrtf(x))
FN(sine, sinf(x))
FN(root, sqrtf(x))
FN(tangent, tanf(x))
FN(erf_of, erff(x))
FN(identity, x)
FN(reciprocal, 1 / x)
FN(relu, relu_of(x, e))
FN(tanh_of, tanhf(x))
FN(sigmoid_of, sigmoid(x))
FN(elu, x > 0 ? x : e->elu_alpha * expm1f(x))
FN(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
FN(softplus, log1pf(expf(e->beta *x)) / e->beta)
FN(swish, x *sigmoid(e->beta *x))
FN(gelu_tanh, 0.5f * x * (1 + tanhf(tanh_inner(x))))
FN(relu_bwd, b > e->upper ? 0 : b > e->lower ? x : e->slope * x)
FN(tanh_bwd, x *(1 - tanhf(b) * tanhf(b)))
FN(sigmoid_bwd, x *sigmoid(b) * (1 - sigmoid(b)))
FN(elu_bwd, b > 0 ? x : x * e->elu_alpha * expf(b))
FN(gelu_bwd, x *gelu_slope(b))
FN(softplus_bwd, x *sigmoid(e->beta *b))
FN(swish_bwd, x *swish_slope(b, e->beta))
FN(gelu_tanh_bwd, x *gelu_tanh_slope(b))
FN(equal, x == b)
FN(unequal, x != b)
FN(greater, x > b)
FN(at_least, x >= b)
FN(less, x < b)
FN(at_most, x <= b)
FN(both, x != 0 && b != 0)
FN(either, x != 0 || b != 0)
FN(not_of, x == 0)

enum form { UNARY, BINARY, BACKWARD, SELECT, INDEX };

static const struct mode {
    int mode;
    enum form form;
    one_fn *fn;
} modes[] = {
    {CUDNN_POINTWISE_ADD, BINARY, add},
    {CUDNN_POINTWISE_ADD_SQUARE, BINARY, add_square},
    {CUDNN_POINTWISE_DIV, BINARY, divide},
    {CUDNN_POINTWISE_MAX, BINARY, larger},
    {CUDNN_POINTWISE_MIN, BINARY, smaller},
    {CUDNN_POINTWISE_MOD, BINARY, modulo},
    {CUDNN_POINTWISE_MUL, BINARY, times},
    {CUDNN_POINTWISE_POW, BINARY, power},
    {CUDNN_POINTWISE_SUB, BINARY, minus},
    {CUDNN_POINTWISE_ABS, UNARY, absolute},
    {CUDNN_POINTWISE_CEIL, UNARY, ceiling},
    {CUDNN_POINTWISE_COS, UNARY, cosine},
    {CUDNN_POINTWISE_EXP, UNARY, exponential},
    {CUDNN_POINTWISE_FLOOR, UNARY, floor_of},
    {CUDNN_POINTWISE_LOG, UNARY, logarithm},
    {CUDNN_POINTWISE_NEG, UNARY, negative},
    {CUDNN_POINTWISE_RSQRT, UNARY, rsqrt},
    {CUDNN_POINTWISE_SIN, UNARY, sine},
    {CUDNN_POINTWISE_SQRT, UNARY, root},
    {CUDNN_POINTWISE_TAN, UNARY, tangent},
    {CUDNN_POINTWISE_ERF, UNARY, erf_of},
    {CUDNN_POINTWISE_IDENTITY, UNARY, identity},
    {CUDNN_POINTWISE_RECIPROCAL, UNARY, reciprocal},
    {CUDNN_POINTWISE_RELU_FWD, UNARY, relu},
    {CUDNN_POINTWISE_TANH_FWD, UNARY, tanh_of},
    {CUDNN_POINTWISE_SIGMOID_FWD, UNARY, sigmoid_of},
    {CUDNN_POINTWISE_ELU_FWD, UNARY, elu},
    {CUDNN_POINTWISE_GELU_FWD, UNARY, gelu},
    {CUDNN_POINTWISE_SOFTPLUS_FWD, UNARY, softplus},
    {CUDNN_POINTWISE_SWISH_FWD, UNARY, swish},
    {CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, UNARY, gelu_tanh},
    {CUDNN_POINTWISE_RELU_BWD, BACKWARD, relu_bwd},
    {CUDNN_POINTWISE_TANH_BWD, BACKWARD, tanh_bwd},
    {CUDNN_POINTWISE_SIGMOID_BWD, BACKWARD, sigmoid_bwd},
    {CUDNN_POINTWISE_ELU_BWD, BACKWARD, elu_bwd},
    {CUDNN_POINTWISE_GELU_BWD, BACKWARD, gelu_bwd},
    {CUDNN_POINTWISE_SOFTPLUS_BWD, BACKWARD, softplus_bwd},
    {CUDNN_POINTWISE_SWISH_BWD, BACKWARD, swish_bwd},
    {CUDNN_POINTWISE_GELU_APPROX_TANH_BWD, BACKWARD, gelu_tanh_bwd},
    {CUDNN_POINTWISE_CMP_EQ, BINARY, equal},
    {CUDNN_POINTWISE_CMP_NEQ, BINARY, unequal},
    {CUDNN_POINTWISE_CMP_GT, BINARY, greater},
    {CUDNN_POINTWISE_CMP_GE, BINARY, at_least},
    {CUDNN_POINTWISE_CMP_LT, BINARY, less},
    {CUDNN_POINTWISE_CMP_LE, BINARY, at_most},
    {CUDNN_POINTWISE_LOGICAL_AND, BINARY, both},
    {CUDNN_POINTWISE_LOGICAL_OR, BINARY, either},
    {CUDNN_POINTWISE_LOGICAL_NOT, UNARY, not_of},
    {CUDNN_POINTWISE_GEN_INDEX, INDEX, NULL},
    {CUDNN_POINTWISE_BINARY_SELECT, SELECT, NULL},
};

static const struct mode *mode_of(const struct desc *op)
{
    const struct desc *d = desc_child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    int mode = desc_int(d, CUDNN_ATTR_POINTWISE_MODE, -1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (modes[i].mode == mode)
            return &modes[i];
    }
    return NULL;
}

static int output_name(const struct mode *m)
{
    return m->form == BACKWARD ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC
                               : CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
}

/* Operands a mode works on, in the order that its function takes them. */
static int inputs_of(const struct mode *m, int out[3])
{
    switch (m->form) {
    case UNARY:
        out[0] = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
        return 1;
    case BINARY:
        out[0] = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
        out[1] = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
        return 2;
    case BACKWARD:
        out[0] = CUDNN_ATTR_OPERATION_POINTWISE_DYDESC;
        out[1] = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
        return 2;
    case SELECT:
        out[0] = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
        out[1] = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
        out[2] = CUDNN_ATTR_OPERATION_POINTWISE_TDESC;
        return 3;
    case INDEX:
        break;
    }
    return 0;
}

cudnnStatus_t dnn_check_pointwise(const struct desc *op)
{
    const struct mode *m = mode_of(op);
    if (!m)
        return dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "a pointwise mode that is not faked, or none");
    const struct desc *y = desc_child(op, output_name(m), 0);
    if (!y)
        return dnn_fail(CUDNN_STATUS_BAD_PARAM, "pointwise without a result");
    int names[3];
    int n = inputs_of(m, names);
    for (int k = 0; k < n; k++) {
        const struct desc *t = desc_child(op, names[k], 0);
        if (!t)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM, "pointwise mode %d lacks operand %d", m->mode,
                            names[k]);
        int64_t nd = desc_count(y, CUDNN_ATTR_TENSOR_DIMENSIONS);
        if (desc_count(t, CUDNN_ATTR_TENSOR_DIMENSIONS) != nd)
            return dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "pointwise ranks differ");
        for (int i = 0; i < nd; i++) {
            int64_t d = desc_i64(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
            if (d != 1 && d != desc_i64(y, CUDNN_ATTR_TENSOR_DIMENSIONS, i))
                return dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                                "pointwise operand %d does not broadcast", names[k]);
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

static void run_index(struct tensor *y, int64_t axis)
{
    struct tensor along = *y; /* steps of 1 along the axis and of 0 elsewhere give the index */
    for (int i = 0; i < y->nd; i++)
        along.step[i] = i == axis && y->dim[i] > 1;
    const struct tensor *others[] = {&along};
    struct walk w;
    walk_init(&w, y, others, 1);
    do {
        for (int64_t i = 0; i < w.inner; i++)
            y->v[w.off[0] + i * w.inner_step[0]] = (float)(w.off[1] + i * w.inner_step[1]);
    } while (walk_next(&w));
}

static void run_select(struct walk *w, struct tensor *y, const struct tensor *const *in)
{
    do {
        for (int64_t i = 0; i < w->inner; i++) {
            const struct tensor *from =
                in[2]->v[w->off[3] + i * w->inner_step[3]] != 0 ? in[0] : in[1];
            int k = from == in[0] ? 1 : 2;
            y->v[w->off[0] + i * w->inner_step[0]] = from->v[w->off[k] + i * w->inner_step[k]];
        }
    } while (walk_next(w));
}

void dnn_run_pointwise(struct run *r, const struct desc *op)
{
    const struct mode *m = mode_of(op);
    const struct desc *d = desc_child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    struct tensor *y = run_operand(r, op, output_name(m));
    if (m->form == INDEX) {
        run_index(y, desc_i64(d, CUDNN_ATTR_POINTWISE_AXIS, 0));
        return;
    }
    int names[3];
    int n = inputs_of(m, names);
    const struct tensor *in[3] = {NULL};
    for (int k = 0; k < n; k++)
        in[k] = run_operand(r, op, names[k]);
    struct walk w;
    walk_init(&w, y, in, n);
    if (m->form == SELECT) {
        run_select(&w, y, in);
        return;
    }
    float a1 = (float)desc_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
    float a2 = (float)desc_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
    const struct extra e = {
        (float)desc_real(d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0),
        (float)desc_real(d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, (double)INFINITY),
        (float)desc_real(d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0),
        (float)desc_real(d, CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1),
        (float)desc_real(d,
                         m->mode == CUDNN_POINTWISE_SOFTPLUS_FWD ||
                                 m->mode == CUDNN_POINTWISE_SOFTPLUS_BWD
                             ? CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA
                             : CUDNN_ATTR_POINTWISE_SWISH_BETA,
                         1)};
    do {
        for (int64_t i = 0; i < w.inner; i++) {
            float x = in[0]->v[w.off[1] + i * w.inner_step[1]];
            float b = n > 1 ? in[1]->v[w.off[2] + i * w.inner_step[2]] : 0;
            y->v[w.off[0] + i * w.inner_step[0]] = m->fn(a1 * x, a2 * b, &e);
        }
    } while (walk_next(&w));
}
