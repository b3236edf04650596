/* bench_train NET STEM CHANNELS SIZE CLASSES BATCH THREADS: trains on one generated batch, on
 * command. A line on standard input is "full N", "ceiling N" (nothing but convolutions and fc) or
 * "rss"; the answer is one line: seconds for the N updates, or the process's peak resident bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "tests/bench/rig.h"

/* What the trainer does in an update: both passes, the gradient's norm, SGD. */
static enum bst_err updates(struct rig *r, int n, bool ceiling)
{
    double squares;

    r->step.only_matmul = ceiling;
    for (int i = 0; i < n; i++) {
        BST_TRY(rig_pass(r));
        if (ceiling)
            continue;
        BST_TRY(
            r->b->sum_squares(r->be, r->m.base[BST_MEM_GRAD], r->params->trained_bytes, &squares));
        BST_TRY(rig_update(r));
    }
    return BST_OK;
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
    start = bst_clock_now();
    BST_TRY(updates(r, n, strcmp(what, "ceiling") == 0));
    printf("%.9f\n", bst_clock_now() - start);
    return BST_OK;
}

static struct rig_cfg configuration(char **argv)
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

int main(int argc, char **argv)
{
    char line[64];
    struct rig_cfg cfg;
    struct rig r;

    if (argc != 8) {
        fprintf(stderr, "usage: bench_train NET STEM CHANNELS SIZE CLASSES BATCH THREADS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    cfg = configuration(argv);
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
