/* The builder: shapes inferred, mistakes named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/net.h"
#include "core/graph/program.h"

static const struct bst_window K3 = {3, 1, 1}, K3S2 = {3, 2, 1}, K1 = {1, 1, 0}, K7 = {7, 2, 3};

static void assert_shape(const struct bst_graph *g, int v, int rank, int64_t a, int64_t b,
                         int64_t c, int64_t d)
{
    const struct bst_shape want = {rank, {a, b, c, d}};
    assert_true(v >= 0);
    assert_true(bst_shape_equal(&g->values[v], &want));
}

static void shapes(void **state)
{
    (void)state;
    struct bst_graph *g = bst_graph_new(5);
    int x = bst_graph_image(g, 3, 225, 17);
    assert_shape(g, x, 4, 5, 3, 225, 17);
    x = bst_graph_conv2d(g, x, 64, K7, "conv1");
    assert_shape(g, x, 4, 5, 64, 113, 9);
    x = bst_graph_batch_norm(g, x, "bn1");
    x = bst_graph_relu(g, x, "relu");
    x = bst_graph_max_pool(g, x, K3S2, "maxpool");
    assert_shape(g, x, 4, 5, 64, 57, 5);
    int y = bst_graph_conv2d(g, x, 8, K1, "a"), z = bst_graph_conv2d(g, x, 8, K3, "b");
    x = bst_graph_add(g, y, z, "add");
    x = bst_graph_global_avg_pool(g, x, "avgpool");
    assert_shape(g, x, 2, 5, 8, 0, 0);
    x = bst_graph_linear(g, x, 10, "fc");
    assert_shape(g, x, 2, 5, 10, 0, 0);
    bst_graph_softmax_ce(g, x, "loss");
    assert_int_equal(bst_graph_check(g), BST_OK);
    assert_int_equal(g->classes, 10);
    bst_graph_free(g);
}

static void parameters(void **state)
{
    (void)state;
    static const char *const names[] = {"layer1.0.conv1.weight",
                                        "layer1.0.bn1.weight",
                                        "layer1.0.bn1.bias",
                                        "fc.weight",
                                        "fc.bias",
                                        "layer1.0.bn1.running_mean",
                                        "layer1.0.bn1.running_var"};
    struct bst_graph *g = bst_graph_new(2);
    int x = bst_graph_image(g, 1, 4, 4);
    x = bst_graph_conv2d(g, x, 6, K3, "layer1.0.conv1");
    x = bst_graph_batch_norm(g, x, "layer1.0.bn1");
    x = bst_graph_linear(g, bst_graph_global_avg_pool(g, x, "avgpool"), 3, "fc");
    bst_graph_softmax_ce(g, x, "loss");
    struct bst_param_table *t = bst_param_table_new(g);
    assert_int_equal(t->n_slots, 7);
    assert_int_equal(t->n_trained, 5);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(t->slots[i].name, names[i]);
        assert_int_equal(bst_param_table_find(t, names[i]), i);
    }
    assert_int_equal(bst_param_table_find(t, "layer1.0.bn1"), -1);
    assert_int_equal(t->slots[0].init, BST_INIT_KAIMING_FAN_OUT);
    assert_int_equal(t->slots[6].init, BST_INIT_ONE);
    bst_param_table_free(t);
    bst_graph_free(g);
}

/* Each writes one mistake after an image of 2x3x8x8 and a convolution "conv" to 4 channels. */
static void no_fit(struct bst_graph *g, int x)
{
    bst_graph_conv2d(g, x, 4, (struct bst_window){11, 1, 1}, "big");
}

static void no_window(struct bst_graph *g, int x)
{
    bst_graph_conv2d(g, x, 4, (struct bst_window){3, 0, 1}, "still");
}

static void twice(struct bst_graph *g, int x)
{
    bst_graph_relu(g, x, "conv");
}

static void unlike(struct bst_graph *g, int x)
{
    bst_graph_add(g, x, bst_graph_conv2d(g, x, 4, K3S2, "half"), "sum");
}

static void wrong_rank(struct bst_graph *g, int x)
{
    bst_graph_linear(g, x, 10, "fc");
}

static void deep_padding(struct bst_graph *g, int x)
{
    bst_graph_max_pool(g, x, (struct bst_window){3, 2, 2}, "pool");
}

static void no_channels(struct bst_graph *g, int x)
{
    bst_graph_conv2d(g, x, 0, K3, "empty");
}

static void too_large(struct bst_graph *g, int x)
{
    bst_graph_conv2d(g, x, 2000000000, K3, "wide");
}

static void after_loss(struct bst_graph *g, int x)
{
    x = bst_graph_global_avg_pool(g, x, "avgpool");
    bst_graph_softmax_ce(g, x, "loss");
    bst_graph_linear(g, x, 3, "late");
}

static void second_image(struct bst_graph *g, int x)
{
    (void)x;
    bst_graph_image(g, 3, 8, 8);
}

static void dangling(struct bst_graph *g, int x)
{
    bst_graph_relu(g, x, "loose");
    bst_graph_softmax_ce(g, bst_graph_global_avg_pool(g, x, "avgpool"), "loss");
}

static void endless(struct bst_graph *g, int x)
{
    bst_graph_global_avg_pool(g, x, "avgpool");
}

static void from_nothing(struct bst_graph *g, int x)
{
    (void)x;
    bst_graph_relu(g, 99, "relu");
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        void (*make)(struct bst_graph *, int);
        enum bst_err err;
        const char *text;
    } cases[] = {
        {no_fit, BST_E_SHAPE, "big: a window of 11 does not fit into 2x4x8x8 with padding 1"},
        {no_window, BST_E_ARG, "still: kernel 3, stride 0, padding 1 is no window"},
        {twice, BST_E_ARG, "conv: there are two layers of this name"},
        {unlike, BST_E_SHAPE, "sum: cannot add 2x4x8x8 and 2x4x4x4"},
        {wrong_rank, BST_E_SHAPE, "fc: wants a tensor of 2 dimensions, got 2x4x8x8"},
        {deep_padding, BST_E_ARG, "pool: padding 2 is more than half of the window 3"},
        {no_channels, BST_E_SHAPE, "empty: a result of 2x0x8x8 elements is not possible"},
        {too_large, BST_E_SHAPE, "wide: a result of 2x2000000000x8x8 is too large"},
        {after_loss, BST_E_ARG, "late: comes after the loss, which ends a net"},
        {second_image, BST_E_ARG, "image: a net has one image, and first"},
        {dangling, BST_E_ARG, "loose: its result is used by nothing"},
        {endless, BST_E_ARG, "the net does not end in a loss"},
        {from_nothing, BST_E_ARG, "relu: has no input"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bst_graph *g = bst_graph_new(2);
        int x = bst_graph_conv2d(g, bst_graph_image(g, 3, 8, 8), 4, K3, "conv");
        cases[i].make(g, x);
        /* what follows a mistake is passed over, and the first one is reported */
        if (g->err)
            assert_int_equal(bst_graph_relu(g, -1, "after"), -1);
        assert_int_equal(bst_graph_check(g), cases[i].err);
        assert_string_equal(bst_err_text(), cases[i].text);
        bst_graph_free(g);
    }
    struct bst_graph *g = bst_graph_new(0);
    assert_int_equal(bst_graph_image(g, 3, 8, 8), -1);
    assert_int_equal(bst_graph_check(g), BST_E_ARG);
    bst_graph_free(g);
    bst_graph_free(NULL);
}

static void counts(void **state)
{
    (void)state;
    const struct bst_shape s = {3, {2, 3, 5}}, none = {0, {0}};
    const struct bst_shape huge = {3, {INT64_MAX / 2, 3, 1}};
    assert_int_equal(bst_shape_count(&s), 30);
    assert_int_equal(bst_shape_count(&none), 1);
    assert_int_equal(bst_shape_count(&huge), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(parameters),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
