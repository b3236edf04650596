/* Collectives between processes, run by mpirun as three of them; each has two ranks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/comm/wide.h"

enum { LOCAL = 2, MOST = 150000 };

static struct bst_cluster *cluster;
static struct bst_comm_local *local;
static struct bst_comm_wide *wide;

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

static float number(int rank, int i)
{
    struct bst_rng r;
    bst_rng_init(&r, 7, BST_RNG_TEST, (uint64_t)rank * MOST + (uint64_t)i);
    return (float)bst_rng_normal(&r);
}

struct rank {
    struct bst_comm *comm;
    float *block;
    int n, root;
    bool dies; /* before its second collective */
    double sum, most;
    enum bst_err err;
};

static enum bst_err collectives(struct rank *k)
{
    struct bst_comm *c = k->comm;
    const size_t bytes = (size_t)k->n * sizeof(float);
    bst_comm_use(c, &fake, NULL);
    for (int i = 0; i < k->n; i++)
        k->block[i] = number(c->rank, i);
    BST_TRY(c->ops->all_reduce(c, k->block, bytes));
    if (k->dies) {
        c->ops->abort(c);
        return bst_fail(BST_E_NOMEM, "no more");
    }
    k->sum = 0.1 * (c->rank + 1);
    k->most = c->rank;
    BST_TRY(bst_comm_sum(c, &k->sum, 1));
    BST_TRY(bst_comm_max(c, &k->most, 1));
    if (c->rank == k->root)
        k->block[0] = (float)(1000 + k->root);
    BST_TRY(c->ops->broadcast(c, k->block, bytes, k->root));
    return c->ops->barrier(c);
}

static void *rank_main(void *arg)
{
    struct rank *k = arg;
    k->err = collectives(k);
    return NULL;
}

/* As the trainer does: ranks, then the end of the job with all processes. */
static void run(struct rank *ranks, struct bst_ending *all)
{
    pthread_t threads[LOCAL];
    struct bst_ending mine = {.rank = -1};
    for (int i = 0; i < LOCAL; i++) {
        ranks[i].comm = bst_comm_wide_at(wide, i);
        assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < LOCAL; i++) {
        pthread_join(threads[i], NULL);
        if (ranks[i].err && ranks[i].err != BST_E_STATE)
            mine.err = (int)ranks[i].err;
    }
    assert_int_equal(bst_comm_wide_over(wide, &mine, all), BST_OK);
}

static void check_sums(int n, int root)
{
    const int n_ranks = LOCAL * bst_cluster_info(cluster)->n_processes;
    struct rank ranks[LOCAL] = {0};
    struct bst_ending all[8];
    for (int i = 0; i < LOCAL; i++)
        ranks[i] =
            (struct rank){.n = n, .root = root, .block = bst_xcalloc((size_t)n + 1, sizeof(float))};
    run(ranks, all);
    double sum = 0;
    for (int r = 0; r < n_ranks; r++)
        sum += 0.1 * (r + 1);
    for (int i = 0; i < LOCAL; i++) {
        assert_int_equal(ranks[i].err, BST_OK);
        assert_true(ranks[i].sum == sum);
        assert_true(ranks[i].most == n_ranks - 1);
        assert_true(ranks[i].block[0] == (float)(1000 + root));
        for (int k = 1; k < n; k++) {
            float want = number(0, k);
            for (int r = 1; r < n_ranks; r++)
                want += number(r, k);
            assert_memory_equal(&ranks[i].block[k], &want, sizeof want);
        }
        bst_free(ranks[i].block);
    }
}

static void sums_are_in_rank_order_over_processes(void **state)
{
    (void)state;
    /* A piece is 65536 floats: less than one, one and a bit, two and a bit. */
    static const int sizes[] = {1, 3, 17, 65536, 65537, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_sums(sizes[i], (int)i % (LOCAL * bst_cluster_info(cluster)->n_processes));
}

static void a_rank_that_fails_is_everybodys_and_all_go_on(void **state)
{
    (void)state;
    const struct bst_cluster_info *info = bst_cluster_info(cluster);
    for (int victim = 0; victim < LOCAL * info->n_processes; victim++) {
        struct rank ranks[LOCAL] = {0};
        struct bst_ending all[8];
        for (int i = 0; i < LOCAL; i++)
            ranks[i] = (struct rank){.n = 48,
                                     .dies = info->process * LOCAL + i == victim,
                                     .block = bst_xcalloc(49, sizeof(float))};
        run(ranks, all);
        for (int i = 0; i < LOCAL; i++) {
            assert_int_equal(ranks[i].err, ranks[i].dies ? BST_E_NOMEM : BST_E_STATE);
            bst_free(ranks[i].block);
        }
        for (int p = 0; p < info->n_processes; p++)
            assert_int_equal(all[p].err, p == victim / LOCAL ? BST_E_NOMEM : BST_OK);
        bst_comm_local_reset(local);
        check_sums(17, 0);
    }
}

static void what_process_0_tells_all_others_hear(void **state)
{
    (void)state;
    const int own = bst_cluster_info(cluster)->process;
    int word = own ? 0 : 4711;
    if (own)
        assert_int_equal(bst_cluster_hear(cluster, &word, sizeof word), BST_OK);
    else
        assert_int_equal(bst_cluster_tell(cluster, &word, sizeof word), BST_OK);
    assert_int_equal(word, 4711);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_in_rank_order_over_processes),
        cmocka_unit_test(a_rank_that_fails_is_everybodys_and_all_go_on),
        cmocka_unit_test(what_process_0_tells_all_others_hear),
    };
    if (bst_cluster_open(&cluster) || !cluster) {
        fprintf(stderr, "not started by mpirun, or without comm_mpi.so: %s\n", bst_err_text());
        return 77;
    }
    bst_cluster_set_wait(cluster, 30);
    bst_cluster_busy(cluster, true);
    local = bst_comm_local_new(LOCAL);
    wide = bst_comm_wide_new(cluster, local, LOCAL);
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bst_comm_wide_free(wide);
    bst_comm_local_free(local);
    bst_cluster_busy(cluster, bad > 0); /* the others may be waiting for this one */
    bst_cluster_close(cluster, bad ? 1 : 0);
    return bad;
}
