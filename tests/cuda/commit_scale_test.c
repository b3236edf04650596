/* The loss scale of updates that end on the device, on the fakes, beside GradScaler's rules: on 1
 * to 8 devices, eager and captured; and that what is skipped moves nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/commit_rig.h"

/* Everything that an update may move. */
struct snapshot {
    double block[N_BLOCKS][FLOATS], stats[STATS];
};

static void look(struct rig *r, struct snapshot *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N_BLOCKS; i++)
        if (i != GRAD)
            rig_get(r, r->block[i], s->block[i], FLOATS);
    rig_get(r, r->stats, s->stats, STATS);
}

static void skipped_updates_move_nothing_and_say_where(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct rig r;
    struct rig_update w;
    struct snapshot before, after;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    for (int i = 0; i < 3 * BST_N_OPTIMIZERS * N_PARAMS; i++) {
        const int p = i % 3, kind = i / 9;
        const struct bst_commit_state start = {.loss_scale = 65536, .good = 7, .steps = 41};

        rig_open(&r, "cuda", 0, BST_PRECISION_FP16);
        ok(r.b->set_commit_state(r.be, &start));
        for (int b = 0; b < N_BLOCKS; b++) {
            rig_numbers(x, (uint64_t)b + 9, 1);
            for (int k = 0; k < FLOATS; k++)
                x[k] = b == SECOND ? fabsf(x[k]) : x[k];
            if (b == GRAD)
                x[64 * p + rig_sizes[p] - 1] = bad[i / 3 % 3];
            rig_put(&r, r.block[b], x, FLOATS);
        }
        rig_put(&r, r.staged, x, STATS);
        rig_describe(&w, &r, (enum bst_optimizer)kind);
        look(&r, &before);
        struct bst_commit_result c = rig_commit(&r, &w.commit, squares);
        look(&r, &after);
        assert_memory_equal(&before, &after, sizeof before);
        assert_true(c.skipped && !isfinite(c.grad_norm) && !isfinite(squares[p]));
        assert_true(isfinite(squares[(p + 1) % 3]));
        assert_int_equal(c.first_nonfinite, p);
        assert_int_equal(c.last_nonfinite, p);
        assert_true(c.loss_scale == 65536 && c.after.loss_scale == 32768);
        assert_int_equal(c.after.good, 0);
        assert_int_equal(c.after.steps, 41);
        /* A frozen one's gradient is no part of the update. */
        w.factor[p] = 0;
        c = rig_commit(&r, &w.commit, squares);
        assert_false(c.skipped);
        assert_int_equal(c.first_nonfinite, -1);
        assert_int_equal(c.after.steps, 42);
        rig_close(&r);
    }
}

/* From a loss that is no number everything is; both ends are told. */
static void the_first_and_the_last_are_told(void **state)
{
    struct rig r;
    struct rig_update w;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    rig_open(&r, "cuda", 0, BST_PRECISION_FP32);
    rig_numbers(x, 3, 1);
    x[0] = x[64] = NAN;
    rig_put(&r, r.block[GRAD], x, FLOATS);
    rig_describe(&w, &r, BST_OPTIMIZER_SGD);
    const struct bst_commit_result c = rig_commit(&r, &w.commit, squares);
    assert_int_equal(c.first_nonfinite, 0);
    assert_int_equal(c.last_nonfinite, 1);
    assert_true(c.skipped && c.loss_scale == 1 && c.after.loss_scale == 1);
    rig_close(&r);
}

static void what_is_dropped_leaves_the_scale(void **state)
{
    const struct bst_commit_state start = {.loss_scale = 4096, .good = 12, .steps = 3};
    struct rig r;
    struct rig_update w;
    struct snapshot before, after;
    float x[FLOATS];
    double squares[N_PARAMS];

    (void)state;
    rig_open(&r, "cuda", 0, BST_PRECISION_FP16);
    ok(r.b->set_commit_state(r.be, &start));
    rig_numbers(x, 3, 1);
    rig_put(&r, r.block[WEIGHT], x, FLOATS);
    rig_put(&r, r.block[GRAD], x, FLOATS);
    rig_put(&r, r.staged, (const float[STATS]){[STATS - 1] = INFINITY}, STATS);
    rig_describe(&w, &r, BST_OPTIMIZER_SGD);
    look(&r, &before);
    const struct bst_commit_result c = rig_commit(&r, &w.commit, squares);
    look(&r, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(c.skipped && isfinite(c.grad_norm));
    assert_true(c.after.loss_scale == 4096);
    assert_int_equal(c.after.good, 12);
    assert_int_equal(c.after.steps, 3);
    rig_close(&r);
}

/* GradScaler in its own words: growth_factor 2, backoff_factor 0.5, growth_interval 2000. */
struct oracle {
    double scale;
    int tracker;
    uint64_t steps;
};

static void oracle_update(struct oracle *o, bool found_inf)
{
    if (found_inf) {
        o->scale *= 0.5;
        o->tracker = 0;
        return;
    }
    o->steps++;
    if (++o->tracker == 2000) {
        o->scale *= 2.0;
        o->tracker = 0;
    }
}

/* Two at first, one in the middle of a count, one at its very end, and one that is the 2000th. */
static bool overflows(int update)
{
    return update == 1 || update == 2 || update == 777 || update == 4778 || update == 6778;
}

/* Every rank is given the same reduced gradient and comes to the same, update by update. */
static void check_ranks(int n, int updates, bool bad)
{
    const struct bst_commit_state start = {.loss_scale = 65536};
    struct oracle o = {.scale = 65536};
    struct rig r[DEVICES];
    struct rig_update w[DEVICES];
    struct snapshot all[2];
    float good[FLOATS], broken[FLOATS];
    double squares[N_PARAMS];
    int held = -1; /* what the gradient block holds: 1 broken */

    rig_numbers(good, 5, 100);
    memcpy(broken, good, sizeof good);
    broken[130] = INFINITY;
    for (int k = 0; k < n; k++) {
        rig_open(&r[k], "cuda", k, BST_PRECISION_FP16);
        ok(r[k].b->set_commit_state(r[k].be, &start));
        rig_describe(&w[k], &r[k], BST_OPTIMIZER_SGD);
    }
    for (int u = 1; u <= updates; u++) {
        const bool now = bad && overflows(u);
        const double scale = o.scale;

        for (int k = 0; k < n && held != now; k++)
            rig_put(&r[k], r[k].block[GRAD], now ? broken : good, FLOATS);
        held = now;
        oracle_update(&o, now);
        for (int k = 0; k < n; k++) {
            const struct bst_commit_result c = rig_commit(&r[k], &w[k].commit, squares);

            if (c.skipped != now || c.loss_scale != scale || c.after.loss_scale != o.scale ||
                (int)c.after.good != o.tracker || c.after.steps != o.steps)
                fail_msg("%d ranks, update %d, rank %d: skipped %d, scale %g, then %g after %u "
                         "good ones, %llu steps; not %d, %g, %g, %d, %llu",
                         n, u, k, c.skipped, c.loss_scale, c.after.loss_scale, c.after.good,
                         (unsigned long long)c.after.steps, now, scale, o.scale, o.tracker,
                         (unsigned long long)o.steps);
        }
    }
    look(&r[0], &all[0]);
    for (int k = 1; k < n; k++) {
        look(&r[k], &all[1]);
        assert_memory_equal(&all[0], &all[1], sizeof all[0]);
    }
    for (int k = 0; k < n; k++)
        rig_close(&r[k]);
}

static void the_scale_follows_its_rules_on_every_rank(void **state)
{
    (void)state;
    check_ranks(1, 4001, false); /* doubled after 2000 and 4000 */
    check_ranks(1, 8800, true);
    for (int n = 2; n <= DEVICES; n++)
        check_ranks(n, n == 2 ? 2779 : 300, true);
}

/* The norm of a gradient does not know the scale that it came with, to the bit. */
static void norms_are_unscaled(void **state)
{
    struct rig r;
    struct rig_update w;
    float x[FLOATS];
    double squares[2][N_PARAMS], norm[2];

    (void)state;
    rig_open(&r, "cuda", 0, BST_PRECISION_FP16);
    rig_describe(&w, &r, BST_OPTIMIZER_SGD);
    for (int i = 0; i < 2; i++) {
        const struct bst_commit_state s = {.loss_scale = i ? 8192 : 1};

        rig_numbers(x, 11, (float)s.loss_scale);
        rig_put(&r, r.block[GRAD], x, FLOATS);
        ok(r.b->set_commit_state(r.be, &s));
        norm[i] = rig_commit(&r, &w.commit, squares[i]).grad_norm;
    }
    assert_true(norm[0] > 1 && norm[0] == norm[1]);
    assert_memory_equal(squares[0], squares[1], sizeof squares[0]);
    rig_close(&r);
}

/* One commit captured and played again and again is as many commits. */
static void a_captured_commit_decides_at_each_replay(void **state)
{
    const struct bst_commit_state start = {.loss_scale = 65536, .good = 1990};
    struct rig r[2];
    struct rig_update w[2];
    struct snapshot s[2];
    struct bst_commit_result c[2];
    float x[FLOATS];
    double squares[N_PARAMS];
    cudaGraph_t graph;
    cudaGraphExec_t play;

    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_open(&r[i], "cuda", i, BST_PRECISION_FP16);
        ok(r[i].b->set_commit_state(r[i].be, &start));
        rig_numbers(x, 2, 1);
        rig_put(&r[i], r[i].block[WEIGHT], x, FLOATS);
        rig_put(&r[i], r[i].block[GRAD], x, FLOATS);
        rig_describe(&w[i], &r[i], BST_OPTIMIZER_LAMB);
        c[i] = rig_commit(&r[i], &w[i].commit, squares); /* also makes what it needs */
    }
    for (int u = 0; u < 20; u++)
        c[0] = rig_commit(&r[0], &w[0].commit, squares);
    rig_use(&r[1]);
    assert_int_equal(cudaStreamBeginCapture(r[1].be->stream, cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    ok(r[1].b->commit(r[1].be, &w[1].commit));
    assert_int_equal(cudaStreamEndCapture(r[1].be->stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&play, graph, 0), cudaSuccess);
    for (int u = 0; u < 20; u++)
        assert_int_equal(cudaGraphLaunch(play, r[1].be->stream), cudaSuccess);
    c[1].sum_squares = squares;
    ok(r[1].b->committed(r[1].be, &c[1]));
    assert_true(c[0].after.loss_scale == 131072 && c[1].after.loss_scale == 131072);
    assert_int_equal(c[0].after.good, 11);
    assert_int_equal(c[1].after.good, 11);
    assert_int_equal(c[1].after.steps, 21);
    for (int i = 0; i < 2; i++)
        look(&r[i], &s[i]);
    assert_memory_equal(&s[0], &s[1], sizeof s[0]);
    cudaGraphExecDestroy(play);
    cudaGraphDestroy(graph);
    rig_close(&r[1]);
    rig_close(&r[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skipped_updates_move_nothing_and_say_where),
        cmocka_unit_test(the_first_and_the_last_are_told),
        cmocka_unit_test(what_is_dropped_leaves_the_scale),
        cmocka_unit_test(the_scale_follows_its_rules_on_every_rank),
        cmocka_unit_test(norms_are_unscaled),
        cmocka_unit_test(a_captured_commit_decides_at_each_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
