/* bench_train NET STEM CHANNELS SIZE CLASSES BATCH THREADS, or
 * bench_train gpt LAYERS WIDTH HEADS LENGTH VOCABULARY BATCH THREADS: trains on one generated
 * batch, on command; images with SGD, sequences with AdamW. A line on standard input is "full N",
 * "ceiling N" (nothing but convolutions and linear layers), "profile N" or "rss". The answer is one
 * line: seconds for the N updates; milliseconds of processor time by kind of instruction, the least
 * of N for each instruction; or the process's peak resident bytes. With BENCH_CLOCK=processor
 * seconds are those of all its threads together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "tests/bench/rig.h"

/* What follows both passes: the gradient's norm, the optimizer. */
static enum bst_err commit(struct rig *r)
{
    double squares;

    BST_TRY(r->b->sum_squares(r->be, r->m.base[BST_MEM_GRAD], r->params->trained_bytes, &squares));
    return rig_update(r);
}

static enum bst_err updates(struct rig *r, int n, bool ceiling)
{
    r->step.only_matmul = ceiling;
    for (int i = 0; i < n; i++) {
        BST_TRY(rig_pass(r));
        if (!ceiling)
            BST_TRY(commit(r));
    }
    return BST_OK;
}

/* Of all threads: what else the machine does moves it little. */
static double processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    const char *clock = getenv("BENCH_CLOCK");

    return clock && strcmp(clock, "processor") == 0 ? processor_time() : bst_clock_now();
}

static double least(double best, double seconds)
{
    return best == 0 || seconds < best ? seconds : best;
}

/* best[n_instrs]: what comes behind them. */
static enum bst_err time_instructions(struct rig *r, double *best)
{
    int n = r->program->n_instrs;
    double start;

    r->result = (struct bst_step_result){0};
    for (int i = 0; i < n; i++) {
        start = processor_time();
        BST_TRY(bst_program_run(r->b, r->program, &r->m, &r->step, i, i + 1, NULL));
        best[i] = least(best[i], processor_time() - start);
    }
    start = processor_time();
    BST_TRY(commit(r));
    best[n] = least(best[n], processor_time() - start);
    return BST_OK;
}

static enum bst_err profile(struct rig *r, int updates)
{
    int n = r->program->n_instrs;
    double *best = bst_xcalloc((size_t)n + 1, sizeof *best), by_op[BST_I_N_OPS] = {0};
    enum bst_err err = BST_OK;

    r->step.only_matmul = false;
    for (int i = 0; i < updates && !err; i++)
        err = time_instructions(r, best);
    for (int i = 0; i < n; i++)
        by_op[r->program->instrs[i].op] += best[i];
    for (int op = 0; op < BST_I_N_OPS && !err; op++)
        if (by_op[op] > 0)
            printf("%s %.2f ", bst_instr_op_name(op), by_op[op] * 1e3);
    if (!err)
        printf("commit %.2f\n", best[n] * 1e3);
    bst_free(best);
    return err;
}

static enum bst_err answer(struct rig *r, const char *line)
{
    struct rusage use;
    char what[16];
    int n = 0;
    double start;

    if (strncmp(line, "rss", 3) == 0) {
        getrusage(RUSAGE_SELF, &use);
        printf("%lld\n", (long long)use.ru_maxrss * 1024);
        return BST_OK;
    }
    if (sscanf(line, "%15s %d", what, &n) != 2)
        return bst_fail(BST_E_ARG, "not a command: %s", line);
    if (strcmp(what, "profile") == 0)
        return profile(r, n);
    start = now();
    BST_TRY(updates(r, n, strcmp(what, "ceiling") == 0));
    printf("%.9f\n", now() - start);
    return BST_OK;
}

static struct rig_cfg of_images(char **argv)
{
    struct rig_cfg c = {.backend = "cpu", .opts = {.training = true}, .seed = 1};

    c.net.name = argv[1];
    c.net.stem = strcmp(argv[2], "cifar") == 0      ? BST_STEM_CIFAR
                 : strcmp(argv[2], "imagenet") == 0 ? BST_STEM_IMAGENET
                                                    : BST_STEM_DEFAULT;
    c.net.in_channels = atoi(argv[3]);
    c.net.height = c.net.width = atoi(argv[4]);
    c.net.classes = atoi(argv[5]);
    c.batch = atoi(argv[6]);
    c.threads = atoi(argv[7]);
    for (int i = 0; i < 4; i++) {
        c.net.mean[i] = 0.5f;
        c.net.std[i] = 0.25f;
    }
    return c;
}

static struct rig_cfg of_sequences(char **argv)
{
    struct rig_cfg c = {
        .backend = "cpu", .opts = {.training = true}, .optimizer = BST_OPTIMIZER_ADAMW, .seed = 1};

    c.net.name = argv[1];
    c.net.layers = atoi(argv[2]);
    c.net.base_width = atoi(argv[3]);
    c.net.heads = atoi(argv[4]);
    c.net.length[0] = c.net.positions = atoi(argv[5]);
    c.net.classes = atoi(argv[6]);
    c.batch = atoi(argv[7]);
    c.threads = atoi(argv[8]);
    return c;
}

int main(int argc, char **argv)
{
    char line[64];
    struct rig_cfg cfg;
    struct rig r;

    if (argc != 8 && argc != 9) {
        fprintf(stderr, "usage: bench_train NET STEM CHANNELS SIZE CLASSES BATCH THREADS\n"
                        "       bench_train gpt LAYERS WIDTH HEADS LENGTH VOCABULARY BATCH "
                        "THREADS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    cfg = argc == 8 ? of_images(argv) : of_sequences(argv);
    if (rig_open(&r, &cfg))
        goto failed;
    printf("ready\n");
    while (fgets(line, sizeof line, stdin))
        if (answer(&r, line))
            goto failed;
    rig_close(&r);
    return 0;
failed:
    fprintf(stderr, "bench_train: %s\n", bst_err_text());
    return 1;
}
