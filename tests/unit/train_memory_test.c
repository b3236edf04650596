#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "train_support.h"

/* Planned, counted by the allocator on the rank's thread, and limit: one number. */
static void bytes_planned_are_bytes_allocated(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "ref64", "cpu"};
    for (int b = 0; b < 3; b++) {
        if (!bst_backend_find(backends[b]))
            continue;
        struct bst_train_cfg cfg = train_cfg(&train_bn_net, backends[b]);
        cfg.ranks = 2;
        struct bst_trainer *t = train_open(&cfg);
        for (int batch = 4; batch < 60; batch += 11) {
            for (int k = 1; k <= 3; k++) {
                struct bst_rank_memory plan, got;
                struct bst_eval_result e;
                ok(bst_trainer_plan(t, batch, k, &plan));
                ok(bst_trainer_set_split(t, batch, k, NULL));
                train_some(t, 1, batch, k);
                ok(bst_trainer_eval(t, NULL, &e));
                for (int r = 0; r < 2; r++) {
                    bst_trainer_memory(t, r, &got);
                    assert_int_equal(got.held, plan.total);
                    assert_int_equal(got.total, plan.total);
                }
                assert_int_equal(plan.total, plan.weights + plan.gradients + plan.optimizer +
                                                 plan.staged + plan.hold + plan.arena +
                                                 plan.loader);
                assert_true(plan.activations <= plan.arena);
            }
        }
        bst_trainer_close(t);
    }
    assert_int_equal(bst_alloc_held(), 0);
}

static void exactly_the_limit_fits(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_rank_memory plan, again;
    ok(bst_trainer_plan(t, 30, 2, &plan));
    bst_trainer_close(t);
    for (int less = 0; less <= 1; less++) {
        cfg.memory_per_rank = plan.total - (uint64_t)less;
        t = train_open(&cfg);
        ok(bst_trainer_set_split(t, 8, 1, NULL));
        train_some(t, 1, 8, 1);
        uint32_t before = train_hash(t);
        enum bst_err err = bst_trainer_set_split(t, 30, 2, NULL);
        assert_int_equal(err, less ? BST_E_NOMEM : BST_OK);
        if (less) {
            char want[32];
            snprintf(want, sizeof want, "(%llu bytes)", (unsigned long long)plan.total);
            assert_non_null(strstr(bst_err_text(), want));
            snprintf(want, sizeof want, "(%llu bytes)", (unsigned long long)plan.total - 1);
            assert_non_null(strstr(bst_err_text(), want));
            assert_int_equal(bst_trainer_plan(t, 30, 2, &again), BST_E_NOMEM);
            assert_int_equal(again.total, plan.total);
            bst_trainer_memory(t, 0, &again);
            assert_true(again.total < plan.total);
        }
        assert_int_equal(train_hash(t), before);
        train_some(t, 1, less ? 8 : 30, less ? 1 : 2);
        bst_trainer_close(t);
    }
}

/* The answer fits and the next one does not, for any limit. */
static void the_largest_micro_batch_is_found(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_rank_memory one, m;
    int got = 0;
    ok(bst_trainer_largest_micro(t, 100, &got));
    assert_int_equal(got, 100);
    ok(bst_trainer_plan(t, 2, 2, &one));
    bst_trainer_close(t);
    static const int fits[] = {1, 2, 3, 17, 63, 64, 99};
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        cfg.memory_per_rank = 0;
        t = train_open(&cfg);
        ok(bst_trainer_plan(t, 2 * fits[i], 2, &m));
        bst_trainer_close(t);
        for (int less = 0; less <= 1; less++) {
            cfg.memory_per_rank = m.total - (uint64_t)less;
            t = train_open(&cfg);
            enum bst_err err = bst_trainer_largest_micro(t, 100, &got);
            assert_int_equal(got, fits[i] - less);
            assert_int_equal(err, got ? BST_OK : BST_E_NOMEM);
            assert_int_equal(bst_trainer_largest_micro(t, 1000, &got), err);
            assert_int_equal(got, fits[i] - less);
            bst_trainer_close(t);
        }
    }
}

/* A batch that no library could describe is a matter of memory too, and leads to what fits. */
static void far_too_much_is_out_of_memory(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    struct bst_rank_memory m, near;
    int got = 0;
    cfg.memory_per_rank = 4 << 20;
    struct bst_trainer *t = train_open(&cfg);
    assert_int_equal(bst_trainer_plan(t, INT32_MAX, 1, &m), BST_E_NOMEM);
    assert_non_null(strstr(bst_err_text(), "about"));
    assert_true(m.total > (uint64_t)INT32_MAX * 12 * 12);
    ok(bst_trainer_largest_micro(t, INT32_MAX / 2, &got));
    ok(bst_trainer_plan(t, 2 * got, 2, &near));
    assert_int_equal(bst_trainer_plan(t, 2 * got + 2, 2, &m), BST_E_NOMEM);
    assert_true(near.total <= 4 << 20 && m.total > 4 << 20);
    bst_trainer_close(t);
}

/* A change that fails at any allocation, on any rank, leaves the old split working. */
static void a_failed_change_goes_back(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    cfg.ranks = 2;
    struct bst_trainer *t = train_open(&cfg), *u = train_open(&cfg);
    struct bst_rank_memory before, after;
    train_some(t, 2, 12, 2);
    train_some(u, 2, 12, 2);
    bst_trainer_memory(t, 1, &before);
    for (int at = 1; at <= 2; at++) {
        train_fault(FAULT_ALLOC, at, BST_E_NOMEM);
        assert_int_equal(bst_trainer_set_split(t, 44, 1, NULL), BST_E_NOMEM);
        assert_non_null(strstr(bst_err_text(), "injected"));
        train_fault(FAULT_NONE, 0, BST_OK);
        bst_trainer_memory(t, 1, &after);
        assert_int_equal(before.total, after.total);
        assert_int_equal(before.held, after.held);
    }
    train_fault(FAULT_DESCRIBE, 3, BST_E_LIBRARY);
    assert_int_equal(bst_trainer_set_split(t, 50, 1, NULL), BST_E_LIBRARY);
    train_fault(FAULT_NONE, 0, BST_OK);
    bst_trainer_memory(t, 1, &after);
    assert_int_equal(before.held, after.held);
    train_some(t, 2, 12, 2);
    train_some(u, 2, 12, 2);
    assert_int_equal(train_hash(t), train_hash(u));
    ok(bst_trainer_set_split(t, 44, 1, NULL));
    train_some(t, 1, 44, 1);
    bst_trainer_close(t);
    bst_trainer_close(u);
}

/* Never two arenas: the most ever held is the larger split's total. */
static void a_change_never_holds_two_arenas(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_rank_memory small, large;
    size_t elsewhere = bst_alloc_held();
    bst_trainer_memory(t, 0, &small);
    elsewhere -= small.held;
    ok(bst_trainer_set_split(t, 300, 1, NULL));
    bst_trainer_memory(t, 0, &large);
    for (int i = 0; i < 20; i++) {
        ok(bst_trainer_set_split(t, 299 - i, 1, NULL));
        bst_trainer_memory(t, 0, &small);
        assert_int_equal(bst_alloc_held(), small.held + elsewhere);
    }
    assert_true(bst_alloc_peak() <= large.total + elsewhere);
    bst_trainer_close(t);
}

/* Recomputation on demand: a batch that would not fit does, to the byte, with the same weights; a
 * batch that fits by itself recomputes nothing. */
static void recomputation_makes_room(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_trainer *t = train_open(&cfg);
    struct bst_rank_memory whole, m;
    int plain = 0, more = 0;
    ok(bst_trainer_plan(t, 40, 1, &whole));
    assert_int_equal(whole.n_again, 0);
    train_some(t, 2, 40, 1);
    uint32_t want = train_hash(t);
    bst_trainer_close(t);
    cfg.memory_per_rank = whole.total - whole.arena / 10;
    t = train_open(&cfg);
    assert_int_equal(bst_trainer_plan(t, 40, 1, &m), BST_E_NOMEM);
    ok(bst_trainer_largest_micro(t, 100, &plain));
    bst_trainer_close(t);

    cfg.recompute.kind = BST_RECOMPUTE_AUTO;
    t = train_open(&cfg);
    ok(bst_trainer_largest_micro(t, 100, &more));
    assert_true(more > plain && more >= 40);
    ok(bst_trainer_plan(t, 40, 1, &m));
    assert_true(m.n_again > 0 && m.again_share > 0 && m.total <= cfg.memory_per_rank);
    train_some(t, 2, 40, 1);
    assert_int_equal(train_hash(t), want);
    for (int i = 0; i < 3; i++) {
        int batch = i == 1 ? 9 : 40;
        train_some(t, 1, batch, 1);
        bst_trainer_memory(t, 0, &m);
        assert_int_equal(m.held, m.total);
        assert_true(m.total <= cfg.memory_per_rank);
        assert_int_equal(m.n_again > 0, i != 1);
        assert_int_equal(m.peak.activations + m.peak.recomputed + m.peak.gradients +
                             m.peak.scratch + m.peak.gaps,
                         m.arena);
    }
    bst_trainer_close(t);
}

/* Many splits that each leave another size for the arena: the programs in force are kept. */
static void plans_beside_a_run_are_dropped(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "ref");
    struct bst_rank_memory m;
    cfg.recompute.kind = BST_RECOMPUTE_AUTO;
    struct bst_trainer *t = train_open(&cfg);
    ok(bst_trainer_plan(t, 40, 1, &m));
    bst_trainer_close(t);
    cfg.memory_per_rank = m.total - m.arena / 10;
    t = train_open(&cfg);
    train_some(t, 1, 37, 2);
    for (int batch = 70; batch > 40; batch--)
        if (bst_trainer_plan(t, batch, 2, &m))
            assert_non_null(strstr(bst_err_text(), "needs"));
    train_some(t, 1, 37, 2);
    bst_trainer_memory(t, 0, &m);
    assert_int_equal(m.held, m.total);
    bst_trainer_close(t);
}

static void a_trainer_that_cannot_open_leaves_nothing(void **state)
{
    (void)state;
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, NULL);
    struct bst_trainer *t = NULL;
    cfg.ranks = 2;
    for (int at = 1; at <= 12; at++) {
        train_fault(FAULT_ALLOC, at, BST_E_NOMEM);
        assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_NOMEM);
        assert_null(t);
    }
    train_fault(FAULT_DESCRIBE, 5, BST_E_LIBRARY);
    assert_int_equal(bst_trainer_open(&cfg, &t), BST_E_LIBRARY);
    train_fault(FAULT_NONE, 0, BST_OK);
    assert_int_equal(bst_alloc_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_never_holds_two_arenas), /* first: it looks at the peak */
        cmocka_unit_test(bytes_planned_are_bytes_allocated),
        cmocka_unit_test(exactly_the_limit_fits),
        cmocka_unit_test(the_largest_micro_batch_is_found),
        cmocka_unit_test(far_too_much_is_out_of_memory),
        cmocka_unit_test(a_failed_change_goes_back),
        cmocka_unit_test(recomputation_makes_room),
        cmocka_unit_test(plans_beside_a_run_are_dropped),
        cmocka_unit_test(a_trainer_that_cannot_open_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
