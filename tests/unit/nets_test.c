#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/graph.h"
#include "nets/nets.h"

static struct bst_net_cfg imagenet_cfg(const char *name)
{
    return (struct bst_net_cfg){.name = name,
                                .classes = 1000,
                                .in_channels = 3,
                                .height = 224,
                                .width = 224,
                                .mean = {0.485f, 0.456f, 0.406f},
                                .std = {0.229f, 0.224f, 0.225f}};
}

static struct bst_graph *build(const struct bst_net_cfg *cfg, int micro_batch)
{
    const struct bst_net *net = bst_net_find(&net_table, cfg->name);
    assert_non_null(net);
    struct bst_graph *g = bst_graph_new(micro_batch);
    enum bst_err err = net->build(cfg, g);
    if (err)
        fail_msg("%s: %s", cfg->name, bst_err_text());
    return g;
}

static int64_t trained(const struct bst_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_params; i++)
        if (BST_PARAM_IS_TRAINED(g->params[i].kind))
            n += bst_shape_count(&g->params[i].shape);
    return n;
}

/* GPT-2's: 50257·768 + 1024·768 + 12·(12·768² + 13·768) + 2·768; the head has none of its own. */
static void gpt_is_gpt2(void **state)
{
    struct bst_net_cfg cfg = {.name = "gpt", .length = {1024}};
    (void)state;
    struct bst_graph *g = build(&cfg, 1);
    assert_int_equal(trained(g), 124439808);
    bst_graph_free(g);
}

/* torch.nn.Transformer's 44,140,544 and one table of 37,000 rows. */
static void transformer_is_the_base_model(void **state)
{
    struct bst_net_cfg cfg = {.name = "transformer", .length = {128, 128}};
    (void)state;
    struct bst_graph *g = build(&cfg, 1);
    assert_int_equal(trained(g), 44140544 + 37000 * 512);
    bst_graph_free(g);
    cfg.length[1] = 0;
    g = bst_graph_new(1);
    assert_int_not_equal(bst_net_find(&net_table, "transformer")->build(&cfg, g), BST_OK);
    bst_graph_free(g);
}

/* Hugging Face's BertForPreTraining of bert-base-uncased. */
static void bert_is_the_base_model(void **state)
{
    struct bst_net_cfg cfg = {.name = "bert", .length = {512, 512}};
    (void)state;
    struct bst_graph *g = build(&cfg, 1);
    assert_int_equal(trained(g), 110106428);
    bst_graph_free(g);
}

/* What a net for images, or of no size, would be given. */
static void gpt_refuses(void **state)
{
    static const struct {
        struct bst_net_cfg cfg;
        const char *text;
    } bad[] = {{{.length = {8}, .stem = BST_STEM_CIFAR}, "a stem is that of a net over images"},
               {{.classes = 10, .height = 28}, "reads sequences of tokens"},
               {{.length = {2000}}, "sequences of 2000, but only 1024 positions"},
               {{.length = {8}, .heads = 7}, "does not divide into 7 heads"},
               {{.length = {8}, .layers = -1}, "layers -1"},
               {{.length = {8}, .dropout = 1.5}, "a dropout of 1.5"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bst_net_cfg cfg = bad[i].cfg;
        struct bst_graph *g = bst_graph_new(1);
        cfg.name = "gpt";
        assert_int_not_equal(bst_net_find(&net_table, "gpt")->build(&cfg, g), BST_OK);
        if (!strstr(bst_err_text(), bad[i].text))
            fail_msg("'%s' is not in '%s'", bad[i].text, bst_err_text());
        bst_graph_free(g);
    }
}

static void numbers_of_parameters_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n;
    } known[] = {{"resnet18", 11689512},
                 {"resnet34", 21797672},
                 {"resnet50", 25557032},
                 {"resnet101", 44549160}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bst_net_cfg cfg = imagenet_cfg(known[i].name);
        struct bst_graph *g = build(&cfg, 2);
        assert_int_equal(trained(g), known[i].n);
        bst_graph_free(g);
    }
}

/* Names and shapes as a set, since order within a batch norm is the graph's own. */
static void names_and_shapes_are_torchvisions(void **state)
{
    (void)state;
    FILE *f = fopen("tests/unit/nets_torchvision.txt", "r");
    assert_non_null(f);
    char key[128], rest[128];
    struct bst_graph *g = NULL;
    int seen = 0, nets = 0;
    while (fscanf(f, "%127s %127s", key, rest) == 2) {
        if (strcmp(key, "net") == 0) {
            if (g)
                assert_int_equal(seen, g->n_params);
            bst_graph_free(g);
            struct bst_net_cfg cfg = imagenet_cfg(rest);
            g = build(&cfg, 1);
            seen = 0;
            nets++;
            continue;
        }
        const struct bst_param *found = NULL;
        for (int i = 0; i < g->n_params && !found; i++)
            if (strcmp(g->params[i].name, key) == 0)
                found = &g->params[i];
        if (!found)
            fail_msg("%s is missing", key);
        char shape[128] = "";
        for (int i = 0; i < found->shape.rank; i++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", i ? "," : "",
                     (int)found->shape.d[i]);
        assert_string_equal(shape, rest);
        seen++;
    }
    assert_int_equal(nets, 4);
    assert_int_equal(seen, g->n_params);
    bst_graph_free(g);
    fclose(f);
}

static const struct bst_node *node(const struct bst_graph *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, name) == 0)
            return &g->nodes[i];
    fail_msg("no node %s", name);
    return NULL;
}

static void stride_is_in_the_3x3(void **state)
{
    (void)state;
    struct bst_net_cfg cfg = imagenet_cfg("resnet50");
    struct bst_graph *g = build(&cfg, 1);
    assert_int_equal(node(g, "layer2.0.conv1")->window.stride, 1);
    assert_int_equal(node(g, "layer2.0.conv2")->window.stride, 2);
    assert_int_equal(node(g, "layer2.0.conv2")->window.kernel, 3);
    assert_int_equal(node(g, "layer2.0.conv2")->window.pad, 1);
    assert_int_equal(node(g, "layer2.0.downsample.0")->window.stride, 2);
    assert_int_equal(node(g, "layer2.1.conv2")->window.stride, 1);
    assert_int_equal(node(g, "layer1.0.downsample.0")->window.stride, 1);
    const struct bst_shape *last = &g->values[node(g, "layer4.2.relu")->out];
    assert_int_equal(last->d[1], 2048);
    assert_int_equal(last->d[2], 7);
    bst_graph_free(g);
}

/* Trained numbers of resnet(6n+2) of width w, counted from the paper's table: convolutions, two
 * numbers a batch-norm channel, projections where a stage begins, fc. */
static int64_t count_small(int n, int w, int channels, int classes)
{
    int64_t sum = 9 * channels * w + 2 * w;
    int in = w;
    for (int stage = 0; stage < 3; stage++) {
        int out = w << stage;
        for (int i = 0; i < n; i++) {
            sum += 9 * in * out + 2 * out + 9 * out * out + 2 * out;
            if (in != out)
                sum += in * out + 2 * out;
            in = out;
        }
    }
    return sum + (int64_t)in * classes + classes;
}

static void small_family_has_every_depth(void **state)
{
    (void)state;
    static const int depths[] = {8, 14, 20, 32, 44, 56, 110};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "resnet%d", depths[i]);
        struct bst_net_cfg cfg = {
            .name = name, .classes = 10, .in_channels = 1, .height = 28, .width = 28, .std = {1}};
        struct bst_graph *g = build(&cfg, 3);
        assert_int_equal(trained(g), count_small((depths[i] - 2) / 6, 16, 1, 10));
        assert_int_equal(g->values[node(g, "layer3.0.relu")->out].d[2], 7);
        assert_string_equal(node(g, "layer2.0.downsample.0")->name, "layer2.0.downsample.0");
        bst_graph_free(g);
    }
}

static void width_channels_classes_and_stem_are_free(void **state)
{
    (void)state;
    struct bst_net_cfg cfg = {.name = "resnet14",
                              .base_width = 5,
                              .classes = 7,
                              .in_channels = 4,
                              .height = 17,
                              .width = 31,
                              .std = {1, 1, 1, 1}};
    struct bst_graph *g = build(&cfg, 3);
    assert_int_equal(trained(g), count_small(2, 5, 4, 7));
    bst_graph_free(g);

    cfg = imagenet_cfg("resnet50");
    cfg.base_width = 8;
    cfg.stem = BST_STEM_CIFAR;
    cfg.height = cfg.width = 32;
    g = build(&cfg, 2);
    assert_int_equal(node(g, "conv1")->window.kernel, 3);
    assert_int_equal(g->values[node(g, "layer4.2.relu")->out].d[1], 8 * 8 * 4);
    assert_int_equal(g->values[node(g, "layer4.2.relu")->out].d[2], 4);
    bst_graph_free(g);

    cfg = (struct bst_net_cfg){.name = "resnet20",
                               .classes = 10,
                               .in_channels = 3,
                               .height = 64,
                               .width = 64,
                               .stem = BST_STEM_IMAGENET,
                               .std = {1, 1, 1}};
    g = build(&cfg, 1);
    assert_int_equal(g->values[node(g, "maxpool")->out].d[2], 16);
    bst_graph_free(g);
}

static void refuse(struct bst_net_cfg cfg, const char *text)
{
    struct bst_graph *g = bst_graph_new(1);
    assert_int_not_equal(net_table.nets[0].build(&cfg, g), BST_OK);
    assert_string_equal(bst_err_text(), text);
    bst_graph_free(g);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    struct bst_net_cfg cfg = imagenet_cfg("resnet18");
    assert_null(bst_net_find(&net_table, "resnet19"));
    cfg.name = "resnet19";
    refuse(cfg, "no ResNet is called 'resnet19'");
    cfg.name = "resnet18";
    cfg.classes = 1;
    refuse(cfg, "resnet18: 1 classes, need at least 2");
    cfg.classes = 10;
    cfg.in_channels = 5;
    refuse(cfg, "resnet18: 5 input channels, 1 to 4 are possible");
    cfg.in_channels = 3;
    cfg.base_width = 5000;
    refuse(cfg, "resnet18: width 5000, 1 to 4096 are possible");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_is_gpt2),
        cmocka_unit_test(gpt_refuses),
        cmocka_unit_test(bert_is_the_base_model),
        cmocka_unit_test(transformer_is_the_base_model),
        cmocka_unit_test(numbers_of_parameters_are_the_published_ones),
        cmocka_unit_test(names_and_shapes_are_torchvisions),
        cmocka_unit_test(stride_is_in_the_3x3),
        cmocka_unit_test(small_family_has_every_depth),
        cmocka_unit_test(width_channels_classes_and_stem_are_free),
        cmocka_unit_test(what_cannot_be_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
