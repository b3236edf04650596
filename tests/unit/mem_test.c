/* What `bstune mem` says against what a trainer of the same preset takes, to the byte, and what it
 * says of capacities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/run/mem.h"
#include "core/run/start.h"
#include "nets/nets.h"

static struct bst_preset_env *env;
static struct bst_preset_errors errs;

static void must(enum bst_err err)
{
    if (err)
        fail_msg("%s", bst_err_text());
}

enum { N_SETS = 6 };

/* Small generated images, so that a real update takes no time. */
static void sets_of(const char *sets[N_SETS], const char *net, const char *backend,
                    const char *devices)
{
    sets[0] = net;
    sets[1] = backend;
    sets[2] = devices;
    sets[3] = "data.format=shapes";
    sets[4] = "data.train_count=400";
    sets[5] = "devices.threads=1";
}

static struct bst_mem_report *report(const struct bst_mem_cfg *how)
{
    struct bst_mem_cfg cfg = *how;
    struct bst_mem_report *r = NULL;
    cfg.presets = env;
    cfg.nets = &net_table;
    cfg.preset = "quickstart";
    must(bst_mem_make(&cfg, &r, &errs));
    return r;
}

static uint64_t parts(const struct bst_mem_row *r)
{
    return r->parameters + r->gradients + r->optimizer + r->rewind + r->activations +
           r->recomputation + r->data + r->workspace;
}

/* An update of that batch in a trainer made from the preset, and what its ranks then hold. */
static void check_against_a_run(const char *const sets[N_SETS], const struct bst_mem_row *row,
                                uint64_t capacity)
{
    const char *all[N_SETS + 1];
    char recompute[96];
    struct bst_preset p;
    struct bst_start start;
    struct bst_train_cfg cfg;
    struct bst_trainer *t;
    struct bst_update_result res;
    struct bst_rank_memory m;
    struct bst_update_req req = {.batch = (int64_t)row->batch,
                                 .micro_batches = row->micro_batches,
                                 .lr = 0.01,
                                 .momentum = 0.9,
                                 .update = 1};
    memcpy(all, sets, N_SETS * sizeof *sets);
    snprintf(recompute, sizeof recompute, "recompute=%s", row->recompute);
    all[N_SETS] = recompute;
    must(bst_preset_load(env, "quickstart", all, N_SETS + 1, &p, &errs));
    must(bst_start_train_cfg(&p, &net_table, &start, &cfg));
    cfg.memory_per_rank = capacity;
    must(bst_trainer_open(&cfg, &t));
    must(bst_trainer_update(t, &req, NULL, &res));
    for (int r = 0; r < cfg.ranks; r++) {
        bst_trainer_memory(t, r, &m);
        assert_int_equal(m.held, row->total);
    }
    bst_trainer_close(t);
}

static void planned_is_what_a_run_takes(void **state)
{
    (void)state;
    static const struct {
        const char *net, *backend, *devices;
    } runs[] = {{"model.name=resnet8", "devices.backend=cpu", "devices.count=1"},
                {"model.name=resnet14", "devices.backend=cpu", "devices.count=2"},
                {"model.name=resnet8", "devices.backend=ref", "devices.count=1"}};
    static const char *const recomputes[] = {"none", "{every: 1}", "{layers: [\"*bn?\"]}", "auto"};
    static const uint64_t batches[] = {4, 9};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const char *sets[N_SETS];
        sets_of(sets, runs[i].net, runs[i].backend, runs[i].devices);
        struct bst_mem_cfg cfg = {.sets = sets,
                                  .n_sets = N_SETS,
                                  .batches = batches,
                                  .n_batches = 2,
                                  .recomputes = recomputes,
                                  .n_recomputes = 1,
                                  .capacity = (uint64_t)1 << 30};
        struct bst_mem_report *r = report(&cfg);
        /* Less than the largest of them needs: auto has to do something. */
        cfg.capacity = r->rows[1].total - r->rows[1].activations / 8;
        cfg.n_recomputes = 4;
        bst_mem_free(r);
        r = report(&cfg);
        assert_int_equal(r->n_rows, 8);
        for (int k = 0; k < r->n_rows; k++) {
            const struct bst_mem_row *row = &r->rows[k];
            assert_true(row->known);
            assert_int_equal(parts(row), row->total);
            assert_int_equal(row->fits, row->total <= cfg.capacity);
            assert_int_equal(row->n_again > 0, k == 7 || (k >= 2 && k < 6));
            check_against_a_run(sets, row, k >= 6 ? cfg.capacity : (uint64_t)1 << 30);
        }
        assert_false(r->rows[1].fits);
        assert_true(r->rows[7].fits);
        bst_mem_free(r);
    }
    assert_int_equal(bst_alloc_held(), 0);
}

/* The largest fits, one sample more does not; recomputation moves it up. */
static void the_largest_is_the_last_that_fits(void **state)
{
    (void)state;
    static const char *const recomputes[] = {"none", "auto"};
    const char *sets[N_SETS];
    uint64_t beside[4];
    sets_of(sets, "model.name=resnet8", "devices.backend=ref", "devices.count=2");
    struct bst_mem_cfg cfg = {.sets = sets,
                              .n_sets = N_SETS,
                              .recomputes = recomputes,
                              .n_recomputes = 2,
                              .capacity = 48 << 20};
    struct bst_mem_report *r = report(&cfg);
    assert_int_equal(r->n_largest, 2);
    assert_true(r->largest[1].micro > r->largest[0].micro);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r->largest[i].batch, 2 * r->largest[i].micro);
        assert_true(r->largest[i].total <= cfg.capacity);
        beside[2 * i] = r->largest[i].batch;
        beside[2 * i + 1] = r->largest[i].batch + 1;
    }
    bst_mem_free(r);
    cfg.batches = beside;
    cfg.n_batches = 4;
    r = report(&cfg);
    assert_true(r->rows[0].fits && !r->rows[1].fits); /* none */
    assert_true(r->rows[6].fits && !r->rows[7].fits); /* auto */
    bst_mem_free(r);
    cfg.capacity = 1 << 20;
    r = report(&cfg);
    assert_int_equal(r->largest[0].micro, 0);
    assert_int_equal(r->largest[0].batch, 0);
    bst_mem_free(r);
}

/* A preset of data that are not here is planned for images of the same size; its net, at 80 GiB,
 * as on the device it is meant for. */
static void data_need_not_be_here(void **state)
{
    (void)state;
    static const uint64_t batches[] = {4};
    static const char *const sets[] = {"data.path=/nowhere/at/all", "devices.count=1",
                                       "devices.backend=ref"};
    struct bst_mem_cfg cfg = {.presets = env,
                              .nets = &net_table,
                              .preset = "resnet50-256",
                              .sets = sets,
                              .n_sets = 3,
                              .batches = batches,
                              .n_batches = 1};
    struct bst_mem_report *r = NULL;
    must(bst_mem_make(&cfg, &r, &errs));
    assert_true(r->generated);
    assert_int_equal(r->textbook.parameters, 25557032); /* torchvision's resnet50 */
    assert_int_equal(r->textbook.inputs, 3 * 224 * 224);
    assert_int_equal(r->textbook.outputs, 1000);
    assert_true(r->rows[0].known);
    assert_true(r->process > 0);
    /* Slots of the images: three of 4 for training, two for evaluation. */
    assert_true(r->rows[0].data > 3 * 4 * 3 * 224 * 224);
    struct bst_sb text;
    bst_sb_init(&text, 1 << 20);
    bst_mem_print_json(r, &text);
    assert_non_null(strstr(text.data, "\"data_found\":false"));
    bst_sb_fini(&text);
    bst_mem_free(r);
}

static void a_bad_preset_is_told(void **state)
{
    (void)state;
    static const char *const sets[] = {"recompute=maybe"};
    struct bst_mem_cfg cfg = {
        .presets = env, .nets = &net_table, .preset = "quickstart", .sets = sets, .n_sets = 1};
    struct bst_mem_report *r = NULL;
    struct bst_preset_errors own;
    bst_preset_errors_init(&own);
    assert_int_equal(bst_mem_make(&cfg, &r, &own), BST_E_PARSE);
    assert_null(r);
    assert_int_equal(own.n, 1);
    bst_preset_errors_fini(&own);
    cfg.preset = "no-such-preset";
    bst_preset_errors_init(&own);
    assert_int_equal(bst_mem_make(&cfg, &r, &own), BST_E_NOTFOUND);
    bst_preset_errors_fini(&own);
}

static int open_env(void **state)
{
    (void)state;
    setenv("BSTUNE_PRESET_DIR", "presets", 1); /* tests run in the source folder */
    env = bst_preset_env_new(&net_table);
    bst_preset_errors_init(&errs);
    return 0;
}

static int close_env(void **state)
{
    (void)state;
    bst_preset_env_free(env);
    bst_preset_errors_fini(&errs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_is_what_a_run_takes),
        cmocka_unit_test(the_largest_is_the_last_that_fits),
        cmocka_unit_test(data_need_not_be_here),
        cmocka_unit_test(a_bad_preset_is_told),
    };
    return cmocka_run_group_tests(tests, open_env, close_env);
}
