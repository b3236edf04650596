/* The attention of the shipped presets over sequences, as the CUDA backend asks real cuDNN for it,
 * for a device that is not here: what has a plan, and that what has none goes another way.
 *
 *     attention_test DEVICE FOLDER [all]    FOLDER keeps the answers; all: every length and batch
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

#include "core/backend/plan_for.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "nets/nets.h"
#include "tests/cudnn/planner.h"

enum { FILE_BYTES_MAX = 16 << 20 };

struct net { /* one layer: the others are like it */
    const char *name;
    int vocabulary, streams;
    double dropout;
    int lengths[4], batches[3]; /* the first of each is the preset's own */
    int shapes;                 /* different attentions */
    const char *devices;        /* that ask for it here; a soak asks for all */
};
static const struct net nets[] = {
    {"gpt", 50257, 1, 0, {1024, 128, 512, 2048}, {8, 1, 32}, 1, "a100 h100 b200"},
    {"bert", 30522, 2, 0.1, {128, 64, 256, 512}, {32, 1, 64}, 1, "t4 l40 h200"},
    {"transformer", 37000, 2, 0.1, {512, 24, 64, 128}, {16, 1, 64}, 3, ""},
};
enum { N_NETS = sizeof nets / sizeof nets[0] };

static void compile_one(struct bst_be *be, const struct net *n, int length, int batch)
{
    const struct bst_net_cfg cfg = {
        .name = n->name,
        .classes = n->vocabulary,
        .length = {length, n->streams > 1 ? length : 0},
        .layers = 1,
        .positions = strcmp(n->name, "transformer") != 0 ? 2048 : 0,
        .dropout = n->dropout,
    };
    const struct bst_compile_opts o = {.training = true, .accumulate = true};
    struct bst_graph *g = bst_graph_new(batch);
    struct bst_program *p = NULL;

    if (bst_net_find(&net_table, n->name)->build(&cfg, g) || bst_graph_check(g))
        fail_msg("%s: %s", n->name, bst_err_text());
    struct bst_param_table *params = bst_param_table_new(g);
    if (bst_compile(g, &planner->describe, be, params, &o, &p))
        fail_msg("%s on %s, %d of %d: %s", n->name, device, batch, length, bst_err_text());
    bst_program_free(p);
    bst_param_table_free(params);
    bst_graph_free(g);
}

/* Returns how many attentions there are, forward and backward. */
static int compile_all(enum bst_precision precision)
{
    const struct bst_plan_for f = {.properties = gpu.properties,
                                   .n_properties = gpu.n_properties,
                                   .memory = gpu.memory,
                                   .cache = folder};
    const struct bst_be_cfg cfg = {.threads = 1, .precision = precision, .plan_for = &f};
    struct bst_be *be = NULL;
    int n = 0;

    if (planner->open(&cfg, &be))
        fail_msg("%s", bst_err_text());
    for (int i = 0; i < N_NETS; i++)
        for (int l = 0; l < (all ? 4 : 1) && (all || strstr(nets[i].devices, device)); l++)
            for (int b = 0; b < (all ? 3 : 1); b++) {
                compile_one(be, &nets[i], nets[i].lengths[l], nets[i].batches[b]);
                n += 2 * nets[i].shapes;
            }
    planner->close(be);
    return n;
}

struct tally {
    int accepted, refused;
    int64_t most; /* workspace */
};

static void count_line(const char *line, const char *type, struct tally *t)
{
    char op[24], type_is[8];
    int accepted;
    int64_t workspace;

    if (sscanf(line, "%23s %7s %*[^=]= %d %*d %" SCNd64, op, type_is, &accepted, &workspace) != 4 ||
        strncmp(op, "attn", 4) != 0 || strcmp(type_is, type) != 0)
        return;
    t->accepted += accepted;
    t->refused += !accepted;
    if (accepted && workspace > t->most)
        t->most = workspace;
}

static struct tally tally_of(enum bst_precision precision)
{
    char *pattern = bst_xasprintf("%s/plans-*.txt", folder), *text = NULL;
    struct tally t = {0};
    glob_t found;
    size_t n;

    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(bst_io_read_file(found.gl_pathv[0], FILE_BYTES_MAX, &text, &n), BST_OK);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count_line(line, bst_precision_name(precision), &t);
    }
    bst_free(text);
    globfree(&found);
    bst_free(pattern);
    return t;
}

/* cuDNN fuses attention from Ampere on; before, all of it is refused, and goes by tiles. */
static void every_attention_has_a_way(void **state)
{
    static const enum bst_precision types[] = {BST_PRECISION_BF16, BST_PRECISION_FP16};
    const double since = bst_clock_now();

    (void)state;
    for (int k = 0; k < 2; k++) {
        if (types[k] == BST_PRECISION_BF16 && gpu.capability < 80)
            continue;
        if (types[k] == BST_PRECISION_FP16 && gpu.capability >= 80 && !all)
            continue;
        const int n = compile_all(types[k]);
        const struct tally t = tally_of(types[k]);
        printf("%s %s: %d attentions fused, %d refused; largest workspace %.1f MiB\n", device,
               bst_precision_name(types[k]), t.accepted, t.refused, (double)t.most / (1 << 20));
        if (gpu.capability >= 80)
            assert_true(t.accepted >= n && !t.refused);
        else
            assert_true(t.refused >= n && !t.accepted);
    }
    printf("%s: %.1f s\n", device, bst_clock_now() - since);
}

static int run_group(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_attention_has_a_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return with_planner(argc, argv, run_group);
}
