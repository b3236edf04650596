/* bench_update NET STEM SIZE CLASSES BATCH K RANKS THREADS UPDATES: where an update's time goes on
 * the cpu backend, through the trainer: instructions, the norms' pass, SGD, the sum over ranks,
 * waiting for data, the rest. Shares are of rank 0's wall time; medians are taken by the caller
 * from the lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/train/train.h"
#include "nets/nets.h"

static struct bst_backend timed;
static const struct bst_backend *real;
/* Seconds of one rank's thread; rank 0 is the one that reads them. */
static _Thread_local struct spent {
    double run, norms, sgd, sum, copy;
} spent;
static struct spent *rank0;

static enum bst_err timed_open(const struct bst_be_cfg *cfg, struct bst_be **out)
{
    if (!cfg->rank)
        rank0 = &spent;
    return real->open(cfg, out);
}

static enum bst_err timed_run(struct bst_be *be, const struct bst_program *p,
                              const struct bst_instr *in, void *const *src, void *const *dst,
                              void *scratch, const struct bst_step *step)
{
    double start = bst_clock_now();
    enum bst_err err = real->run(be, p, in, src, dst, scratch, step);
    spent.run += bst_clock_now() - start;
    return err;
}

static enum bst_err timed_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                              size_t bytes)
{
    double start = bst_clock_now();
    enum bst_err err = real->sum(be, dst, srcs, n_srcs, bytes);
    spent.sum += bst_clock_now() - start;
    return err;
}

static enum bst_err timed_copy(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    double start = bst_clock_now();
    enum bst_err err = real->copy(be, dst, src, bytes);
    spent.copy += bst_clock_now() - start;
    return err;
}

static enum bst_err timed_squares(struct bst_be *be, const void *x, size_t bytes, double *out)
{
    double start = bst_clock_now();
    enum bst_err err = real->sum_squares(be, x, bytes, out);
    spent.norms += bst_clock_now() - start;
    return err;
}

static enum bst_err timed_sgd(struct bst_be *be, const struct bst_sgd *how, void *w, void *v,
                              const void *g, size_t bytes)
{
    double start = bst_clock_now();
    enum bst_err err = real->sgd(be, how, w, v, g, bytes);
    spent.sgd += bst_clock_now() - start;
    return err;
}

static enum bst_err updates(struct bst_trainer *t, int64_t batch, int k, int n)
{
    struct bst_update_req req = {.batch = batch,
                                 .micro_batches = k,
                                 .lr = 0.01,
                                 .momentum = 0.9,
                                 .weight_decay = 1e-4,
                                 .nesterov = true};
    struct bst_update_result r;
    printf("ms run%% norms%% sgd%% sum%% copy%% data%% rest%%\n");
    for (int i = 0; i < n; i++, req.first += (uint64_t)batch) {
        *rank0 = (struct spent){0};
        BST_TRY(bst_trainer_update(t, &req, NULL, &r));
        double s = 100 / r.seconds, in = rank0->run + rank0->norms + rank0->sgd + rank0->sum +
                                         rank0->copy + r.data_wait_seconds;
        printf("%.2f %.2f %.3f %.3f %.3f %.3f %.3f %.3f\n", r.seconds * 1e3, rank0->run * s,
               rank0->norms * s, rank0->sgd * s, rank0->sum * s, rank0->copy * s,
               r.data_wait_seconds * s, (r.seconds - in) * s);
    }
    return BST_OK;
}

static void interpose(void)
{
    real = bst_backend_find("cpu");
    timed = *real;
    timed.open = timed_open;
    timed.run = timed_run;
    timed.sum = timed_sum;
    timed.copy = timed_copy;
    timed.sum_squares = timed_squares;
    timed.sgd = timed_sgd;
}

int main(int argc, char **argv)
{
    if (argc != 10 || !bst_backend_find("cpu")) {
        fprintf(stderr, "bench_update NET STEM SIZE CLASSES BATCH K RANKS THREADS UPDATES\n");
        return 2;
    }
    interpose();
    struct bst_train_cfg cfg = {
        .net = bst_net_find(&net_table, argv[1]),
        .net_cfg = {.name = argv[1],
                    .in_channels = 3,
                    .stem = !strcmp(argv[2], "cifar") ? BST_STEM_CIFAR : BST_STEM_IMAGENET,
                    .height = atoi(argv[3]),
                    .width = atoi(argv[3]),
                    .classes = atoi(argv[4]),
                    .mean = {0.5F, 0.5F, 0.5F},
                    .std = {0.25F, 0.25F, 0.25F}},
        .backend = &timed,
        .ranks = atoi(argv[7]),
        .threads = atoi(argv[8]),
        .data = {.format = "shapes",
                 .image_size = atoi(argv[3]),
                 .channels = 3,
                 .classes = 10,
                 .train_count = 1024,
                 .eval_count = 16},
        .shuffle = true,
    };
    struct bst_trainer *t = NULL;
    enum bst_err err = bst_trainer_open(&cfg, &t);
    if (!err)
        err = updates(t, atoi(argv[5]), atoi(argv[6]), atoi(argv[9]));
    if (err)
        fprintf(stderr, "%s\n", bst_err_text());
    bst_trainer_close(t);
    return err ? 1 : 0;
}
