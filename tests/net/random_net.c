#include "tests/net/random_net.h"

#include <stdio.h>

#include "core/base/rng.h"

struct maker {
    struct bst_graph *g;
    struct bst_rng rng;
    bool batch_norm;
    int n; /* layers so far: their names */
    char name[32];
};

static const char *name(struct maker *m, const char *kind)
{
    snprintf(m->name, sizeof m->name, "%s%d", kind, m->n++);
    return m->name;
}

static int conv(struct maker *m, int x, int out, int k, int stride)
{
    return bst_graph_conv2d(m->g, x, out, (struct bst_window){k, stride, k / 2}, name(m, "conv"));
}

static int norm(struct maker *m, int x)
{
    return m->batch_norm ? bst_graph_batch_norm(m->g, x, name(m, "bn")) : x;
}

static int relu(struct maker *m, int x)
{
    return bst_graph_relu(m->g, x, name(m, "relu"));
}

static int channels_of(const struct maker *m, int x)
{
    return x < 0 ? 1 : (int)m->g->values[x].d[1];
}

static int residual(struct maker *m, int x, bool project)
{
    int c = channels_of(m, x), out = project ? c + 3 : c, stride = project ? 2 : 1;
    int y = relu(m, norm(m, conv(m, x, out, 3, stride)));
    y = norm(m, conv(m, y, out, 1 + 2 * (int)bst_rng_below(&m->rng, 2), 1));
    int s = project ? norm(m, conv(m, x, out, 1, stride)) : x;
    bool swap = bst_rng_below(&m->rng, 2);
    return relu(m, bst_graph_add(m->g, swap ? s : y, swap ? y : s, name(m, "add")));
}

/* Three readers of one value, a batch norm without a ReLU, a ReLU whose input has two readers. */
static int odd_block(struct maker *m, int x)
{
    int c = channels_of(m, x);
    int a = norm(m, conv(m, x, c, 1, 1)), b = relu(m, a);
    int d = bst_graph_add(m->g, b, x, name(m, "add"));
    d = bst_graph_add(m->g, d, a, name(m, "add"));
    int e = relu(m, conv(m, x, c, 3, 1));
    d = bst_graph_add(m->g, d, e, name(m, "add"));
    return norm(m, d);
}

static int block(struct maker *m, int x)
{
    switch (bst_rng_below(&m->rng, 5)) {
    case 0:
        return residual(m, x, true);
    case 1:
        return odd_block(m, x);
    case 2:
        return bst_graph_max_pool(m->g, x, (struct bst_window){3, 2, 1}, name(m, "pool"));
    default:
        return residual(m, x, false);
    }
}

struct bst_graph *random_net_build(const struct random_net *how, int micro_batch)
{
    struct maker m = {.g = bst_graph_new(micro_batch), .batch_norm = how->batch_norm};
    bst_rng_init(&m.rng, how->seed, BST_RNG_TEST, 5);
    for (int i = 0; i < 4; i++) {
        m.g->mean[i] = 0.45f;
        m.g->std[i] = 0.25f;
    }
    int x = bst_graph_image(m.g, how->channels, how->size, how->size);
    x = relu(&m, norm(&m, conv(&m, x, 3 + (int)bst_rng_below(&m.rng, 6), 3, 1)));
    int blocks = 2 + (int)bst_rng_below(&m.rng, 3);
    for (int i = 0; i < blocks; i++)
        x = block(&m, x);
    x = bst_graph_global_avg_pool(m.g, x, "avgpool");
    bst_graph_softmax_ce(m.g, bst_graph_linear(m.g, x, RANDOM_NET_CLASSES, "fc"), "loss");
    return m.g;
}
