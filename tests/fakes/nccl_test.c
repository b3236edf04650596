/* NCCL's fake: ranks as threads, numbers against plain sums, and what goes wrong between ranks. */
#include <pthread.h>

#include <nccl.h>

#include "tests/fakes/half.h"
#include "tests/fakes/support.h"

enum { N = 257, RANKS_MAX = FAKE_DEVICES_MAX };

struct world {
    int n;
    ncclUniqueId id;
    ncclDataType_t type;
    ncclRedOp_t op;
    bool is_blocking;
    pthread_barrier_t met;
};

struct rank {
    struct world *w;
    int rank;
    ncclComm_t comm;
    cudaStream_t stream;
    float *sent, *got; /* host */
    void *p, *q;       /* device */
};

static enum test_type type_of(ncclDataType_t t)
{
    return t == ncclFloat16 ? TEST_F16 : t == ncclBfloat16 ? TEST_BF16 : TEST_F32;
}

/* As one that does not block has to be used: polled until it is done. */
static void settle(ncclComm_t comm, ncclResult_t r)
{
    assert_true(r == ncclSuccess || r == ncclInProgress);
    while (r == ncclInProgress)
        ok(ncclCommGetAsyncError(comm, &r));
    assert_int_equal(r, ncclSuccess);
}

static void rank_init(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = r->w->is_blocking;
    ok(cudaSetDevice(r->rank));
    ncclResult_t e = ncclCommInitRankConfig(&r->comm, r->w->n, r->w->id, r->rank, &config);
    assert_int_equal(e, r->w->is_blocking ? ncclSuccess : ncclInProgress);
    settle(r->comm, e);
    ok(cudaStreamCreate(&r->stream));
    r->sent = calloc(N, sizeof *r->sent);
    r->got = calloc((size_t)N * RANKS_MAX, sizeof *r->got);
    test_fill(r->sent, N, (uint64_t)r->rank + 1, type_of(r->w->type));
    r->p = test_up(r->sent, N, type_of(r->w->type));
    r->q = test_up(NULL, (size_t)N * RANKS_MAX, type_of(r->w->type));
}

static void rank_fini(struct rank *r)
{
    ok(cudaFree(r->p));
    ok(cudaFree(r->q));
    ok(cudaStreamDestroy(r->stream));
    free(r->sent);
    free(r->got);
}

static void run_ranks(struct world *w, struct rank *ranks, void *(*body)(void *))
{
    pthread_t t[RANKS_MAX];
    ok(ncclGetUniqueId(&w->id));
    pthread_barrier_init(&w->met, NULL, (unsigned)w->n);
    for (int r = 0; r < w->n; r++) {
        ranks[r] = (struct rank){.w = w, .rank = r};
        pthread_create(&t[r], NULL, body, &ranks[r]);
    }
    for (int r = 0; r < w->n; r++)
        pthread_join(t[r], NULL);
    pthread_barrier_destroy(&w->met);
}

static void *all_reduces(void *arg)
{
    struct rank *r = arg;
    rank_init(r);
    for (int i = 0; i < 3; i++) { /* also in place */
        settle(r->comm,
               ncclAllReduce(i ? r->q : r->p, r->q, N, r->w->type, r->w->op, r->comm, r->stream));
    }
    /* The copy waits for the stream, which blocks, and so for the other ranks. */
    test_down(r->got, r->q, N, type_of(r->w->type));
    pthread_barrier_wait(&r->w->met);
    ok(ncclCommDestroy(r->comm));
    return NULL;
}

static void expect_reduced(const struct world *w, const struct rank *ranks)
{
    enum test_type t = type_of(w->type);
    for (size_t i = 0; i < N; i++) {
        double v = 0;
        for (int r = 0; r < w->n; r++)
            v += (double)ranks[r].sent[i];
        double scale = w->op == ncclAvg ? w->n : 1;
        float one = test_round((float)(v / scale), t);
        for (int again = 0; again < 2; again++) /* every rank has the same value by then */
            one = test_round((float)((double)one * w->n / scale), t);
        for (int r = 0; r < w->n; r++) {
            if (memcmp(&ranks[r].got[i], &one, sizeof one))
                fail_msg("rank %d of %d, element %zu: %g instead of %g", r, w->n, i,
                         (double)ranks[r].got[i], (double)one);
        }
    }
}

static void all_ranks_get_the_same_sum(void **state)
{
    (void)state;
    static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
    for (int n = 1; n <= RANKS_MAX; n++) {
        for (int k = 0; k < 6; k++) {
            struct world w = {.n = n,
                              .type = types[k % 3],
                              .op = k < 3 ? ncclSum : ncclAvg,
                              .is_blocking = k % 2};
            struct rank ranks[RANKS_MAX];
            test_machine(n, (uint64_t)k);
            run_ranks(&w, ranks, all_reduces);
            expect_reduced(&w, ranks);
            for (int r = 0; r < n; r++)
                rank_fini(&ranks[r]);
            test_all_gone();
        }
    }
}

static void *other_collectives(void *arg)
{
    struct rank *r = arg;
    const size_t each = N / (size_t)r->w->n;
    float *all = calloc((size_t)N * RANKS_MAX, sizeof *all);
    rank_init(r);
    ok(ncclBroadcast(r->p, r->q, N, ncclFloat32, r->w->n - 1, r->comm, r->stream));
    ok(cudaStreamSynchronize(r->stream));
    test_down(all, r->q, N, TEST_F32);
    test_fill(r->got, N, (uint64_t)r->w->n, TEST_F32);
    assert_memory_equal(all, r->got, N * sizeof *all);
    ok(ncclAllGather(r->p, r->q, N, ncclFloat32, r->comm, r->stream));
    ok(cudaStreamSynchronize(r->stream));
    test_down(all, r->q, (size_t)N * (size_t)r->w->n, TEST_F32);
    for (int k = 0; k < r->w->n; k++) {
        test_fill(r->got, N, (uint64_t)k + 1, TEST_F32);
        assert_memory_equal(all + k * N, r->got, N * sizeof *all);
    }
    ok(ncclReduceScatter(r->p, r->q, each, ncclFloat32, ncclSum, r->comm, r->stream));
    ok(cudaStreamSynchronize(r->stream));
    test_down(r->got, r->q, each, TEST_F32);
    for (size_t i = 0; i < each; i++) {
        double v = 0;
        for (int k = 0; k < r->w->n; k++)
            v += (double)all[(size_t)k * N + (size_t)r->rank * each + i];
        assert_true(r->got[i] == (float)v);
    }
    ok(ncclReduce(r->p, r->q, N, ncclFloat32, ncclMax, 0, r->comm, r->stream));
    ok(cudaStreamSynchronize(r->stream));
    test_down(r->got, r->q, N, TEST_F32);
    for (size_t i = 0; i < N && !r->rank; i++) {
        float most = all[i];
        for (int k = 1; k < r->w->n; k++)
            most = all[(size_t)k * N + i] > most ? all[(size_t)k * N + i] : most;
        assert_true(r->got[i] == most);
    }
    free(all);
    ok(ncclCommDestroy(r->comm));
    return NULL;
}

static void the_other_collectives(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct world w = {.n = n, .type = ncclFloat32, .is_blocking = true};
        struct rank ranks[RANKS_MAX];
        test_machine(n, (uint64_t)n - 1);
        run_ranks(&w, ranks, other_collectives);
        for (int r = 0; r < n; r++)
            rank_fini(&ranks[r]);
        test_all_gone();
    }
}

/* All-reduce on a stream of its own between two computations; the events decide what is summed. */
static bool step_is_right(uint64_t seed, bool waits)
{
    enum { K = 2 };
    test_machine(K, seed);
    ncclComm_t comm[K];
    struct dev d[K];
    float *g[K], *w[K];
    ok(ncclCommInitAll(comm, K, NULL));
    for (int r = 0; r < K; r++) {
        ok(cudaSetDevice(r));
        dev_init(&d[r]);
        g[r] = test_up(NULL, N, TEST_F32);
        w[r] = test_up(NULL, N, TEST_F32);
        ok(test_axpb(d[r].a, g[r], g[r], N, 0, (float)r + 1));
        ok(cudaEventRecord(d[r].e, d[r].a));
        if (waits)
            ok(cudaStreamWaitEvent(d[r].b, d[r].e, 0));
    }
    ok(ncclGroupStart());
    for (int r = 0; r < K; r++)
        ok(ncclAllReduce(g[r], g[r], N, ncclFloat32, ncclSum, comm[r], d[r].b));
    ok(ncclGroupEnd());
    bool right = true;
    for (int r = 0; r < K; r++) {
        ok(cudaSetDevice(r));
        ok(cudaEventRecord(d[r].f, d[r].b));
        ok(cudaStreamWaitEvent(d[r].a, d[r].f, 0));
        ok(test_axpb(d[r].a, w[r], g[r], N, 10, 0));
    }
    for (int r = 0; r < K; r++) {
        float v[N];
        ok(cudaSetDevice(r));
        ok(cudaStreamSynchronize(d[r].a));
        test_down(v, w[r], N, TEST_F32);
        right = right && v[0] == 30;
        ok(cudaFree(g[r]));
        ok(cudaFree(w[r]));
        dev_fini(&d[r]);
        ok(ncclCommDestroy(comm[r]));
    }
    test_all_gone();
    return right;
}

static void a_collective_keeps_to_streams_and_events(void **state)
{
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        assert_true(step_is_right(seed, true));
        wrong += !step_is_right(seed, false);
    }
    assert_true(wrong > 2);
}

/* Two ranks of one thread, with streams, ready for trouble. */
struct pair {
    ncclComm_t comm[2];
    cudaStream_t s[2];
    float *p[2];
};

static void pair_init(struct pair *p, uint64_t seed, int hang_ms, const char *fail)
{
    struct fake_settings s = test_settings(2);
    s.seed = seed;
    s.hang_ms = hang_ms;
    snprintf(s.fail, sizeof s.fail, "%s", fail);
    fake_reset(&s);
    ok(ncclCommInitAll(p->comm, 2, NULL));
    for (int r = 0; r < 2; r++) {
        ok(cudaSetDevice(r));
        ok(cudaStreamCreateWithFlags(&p->s[r], cudaStreamNonBlocking));
        p->p[r] = test_up(NULL, N, TEST_F32);
        ok(cudaMemset(p->p[r], 0, N * sizeof(float)));
        ok(cudaDeviceSynchronize());
    }
}

static ncclResult_t async_of(ncclComm_t comm)
{
    ncclResult_t e;
    ok(ncclCommGetAsyncError(comm, &e));
    return e;
}

/* After the abort the streams are free and the device is as good as before. */
static void pair_abort(struct pair *p)
{
    for (int r = 0; r < 2; r++)
        ok(ncclCommAbort(p->comm[r]));
    for (int r = 0; r < 2; r++) {
        ok(cudaSetDevice(r));
        ok(cudaStreamSynchronize(p->s[r]));
        ok(test_axpb(p->s[r], p->p[r], p->p[r], N, 1, 1));
        ok(cudaStreamSynchronize(p->s[r]));
        ok(cudaStreamDestroy(p->s[r]));
        ok(cudaFree(p->p[r]));
    }
    assert_int_equal(fake_leaks(), 0);
}

static void poll_both(struct pair *p, int times)
{
    for (int i = 0; i < times; i++) {
        for (int r = 0; r < 2; r++)
            assert_int_equal(cudaStreamQuery(p->s[r]), cudaErrorNotReady);
    }
}

static void a_mismatch_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        struct pair p;
        pair_init(&p, (uint64_t)which, 60000, "");
        ok(ncclGroupStart());
        ok(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat32, ncclSum, p.comm[0], p.s[0]));
        if (which == 0)
            ok(ncclAllReduce(p.p[1], p.p[1], N - 1, ncclFloat32, ncclSum, p.comm[1], p.s[1]));
        else if (which == 1)
            ok(ncclAllReduce(p.p[1], p.p[1], N, ncclFloat32, ncclAvg, p.comm[1], p.s[1]));
        else if (which == 2)
            ok(ncclAllReduce(p.p[1], p.p[1], N, ncclFloat16, ncclSum, p.comm[1], p.s[1]));
        else
            ok(ncclBroadcast(p.p[1], p.p[1], N, ncclFloat32, 0, p.comm[1], p.s[1]));
        ok(ncclGroupEnd());
        poll_both(&p, 50);
        assert_int_equal(async_of(p.comm[0]), ncclInvalidUsage);
        assert_int_equal(async_of(p.comm[1]), ncclInvalidUsage);
        assert_non_null(strstr(fake_last_report(), "of 257"));
        pair_abort(&p);
    }
}

/* A rank that does not come: the others are not ready, without an error of their own. */
static void a_missing_rank_is_a_hang(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct pair p;
        pair_init(&p, seed, 60000, "ncclAllReduce@1:1:hang");
        ok(ncclGroupStart());
        for (int r = 0; r < 2; r++)
            ok(ncclAllReduce(p.p[r], p.p[r], N, ncclFloat32, ncclSum, p.comm[r], p.s[r]));
        ok(ncclGroupEnd());
        poll_both(&p, 50);
        assert_int_equal(async_of(p.comm[0]), ncclSuccess);
        /* One rank's abort frees that rank, and tells the other. */
        ok(ncclCommAbort(p.comm[1]));
        ok(cudaStreamSynchronize(p.s[1]));
        assert_int_equal(cudaStreamQuery(p.s[0]), cudaErrorNotReady);
        assert_int_equal(async_of(p.comm[0]), ncclRemoteError);
        p.comm[1] = NULL;
        pair_abort(&p);
    }
}

static void a_wait_for_a_missing_rank_ends(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 0, 50, "");
    ok(ncclGroupStart());
    ok(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat32, ncclSum, p.comm[0], p.s[0]));
    ok(ncclGroupEnd());
    assert_int_equal(cudaStreamSynchronize(p.s[0]), cudaErrorLaunchTimeout);
}

static void an_asynchronous_error_is_found_by_asking(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 2, 60000, "ncclAllReduce@0:2:late=3");
    for (int i = 0; i < 2; i++) {
        ok(ncclGroupStart());
        for (int r = 0; r < 2; r++)
            ok(ncclAllReduce(p.p[r], p.p[r], N, ncclFloat32, ncclSum, p.comm[r], p.s[r]));
        ok(ncclGroupEnd());
        if (!i)
            ok(cudaStreamSynchronize(p.s[0]));
    }
    poll_both(&p, 50);
    assert_int_equal(async_of(p.comm[0]), ncclInternalError);
    assert_int_equal(async_of(p.comm[1]), ncclSuccess);
    pair_abort(&p);
}

static void calls_that_fail_at_once(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 0, 60000, "ncclAllReduce:1:2");
    assert_int_equal(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat32, ncclSum, p.comm[0], p.s[0]),
                     ncclSystemError);
    assert_int_equal(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat32, ncclSum, p.comm[0], p.s[1]),
                     ncclInvalidUsage); /* another device's stream */
    assert_int_equal(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat8e4m3, ncclSum, p.comm[0], p.s[0]),
                     ncclInvalidArgument);
    /* One thread, two ranks, no group: hangs on the real one. */
    ok(ncclAllReduce(p.p[0], p.p[0], N, ncclFloat32, ncclSum, p.comm[0], p.s[0]));
    assert_int_equal(ncclAllReduce(p.p[1], p.p[1], N, ncclFloat32, ncclSum, p.comm[1], p.s[1]),
                     ncclInvalidUsage);
    pair_abort(&p);
}

static void communicators_are_made_with_care(void **state)
{
    (void)state;
    struct fake_settings s = test_settings(2);
    s.nccl_bytes = 4 << 20;
    s.hang_ms = 50;
    fake_reset(&s);
    ok(cudaSetDevice(0));
    ncclUniqueId id;
    ncclComm_t a, b;
    size_t f, t;
    ok(ncclGetUniqueId(&id));
    /* Nobody else comes. */
    assert_int_equal(ncclCommInitRank(&a, 2, id, 0), ncclInternalError);
    ok(cudaMemGetInfo(&f, &t));
    assert_int_equal(t - f, 4 << 20);
    assert_int_equal(ncclCommInitRank(&b, 2, id, 1), ncclInvalidUsage); /* the same device */
    assert_int_equal(ncclCommInitRank(&b, 3, id, 1), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRank(&b, 2, id, 2), ncclInvalidArgument);
    ncclConfig_t config = {0};
    assert_int_equal(ncclCommInitRankConfig(&b, 2, id, 1, &config), ncclInvalidArgument);
    ok(ncclCommAbort(a));
    ok(cudaMemGetInfo(&f, &t));
    assert_int_equal(t, f);
    assert_int_equal(fake_leaks(), 0);
}

static void one_that_does_not_block_is_polled(void **state)
{
    (void)state;
    test_machine(2, 0);
    ncclUniqueId id;
    ncclComm_t comm[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ok(ncclGetUniqueId(&id));
    assert_int_equal(ncclCommInitRankConfig(&comm[0], 2, id, 0, &config), ncclInProgress);
    for (int i = 0; i < 10; i++)
        assert_int_equal(async_of(comm[0]), ncclInProgress);
    float *p = test_up(NULL, N, TEST_F32);
    assert_int_equal(ncclAllReduce(p, p, N, ncclFloat32, ncclSum, comm[0], NULL), ncclInvalidUsage);
    ok(cudaSetDevice(1));
    assert_int_equal(ncclCommInitRankConfig(&comm[1], 2, id, 1, &config), ncclInProgress);
    for (int r = 0; r < 2; r++)
        settle(comm[r], ncclInProgress);
    for (int r = 0; r < 2; r++)
        ok(ncclCommDestroy(comm[r]));
    ok(cudaFree(p));
    assert_int_equal(fake_leaks(), 0);
}

/* The buffers are looked at when the collective runs. */
static void a_buffer_too_short_kills_its_device(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 0, 60000, "");
    ok(ncclGroupStart());
    for (int r = 0; r < 2; r++)
        ok(ncclAllReduce(p.p[r], p.p[r] + r, N, ncclFloat32, ncclSum, p.comm[r], p.s[r]));
    assert_int_equal(ncclGroupEnd(), ncclUnhandledCudaError);
    assert_int_equal(cudaStreamSynchronize(p.s[1]), cudaErrorIllegalAddress);
    assert_non_null(strstr(fake_last_report(), "rank 1's buffer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_same_sum),
        cmocka_unit_test(the_other_collectives),
        cmocka_unit_test(a_collective_keeps_to_streams_and_events),
        cmocka_unit_test(a_mismatch_is_an_error_on_all_ranks),
        cmocka_unit_test(a_missing_rank_is_a_hang),
        cmocka_unit_test(a_wait_for_a_missing_rank_ends),
        cmocka_unit_test(an_asynchronous_error_is_found_by_asking),
        cmocka_unit_test(calls_that_fail_at_once),
        cmocka_unit_test(communicators_are_made_with_care),
        cmocka_unit_test(one_that_does_not_block_is_polled),
        cmocka_unit_test(a_buffer_too_short_kills_its_device),
    };
    return cmocka_run_group_tests_name("fakes.nccl", tests, NULL, NULL);
}
