/* Every graph that the CUDA backend makes of the ResNets, forward and backward, is one that real
 * cuDNN has a plan for: the nets are compiled by the backend itself, for a device that is not here,
 * of which only the properties are known.
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
#include <glob.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "core/backend/plan_for.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "nets/nets.h"
#include "tests/cudnn/planner.h"

enum { N_BATCHES = 6, FILE_BYTES_MAX = 16 << 20 };

static const char *const nets[] = {"resnet18", "resnet34", "resnet50", "resnet101"};
static const int batches[N_BATCHES] = {1, 32, 64, 128, 256, 512};
static void compile_one(struct bst_be *be, const char *name, int batch, bool training)
{
    struct bst_net_cfg cfg = {
        .name = name, .classes = 1000, .in_channels = 3, .height = 224, .width = 224};
    const struct bst_compile_opts o = {.training = training, .accumulate = training};
    struct bst_graph *g = bst_graph_new(batch);
    struct bst_program *p = NULL;
    for (int c = 0; c < 3; c++) {
        cfg.mean[c] = 0.5f;
        cfg.std[c] = 0.5f;
    }
    if (bst_net_find(&net_table, name)->build(&cfg, g) || bst_graph_check(g))
        fail_msg("%s: %s", name, bst_err_text());
    struct bst_param_table *params = bst_param_table_new(g);
    if (bst_compile(g, &planner->describe, be, params, &o, &p))
        fail_msg("%s on %s at %d: %s", name, device, batch, bst_err_text());
    assert_true(p->arena_bytes > 0);
    bst_program_free(p);
    bst_param_table_free(params);
    bst_graph_free(g);
}

static void compile_all(enum bst_precision precision, int batch)
{
    const struct bst_plan_for f = {.properties = gpu.properties,
                                   .n_properties = gpu.n_properties,
                                   .memory = gpu.memory,
                                   .cache = folder};
    const struct bst_be_cfg cfg = {.threads = 1, .precision = precision, .plan_for = &f};
    struct bst_be *be = NULL;
    if (planner->open(&cfg, &be))
        fail_msg("%s", bst_err_text());
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        compile_one(be, nets[i], batch, true);
    compile_one(be, nets[2], batch, false);
    planner->close(be);
}

/* The rest is like one of these, or a soak's. */
static bool in_part(enum bst_precision precision, int batch)
{
    if (!BST_HAS_PRECISION(planner, precision) ||
        (precision == BST_PRECISION_BF16 && gpu.capability < 80))
        return false;
    return all || (precision != BST_PRECISION_TF32 && batch == 256) ||
           (precision == BST_PRECISION_FP32 && batch == 1);
}

/* The one file that the answers for this device are in, heap. */
static char *answers_path(void)
{
    char *pattern = bst_xasprintf("%s/plans-*.txt", folder), *path = NULL;
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    path = bst_xstrdup(found.gl_pathv[0]);
    globfree(&found);
    bst_free(pattern);
    return path;
}

struct tally {
    int accepted, refused, fallback;
    int64_t most; /* workspace of one that the heuristics have */
};

static void count_line(const char *line, const char *type, struct tally *t)
{
    char type_is[8];
    int accepted, fallback;
    int64_t workspace;
    if (sscanf(line, "%*s %7s %*[^=]= %d %d %" SCNd64, type_is, &accepted, &fallback, &workspace) !=
            4 ||
        strcmp(type_is, type) != 0)
        return;
    t->accepted += accepted;
    t->refused += !accepted;
    t->fallback += fallback;
    if (accepted && !fallback && workspace > t->most)
        t->most = workspace;
}

static struct tally tally_of(const char *text, enum bst_precision precision)
{
    struct tally t = {0};
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count_line(line, bst_precision_name(precision), &t);
    }
    return t;
}

static void every_graph_has_a_plan(void **state)
{
    double since = bst_clock_now();
    (void)state;
    for (int k = 0; k < BST_N_PRECISIONS; k++)
        for (int b = 0; b < N_BATCHES; b++)
            if (in_part((enum bst_precision)k, batches[b]))
                compile_all((enum bst_precision)k, batches[b]);
    char *path = answers_path(), *text = NULL;
    size_t n;
    assert_int_equal(bst_io_read_file(path, FILE_BYTES_MAX, &text, &n), BST_OK);
    for (int k = 0; k < BST_N_PRECISIONS; k++) {
        struct tally t = tally_of(text, (enum bst_precision)k);
        int n_batches = 0;
        for (int b = 0; b < N_BATCHES; b++)
            n_batches += in_part((enum bst_precision)k, batches[b]);
        printf("%s %s: %d graphs accepted, %d of them by fallback, %d refused; largest workspace "
               "%.1f MiB\n",
               device, bst_precision_name((enum bst_precision)k), t.accepted, t.fallback, t.refused,
               (double)t.most / (1 << 20));
        /* 29 different convolutions, forward and by both gradients; the image has none. */
        assert_true(t.accepted >= n_batches * (3 * 29 - 1));
    }
    printf("%s: %.1f s\n", device, bst_clock_now() - since);
    bst_free(text);
    bst_free(path);
}

/* What was answered is on disk, and is not asked again: nothing is new, and the file is left. */
static void answers_are_kept(void **state)
{
    struct stat before, after;
    char *path = answers_path();
    (void)state;
    assert_int_equal(stat(path, &before), 0);
    compile_all(BST_PRECISION_FP32, 256);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    bst_free(path);
}

static int run_group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_graph_has_a_plan),
        cmocka_unit_test(answers_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return with_planner(argc, argv, run_group);
}
