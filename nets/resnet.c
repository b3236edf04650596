#include "nets/resnet.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

enum { STAGES_MAX = 4, EXPANSION = 4, NAME_MAX_BYTES = 64 };

struct spec {
    bool bottleneck;
    int n_stages;
    int blocks[STAGES_MAX];
    int width; /* of the first stage; doubles with every further one */
    enum bst_stem stem;
};

static const struct {
    const char *name;
    struct spec spec;
} imagenet_family[] = {
    {"resnet18", {false, 4, {2, 2, 2, 2}, 64, BST_STEM_IMAGENET}},
    {"resnet34", {false, 4, {3, 4, 6, 3}, 64, BST_STEM_IMAGENET}},
    {"resnet50", {true, 4, {3, 4, 6, 3}, 64, BST_STEM_IMAGENET}},
    {"resnet101", {true, 4, {3, 4, 23, 3}, 64, BST_STEM_IMAGENET}},
};

/* resnet50 is also 6·8+2, so the names of the ImageNet family come first. */
static enum bst_err find_spec(const char *name, struct spec *out)
{
    static const char family[] = "resnet";
    int64_t depth;
    for (size_t i = 0; i < sizeof imagenet_family / sizeof imagenet_family[0]; i++) {
        if (strcmp(imagenet_family[i].name, name) == 0) {
            *out = imagenet_family[i].spec;
            return BST_OK;
        }
    }
    if (strncmp(name, family, sizeof family - 1) != 0 ||
        !bst_int_parse(name + sizeof family - 1, &depth) || depth < 8 || depth > 1202 ||
        (depth - 2) % 6 != 0)
        return bst_fail(BST_E_NOTFOUND, "no ResNet is called '%s'", name);
    int n = (int)(depth - 2) / 6;
    *out = (struct spec){false, 3, {n, n, n}, 16, BST_STEM_CIFAR};
    return BST_OK;
}

static const char *join(char out[NAME_MAX_BYTES], const char *prefix, const char *part)
{
    snprintf(out, NAME_MAX_BYTES, "%.40s.%.20s", prefix, part);
    return out;
}

static int conv_bn(struct bst_graph *g, int x, int channels, struct bst_window w, const char *conv,
                   const char *bn)
{
    return bst_graph_batch_norm(g, bst_graph_conv2d(g, x, channels, w, conv), bn);
}

/* The window of a convolution that keeps the size at stride 1. */
static struct bst_window square(int kernel, int stride)
{
    return (struct bst_window){kernel, stride, kernel / 2};
}

struct block {
    char name[32]; /* "layer1.0" */
    int in, planes, out, stride;
    bool bottleneck;
};

/* One residual block: x is [N, in, H, W], the result [N, out, H/stride, W/stride]. The shortcut is
 * a 1×1 projection wherever a shape changes (torchvision's rule; option B of the paper). */
static int add_block(struct bst_graph *g, int x, const struct block *b)
{
    static const int kernels[2][3] = {{3, 3}, {1, 3, 1}};
    char name[NAME_MAX_BYTES], bn_name[NAME_MAX_BYTES];
    int n = b->bottleneck ? 3 : 2;
    int strided = b->bottleneck ? 1 : 0; /* the 3×3 carries the stride, as in torchvision */
    int y = x;
    for (int i = 0; i < n; i++) {
        const char *const convs[] = {"conv1", "conv2", "conv3"};
        const char *const bns[] = {"bn1", "bn2", "bn3"};
        const char *const relus[] = {"relu1", "relu2"};
        y = conv_bn(g, y, i == n - 1 ? b->out : b->planes,
                    square(kernels[b->bottleneck][i], i == strided ? b->stride : 1),
                    join(name, b->name, convs[i]), join(bn_name, b->name, bns[i]));
        if (i < n - 1)
            y = bst_graph_relu(g, y, join(name, b->name, relus[i]));
    }
    int shortcut = x;
    if (b->stride != 1 || b->in != b->out)
        shortcut = conv_bn(g, x, b->out, square(1, b->stride), join(name, b->name, "downsample.0"),
                           join(bn_name, b->name, "downsample.1"));
    y = bst_graph_add(g, y, shortcut, join(name, b->name, "add"));
    return bst_graph_relu(g, y, join(name, b->name, "relu"));
}

static int stem(struct bst_graph *g, int x, int width, enum bst_stem kind)
{
    bool imagenet = kind == BST_STEM_IMAGENET;
    x = conv_bn(g, x, width, imagenet ? square(7, 2) : square(3, 1), "conv1", "bn1");
    x = bst_graph_relu(g, x, "relu");
    return imagenet ? bst_graph_max_pool(g, x, square(3, 2), "maxpool") : x;
}

static enum bst_err check_cfg(const struct bst_net_cfg *cfg)
{
    if (cfg->classes < 2)
        return bst_fail(BST_E_RANGE, "%s: %d classes, need at least 2", cfg->name, cfg->classes);
    if (cfg->in_channels < 1 || cfg->in_channels > 4)
        return bst_fail(BST_E_RANGE, "%s: %d input channels, 1 to 4 are possible", cfg->name,
                        cfg->in_channels);
    if (cfg->height < 1 || cfg->width < 1)
        return bst_fail(BST_E_RANGE, "%s: image of %d×%d pixels", cfg->name, cfg->width,
                        cfg->height);
    if (cfg->layers || cfg->heads || cfg->hidden || cfg->positions || cfg->dropout != 0 ||
        cfg->norm_first)
        return bst_fail(BST_E_ARG,
                        "%s: layers, heads, hidden, positions, norm_first and dropout are those "
                        "of a net over sequences",
                        cfg->name);
    /* The widest layer has width · 8 · 4 channels, which must stay an int. */
    if (cfg->base_width < 0 || cfg->base_width > 4096)
        return bst_fail(BST_E_RANGE, "%s: width %d, 1 to 4096 are possible", cfg->name,
                        cfg->base_width);
    return BST_OK;
}

enum bst_err net_resnet_build(const struct bst_net_cfg *cfg, struct bst_graph *g)
{
    struct spec s = {0};
    BST_TRY(find_spec(cfg->name, &s));
    BST_TRY(check_cfg(cfg));
    int planes = cfg->base_width ? cfg->base_width : s.width;

    memcpy(g->mean, cfg->mean, sizeof g->mean);
    memcpy(g->std, cfg->std, sizeof g->std);
    int x = bst_graph_image(g, cfg->in_channels, cfg->height, cfg->width);
    x = stem(g, x, planes, cfg->stem == BST_STEM_DEFAULT ? s.stem : cfg->stem);
    int channels = planes;
    for (int stage = 0; stage < s.n_stages; stage++, planes *= 2) {
        for (int i = 0; i < s.blocks[stage]; i++) {
            struct block b = {
                .in = channels,
                .planes = planes,
                .out = s.bottleneck ? planes * EXPANSION : planes,
                .stride = stage && !i ? 2 : 1,
                .bottleneck = s.bottleneck,
            };
            snprintf(b.name, sizeof b.name, "layer%d.%d", stage + 1, i);
            x = add_block(g, x, &b);
            channels = b.out;
        }
    }
    x = bst_graph_global_avg_pool(g, x, "avgpool");
    x = bst_graph_linear(g, x, cfg->classes, "fc");
    bst_graph_softmax_ce(g, x, "loss");
    return bst_graph_check(g);
}
