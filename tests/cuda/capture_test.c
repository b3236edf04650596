/* Captured stretches of a program give the same bits as the instructions one by one, whatever of
 * the step changes, and are captured once a program, a place in memory and a way of adding. */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backend/cuda/be.h"
#include "core/base/alloc.h"
#include "tests/fakes/fake.h"
#include "tests/net/net_rig.h"
#include "tests/net/random_net.h"

enum { N_PROGRAMS = 2, SAMPLES = 5 };
static const int micros[N_PROGRAMS] = {SAMPLES, 3};

struct run { /* gradients and statistics of a net, in the order of its parameters, then the loss */
    struct net_rig r;
    struct random_net net;
    double *x;
    int64_t n;
};

static void open_run(struct run *o, uint64_t seed, bool captures)
{
    const struct bst_compile_opts opts = {.training = true, .accumulate = true};

    *o = (struct run){.net = {seed, 1 + (int)(seed % 3), 9 + (int)(seed % 4), true}};
    net_open(&o->r, bst_backend_find("cuda"), 1);
    o->r.be->captures = captures;
    for (int i = 0; i < N_PROGRAMS; i++)
        net_compile(&o->r, random_net_build(&o->net, micros[i]), &opts);
    net_alloc(&o->r);
    net_fill(&o->r, seed);
    for (int s = 0; s < o->r.table->n_slots; s++)
        o->n += bst_shape_count(&o->r.table->slots[s].shape);
    o->x = bst_xcalloc((size_t)o->n + 1, sizeof *o->x);
}

static void close_run(struct run *o)
{
    bst_free(o->x);
    net_close(&o->r);
}

static void pass(struct run *o, const struct net_batch *batch, int program, bool accumulate,
                 double smoothing)
{
    struct bst_step step = {.images = batch->images,
                            .labels = batch->labels,
                            .n_valid = micros[program],
                            .grad_scale = 0.25 + smoothing,
                            .label_smoothing = smoothing,
                            .accumulate = accumulate};
    int64_t at = 0;

    net_run_step(&o->r, program, &step);
    for (int s = 0; s < o->r.table->n_slots; s++) {
        net_get(&o->r, s < o->r.table->n_trained ? BST_MEM_GRAD : BST_MEM_STAGED, s, o->x + at);
        at += bst_shape_count(&o->r.table->slots[s].shape);
    }
    o->x[at] = o->r.result.loss_sum;
}

static void must_agree(const struct run *a, const struct run *b, const char *when)
{
    if (memcmp(a->x, b->x, ((size_t)a->n + 1) * sizeof *a->x))
        fail_msg("net %d: other bits %s", (int)a->net.seed, when);
}

static void captured_and_eager_are_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct run eager, captured;
        struct net_batch batch[2];

        open_run(&eager, seed, false);
        open_run(&captured, seed, true);
        for (int i = 0; i < 2; i++)
            net_batch_make(&batch[i], SAMPLES, eager.net.channels, eager.net.size,
                           RANDOM_NET_CLASSES, seed + 100 * (uint64_t)i);
        for (int i = 0; i < 12; i++) { /* images, labels, scale, smoothing, sums: all change */
            pass(&eager, &batch[i % 2], i / 2 % 2, i % 3 != 0, 0.01 * i);
            pass(&captured, &batch[i % 2], i / 2 % 2, i % 3 != 0, 0.01 * i);
            must_agree(&eager, &captured, "captured");
        }
        assert_int_equal(eager.r.be->n_captured, 0);
        assert_true(captured.r.be->n_captured > 0);
        for (int i = 0; i < 2; i++)
            net_batch_free(&batch[i]);
        close_run(&eager);
        close_run(&captured);
    }
}

static void what_changes_in_a_step_captures_nothing(void **state)
{
    struct run o;
    struct net_batch batch;

    (void)state;
    open_run(&o, 2, true);
    net_batch_make(&batch, SAMPLES, o.net.channels, o.net.size, RANDOM_NET_CLASSES, 7);
    pass(&o, &batch, 0, false, 0);
    assert_int_equal(o.r.be->n_captured, 0); /* plans may still be chosen in the first */
    pass(&o, &batch, 0, false, 0);
    const int once = o.r.be->n_captured;
    assert_true(once >= 2); /* before and behind the loss */
    for (int i = 0; i < 5; i++)
        pass(&o, &batch, 0, false, 0.1 * i);
    assert_int_equal(o.r.be->n_captured, once);
    for (int i = 0; i < 4; i++) /* adding: other instructions */
        pass(&o, &batch, 0, true, 0);
    assert_int_equal(o.r.be->n_captured, 2 * once);
    for (int i = 0; i < 3; i++) /* another program */
        pass(&o, &batch, 1, false, 0);
    assert_int_equal(o.r.be->n_captured, 3 * once);
    for (int i = 0; i < 6; i++) /* and back: both are kept */
        pass(&o, &batch, i % 2, false, 0);
    assert_int_equal(o.r.be->n_captured, 3 * once);
    net_batch_free(&batch);
    close_run(&o);
}

/* Memories that lie elsewhere: what was captured does not hold. */
static void another_arena_is_captured_anew(void **state)
{
    struct run o, eager;
    struct net_batch batch;

    (void)state;
    open_run(&o, 4, true);
    open_run(&eager, 4, false);
    net_batch_make(&batch, SAMPLES, o.net.channels, o.net.size, RANDOM_NET_CLASSES, 7);
    for (int i = 0; i < 3; i++) {
        pass(&o, &batch, 0, false, 0);
        pass(&eager, &batch, 0, false, 0);
    }
    const int once = o.r.be->n_captured;
    void *elsewhere = NULL;
    const size_t bytes = o.r.bytes[BST_MEM_ARENA];
    net_must(o.r.b->alloc(o.r.be, bytes, &elsewhere), "another arena");
    void *before = o.r.mem.base[BST_MEM_ARENA];
    o.r.mem.base[BST_MEM_ARENA] = elsewhere;
    for (int i = 0; i < 3; i++) {
        pass(&o, &batch, 0, false, 0);
        pass(&eager, &batch, 0, false, 0);
        must_agree(&eager, &o, "in another arena");
    }
    assert_int_equal(o.r.be->n_captured, 2 * once);
    o.r.b->free(o.r.be, before, bytes);
    net_batch_free(&batch);
    close_run(&o);
    close_run(&eager);
}

/* What cannot be captured, or made a graph of, is asked for one by one. */
static void a_refused_capture_is_no_failure(void **state)
{
    static const char *const faults[] = {
        "cudaStreamBeginCapture:1+:900", "cudaStreamEndCapture:1+:901", "cudaStreamEndCapture:2:2",
        "cudaGraphInstantiate:1+:2",     "cudaGraphInstantiate:2:2",
    };

    (void)state;
    for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
        struct run o, eager;
        struct net_batch batch;

        open_run(&o, 3, true);
        open_run(&eager, 3, false);
        net_batch_make(&batch, SAMPLES, o.net.channels, o.net.size, RANDOM_NET_CLASSES, 7);
        fake_fail_set(faults[f]);
        for (int i = 0; i < 4; i++) {
            pass(&o, &batch, 0, i > 1, 0);
            pass(&eager, &batch, 0, i > 1, 0);
            must_agree(&eager, &o, faults[f]);
        }
        fake_fail_set("");
        net_batch_free(&batch);
        close_run(&o);
        close_run(&eager);
    }
}

static void nothing_is_left(void **state)
{
    struct fake_counts n;

    (void)state;
    fake_counts_get(&n);
    assert_int_equal(n.alive[FAKE_GRAPH], 0);
    assert_int_equal(n.alive[FAKE_GRAPH_EXEC], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_and_eager_are_the_same),
        cmocka_unit_test(what_changes_in_a_step_captures_nothing),
        cmocka_unit_test(another_arena_is_captured_anew),
        cmocka_unit_test(a_refused_capture_is_no_failure),
        cmocka_unit_test(nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
