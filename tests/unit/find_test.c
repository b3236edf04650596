/* The searches on a real trainer: what they answer, and that the trainer is afterwards as it was,
 * whatever became of them. */
#include "tests/unit/train_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/run/find.h"

enum { BATCH = 6, MICROS = 2 };

static struct bst_find find_on(struct bst_trainer *t, int ranks)
{
    struct bst_find f = {.trainer = t, .ranks = ranks};
    f.req = train_req(12, BATCH, MICROS);
    return f;
}

/* A trainer in the middle of a run: momenta and statistics are not what they start with. */
static struct bst_trainer *open_warm(const struct bst_train_cfg *cfg)
{
    struct bst_trainer *t = train_open(cfg);
    train_some(t, 2, BATCH, MICROS);
    return t;
}

struct seen { /* of a run's next steps */
    double loss[3], eval;
    uint32_t hash;
};

static struct seen go_on(struct bst_trainer *t)
{
    struct seen s;
    struct bst_eval_result e;
    for (int i = 0; i < 3; i++) {
        struct bst_update_req req = train_req((uint64_t)(12 + i * BATCH), BATCH, MICROS);
        struct bst_update_result r;
        ok(bst_trainer_update(t, &req, NULL, &r));
        s.loss[i] = r.loss;
    }
    ok(bst_trainer_eval(t, NULL, &e));
    s.eval = e.loss;
    s.hash = train_hash(t);
    ok(bst_trainer_compare_ranks(t));
    return s;
}

static void check_same(const struct seen *a, const struct seen *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_true(a->eval == b->eval);
    assert_int_equal(a->hash, b->hash);
}

static struct seen unsearched(const struct bst_train_cfg *cfg)
{
    struct bst_trainer *t = open_warm(cfg);
    struct seen s = go_on(t);
    bst_trainer_close(t);
    return s;
}

static const struct bst_fit_row *row_at(const struct bst_fit_result *r, int64_t micro)
{
    for (int i = 0; i < r->n_rows; i++)
        if (r->rows[i].micro == micro)
            return &r->rows[i];
    return NULL;
}

/* Bytes with which micro-batches of `micro` just fit when accumulated. */
static uint64_t limit_for(const struct bst_train_cfg *cfg, int64_t micro)
{
    struct bst_rank_memory m;
    struct bst_trainer *t = train_open(cfg);
    ok(bst_trainer_plan(t, micro * 2 * cfg->ranks, 2, &m));
    bst_trainer_close(t);
    return m.total;
}

static void check_fit(int64_t capacity, int ranks, int64_t most)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_fit_cfg ask = {.most = most, .global_batch = 50};
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    cfg.ranks = ranks;
    cfg.memory_per_rank = limit_for(&cfg, capacity);
    struct seen without = unsearched(&cfg);
    struct bst_trainer *t = open_warm(&cfg);
    struct bst_find f = find_on(t, ranks);
    ok(bst_find_fit(&f, &ask, r));
    int64_t want = most && most < capacity ? most : capacity;
    assert_int_equal(r->largest, want);
    assert_int_equal(row_at(r, want)->outcome, BST_FIT_RAN);
    assert_true(row_at(r, want)->rate > 0 && row_at(r, want)->planned <= cfg.memory_per_rank);
    if (want < r->most) {
        assert_int_equal(row_at(r, want + 1)->outcome, BST_FIT_NO_MEMORY);
        assert_true(row_at(r, want + 1)->planned > cfg.memory_per_rank);
        assert_true(row_at(r, want + 1)->rate == 0);
    }
    for (int64_t n = 1; n < want; n *= 2)
        assert_true(row_at(r, n)->rate > 0);
    for (int i = 1; i < r->n_rows; i++)
        assert_true(r->rows[i].micro > r->rows[i - 1].micro);
    assert_false(r->uneven);
    assert_true(r->restored && r->fastest >= 0 && r->updates > 0);
    assert_int_equal(r->split.batch, 50);
    assert_true((int64_t)r->split.micro <= want);
    assert_int_equal(r->split.accumulate, (50 + ranks * want - 1) / (ranks * want));
    const struct bst_fit_row *timed = row_at(r, want);
    assert_true(timed->micro_seconds > 0 && timed->rest_seconds >= 0);
    double whole =
        timed->micro_seconds / (double)want * (double)r->split.micro * (double)r->split.accumulate +
        timed->rest_seconds;
    assert_true(fabs(r->update_seconds - whole) <= 1e-12 * whole);
    struct seen with = go_on(t);
    check_same(&with, &without);
    bst_trainer_close(t);
    bst_free(r);
}

static void test_fit(void **state)
{
    (void)state;
    check_fit(7, 1, 0);
    check_fit(17, 1, 0);
    check_fit(5, 2, 0);
    check_fit(17, 1, 16);
    check_fit(17, 1, 17);
}

static void test_nothing_fits(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_fit_cfg ask = {.global_batch = 8};
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    (void)state;
    cfg.memory_per_rank = limit_for(&cfg, 1) - 1;
    struct bst_trainer *t = train_open(&cfg);
    uint32_t before = train_hash(t);
    struct bst_find f = find_on(t, 1);
    f.req.batch = 0; /* no split is in force */
    ok(bst_find_fit(&f, &ask, r));
    assert_int_equal(r->largest, 0);
    assert_int_equal(row_at(r, 1)->outcome, BST_FIT_NO_MEMORY);
    assert_true(r->fastest == -1 && r->knee == -1 && r->split.batch == 0);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
    bst_free(r);
}

/* Memory that the system does not give although the plan was within the limit. */
static void test_fit_no_memory_inside(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_fit_cfg ask = {.most = 8, .global_batch = 8};
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    (void)state;
    cfg.backend = train_faulty();
    struct seen without = unsearched(&cfg);
    struct bst_trainer *t = open_warm(&cfg);
    struct bst_find f = find_on(t, 1);
    /* The third block of the search: the first two are the state set aside. */
    train_fault(FAULT_ALLOC, 3, BST_E_NOMEM);
    ok(bst_find_fit(&f, &ask, r));
    train_fault(FAULT_NONE, 0, BST_OK);
    assert_int_equal(row_at(r, 8)->outcome, BST_FIT_NO_MEMORY);
    assert_int_equal(r->largest, 7);
    struct seen with = go_on(t);
    check_same(&with, &without);
    bst_trainer_close(t);
    bst_free(r);
}

/* Whatever fails, and wherever: the error is handed on and the run goes on as if nothing had been.
 */
static void test_other_errors(void **state)
{
    static const enum fault_slot slots[] = {FAULT_RUN, FAULT_SGD, FAULT_DESCRIBE};
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_fit_cfg ask = {.most = 4, .global_batch = 8};
    struct bst_lr_cfg lr = {.range = {1e-5, 1, 20}, .repeats = 2};
    struct bst_fit_result *fit = bst_xalloc(sizeof *fit);
    struct bst_lr_result *found = bst_xalloc(sizeof *found);
    (void)state;
    cfg.backend = train_faulty();
    struct seen without = unsearched(&cfg);
    for (int i = 0; i < 12; i++) {
        struct bst_trainer *t = open_warm(&cfg);
        struct bst_find f = find_on(t, 1);
        bool is_fit = i % 2;
        /* The test itself compiles nothing: its split is there. */
        enum fault_slot slot = slots[(i / 2) % (is_fit ? 3 : 2)];
        train_fault(slot, slot == FAULT_RUN ? 1 + 7 * i : 1 + i / 2, BST_E_LIBRARY);
        enum bst_err err = is_fit ? bst_find_fit(&f, &ask, fit) : bst_find_lr(&f, &lr, found);
        train_fault(FAULT_NONE, 0, BST_OK);
        assert_int_equal(err, BST_E_LIBRARY);
        assert_non_null(strstr(bst_err_text(), "injected"));
        assert_true(is_fit ? fit->restored : found->restored);
        struct seen with = go_on(t);
        check_same(&with, &without);
        bst_trainer_close(t);
    }
    bst_free(fit);
    bst_free(found);
}

static void test_cancelled(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_fit_cfg ask = {.most = 8, .global_batch = 8};
    struct bst_lr_cfg lr = {.range = {1e-5, 1, 20}, .repeats = 2};
    struct bst_fit_result *fit = bst_xalloc(sizeof *fit);
    struct bst_lr_result *found = bst_xalloc(sizeof *found);
    struct bst_rng rng;
    (void)state;
    bst_rng_init(&rng, 9, BST_RNG_INIT, 0);
    cfg.backend = train_faulty();
    cfg.ranks = 2;
    struct seen without = unsearched(&cfg);
    for (int i = 0; i < 20; i++) {
        atomic_int stop = 0;
        struct bst_trainer *t = open_warm(&cfg);
        struct bst_find f = find_on(t, 2);
        f.stop = &stop;
        train_stop_at(&stop, 1 + (int)bst_rng_below(&rng, 300));
        enum bst_err err = i % 2 ? bst_find_fit(&f, &ask, fit) : bst_find_lr(&f, &lr, found);
        train_stop_at(NULL, 0);
        assert_int_equal(err, BST_E_CANCELLED);
        struct seen with = go_on(t);
        check_same(&with, &without);
        bst_trainer_close(t);
    }
    bst_free(fit);
    bst_free(found);
}

/* Going back itself may fail; that is no ordinary error of a search. */
static void test_cannot_go_back(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    struct bst_fit_cfg ask = {.most = 1, .global_batch = 8};
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    (void)state;
    cfg.backend = train_faulty();
    struct bst_trainer *t = open_warm(&cfg);
    struct bst_find f = find_on(t, 1);
    int last = 0;
    /* Arenas asked for, one after the other: the last one is the way back. */
    for (int at = 3; !last && at < 40; at++) {
        train_fault(FAULT_ALLOC, at, BST_E_LIBRARY);
        enum bst_err err = bst_find_fit(&f, &ask, r);
        if (err && !r->restored)
            last = at;
    }
    train_fault(FAULT_NONE, 0, BST_OK);
    assert_true(last > 0);
    assert_non_null(strstr(bst_err_text(), "could not be put back"));
    bst_trainer_close(t);
    bst_free(r);
}

static struct bst_lr_result *lr_of(struct bst_trainer *t, int micros, int repeats)
{
    struct bst_lr_result *r = bst_xalloc(sizeof *r);
    struct bst_lr_cfg cfg = {.range = {1e-5, 100, 40}, .repeats = repeats};
    struct bst_find f = find_on(t, 1);
    f.req.micro_batches = micros;
    f.req.weight_decay = 0;
    ok(bst_find_lr(&f, &cfg, r));
    assert_true(r->restored);
    return r;
}

static void test_lr(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    (void)state;
    struct seen without = unsearched(&cfg);
    struct bst_trainer *t = open_warm(&cfg);
    struct bst_lr_result *r = lr_of(t, MICROS, 2);
    /* One rate an update, until the loss blew up. */
    assert_int_equal(r->updates, r->curves[0].n + r->curves[1].n);
    assert_true(r->curves[0].over && r->curves[0].n < 40 && r->curves[0].n > 10);
    /* Other samples, the same weights. */
    assert_true(r->curves[0].loss[0] != r->curves[1].loss[0]);
    struct bst_update_req req = train_req(12, BATCH, MICROS);
    struct bst_update_result first;
    ok(bst_trainer_hold(t));
    ok(bst_trainer_update(t, &req, NULL, &first));
    assert_true(first.loss == r->curves[0].loss[0]);
    ok(bst_trainer_rewind(t));
    struct seen with = go_on(t);
    check_same(&with, &without);
    bst_trainer_close(t);
    bst_free(r);
}

/* Lightning's finder took a step of the rate a micro-batch (#1726). */
static void test_lr_accumulated(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_plain_net, "ref");
    (void)state;
    struct bst_trainer *t = open_warm(&cfg);
    struct bst_lr_result *whole = lr_of(t, 1, 1), *parts = lr_of(t, 3, 1);
    assert_int_equal(parts->updates, parts->curves[0].n);
    assert_in_range(parts->curves[0].n, 15, 40);
    for (int i = 0; i < 15; i++)
        assert_true(fabs(parts->curves[0].loss[i] / whole->curves[0].loss[i] - 1) < 1e-3);
    bst_trainer_close(t);
    bst_free(whole);
    bst_free(parts);
}

static void test_lr_nonfinite(void **state)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    (void)state;
    cfg.backend = train_faulty();
    struct bst_trainer *t = open_warm(&cfg);
    uint32_t before = train_hash(t);
    train_poison(true);
    struct bst_lr_result *r = lr_of(t, MICROS, 1);
    train_poison(false);
    assert_int_equal(r->curves[0].n, 0);
    assert_int_equal(r->updates, 1);
    assert_int_equal(r->s.doubt, BST_LR_NO_FALL);
    assert_int_equal(train_hash(t), before);
    bst_trainer_close(t);
    bst_free(r);
}

static void test_bounds(void **state)
{
    static const struct bst_lr_cfg bad[] = {
        {{0, 1, 100}, 1},     {{1e-3, 5e-3, 100}, 1}, {{1e-3, 1e4, 100}, 1},
        {{NAN, 1, 100}, 1},   {{1e-3, NAN, 100}, 1},  {{1e-3, 1, 5}, 1},
        {{1e-3, 1, 5000}, 1}, {{1e-3, 1, 100}, 0},    {{1e-3, 1, 100}, 6},
    };
    struct bst_lr_cfg good = {{1e-7, 10, 100}, 5};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bst_lr_cfg_check(&bad[i]), BST_E_RANGE);
    ok(bst_lr_cfg_check(&good));
}

static void test_words(void **state)
{
    struct bst_fit_result *fit = bst_xalloc(sizeof *fit);
    struct bst_lr_result *lr = bst_xalloc(sizeof *lr);
    struct bst_sb sb;
    (void)state;
    *fit = (struct bst_fit_result){
        .largest = 40,
        .most = 8192,
        .uneven = true,
        .hole_least = 16,
        .hole_greatest = 31,
        .rows = {{8, BST_FIT_RAN, 100, 5000, 0.07, 0.01},
                 {40, BST_FIT_RAN, 120.5, 9000, 0.25, 0.5},
                 {41, BST_FIT_NO_MEMORY, 0, 9100, 0, 0}},
        .n_rows = 3,
        .fastest = 1,
        .knee = 0,
        .split = {100, 1, 3, 34},
        .update_seconds = 3725,
        .limit = 9050,
    };
    bst_sb_init(&sb, 1 << 16);
    bst_fit_describe(fit, &sb);
    assert_string_equal(
        sb.data, "largest micro-batch 40, fastest 40 at 120.5 samples/s, knee 8, batch 100 = "
                 "34 × 3 × 1, an update about 1h02m; 16 to 31 failed below it: memory is not "
                 "monotone");
    bst_sb_clear(&sb);
    bst_fit_print(fit, &sb);
    assert_non_null(strstr(sb.data, "\"monotone\":false,\"failed_below\":[16,31]"));
    assert_non_null(strstr(sb.data, "\"update_seconds\":3725"));
    assert_non_null(strstr(sb.data, "\"micro_batch_seconds\":0.25,\"rest_seconds\":0.5}"));
    assert_non_null(strstr(sb.data,
                           "{\"micro_batch_size\":41,\"outcome\":\"does not "
                           "fit\",\"samples_per_sec\":null,\"memory_planned_bytes\":9100}"));
    lr->range = (struct bst_lr_range){1e-3, 1, 30};
    lr->repeats = 1;
    lr->batch = 128;
    lr->curves[0].n = 1;
    lr->curves[0].loss[0] = lr->curves[0].smooth[0] = 2.5;
    lr->s = (struct bst_lr_suggestion){BST_LR_DISAGREE, 0.01, 0.05, 0.01, 0.01, 1};
    bst_sb_clear(&sb);
    bst_lr_print(lr, &sb);
    assert_string_equal(
        sb.data, "{\"type\":\"lrfind\",\"repeat\":1,\"update\":1,\"learning_rate\":0.001,\"loss\":"
                 "2.5,\"loss_smoothed\":2.5}\n{\"type\":\"lrfind-result\",\"steepest\":0.01,"
                 "\"valley\":0.05,\"repeats_lowest\":0.01,\"repeats_highest\":0.01,\"repeats\":1,"
                 "\"unclear\":\"steepest fall and valley are more than 3 times apart\","
                 "\"global_batch_size\":128,\"updates\":0}\n");
    bst_sb_clear(&sb);
    bst_lr_describe(lr, &sb);
    assert_string_equal(sb.data,
                        "rate 0.01 at the steepest fall, 0.05 in the valley, at batch 128; "
                        "unclear: steepest fall and valley are more than 3 times apart");
    bst_sb_fini(&sb);
    bst_free(fit);
    bst_free(lr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_fit_no_memory_inside),
        cmocka_unit_test(test_other_errors),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cannot_go_back),
        cmocka_unit_test(test_lr),
        cmocka_unit_test(test_lr_accumulated),
        cmocka_unit_test(test_lr_nonfinite),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
