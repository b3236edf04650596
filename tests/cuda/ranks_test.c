/* The trainer on the CUDA backend over virtual devices: test_cuda_ranks cuda WHAT
 *
 * - free: 50 updates of resnet8 on 1, 2, 4 and 8 devices; ranks have the same bits, the loss falls,
 *   and it falls alike.
 *
 * - orders N: N orders of the streams' work, as far as events allow, half of them with captured
 *   stretches, give the same bits.
 *
 * Numbers beside PyTorch's are parity_test.c's (net.ranks.cuda.states). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/nets.h"
#include "tests/fakes/fake.h"
#include "tests/net/parity.h"

enum {
    FREE_BATCH = 32,
    FREE_UPDATES = 50,
    ORDER_UPDATES = 3, /* one as it comes, one captured, one from what was captured */
};

static const int rank_counts[] = {1, 2, 4, 8};

static void devices(int n, uint64_t seed)
{
    struct fake_settings s;

    fake_settings_env(&s);
    s.devices = n;
    s.seed = seed;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        s.mem_bytes[i] = (size_t)256 << 20;
    fake_reset(&s);
}

static int leaks(const char *what)
{
    const long n = fake_leaks();

    if (n)
        printf("%s: %ld objects are left alive\n", what, n);
    return n != 0;
}

/* On generated images, which are at hand at once. */
static struct bst_trainer *open_free(int ranks, uint64_t seed, bool captures)
{
    const struct bst_train_cfg cfg = {
        .net = bst_net_find(&net_table, "resnet8"),
        .net_cfg = {.name = "resnet8", .base_width = 8, .mean = {0.3F}, .std = {0.25F}},
        .backend = bst_backend_find("cuda"),
        .ranks = ranks,
        .threads = 1,
        .data = {.format = "shapes",
                 .image_size = 12,
                 .classes = 4,
                 .channels = 1,
                 .train_count = 320,
                 .eval_count = 16,
                 .seed = 3},
        .shuffle = true,
        .seed = 1,
        .eval_batch = 16,
        .capture = captures,
    };
    struct bst_trainer *t = NULL;

    devices(ranks, seed);
    parity_must(bst_trainer_open(&cfg, &t), "open");
    return t;
}

static double free_update(struct bst_trainer *t, int u)
{
    const struct bst_update_req req = {
        .first = (uint64_t)u * FREE_BATCH,
        .batch = FREE_BATCH,
        .micro_batches = 1,
        .lr = 0.05,
        .momentum = 0.9,
        .weight_decay = 5e-4,
        .nesterov = true,
        .max_grad_norm = 1,
        .update = (uint64_t)u + 1,
    };
    struct bst_update_result r;

    parity_must(bst_trainer_update(t, &req, NULL, &r), "update");
    return r.loss;
}

/* Mean losses of the first and of the last fifth. */
static int free_run(int ranks, double mean[2])
{
    char what[40];

    snprintf(what, sizeof what, "%d devices", ranks);
    struct bst_trainer *t = open_free(ranks, 0, false);
    mean[0] = mean[1] = 0;
    for (int u = 0; u < FREE_UPDATES; u++) {
        const double loss = free_update(t, u);

        if (u < FREE_UPDATES / 5)
            mean[0] += loss / (FREE_UPDATES / 5);
        if (u >= FREE_UPDATES - FREE_UPDATES / 5)
            mean[1] += loss / (FREE_UPDATES / 5);
    }
    parity_must(bst_trainer_compare_ranks(t), what);
    bst_trainer_close(t);
    printf("%s: loss %.4f, after %d updates %.4f\n", what, mean[0], FREE_UPDATES, mean[1]);
    return !(mean[1] < 0.9 * mean[0]) + leaks(what);
}

static int run_free(void)
{
    double first[2], mean[2];
    int failures = free_run(rank_counts[0], first);

    for (int i = 1; i < 4; i++) {
        failures += free_run(rank_counts[i], mean);
        /* Batch norm sees a rank's part, so that runs are alike, not the same. */
        failures += !(fabs(mean[1] - first[1]) < 0.2 * first[1]);
    }
    return failures;
}

static uint32_t hash_of(int ranks, uint64_t seed, bool captures)
{
    struct bst_trainer *t = open_free(ranks, seed, captures);
    uint32_t hash = 0;

    for (int u = 0; u < ORDER_UPDATES; u++)
        free_update(t, u);
    parity_must(bst_trainer_compare_ranks(t), "ranks");
    parity_must(bst_trainer_hash(t, &hash), "hash");
    bst_trainer_close(t);
    return hash;
}

static int orders(int n)
{
    uint32_t want[4];
    int failures = 0;

    for (int i = 0; i < 4; i++)
        want[i] = hash_of(rank_counts[i], 0, false);
    for (int seed = 1; seed <= n; seed++) {
        const int i = seed % 4;
        const uint32_t got = hash_of(rank_counts[i], (uint64_t)seed, seed / 4 % 2 == 1);

        if (got != want[i])
            printf("seed %d on %d devices: state %08x, not %08x\n", seed, rank_counts[i], got,
                   want[i]);
        failures += got != want[i] || leaks("orders");
    }
    printf("%d orders, %d failure(s)\n", n, failures);
    return failures;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "free"))
        return run_free() ? 1 : 0;
    if (!strcmp(what, "orders") && argc > 3)
        return orders(atoi(argv[3])) ? 1 : 0;
    fprintf(stderr, "test_cuda_ranks cuda free|orders N\n");
    return 2;
}
