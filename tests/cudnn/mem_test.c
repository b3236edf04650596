/* `bstune mem --device` against what is known without it: the parts make the total, the batch and
 * the type move what they should, known sizes come out. argv[1] keeps cuDNN's answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/plan_for.h"
#include "core/run/mem.h"
#include "nets/nets.h"

static struct bst_preset_env *env;
static struct bst_preset_errors errs;
static const char *folder;

static struct bst_mem_report *report(const struct bst_mem_cfg *how)
{
    struct bst_mem_cfg cfg = *how;
    struct bst_mem_report *r = NULL;
    cfg.presets = env;
    cfg.nets = &net_table;
    if (!cfg.preset)
        cfg.preset = "resnet50-256";
    if (bst_mem_make(&cfg, &r, &errs))
        fail_msg("%s", bst_err_text());
    return r;
}

static uint64_t parts(const struct bst_mem_row *r)
{
    return r->parameters + r->gradients + r->optimizer + r->rewind + r->activations +
           r->recomputation + r->data + r->workspace;
}

/* ResNet-50 keeps the outputs of its 53 convolutions, and what batch norms make of them but for the
 * four in front of an addition, and the pooling's: 20.9 million numbers an image of 224x224, by
 * hand from the table in He et al. 2015; a few are gone already where most is in use. */
static void sizes_are_those_of_the_net(void **state)
{
    static const char *const types[] = {"fp32", "fp16"};
    static const uint64_t batches[] = {32, 64};
    const struct bst_mem_cfg cfg = {.device = "a100",
                                    .batches = batches,
                                    .n_batches = 2,
                                    .precisions = types,
                                    .n_precisions = 2};
    (void)state;
    struct bst_mem_report *r = report(&cfg);
    assert_string_equal(r->device, "NVIDIA A100 SXM4, 80 GB HBM2e");
    assert_int_equal(r->n_rows, 4);
    for (int i = 0; i < r->n_rows; i++) {
        const struct bst_mem_row *row = &r->rows[i];
        double numbers = (double)row->activations / (double)row->batch / (i < 2 ? 4 : 2);
        assert_true(row->known && row->fits);
        assert_int_equal(parts(row), row->total);
        assert_true(numbers > 20e6 && numbers < 21.4e6);
        /* Masters, their gradients and momenta are fp32 whatever the type; statistics twice. */
        assert_true(row->gradients >= 25557032 * 4u && row->gradients < 25557032 * 4.01);
        assert_int_equal(row->optimizer, row->gradients);
        assert_true(row->parameters > row->gradients && row->parameters < row->gradients * 1.01);
        /* Two batches on the device, with labels and numbers of their samples. */
        assert_true(row->data >= 2 * row->batch * (224 * 224 * 3 + 12) &&
                    row->data < 2 * row->batch * (224 * 224 * 3 + 12) + 1024);
        assert_true(row->host > row->batch * 3 * 224 * 224 * 3);
        assert_string_equal(row->precision, types[i / 2]);
    }
    /* Twice the batch, about twice the activations: most need not be in use at the same place. */
    for (int i = 0; i < 4; i += 2) {
        double twice = (double)r->rows[i + 1].activations / (double)r->rows[i].activations;
        assert_true(twice > 1.96 && twice < 2.04);
    }
    bst_mem_free(r);
}

/* GPT-2 in fp32 keeps 16 rows of its width a block and token: what enters, both norms' results,
 * queries, keys and values, attention's result, the sum behind it, and four each before and behind
 * the GELU; at the end two more and the logits, whose gradients take their place. Beside these two
 * numbers a norm's row and one a head's. */
static void a_gpt_keeps_what_its_layers_read(void **state)
{
    enum { WIDTH = 768, BLOCKS = 12, HEADS = 12, VOCABULARY = 50257, LENGTH = 1024 };
    static const uint64_t batches[] = {4, 8};
    static const char *const types[] = {"fp32"};
    const uint64_t numbers = BLOCKS * (16 * WIDTH + HEADS) + 2 * WIDTH + VOCABULARY +
                             2 * (2 * BLOCKS + 1),
                   parameters = 124439808;
    const struct bst_mem_cfg cfg = {.preset = "gpt2-124m",
                                    .device = "a100",
                                    .batches = batches,
                                    .n_batches = 2,
                                    .precisions = types,
                                    .n_precisions = 1};
    (void)state;
    struct bst_mem_report *r = report(&cfg);
    assert_int_equal(r->n_rows, 2);
    for (int i = 0; i < 2; i++) {
        const struct bst_mem_row *row = &r->rows[i];
        assert_true(row->known && row->fits);
        assert_int_equal(row->activations, batches[i] * LENGTH * numbers * 4);
        assert_int_equal(parts(row), row->total);
        assert_true(row->gradients >= parameters * 4 && row->gradients < parameters * 4 * 1.001);
        assert_int_equal(row->optimizer, 2 * row->gradients);
        assert_int_equal(row->parameters, row->gradients);
    }
    bst_mem_free(r);
}

static void the_largest_is_the_last_that_fits(void **state)
{
    static const char *const types[] = {"fp16"};
    uint64_t beside[2];
    struct bst_mem_cfg cfg = {
        .device = "t4", .precisions = types, .n_precisions = 1, .capacity = (uint64_t)4 << 30};
    (void)state;
    struct bst_mem_report *r = report(&cfg);
    beside[0] = r->largest[0].batch;
    beside[1] = beside[0] + 1;
    assert_true(r->largest[0].total <= cfg.capacity);
    bst_mem_free(r);
    cfg.batches = beside;
    cfg.n_batches = 2;
    r = report(&cfg);
    assert_true(r->rows[0].fits && !r->rows[1].fits);
    bst_mem_free(r);
}

/* Recomputation on demand keeps to the GPU's memory, not to this machine's. */
static void recomputation_goes_by_the_gpu(void **state)
{
    static const char *const types[] = {"fp32"}, *const ways[] = {"none", "auto"};
    static const uint64_t batches[] = {256};
    const struct bst_mem_cfg cfg = {.device = "t4",
                                    .precisions = types,
                                    .n_precisions = 1,
                                    .recomputes = ways,
                                    .n_recomputes = 2,
                                    .batches = batches,
                                    .n_batches = 1};
    (void)state;
    struct bst_mem_report *r = report(&cfg);
    assert_false(r->rows[0].fits);
    assert_true(r->rows[1].fits && r->rows[1].n_again > 0);
    assert_true(r->rows[1].total <= r->capacity);
    bst_mem_free(r);
}

/* What was asked before comes from disk, and gives the same plan. */
static void answers_from_disk_are_the_same(void **state)
{
    static const char *const types[] = {"fp16"};
    static const uint64_t batches[] = {32, 64};
    struct bst_mem_cfg cfg = {.device = "a100",
                              .batches = batches,
                              .n_batches = 2,
                              .precisions = types,
                              .n_precisions = 1};
    (void)state;
    struct bst_mem_report *kept = report(&cfg);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    struct bst_mem_report *anew = report(&cfg);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kept->rows[i].total, anew->rows[i].total);
    assert_int_equal(kept->largest[0].micro, anew->largest[0].micro);
    bst_mem_free(kept);
    bst_mem_free(anew);
}

static void what_is_none_is_told(void **state)
{
    static const char *const types[] = {"fp12"};
    struct bst_mem_cfg cfg = {
        .presets = env, .nets = &net_table, .preset = "resnet50-256", .device = "a1000"};
    struct bst_mem_report *r = NULL;
    (void)state;
    assert_int_equal(bst_mem_make(&cfg, &r, &errs), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "a100, b200"));
    cfg.device = "a100";
    cfg.precisions = types;
    cfg.n_precisions = 1;
    assert_int_equal(bst_mem_make(&cfg, &r, &errs), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "fp12"));
    assert_null(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_net),
        cmocka_unit_test(a_gpt_keeps_what_its_layers_read),
        cmocka_unit_test(the_largest_is_the_last_that_fits),
        cmocka_unit_test(recomputation_goes_by_the_gpu),
        cmocka_unit_test(answers_from_disk_are_the_same),
        cmocka_unit_test(what_is_none_is_told),
    };
    char version[32];
    if (argc != 2)
        return 2;
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    folder = argv[1];
    setenv("XDG_CACHE_HOME", folder, 1);
    if (bst_backend_cudnn_version(version)) {
        printf("skipped: %s\n", bst_err_text());
        return 77;
    }
    env = bst_preset_env_new(&net_table);
    bst_preset_errors_init(&errs);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bst_preset_errors_fini(&errs);
    bst_preset_env_free(env);
    return failed;
}
