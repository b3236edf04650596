#include "tests/ops/cases.h"

int op_out(const struct op_size *s)
{
    int room = s->hw + 2 * s->window.pad - s->window.kernel;
    return room < 0 ? 0 : room / s->window.stride + 1;
}

static struct bst_shape image_shape(const struct op_size *s)
{
    return (struct bst_shape){4, {s->n, s->c, s->hw, s->hw}};
}

static struct bst_shape result_shape(const struct op_size *s, int channels)
{
    return (struct bst_shape){4, {s->n, channels, op_out(s), op_out(s)}};
}

static struct bst_shape matrix_shape(int rows, int columns)
{
    return (struct bst_shape){2, {rows, columns}};
}

static struct bst_shape vector_shape(int n)
{
    return (struct bst_shape){1, {n}};
}

static int conv_weight(struct rig *r, const struct op_size *s)
{
    struct bst_shape w = {4, {s->oc, s->c, s->window.kernel, s->window.kernel}};
    return rig_param(r, BST_PARAM_CONV_WEIGHT, &w);
}

static struct bst_instr *add(struct rig *r, const struct op_case *oc, enum bst_instr_op op,
                             const struct op_size *s)
{
    struct bst_instr *in = bst_pass_add_instr(&r->pass, op, oc->name);
    in->window = s->window;
    return in;
}

static void build_image(struct rig *r, const struct op_case *oc, const struct op_size *s,
                        unsigned variant)
{
    rig_start(r, s->n, variant);
    for (int i = 0; i < 4; i++) {
        r->p->mean[i] = 0.25f + 0.1f * (float)i;
        r->p->std[i] = 0.3f - 0.05f * (float)i;
    }
    struct bst_shape x = {4, {s->n, 1 + s->c % 3, s->hw, s->hw}};
    int v = rig_value(r, &x, false);
    bst_instr_write(add(r, oc, BST_I_IMAGE, s), v);
    rig_output(r, v);
}

static void build_conv_fwd(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->oc);
    int w = conv_weight(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_CONV_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_read(in, w);
    bst_instr_write(in, vy);
    rig_output(r, vy);
}

static void build_conv_bwd_data(struct rig *r, const struct op_case *oc, const struct op_size *s,
                                unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->oc);
    int w = conv_weight(r, s);
    rig_start(r, s->n, variant);
    int dy = rig_input(r, &y), dx = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_CONV_BWD_DATA, s);
    bst_instr_read(in, dy);
    bst_instr_read(in, w);
    bst_instr_write(in, dx);
    rig_output(r, dx);
}

/* The gradient is added to another share of it. */
static void build_conv_bwd_sum(struct rig *r, const struct op_case *oc, const struct op_size *s,
                               unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->oc);
    int w = conv_weight(r, s);
    rig_start(r, s->n, variant);
    int dy = rig_input(r, &y), more = rig_input(r, &x), dx = rig_value(r, &x, false);
    r->pass.info[dx].forward = more;
    struct bst_instr *in = add(r, oc, BST_I_CONV_BWD_DATA, s);
    in->flags = oc->flags;
    bst_instr_read(in, dy);
    bst_instr_read(in, w);
    bst_instr_read(in, more);
    bst_instr_write(in, dx);
    rig_output(r, dx);
}

static void build_conv_bwd_weight(struct rig *r, const struct op_case *oc, const struct op_size *s,
                                  unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->oc);
    int w = conv_weight(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y);
    struct bst_instr *in = add(r, oc, BST_I_CONV_BWD_WEIGHT, s);
    bst_instr_read(in, vx);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, w));
}

static int bn_params(struct rig *r, const struct op_size *s)
{
    struct bst_shape c = vector_shape(s->c);
    int first = rig_param(r, BST_PARAM_BN_SCALE, &c);
    rig_param(r, BST_PARAM_BN_SHIFT, &c);
    rig_param(r, BST_PARAM_BN_MEAN, &c);
    rig_param(r, BST_PARAM_BN_VAR, &c);
    return first;
}

/* Forward and backward, since what goes from one to the other is the backend's own. */
static void build_bn_train(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape x = image_shape(s), none = {0, {0}};
    bool residual = oc->flags & BST_IF_RESIDUAL;
    int p = bn_params(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), res = residual ? rig_input(r, &x) : -1, dy = rig_input(r, &x);
    int dy2 = oc->flags & BST_IF_DY2 ? rig_input(r, &x) : -1;
    int vy = rig_value(r, &x, false), saved = rig_value(r, &none, true);
    int dx = rig_value(r, &x, false), dres = residual ? rig_value(r, &x, false) : -1;
    struct bst_instr *in = add(r, oc, BST_I_BN_TRAIN, s);
    in->flags = oc->flags & ~(unsigned)BST_IF_DY2;
    bst_instr_read(in, vx);
    for (int i = 0; i < 4; i++)
        bst_instr_read(in, i < 2 ? p + i : bst_pass_second(&r->pass, p + i));
    if (residual)
        bst_instr_read(in, res);
    bst_instr_write(in, vy);
    bst_instr_write(in, saved);
    r->pass.relu_of[p] = vy;

    in = add(r, oc, BST_I_BN_BWD, s);
    in->flags = oc->flags;
    bst_instr_read(in, vx);
    bst_instr_read(in, dy);
    bst_instr_read(in, p);
    bst_instr_read(in, p + 1);
    bst_instr_read(in, saved);
    if (residual)
        bst_instr_read(in, vy);
    if (dy2 >= 0)
        bst_instr_read(in, dy2);
    bst_instr_write(in, dx);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    bst_instr_write(in, bst_pass_second(&r->pass, p + 1));
    rig_output(r, vy);
    rig_output(r, dx);
    if (residual) {
        bst_instr_write(in, dres);
        rig_output(r, dres);
    }
}

/* A convolution that makes the sums, and the batch norm that takes them. */
static void build_conv_bn(struct rig *r, const struct op_case *oc, const struct op_size *s,
                          unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->oc), none = {0, {0}};
    struct op_size behind = *s;
    behind.c = s->oc;
    int w = conv_weight(r, s), p = bn_params(r, &behind);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), vy = rig_value(r, &y, false), sums = rig_value(r, &none, true);
    int z = rig_value(r, &y, false), saved = rig_value(r, &none, true);
    struct bst_instr *in = add(r, oc, BST_I_CONV_FWD, s);
    in->flags = oc->flags;
    bst_instr_read(in, vx);
    bst_instr_read(in, w);
    bst_instr_write(in, vy);
    bst_instr_write(in, sums);
    in = add(r, oc, BST_I_BN_TRAIN, s);
    in->flags = oc->flags;
    bst_instr_read(in, vy);
    for (int i = 0; i < 4; i++)
        bst_instr_read(in, i < 2 ? p + i : bst_pass_second(&r->pass, p + i));
    bst_instr_read(in, sums);
    bst_instr_write(in, z);
    bst_instr_write(in, saved);
    rig_output(r, vy);
    rig_output(r, z);
}

static void build_bn_infer(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape x = image_shape(s);
    int p = bn_params(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), res = oc->flags & BST_IF_RESIDUAL ? rig_input(r, &x) : -1;
    int vy = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_BN_INFER, s);
    in->flags = oc->flags;
    bst_instr_read(in, vx);
    for (int i = 0; i < 4; i++)
        bst_instr_read(in, p + i);
    if (res >= 0)
        bst_instr_read(in, res);
    bst_instr_write(in, vy);
    r->pass.relu_of[p] = vy;
    rig_output(r, vy);
}

static void build_relu(struct rig *r, const struct op_case *oc, const struct op_size *s,
                       unsigned variant)
{
    struct bst_shape x = image_shape(s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &x);
    int vy = rig_value(r, &x, false), dx = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_RELU_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_RELU_BWD, s);
    bst_instr_read(in, dy);
    bst_instr_read(in, vy);
    bst_instr_write(in, dx);
    rig_output(r, vy);
    rig_output(r, dx);
}

static void build_add(struct rig *r, const struct op_case *oc, const struct op_size *s,
                      unsigned variant)
{
    struct bst_shape x = image_shape(s);
    rig_start(r, s->n, variant);
    int a = rig_input(r, &x), b = rig_input(r, &x), z = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_ADD, s);
    bst_instr_read(in, a);
    bst_instr_read(in, b);
    bst_instr_write(in, z);
    rig_output(r, z);
}

static void build_max_pool(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->c);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y);
    int vy = rig_value(r, &y, false), index = rig_value(r, &y, true);
    int dx = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_MAX_POOL_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    bst_instr_write(in, index);
    in = add(r, oc, BST_I_MAX_POOL_BWD, s);
    bst_instr_read(in, dy);
    bst_instr_read(in, index);
    bst_instr_write(in, dx);
    rig_output(r, vy);
    rig_output(r, dx);
}

static void build_max_pool_infer(struct rig *r, const struct op_case *oc, const struct op_size *s,
                                 unsigned variant)
{
    struct bst_shape x = image_shape(s), y = result_shape(s, s->c);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_MAX_POOL_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    rig_output(r, vy);
}

static void build_avg_pool(struct rig *r, const struct op_case *oc, const struct op_size *s,
                           unsigned variant)
{
    struct bst_shape x = image_shape(s), y = matrix_shape(s->n, s->c);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y);
    int vy = rig_value(r, &y, false), dx = rig_value(r, &x, false);
    r->pass.info[dx].forward = vx;
    struct bst_instr *in = add(r, oc, BST_I_AVG_POOL_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_write(in, vy);
    in = add(r, oc, BST_I_AVG_POOL_BWD, s);
    bst_instr_read(in, dy);
    bst_instr_write(in, dx);
    rig_output(r, vy);
    rig_output(r, dx);
}

static int linear_params(struct rig *r, const struct op_size *s)
{
    struct bst_shape w = matrix_shape(s->oc, s->c), b = vector_shape(s->oc);
    int first = rig_param(r, BST_PARAM_LINEAR_WEIGHT, &w);
    rig_param(r, BST_PARAM_BIAS, &b);
    return first;
}

static void build_linear_fwd(struct rig *r, const struct op_case *oc, const struct op_size *s,
                             unsigned variant)
{
    struct bst_shape x = matrix_shape(s->n, s->c), y = matrix_shape(s->n, s->oc);
    int p = linear_params(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), vy = rig_value(r, &y, false);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_FWD, s);
    bst_instr_read(in, vx);
    bst_instr_read(in, p);
    bst_instr_read(in, p + 1);
    bst_instr_write(in, vy);
    rig_output(r, vy);
}

static void build_linear_bwd_data(struct rig *r, const struct op_case *oc, const struct op_size *s,
                                  unsigned variant)
{
    struct bst_shape x = matrix_shape(s->n, s->c), y = matrix_shape(s->n, s->oc);
    int p = linear_params(r, s);
    rig_start(r, s->n, variant);
    int dy = rig_input(r, &y), dx = rig_value(r, &x, false);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_BWD_DATA, s);
    bst_instr_read(in, dy);
    bst_instr_read(in, p);
    bst_instr_write(in, dx);
    rig_output(r, dx);
}

static void build_linear_bwd_weight(struct rig *r, const struct op_case *oc,
                                    const struct op_size *s, unsigned variant)
{
    struct bst_shape x = matrix_shape(s->n, s->c), y = matrix_shape(s->n, s->oc);
    int p = linear_params(r, s);
    rig_start(r, s->n, variant);
    int vx = rig_input(r, &x), dy = rig_input(r, &y);
    struct bst_instr *in = add(r, oc, BST_I_LINEAR_BWD_WEIGHT, s);
    bst_instr_read(in, vx);
    bst_instr_read(in, dy);
    bst_instr_write(in, bst_pass_second(&r->pass, p));
    bst_instr_write(in, bst_pass_second(&r->pass, p + 1));
}

static void build_softmax_ce(struct rig *r, const struct op_case *oc, const struct op_size *s,
                             unsigned variant)
{
    struct bst_shape z = matrix_shape(s->n, s->oc);
    rig_start(r, s->n, variant);
    int vz = rig_input(r, &z), dz = rig_value(r, &z, false);
    struct bst_instr *in = add(r, oc, BST_I_SOFTMAX_CE, s);
    bst_instr_read(in, vz);
    bst_instr_write(in, dz);
    r->p->classes = s->oc;
    r->step.label_smoothing = s->c % 2 ? 0.1 : 0;
    r->step.grad_scale = 1.0 / (s->n + 2);
    r->step.n_valid = s->n - s->n / 4; /* the last rows count for nothing */
    rig_output(r, dz);
}

static double one(const struct op_size *s)
{
    (void)s;
    return 1;
}

static double taps(const struct op_size *s)
{
    return (double)s->c * s->window.kernel * s->window.kernel;
}

static double back_taps(const struct op_size *s)
{
    return (double)s->oc * s->window.kernel * s->window.kernel;
}

static double results(const struct op_size *s)
{
    return (double)s->n * op_out(s) * op_out(s);
}

static double values(const struct op_size *s)
{
    return (double)s->n * s->hw * s->hw;
}

static double pixels(const struct op_size *s)
{
    return (double)s->hw * s->hw;
}

static double in_features(const struct op_size *s)
{
    return s->c;
}

static double out_features(const struct op_size *s)
{
    return s->oc;
}

static double rows(const struct op_size *s)
{
    return s->n;
}

#define R BST_IF_RELU
#define RR (BST_IF_RELU | BST_IF_RESIDUAL)
#define D BST_IF_DY2
const struct op_case op_cases[] = {
    {"image", build_image, .terms = one, .budget = 2, .roundings = 1},
    {"conv_fwd", build_conv_fwd, .windowed = true, .terms = taps, .budget = 1, .roundings = 1},
    {"conv_bwd_data", build_conv_bwd_data, .windowed = true, .terms = back_taps, .budget = 1,
     .roundings = 1},
    {"conv_bwd_data+sum", build_conv_bwd_sum, BST_IF_SUM, .windowed = true, .terms = back_taps,
     .budget = 2, .roundings = 1},
    {"conv_bwd_weight", build_conv_bwd_weight, .windowed = true, .terms = results, .budget = 1,
     .roundings = 1},
    {"bn_train", build_bn_train, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+relu", build_bn_train, R, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+relu+dy2", build_bn_train, R | D, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+residual", build_bn_train, RR, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+residual+dy2", build_bn_train, RR | D, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+dy2", build_bn_train, D, .terms = values, .budget = 4, .roundings = 1},
    {"bn_train+conv", build_conv_bn, BST_IF_STATS, .terms = values, .budget = 4, .roundings = 2},
    {"bn_infer", build_bn_infer, .terms = one, .budget = 4, .roundings = 1},
    {"bn_infer+relu", build_bn_infer, R, .terms = one, .budget = 4, .roundings = 1},
    {"bn_infer+residual", build_bn_infer, RR, .terms = one, .budget = 4, .roundings = 1},
    {"relu", build_relu, .terms = one, .budget = 0},
    {"add", build_add, .terms = one, .budget = 1, .roundings = 1},
    {"max_pool", build_max_pool, .windowed = true, .ties = true, .terms = one, .budget = 2,
     .roundings = 1},
    {"max_pool_infer", build_max_pool_infer, .windowed = true, .terms = one, .budget = 0},
    {"avg_pool", build_avg_pool, .terms = pixels, .budget = 2, .roundings = 1},
    {"linear_fwd", build_linear_fwd, .matrix = true, .terms = in_features, .budget = 2},
    {"linear_bwd_data", build_linear_bwd_data, .matrix = true, .terms = out_features, .budget = 2},
    {"linear_bwd_weight", build_linear_bwd_weight, .matrix = true, .terms = rows, .budget = 2},
    {"softmax_ce", build_softmax_ce, .matrix = true, .terms = out_features, .budget = 4},
};
const int n_op_cases = sizeof op_cases / sizeof op_cases[0];
