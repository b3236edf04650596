/* Every convolution of the ResNets, forward and backward, is one that real cuDNN has a plan for: on
 * a device that is not here, of which only the properties are known.
 *
 *     graphs_test DEVICE FOLDER [all]    FOLDER keeps the answers; all: every batch and precision
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/conv_plan.h"
#include "core/base/clock.h"
#include "core/run/gpu.h"
#include "nets/nets.h"

enum { SHAPES = 64, N_BATCHES = 6 };

static const char *const nets[] = {"resnet18", "resnet34", "resnet50", "resnet101"};
static const int batches[N_BATCHES] = {1, 32, 64, 128, 256, 512};
static const char *device, *folder;
static bool all;
static struct bst_gpu gpu;
static struct bst_conv_planner *planner;

struct shape { /* of a convolution, with what of it is needed */
    struct bst_conv_ask ask;
    bool first; /* the image has no gradient */
};

static struct shape shapes[SHAPES];
static int n_shapes;

/* The channels of an image are padded, to what tensor cores take. */
static int image_channels(enum bst_conv_type type)
{
    return type == BST_CONV_FP16 ? 4 : type == BST_CONV_BF16 ? 8 : 3;
}

static void add_shape(const struct bst_graph *g, const struct bst_node *n)
{
    const int64_t *in = g->values[n->in[0]].d, *out = g->values[n->out].d;
    struct shape s = {.ask = {.c = (int)in[1],
                              .h = (int)in[2],
                              .w = (int)in[3],
                              .k = (int)out[1],
                              .kernel = n->window.kernel,
                              .stride = n->window.stride,
                              .pad = n->window.pad,
                              .deterministic = true, /* as the trainer asks */
                              .workspace_most = -1},
                      .first = in[1] == 3};
    for (int i = 0; i < n_shapes; i++) {
        const struct bst_conv_ask *a = &shapes[i].ask, *b = &s.ask;
        if (a->c == b->c && a->h == b->h && a->k == b->k && a->kernel == b->kernel &&
            a->stride == b->stride)
            return;
    }
    assert_true(n_shapes < SHAPES);
    shapes[n_shapes++] = s;
}

static void read_nets(void)
{
    struct bst_net_cfg cfg = {.classes = 1000, .in_channels = 3, .height = 224, .width = 224};
    for (int c = 0; c < 3; c++) {
        cfg.mean[c] = 0.5f;
        cfg.std[c] = 0.5f;
    }
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        struct bst_graph *g = bst_graph_new(1);
        cfg.name = nets[i];
        const struct bst_net *net = bst_net_find(&net_table, nets[i]);
        if (net->build(&cfg, g) || bst_graph_check(g))
            fail_msg("%s: %s", nets[i], bst_err_text());
        for (int k = 0; k < g->n_nodes; k++)
            if (g->nodes[k].op == BST_OP_CONV2D)
                add_shape(g, &g->nodes[k]);
        bst_graph_free(g);
    }
}

static struct bst_conv_answer must_ask(const struct bst_conv_ask *a)
{
    struct bst_conv_answer answer;
    if (bst_conv_planner_ask(planner, a, &answer))
        fail_msg("%s", bst_err_text());
    return answer;
}

struct tally {
    int accepted, fallback, sums, no_sums;
    int64_t most; /* workspace of one that the heuristics have */
};

static void must_plan(const struct bst_conv_ask *a, struct tally *t)
{
    struct bst_conv_answer answer = must_ask(a);
    if (!answer.accepted)
        fail_msg("%s %s %s %dx%dx%dx%d to %d, kernel %d, stride %d: no plan", device,
                 bst_conv_pass_name(a->pass), bst_conv_type_name(a->type), a->n, a->c, a->h, a->w,
                 a->k, a->kernel, a->stride);
    assert_true(answer.workspace >= 0);
    t->accepted++;
    t->fallback += answer.fallback;
    if (!answer.fallback && answer.workspace > t->most)
        t->most = answer.workspace;
}

static void plan_shape(const struct shape *s, enum bst_conv_type type, int batch, struct tally *t)
{
    struct bst_conv_ask a = s->ask;
    a.type = type;
    a.n = batch;
    if (s->first)
        a.c = image_channels(type);
    a.pass = BST_CONV_FWD;
    must_plan(&a, t);
    /* With a batch norm's sums, where there is such a plan; else the plan above and a kernel. A
     * third of a second each: cuDNN looks at engines that it would have to compile, too. */
    a.sums = true;
    if (type == BST_CONV_FP16 && batch == 256 && (all || s->ask.kernel == 3)) {
        bool has = must_ask(&a).accepted;
        t->sums += has;
        t->no_sums += !has;
    }
    a.sums = false;
    a.pass = BST_CONV_BWD_WEIGHT;
    must_plan(&a, t);
    if (s->first)
        return;
    a.pass = BST_CONV_BWD_DATA;
    must_plan(&a, t);
    a.add = true;
    must_plan(&a, t);
}

/* The rest is like one of these, or a soak's. */
static bool in_part(enum bst_conv_type type, int batch)
{
    return all || (type != BST_CONV_TF32 && (batch == 1 || batch == 256));
}

static void every_graph_has_a_plan(void **state)
{
    struct tally sum = {0};
    const bool has_bf16 = gpu.capability >= 80;
    /* On B200 the one engine with sums that needs no compiler is not deterministic. */
    const bool has_sums = has_bf16 && gpu.capability < 100;
    double since = bst_clock_now();
    int asked = 0, planned = 0;
    (void)state;
    read_nets();
    assert_int_equal(n_shapes, 29); /* of 17 in the two small nets, 36 in the two large */
    for (int t = 0; t < BST_CONV_N_TYPES; t++) {
        struct tally of = {0};
        for (int b = 0; b < N_BATCHES; b++)
            for (int i = 0; i < n_shapes && in_part((enum bst_conv_type)t, batches[b]) &&
                            (t != BST_CONV_BF16 || has_bf16);
                 i++)
                plan_shape(&shapes[i], (enum bst_conv_type)t, batches[b], &of);
        printf("%s %s: %d graphs accepted, %d of them by fallback; %d with sums, %d without; "
               "largest workspace %.1f MiB\n",
               device, bst_conv_type_name((enum bst_conv_type)t), of.accepted, of.fallback, of.sums,
               of.no_sums, (double)of.most / (1 << 20));
        sum.accepted += of.accepted;
        sum.sums += of.sums;
    }
    bst_conv_planner_count(planner, &asked, &planned);
    printf("%s, cuDNN %s: %d questions, %d of them to cuDNN, %.1f s\n", device,
           bst_conv_planner_cudnn(planner), asked, planned, bst_clock_now() - since);
    int types = (all ? 4 : 3) - !has_bf16;
    assert_int_equal(sum.accepted, types * (all ? N_BATCHES : 2) * (4 * n_shapes - 2));
    assert_true((sum.sums > 0) == has_sums);
}

/* That a refusal is seen as one: T4 has no engine with sums, and nothing takes 48 samples into
 * filters that are larger than the image. */
static void a_refusal_is_an_answer(void **state)
{
    struct bst_conv_ask a = {.pass = BST_CONV_FWD,
                             .type = BST_CONV_BF16,
                             .n = 48,
                             .c = 64,
                             .h = 56,
                             .w = 56,
                             .k = 64,
                             .kernel = 3,
                             .stride = 1,
                             .pad = 1,
                             .sums = true,
                             .workspace_most = -1};
    (void)state;
    a.pass = BST_CONV_FWD;
    a.type = BST_CONV_FP32; /* sums are for tensor cores' types alone */
    assert_false(must_ask(&a).accepted);
    a.sums = false;
    assert_true(must_ask(&a).accepted);
    a.workspace_most = 0;
    a.type = BST_CONV_FP16;
    struct bst_conv_answer small = must_ask(&a);
    assert_true(!small.accepted || small.workspace == 0);
}

/* What was answered is on disk, and is not asked again. */
static void answers_are_kept(void **state)
{
    int asked = 0, planned = 0;
    struct tally t = {0};
    (void)state;
    bst_conv_planner_close(planner);
    assert_int_equal(bst_conv_planner_open(gpu.properties, gpu.n_properties, folder, &planner),
                     BST_OK);
    for (int i = 0; i < n_shapes; i++)
        plan_shape(&shapes[i], BST_CONV_FP16, 256, &t);
    bst_conv_planner_count(planner, &asked, &planned);
    assert_true(asked > 0);
    assert_int_equal(planned, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_graph_has_a_plan),
        cmocka_unit_test(a_refusal_is_an_answer),
        cmocka_unit_test(answers_are_kept),
    };
    if (argc < 3) {
        fprintf(stderr, "usage: graphs_test DEVICE FOLDER [all]\n");
        return 2;
    }
    device = argv[1];
    folder = argv[2];
    all = argc > 3;
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    struct bst_preset_env *env = bst_preset_env_new(&net_table);
    enum bst_err err = bst_gpu_load(env, device, &gpu);
    if (!err)
        err = bst_conv_planner_open(gpu.properties, gpu.n_properties, folder, &planner);
    int failed = err && err != BST_E_LIBRARY;
    if (err)
        printf("skipped: %s\n", bst_err_text());
    else
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    bst_conv_planner_close(planner);
    bst_gpu_fini(&gpu);
    bst_preset_env_free(env);
    return err == BST_E_LIBRARY ? 77 : failed;
}
