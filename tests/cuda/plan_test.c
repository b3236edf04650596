/* What is planned for a GPU that is not here is what a run there takes, to the byte. The two
 * contexts are the backend's own, one opened with the properties of the fake device as text, the
 * other on the fake device itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cuda/cuda.h"
#include "core/backend/cuda/dnn_graph.h"
#include "core/backend/plan_for.h"
#include "core/base/alloc.h"
#include "core/base/sb.h"
#include "nets/nets.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

static char *properties; /* of the fake device, heap */

static const struct bst_plan_for *the_device(void)
{
    static struct bst_plan_for f;
    cudnnHandle_t handle = NULL;
    cudnnBackendDescriptor_t d = NULL;

    if (properties)
        return &f;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    ok(cuda_dnn_device_of(handle, &d));
    ok(cuda_dnn_device_json(d, &properties));
    cuda_dnn_device_free(d);
    cudnnDestroy(handle);
    f = (struct bst_plan_for){
        .properties = properties, .n_properties = strlen(properties), .cache = ""};
    return &f;
}

struct net {
    const char *name;
    int width, size, channels;
};

static const struct net nets[] = {
    {"resnet8", 0, 28, 1}, {"resnet18", 8, 32, 3}, {"resnet50", 8, 40, 3}};
enum { N_NETS = sizeof nets / sizeof nets[0] };

static struct bst_net_cfg net_cfg(const struct net *n)
{
    struct bst_net_cfg c = {.name = n->name,
                            .base_width = n->width,
                            .classes = 10,
                            .in_channels = n->channels,
                            .height = n->size,
                            .width = n->size};
    for (int i = 0; i < n->channels; i++) {
        c.mean[i] = 0.3F;
        c.std[i] = 0.25F;
    }
    return c;
}

/* With heads that cuDNN takes in 16 bits, and such as it does not. */
static const struct bst_net_cfg seqs[] = {
    {.name = "gpt", .base_width = 128, .layers = 2, .heads = 2, .length = {17}},
    {.name = "bert",
     .base_width = 128,
     .layers = 2,
     .heads = 2,
     .length = {24, 24},
     .dropout = 0.1},
    {.name = "transformer", .base_width = 36, .layers = 1, .heads = 2, .length = {9, 17}},
};
enum { N_SEQS = sizeof seqs / sizeof seqs[0] };

/* The compiled program with layouts, bytes and places, as text. */
static void listing(const struct bst_net_cfg *c, const struct bst_plan_for *plan_for,
                    enum bst_precision precision, int micro, bool training, struct bst_sb *out)
{
    const struct bst_backend *b = bst_backend_find("cuda");
    const struct bst_be_cfg cfg = {.threads = 1, .precision = precision, .plan_for = plan_for};
    const struct bst_compile_opts o = {.training = training, .accumulate = training};
    struct bst_graph *g = bst_graph_new(micro);
    struct bst_program *p = NULL;
    struct bst_be *be = NULL;

    ok(b->open(&cfg, &be));
    ok(bst_net_find(&net_table, c->name)->build(c, g));
    struct bst_param_table *params = bst_param_table_new(g);
    ok(bst_compile(g, &b->describe, be, params, &o, &p));
    bst_sb_clear(out);
    bst_program_print(p, out);
    bst_sb_addf(out, "trained %zu, state %zu\n", params->trained_bytes, params->state_bytes);
    bst_program_free(p);
    bst_param_table_free(params);
    bst_graph_free(g);
    b->close(be);
}

static void programs_are_the_same(void **state)
{
    static const int micros[] = {2, 3, 17};
    struct bst_sb here, there;

    (void)state;
    bst_sb_init(&here, 8 << 20);
    bst_sb_init(&there, 8 << 20);
    for (int k = 0; k < BST_N_PRECISIONS; k++) {
        for (int i = 0; i < 2 * 3 * (N_NETS + N_SEQS) && BST_HAS_PRECISION(&bst_backend_cuda, k);
             i++) {
            const int at = i / 6, micro = micros[i / 2 % 3];
            const struct bst_net_cfg c = at < N_NETS ? net_cfg(&nets[at]) : seqs[at - N_NETS];

            listing(&c, NULL, (enum bst_precision)k, micro, i % 2, &here);
            listing(&c, the_device(), (enum bst_precision)k, micro, i % 2, &there);
            assert_true(here.len > 1000 && !here.full);
            if (strcmp(here.data, there.data))
                fail_msg("%s, %s, micro-batch %d: planned\n%s\nhere\n%s", c.name,
                         bst_precision_name((enum bst_precision)k), micro, there.data, here.data);
        }
    }
    bst_sb_fini(&here);
    bst_sb_fini(&there);
}

static size_t held(void)
{
    struct fake_counts c;

    fake_counts_get(&c);
    return c.device_bytes[0];
}

/* What a context takes for itself, whatever it runs. */
static size_t of_a_context(void)
{
    const struct bst_backend *b = bst_backend_find("cuda");
    const struct bst_be_cfg cfg = {.threads = 1};
    struct bst_be *be = NULL;

    ok(b->open(&cfg, &be));
    const size_t bytes = held();
    b->close(be);
    return bytes;
}

/* The device gives memory in pieces of 512 bytes. */
static size_t piece(uint64_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static size_t pieces_of(const struct bst_rank_memory *m)
{
    return 2 * piece(m->weights) + piece(m->gradients) + 2 * piece(m->optimizer) +
           piece(m->staged) + piece(m->arena) + piece(m->loader);
}

/* What an update's end keeps on the device beside: some bytes for each parameter, and for each of
 * the spans that their groups make of them. */
static bool is_room_of_an_update(size_t bytes, int n_params)
{
    const struct bst_backend *b = bst_backend_find("cuda");
    const struct bst_be_cfg cfg = {.threads = 1};
    struct bst_be *be = NULL;
    bool found = false;

    ok(b->open(&cfg, &be));
    const size_t before = held();
    for (int n_spans = 1; n_spans <= n_params && !found; n_spans++) {
        ok(b->commit_room(be, n_params, n_spans));
        found = held() - before == bytes;
    }
    b->close(be);
    return found;
}

static void planned_is_taken(const struct bst_train_cfg *cfg, int batch, int k)
{
    struct bst_train_cfg there = *cfg;
    struct bst_rank_memory plan;
    struct bst_eval_result e;
    const size_t own = of_a_context();
    int n_params = 0;

    there.plan_only = true;
    there.plan_for = the_device();
    struct bst_trainer *t = train_open(&there);
    ok(bst_trainer_plan(t, batch, k, &plan));
    bst_trainer_close(t);
    t = train_open(cfg);
    ok(bst_trainer_set_split(t, batch, k, NULL));
    ok(bst_trainer_eval(t, NULL, &e));
    assert_int_equal(plan.weights + plan.gradients + plan.optimizer + plan.staged + plan.hold +
                         plan.arena + plan.loader,
                     plan.total);
    assert_int_equal(plan.hold, plan.weights + plan.optimizer);
    const size_t taken = held() - own;
    train_some(t, 3, batch, k);
    ok(bst_trainer_eval(t, NULL, &e));
    assert_int_equal(held() - own, taken);
    bst_trainer_layers(t, &n_params);
    bst_trainer_close(t);
    if (!is_room_of_an_update(taken - pieces_of(&plan), n_params))
        fail_msg("%s, %s, batch %d in %d: planned %zu bytes, taken %zu", cfg->net->name,
                 bst_precision_name(cfg->precision), batch, k, pieces_of(&plan), taken);
}

static void bytes_planned_are_bytes_taken(void **state)
{
    (void)state;
    for (int k = 0; k < BST_N_PRECISIONS; k++) {
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");

        if (!BST_HAS_PRECISION(&bst_backend_cuda, k))
            continue;
        cfg.precision = (enum bst_precision)k;
        cfg.memory_per_rank = 48 << 20;
        planned_is_taken(&cfg, 7, 1);
        planned_is_taken(&cfg, 24, 3);
        const struct net *n = &nets[0];
        cfg.net = bst_net_find(&net_table, n->name);
        cfg.net_cfg = net_cfg(n);
        cfg.net_cfg.classes = 10;
        cfg.data.image_size = n->size;
        cfg.data.classes = 10;
        planned_is_taken(&cfg, 17, 1);
    }
}

static void a_planning_context_needs_no_device(void **state)
{
    struct fake_settings none;
    struct bst_sb text;

    (void)state;
    the_device();
    fake_settings_env(&none);
    none.devices = 0;
    fake_reset(&none);
    bst_sb_init(&text, 8 << 20);
    const struct bst_net_cfg c = net_cfg(&nets[0]);
    listing(&c, the_device(), BST_PRECISION_FP32, 2, true, &text);
    assert_true(text.len > 1000);
    bst_sb_fini(&text);
    fake_reset(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_the_same),
        cmocka_unit_test(bytes_planned_are_bytes_taken),
        cmocka_unit_test(a_planning_context_needs_no_device),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    bst_free(properties);
    return failed;
}
