/* The builder: one function an operation, with shape inference. */
#include "core/graph/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

/* Largest extent of one dimension: index arithmetic in a kernel then fits in 64 bits with room. */
#define MAX_DIM ((int64_t)1 << 30)

struct bst_shape_text bst_shape_text(const struct bst_shape *s)
{
    struct bst_shape_text t = {""};
    size_t at = 0;
    for (int i = 0; i < s->rank && at < sizeof t.s; i++)
        at += (size_t)snprintf(t.s + at, sizeof t.s - at, "%s%" PRId64, i ? "x" : "", s->d[i]);
    return t;
}

static int add_value(struct bst_graph *g, const struct bst_shape *s, const char *name)
{
    int64_t n = bst_shape_count(s);
    if (n <= 0 || n > INT64_MAX / 64)
        return bst_graph_fail(g, BST_E_SHAPE, "%s: a result of %s elements is not possible", name,
                              bst_shape_text(s).s);
    for (int i = 0; i < s->rank; i++) {
        if (s->d[i] > MAX_DIM)
            return bst_graph_fail(g, BST_E_SHAPE, "%s: a result of %s is too large", name,
                                  bst_shape_text(s).s);
    }
    g->values = bst_xgrow(g->values, g->n_values, &g->room_values, sizeof *g->values);
    g->values[g->n_values] = *s;
    return g->n_values++;
}

int bst_graph_add_param(struct bst_graph *g, const char *layer, const char *suffix,
                        enum bst_param_kind kind, enum bst_init init, const struct bst_shape *s)
{
    g->params = bst_xgrow(g->params, g->n_params, &g->room_params, sizeof *g->params);
    struct bst_param *p = &g->params[g->n_params];
    p->name = bst_xasprintf("%s.%s", layer, suffix);
    p->kind = kind;
    p->init = init;
    p->init_scale = 0;
    p->shape = *s;
    return g->n_params++;
}

int bst_graph_add_node(struct bst_graph *g, enum bst_op op, const char *name, int x, int y,
                       const struct bst_shape *s, struct bst_node **node)
{
    for (int i = 0; i < g->n_nodes; i++) {
        if (!strcmp(g->nodes[i].name, name))
            return bst_graph_fail(g, BST_E_ARG, "%s: there are two layers of this name", name);
    }
    int out = -1;
    if (s) {
        out = add_value(g, s, name);
        if (out < 0)
            return -1;
    }
    g->nodes = bst_xgrow(g->nodes, g->n_nodes, &g->room_nodes, sizeof *g->nodes);
    struct bst_node *n = &g->nodes[g->n_nodes++];
    *n = (struct bst_node){.op = op, .in = {x, y, -1}, .out = out, .params = {-1, -1, -1, -1}};
    n->name = bst_xstrdup(name);
    *node = n;
    return out;
}

bool bst_graph_takes(struct bst_graph *g, int x, int rank, const char *name)
{
    if (g->err)
        return false;
    if (x < 0 || x >= g->n_values) {
        bst_graph_fail(g, BST_E_ARG, "%s: has no input", name);
        return false;
    }
    if (g->n_nodes && g->nodes[g->n_nodes - 1].op == BST_OP_SOFTMAX_CE) {
        bst_graph_fail(g, BST_E_ARG, "%s: comes after the loss, which ends a net", name);
        return false;
    }
    if (rank && g->values[x].rank != rank) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: wants a tensor of %d dimensions, got %s", name, rank,
                       bst_shape_text(&g->values[x]).s);
        return false;
    }
    return true;
}

/* Extents of a window's result over x; false when it does not fit. */
static bool window_shape(struct bst_graph *g, int x, struct bst_window w, int64_t channels,
                         const char *name, struct bst_shape *out)
{
    const struct bst_shape *in = &g->values[x];
    if (w.kernel < 1 || w.stride < 1 || w.pad < 0 || w.pad >= w.kernel || w.kernel > 1024) {
        bst_graph_fail(g, BST_E_ARG, "%s: kernel %d, stride %d, padding %d is no window", name,
                       w.kernel, w.stride, w.pad);
        return false;
    }
    *out = (struct bst_shape){4, {in->d[0], channels, 0, 0}};
    for (int i = 2; i < 4; i++) {
        int64_t room = in->d[i] + 2 * w.pad - w.kernel;
        if (room < 0) {
            bst_graph_fail(g, BST_E_SHAPE,
                           "%s: a window of %d does not fit into %s with padding %d", name,
                           w.kernel, bst_shape_text(in).s, w.pad);
            return false;
        }
        out->d[i] = room / w.stride + 1;
    }
    return true;
}

int bst_graph_image(struct bst_graph *g, int channels, int height, int width)
{
    struct bst_node *n;
    if (g->err)
        return -1;
    if (g->n_nodes)
        return bst_graph_fail(g, BST_E_ARG, "image: a net has one image, and first");
    if (channels < 1 || channels > 4)
        return bst_graph_fail(g, BST_E_RANGE, "image: %d channels; 1 to 4 are possible", channels);
    if (height < 1 || width < 1)
        return bst_graph_fail(g, BST_E_RANGE, "image: a size of %dx%d", height, width);
    struct bst_shape s = {4, {g->micro_batch, channels, height, width}};
    return bst_graph_add_node(g, BST_OP_IMAGE, "image", -1, -1, &s, &n);
}

int bst_graph_conv2d(struct bst_graph *g, int x, int out_channels, struct bst_window w,
                     const char *name)
{
    struct bst_shape s;
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 4, name) || !window_shape(g, x, w, out_channels, name, &s))
        return -1;
    struct bst_shape ws = {4, {out_channels, g->values[x].d[1], w.kernel, w.kernel}};
    int out = bst_graph_add_node(g, BST_OP_CONV2D, name, x, -1, &s, &n);
    if (out < 0)
        return -1;
    n->window = w;
    n->params[0] = bst_graph_add_param(g, name, "weight", BST_PARAM_CONV_WEIGHT,
                                       BST_INIT_KAIMING_FAN_OUT, &ws);
    return out;
}

int bst_graph_batch_norm(struct bst_graph *g, int x, const char *name)
{
    static const struct {
        const char *suffix;
        enum bst_param_kind kind;
        enum bst_init init;
    } parts[4] = {
        {"weight", BST_PARAM_BN_SCALE, BST_INIT_ONE},
        {"bias", BST_PARAM_BN_SHIFT, BST_INIT_ZERO},
        {"running_mean", BST_PARAM_BN_MEAN, BST_INIT_ZERO},
        {"running_var", BST_PARAM_BN_VAR, BST_INIT_ONE},
    };
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 4, name))
        return -1;
    struct bst_shape s = g->values[x], c = {1, {s.d[1]}};
    int out = bst_graph_add_node(g, BST_OP_BATCH_NORM, name, x, -1, &s, &n);
    if (out < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        n->params[i] =
            bst_graph_add_param(g, name, parts[i].suffix, parts[i].kind, parts[i].init, &c);
    return out;
}

int bst_graph_relu(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return -1;
    struct bst_shape s = g->values[x];
    return bst_graph_add_node(g, BST_OP_RELU, name, x, -1, &s, &n);
}

int bst_graph_add(struct bst_graph *g, int x, int y, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name) || !bst_graph_takes(g, y, 0, name))
        return -1;
    struct bst_shape s = g->values[x];
    if (!bst_shape_equal(&s, &g->values[y]))
        return bst_graph_fail(g, BST_E_SHAPE, "%s: cannot add %s and %s", name,
                              bst_shape_text(&s).s, bst_shape_text(&g->values[y]).s);
    return bst_graph_add_node(g, BST_OP_ADD, name, x, y, &s, &n);
}

int bst_graph_max_pool(struct bst_graph *g, int x, struct bst_window w, const char *name)
{
    struct bst_shape s;
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 4, name) || !window_shape(g, x, w, g->values[x].d[1], name, &s))
        return -1;
    if (w.pad > w.kernel / 2)
        return bst_graph_fail(g, BST_E_ARG, "%s: padding %d is more than half of the window %d",
                              name, w.pad, w.kernel);
    int out = bst_graph_add_node(g, BST_OP_MAX_POOL, name, x, -1, &s, &n);
    if (out >= 0)
        n->window = w;
    return out;
}

int bst_graph_global_avg_pool(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 4, name))
        return -1;
    struct bst_shape s = {2, {g->values[x].d[0], g->values[x].d[1]}};
    return bst_graph_add_node(g, BST_OP_GLOBAL_AVG_POOL, name, x, -1, &s, &n);
}

int bst_graph_linear(struct bst_graph *g, int x, int out, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 2, name))
        return -1;
    struct bst_shape s = {2, {g->values[x].d[0], out}}, b = {1, {out}};
    struct bst_shape w = {2, {out, g->values[x].d[1]}};
    int v = bst_graph_add_node(g, BST_OP_LINEAR, name, x, -1, &s, &n);
    if (v < 0)
        return -1;
    n->params[0] = bst_graph_add_param(g, name, "weight", BST_PARAM_LINEAR_WEIGHT,
                                       BST_INIT_UNIFORM_FAN_IN, &w);
    n->params[1] =
        bst_graph_add_param(g, name, "bias", BST_PARAM_BIAS, BST_INIT_UNIFORM_FAN_IN, &b);
    return v;
}

void bst_graph_softmax_ce(struct bst_graph *g, int x, const char *name)
{
    struct bst_node *n;
    if (!bst_graph_takes(g, x, 0, name))
        return;
    const struct bst_shape *s = &g->values[x];
    if (s->rank != 2 && s->rank != 3) {
        bst_graph_fail(g, BST_E_SHAPE, "%s: wants classes on the last of 2 or 3 axes, got %s", name,
                       bst_shape_text(s).s);
        return;
    }
    bst_graph_add_node(g, BST_OP_SOFTMAX_CE, name, x, -1, NULL, &n);
    g->classes = (int)g->values[x].d[g->values[x].rank - 1];
}
