#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/comm/comm.h"

#define MOST_RANKS 5
#define MOST_FLOATS 5000

/* The two slots a collective uses, in floats. */
static enum bst_err fake_sum(struct bst_be *be, void *dst, const void *const *srcs, int n_srcs,
                             size_t bytes)
{
    if (be)
        return bst_fail(BST_E_LIBRARY, "the device is gone");
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        float s = ((const float *)srcs[0])[i];
        for (int k = 1; k < n_srcs; k++)
            s += ((const float *)srcs[k])[i];
        ((float *)dst)[i] = s;
    }
    return BST_OK;
}

static enum bst_err fake_copy(struct bst_be *be, void *dst, const void *src, size_t bytes)
{
    (void)be;
    memcpy(dst, src, bytes);
    return BST_OK;
}

static const struct bst_backend fake = {
    .name = "fake", .elem_bytes = 4, .sum = fake_sum, .copy = fake_copy};

struct rank {
    struct bst_comm *comm;
    int n_floats, rounds;
    int dies_at; /* round in which this rank's sum fails; -1: never */
    float *block;
    double last[2];
    enum bst_err err;
};

static float number(int rank, int round, int i)
{
    struct bst_rng r;
    bst_rng_init(&r, 7, BST_RNG_TEST, (uint64_t)(rank * 1000 + round) * MOST_FLOATS + (uint64_t)i);
    return (float)bst_rng_normal(&r);
}

static enum bst_err run_rounds(struct rank *k)
{
    struct bst_comm *c = k->comm;
    for (int round = 0; round < k->rounds; round++) {
        bool dies = round == k->dies_at;
        bst_comm_use(c, &fake, dies ? (struct bst_be *)(void *)k : NULL);
        for (int i = 0; i < k->n_floats; i++)
            k->block[i] = number(c->rank, round, i);
        BST_TRY(c->ops->all_reduce(c, k->block, (size_t)k->n_floats * sizeof(float)));
        k->last[0] = 0.1 * (c->rank + 1);
        k->last[1] = c->rank;
        BST_TRY(bst_comm_sum(c, k->last, 1));
        BST_TRY(bst_comm_max(c, k->last + 1, 1));
    }
    return c->ops->broadcast(c, k->block, sizeof(float), c->n_ranks - 1);
}

static void *rank_main(void *arg)
{
    struct rank *k = arg;
    k->err = run_rounds(k);
    return NULL;
}

static void run_ranks(struct bst_comm_local *g, struct rank *ranks, int n)
{
    pthread_t threads[MOST_RANKS];
    for (int r = 0; r < n; r++) {
        ranks[r].comm = bst_comm_local_at(g, r);
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

static void check_sums(int n_ranks, int n_floats)
{
    struct bst_comm_local *g = bst_comm_local_new(n_ranks);
    struct rank ranks[MOST_RANKS] = {0};
    enum { ROUNDS = 3 };
    for (int r = 0; r < n_ranks; r++)
        ranks[r] = (struct rank){.n_floats = n_floats,
                                 .rounds = ROUNDS,
                                 .dies_at = -1,
                                 .block = bst_xcalloc((size_t)n_floats + 1, sizeof(float))};
    run_ranks(g, ranks, n_ranks);
    double small = 0;
    for (int r = 0; r < n_ranks; r++)
        small += 0.1 * (r + 1);
    for (int r = 0; r < n_ranks; r++) {
        assert_int_equal(ranks[r].err, BST_OK);
        assert_true(ranks[r].last[0] == small);
        assert_true(ranks[r].last[1] == n_ranks - 1);
        for (int i = 0; i < n_floats; i++) {
            float want = number(0, ROUNDS - 1, i);
            for (int q = 1; q < n_ranks; q++)
                want += number(q, ROUNDS - 1, i);
            assert_memory_equal(&ranks[r].block[i], &want, sizeof want);
        }
        bst_free(ranks[r].block);
    }
    bst_comm_local_free(g);
}

static void sums_are_in_rank_order_on_every_rank(void **state)
{
    (void)state;
    static const int sizes[] = {1, 3, 15, 16, 17, 33, 1000};
    for (int n = 1; n <= MOST_RANKS; n++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_sums(n, sizes[i]);
}

static void a_rank_that_fails_wakes_the_others(void **state)
{
    (void)state;
    struct bst_comm_local *g = bst_comm_local_new(3);
    for (int victim = 0; victim < 3; victim++) {
        struct rank ranks[3] = {0};
        for (int r = 0; r < 3; r++)
            ranks[r] = (struct rank){.n_floats = 48,
                                     .rounds = 20,
                                     .dies_at = r == victim ? 11 : -1,
                                     .block = bst_xcalloc(48, sizeof(float))};
        run_ranks(g, ranks, 3);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].err, r == victim ? BST_E_LIBRARY : BST_E_STATE);
            ranks[r].dies_at = -1;
        }
        bst_comm_local_reset(g);
        run_ranks(g, ranks, 3);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].err, BST_OK);
            bst_free(ranks[r].block);
        }
    }
    bst_comm_local_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_in_rank_order_on_every_rank),
        cmocka_unit_test(a_rank_that_fails_wakes_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
