/* The shipped nets over sequences, made small, train on virtual devices: the loss falls where there
 * is something to learn, ranks have the same bits, and two devices learn what one does. Heads are
 * 64 wide, so that in 16 bits attention is cuDNN's, and dropout's masks are drawn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/nets.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

enum { UPDATES = 15, SHARE = 4, BATCH = 24, WIDTH = 128, MEMORY = 256 << 20 };

struct kind {
    const char *net, *format;
    double dropout;
    bool learns; /* there is something to learn in so few updates */
};
static const struct kind kinds[] = {{"gpt", "reverse", 0, true},
                                    {"bert", "random", 0.1, false},
                                    {"transformer", "copy", 0.1, true}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static struct bst_trainer *open_on(int ranks, const struct kind *k, enum bst_precision precision)
{
    struct bst_train_cfg cfg = train_cfg(bst_net_find(&net_table, k->net), "cuda");
    struct fake_settings s;

    fake_settings_env(&s);
    s.devices = ranks;
    s.seed = (uint64_t)ranks - 1; /* of several devices, streams in another order each time */
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        s.mem_bytes[i] = MEMORY;
    fake_reset(&s);
    cfg.net_cfg = (struct bst_net_cfg){.name = k->net,
                                       .base_width = WIDTH,
                                       .layers = 1,
                                       .heads = 2,
                                       .hidden = WIDTH,
                                       .dropout = k->dropout};
    cfg.data = (struct bst_data_cfg){
        .format = k->format, .length = 12, .train_count = 240, .eval_count = 16, .bucket = true};
    cfg.ranks = ranks;
    cfg.precision = precision;
    cfg.optim.kind = BST_OPTIMIZER_ADAMW;
    return train_open(&cfg);
}

/* Mean losses of the first and of the last updates. */
static void train_on(int ranks, const struct kind *k, enum bst_precision precision, double mean[2])
{
    struct bst_trainer *t = open_on(ranks, k, precision);

    mean[0] = mean[1] = 0;
    for (int u = 0; u < UPDATES; u++) {
        struct bst_update_req req = train_req((uint64_t)u * BATCH, BATCH, 1);
        struct bst_update_result r;

        req.lr = 0.003;
        req.label_smoothing = 0;
        ok(bst_trainer_update(t, &req, NULL, &r));
        mean[0] += u < SHARE ? r.loss / SHARE : 0;
        mean[1] += u >= UPDATES - SHARE ? r.loss / SHARE : 0;
    }
    ok(bst_trainer_compare_ranks(t));
    bst_trainer_close(t);
    assert_int_equal(fake_leaks(), 0);
}

static void train_both_ways(enum bst_precision precision, double allowed)
{
    for (int i = 0; i < N_KINDS; i++) {
        double one[2], two[2];

        train_on(1, &kinds[i], precision, one);
        train_on(2, &kinds[i], precision, two);
        printf("%s %s: loss %.4f, then %.4f; on two devices %.4f, then %.4f\n", kinds[i].net,
               bst_precision_name(precision), one[0], one[1], two[0], two[1]);
        assert_true(!kinds[i].learns || (one[1] < 0.9 * one[0] && two[1] < 0.9 * two[0]));
        /* What is dropped does not depend on the split. */
        assert_true(fabs(two[0] - one[0]) < allowed * one[0]);
        assert_true(fabs(two[1] - one[1]) < allowed * one[1]);
    }
}

static void in_fp32(void **state)
{
    (void)state;
    train_both_ways(BST_PRECISION_FP32, 2e-3);
}

static void in_bf16(void **state)
{
    (void)state;
    train_both_ways(BST_PRECISION_BF16, 3e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_fp32), cmocka_unit_test(in_bf16)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
