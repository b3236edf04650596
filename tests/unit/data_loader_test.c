#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"

/* A set whose samples say who they are, and which fails where it is told to. */
enum { SIDE = 8, SAMPLE = SIDE * SIDE, N_TRAIN = 1000, N_EVAL = 50 };

static struct {
    bool bad[N_TRAIN];
    int64_t hard; /* index that fails with BST_E_LIBRARY, or -1 */
    bool decodes;
    atomic_int calls, calls_by_taker, signals_open;
    pthread_t taker;
    pthread_mutex_t gate; /* held: whoever fills a sample stands before it */
    atomic_int at_gate, *stop_at_gate;
} fake = {.gate = PTHREAD_MUTEX_INITIALIZER};

static void stamp(uint8_t *out, enum bst_part part, int64_t index, uint64_t key)
{
    struct bst_rng r;
    bst_rng_init(&r, key + (uint64_t)part, BST_RNG_TEST, (uint64_t)index);
    for (int i = 0; i < SAMPLE; i++)
        out[i] = (uint8_t)bst_rng_u32(&r);
}

static enum bst_err fake_open(const struct bst_data_cfg *cfg, void **state,
                              struct bst_data_info *info)
{
    *state = &fake;
    *info = (struct bst_data_info){.n = {N_TRAIN, N_EVAL},
                                   .height = SIDE,
                                   .width = SIDE,
                                   .channels = 1,
                                   .classes = 10,
                                   .decodes = fake.decodes};
    return cfg->path ? BST_E_NOTFOUND : BST_OK;
}

static void fake_close(void *state)
{
    (void)state;
}

static enum bst_err fake_get(void *state, enum bst_part part, int64_t index, uint64_t key,
                             uint8_t *out, int32_t *label)
{
    (void)state;
    sigset_t now;
    atomic_fetch_add(&fake.calls, 1);
    if (atomic_fetch_add(&fake.at_gate, 1) == 2 && fake.stop_at_gate)
        atomic_store(fake.stop_at_gate, 1);
    pthread_mutex_lock(&fake.gate);
    pthread_mutex_unlock(&fake.gate);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (pthread_equal(pthread_self(), fake.taker))
        atomic_fetch_add(&fake.calls_by_taker, 1);
    if (!pthread_equal(pthread_self(), fake.taker) && !sigismember(&now, SIGTERM))
        atomic_fetch_add(&fake.signals_open, 1);
    memset(out, 0xA5, SAMPLE / 2);
    *label = -7;
    if (part == BST_TRAIN && index == fake.hard)
        return bst_fail(BST_E_LIBRARY, "sample %d breaks the library", (int)index);
    if (part == BST_TRAIN && fake.bad[index])
        return bst_fail(BST_E_CORRUPT, "sample %d: torn", (int)index);
    stamp(out, part, index, key);
    *label = (int32_t)(index % 10);
    return BST_OK;
}

static const struct bst_data_format fake_format = {
    .name = "fake", .about = "", .open = fake_open, .close = fake_close, .get = fake_get};

static struct bst_dataset *open_fake(void)
{
    struct bst_dataset *ds;
    struct bst_data_cfg cfg = {.format = "fake"};
    assert_int_equal(bst_dataset_open_format(&fake_format, &cfg, &ds), BST_OK);
    return ds;
}

static int reset(void **state)
{
    (void)state;
    memset(fake.bad, 0, sizeof fake.bad);
    fake.hard = -1;
    fake.decodes = false;
    fake.taker = pthread_self();
    fake.stop_at_gate = NULL;
    atomic_store(&fake.at_gate, 0);
    atomic_store(&fake.calls, 0);
    atomic_store(&fake.calls_by_taker, 0);
    atomic_store(&fake.signals_open, 0);
    return 0;
}

static struct bst_loader *open_loader(struct bst_dataset *ds, enum bst_part part, int slots,
                                      int threads)
{
    struct bst_loader *l;
    struct bst_loader_cfg cfg = {.ds = ds,
                                 .part = part,
                                 .shuffle = true,
                                 .seed = 3,
                                 .max_batch = 130,
                                 .slots = slots,
                                 .threads = threads};
    assert_int_equal(bst_loader_new(&cfg, &l), BST_OK);
    return l;
}

static int64_t readable(int64_t index)
{
    while (fake.bad[index])
        index = (index + 1) % N_TRAIN;
    return index;
}

static void check_train(const struct bst_batch *b, uint64_t first, int n)
{
    int n_bad = 0;
    assert_int_equal(b->n, n);
    for (int i = 0; i < n; i++) {
        uint8_t want[SAMPLE];
        uint64_t p = first + (uint64_t)i;
        int64_t own = bst_sampler_index(3, N_TRAIN, p, true), index = readable(own);
        n_bad += index != own;
        stamp(want, BST_TRAIN, index, bst_augment_key(3, p / N_TRAIN, own));
        assert_int_equal(b->index[i], index);
        assert_int_equal(b->labels[i], index % 10);
        assert_memory_equal(b->images + (size_t)i * SAMPLE, want, SAMPLE);
    }
    assert_int_equal(b->n_bad, n_bad);
}

static void take_and_check(struct bst_loader *l, uint64_t first, int n)
{
    struct bst_batch b;
    assert_int_equal(bst_loader_take(l, first, n, NULL, &b), BST_OK);
    check_train(&b, first, n);
    bst_loader_give_back(l, &b);
}

static const int thread_counts[] = {0, 1, 4};

/* Three ranges asked ahead, over several epochs, none of them a divisor of the set's size. */
static void stream_is_exact(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_fake();
    for (int t = 0; t < 3; t++) {
        struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, thread_counts[t]);
        for (int u = 0; u < 30; u++) {
            for (int ahead = 0; ahead < 3; ahead++)
                bst_loader_ask(l, (uint64_t)(u + ahead) * 117, 117);
            take_and_check(l, (uint64_t)u * 117, 117);
        }
        bst_loader_free(l);
    }
    assert_int_equal(atomic_load(&fake.signals_open), 0);
    bst_dataset_close(ds);
}

/* What was asked for and taken in order is loaded once. */
static void nothing_is_loaded_twice(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 3, 2);
    for (int u = 0; u < 20; u++)
        bst_loader_ask(l, (uint64_t)u * 50, 50);
    for (int u = 0; u < 20; u++) {
        bst_loader_ask(l, (uint64_t)u * 50, 50);
        take_and_check(l, (uint64_t)u * 50, 50);
    }
    bst_loader_free(l);
    assert_int_equal(atomic_load(&fake.calls), 1000);
    bst_dataset_close(ds);
}

/* A decoder's memory stays with the loader's own threads, where it has any. */
static void the_taker_decodes_only_alone(void **state)
{
    (void)state;
    fake.decodes = true;
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, 2);
    for (int u = 0; u < 10; u++)
        take_and_check(l, (uint64_t)u * 100, 100);
    bst_loader_free(l);
    assert_int_equal(atomic_load(&fake.calls_by_taker), 0);
    l = open_loader(ds, BST_TRAIN, 2, 0);
    take_and_check(l, 0, 100);
    bst_loader_free(l);
    assert_int_equal(atomic_load(&fake.calls_by_taker), 100);
    bst_dataset_close(ds);
}

static void evaluation_is_in_order(void **state)
{
    (void)state;
    struct bst_batch b;
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_EVAL, 2, 1);
    assert_int_equal(bst_loader_take(l, 17, 33, NULL, &b), BST_OK);
    for (int i = 0; i < 33; i++) {
        uint8_t want[SAMPLE];
        stamp(want, BST_EVAL, 17 + i, 0);
        assert_int_equal(b.index[i], 17 + i);
        assert_memory_equal(b.images + (size_t)i * SAMPLE, want, SAMPLE);
    }
    bst_loader_give_back(l, &b);
    assert_int_equal(bst_loader_take(l, 17, 34, NULL, &b), BST_E_RANGE);
    assert_string_equal(bst_err_text(), "loader: samples 17 to 50 of 50 asked for");
    assert_int_equal(bst_loader_take(l, UINT64_MAX, 2, NULL, &b), BST_E_RANGE);
    bst_loader_free(l);
    bst_dataset_close(ds);
}

/* A batch change: what was asked for is never taken, other ranges are. */
static void passed_over_ranges_do_not_block(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_fake();
    for (int t = 0; t < 3; t++) {
        struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, thread_counts[t]);
        for (int u = 0; u < 50; u++)
            bst_loader_ask(l, (uint64_t)u * 100, 100);
        take_and_check(l, 0, 100);
        take_and_check(l, 100, 120); /* not asked for */
        bst_loader_ask(l, 220, 120);
        bst_loader_ask(l, 340, 120);
        bst_loader_ask(l, 460, 120);
        take_and_check(l, 460, 120); /* waits behind two others */
        take_and_check(l, 220, 120); /* backwards */
        bst_loader_ask(l, 580, 60);
        bst_loader_forget(l);
        take_and_check(l, 580, 60);
        bst_loader_free(l);
    }
    bst_dataset_close(ds);
}

static void random_use_stays_exact(void **state)
{
    (void)state;
    struct bst_rng r;
    struct bst_dataset *ds = open_fake();
    for (uint64_t seed = 0; seed < 12; seed++) {
        bst_rng_init(&r, seed, BST_RNG_TEST, 0);
        struct bst_loader *l =
            open_loader(ds, BST_TRAIN, 1 + (int)(seed % 4), thread_counts[seed % 3]);
        uint64_t first = 0, asked = 0;
        int n = 64;
        for (int step = 0; step < 200; step++) {
            switch (bst_rng_below(&r, 8)) {
            case 0:
                n = 1 + (int)bst_rng_below(&r, 130);
                if (bst_rng_u32(&r) & 1)
                    bst_loader_forget(l);
                asked = first;
                break;
            case 1:
                bst_loader_ask(l, bst_rng_u32(&r), 1 + (int)bst_rng_below(&r, 130));
                break;
            case 2:
            case 3:
            case 4:
                bst_loader_ask(l, asked, n);
                asked += (uint64_t)n;
                break;
            default:
                take_and_check(l, first, n);
                first += (uint64_t)n;
                asked = asked < first ? first : asked;
            }
        }
        bst_loader_free(l); /* with ranges in flight */
    }
    bst_dataset_close(ds);
}

static void several_may_be_held(void **state)
{
    (void)state;
    struct bst_batch a, b, c;
    struct bst_dataset *ds = open_fake();
    for (int t = 0; t < 3; t++) {
        struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, thread_counts[t]);
        bst_loader_ask(l, 0, 20);
        bst_loader_ask(l, 20, 20);
        bst_loader_ask(l, 40, 20);
        assert_int_equal(bst_loader_take(l, 0, 20, NULL, &a), BST_OK);
        assert_int_equal(bst_loader_take(l, 20, 20, NULL, &b), BST_OK);
        assert_int_equal(bst_loader_take(l, 40, 20, NULL, &c), BST_E_STATE);
        assert_string_equal(bst_err_text(), "loader: all 2 slots are taken");
        check_train(&a, 0, 20);
        check_train(&b, 20, 20);
        bst_loader_forget(l);
        check_train(&b, 20, 20);
        bst_loader_give_back(l, &a);
        take_and_check(l, 40, 20);
        bst_loader_give_back(l, &b);
        bst_loader_free(l);
    }
    bst_dataset_close(ds);
}

static void memory_is_counted(void **state)
{
    (void)state;
    struct bst_batch b;
    struct bst_dataset *ds = open_fake();
    size_t before = bst_alloc_held();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 3, 1);
    assert_int_equal(bst_alloc_held() - before, bst_loader_bytes(l));
    assert_true(bst_loader_bytes(l) >= 3 * 130 * (SAMPLE + 12));
    assert_true(bst_loader_bytes(l) <= 3 * (130 * (SAMPLE + 12) + 192));
    assert_int_equal(bst_loader_take(l, 0, 131, NULL, &b), BST_E_ARG);
    assert_int_equal(bst_loader_take(l, 0, 0, NULL, &b), BST_E_ARG);
    bst_loader_free(l);
    assert_int_equal(bst_alloc_held(), before);
    struct bst_loader_cfg huge = {.ds = ds, .max_batch = INT32_MAX, .slots = 1024, .threads = 1};
    assert_int_equal(bst_loader_new(&huge, &l), BST_E_NOMEM);
    assert_null(l);
    bst_dataset_close(ds);
}

static void collect_bad(int threads, struct bst_data_bad out[10])
{
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 3, threads);
    for (int u = 0; u < 10; u++)
        bst_loader_ask(l, (uint64_t)u * 100, 100);
    for (int u = 0; u < 20; u++)
        take_and_check(l, (uint64_t)u * 100, 100);
    bst_loader_free(l);
    assert_int_equal(bst_dataset_n_bad(ds), 10);
    for (int i = 0; i < 10; i++)
        assert_true(bst_dataset_bad(ds, i, &out[i]));
    assert_false(bst_dataset_bad(ds, 10, &out[0]));
    assert_false(bst_dataset_bad(ds, -1, &out[0]));
    bst_dataset_close(ds);
}

/* One in a hundred cannot be read, two of them in a row and one the last: the next takes its place,
 * and which are noted, and in what order, does not depend on the threads. */
static void bad_samples_are_substituted(void **state)
{
    (void)state;
    struct bst_data_bad one[10], many[10];
    static const int where[10] = {0, 5, 6, 300, 301, 302, 512, 700, 998, 999};
    for (int i = 0; i < 10; i++)
        fake.bad[where[i]] = true;
    memset(one, 0, sizeof one);
    memset(many, 0, sizeof many);
    collect_bad(0, one);
    collect_bad(4, many);
    assert_memory_equal(one, many, sizeof one);
    char words[32];
    snprintf(words, sizeof words, "sample %d: torn", (int)one[3].index);
    assert_string_equal(one[3].reason, words);
}

static void too_many_bad_end_it(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_fake();
    enum bst_err err = BST_OK;
    int taken = 0, when[3];
    for (int i = 0; i < 11; i++)
        fake.bad[i * 90] = true;
    for (int t = 0; t < 3; t++) {
        struct bst_dataset *own = open_fake();
        struct bst_loader *l = open_loader(own, BST_TRAIN, 3, thread_counts[t]);
        for (taken = 0; taken < 100 && !err; taken++) {
            struct bst_batch b;
            bst_loader_ask(l, (uint64_t)taken * 10 + 10, 10);
            err = bst_loader_take(l, (uint64_t)taken * 10, 10, NULL, &b);
            if (!err)
                bst_loader_give_back(l, &b);
        }
        assert_int_equal(err, BST_E_CORRUPT);
        assert_int_equal(
            strncmp(bst_err_text(),
                    "BST-503: 11 of 1000 samples cannot be read, more than 1 %; the last: "
                    "sample ",
                    76),
            0);
        when[t] = taken;
        err = BST_OK;
        bst_loader_free(l);
        bst_dataset_close(own);
    }
    assert_int_equal(when[0], when[1]);
    assert_int_equal(when[0], when[2]);
    bst_dataset_close(ds);
}

/* A failure that is not the sample's comes back from the take that would have used it, and only
 * there. */
static void other_errors_come_back(void **state)
{
    (void)state;
    struct bst_dataset *ds = open_fake();
    uint64_t at = 0;
    while (bst_sampler_index(3, N_TRAIN, at, true) != 444)
        at++;
    fake.hard = 444;
    for (int t = 0; t < 3; t++) {
        struct bst_batch b;
        struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, thread_counts[t]);
        bst_loader_ask(l, at, 5);
        bst_loader_ask(l, at + 5, 5);
        assert_int_equal(bst_loader_take(l, at, 5, NULL, &b), BST_E_LIBRARY);
        assert_string_equal(bst_err_text(), "sample 444 breaks the library");
        take_and_check(l, at + 5, 5);
        bst_loader_free(l);
    }
    assert_int_equal(bst_dataset_n_bad(ds), 0);
    bst_dataset_close(ds);
}

static void a_run_of_bad_is_an_error(void **state)
{
    (void)state;
    struct bst_batch b;
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 1, 0);
    int64_t from = bst_sampler_index(3, N_TRAIN, 0, true);
    for (int64_t k = 0; k < 17; k++)
        fake.bad[(from + k) % N_TRAIN] = true;
    assert_int_equal(bst_loader_take(l, 0, 1, NULL, &b), BST_E_CORRUPT);
    assert_non_null(strstr(bst_err_text(), "torn (nor can the 16 samples after it be read)"));
    fake.bad[(from + 16) % N_TRAIN] = false;
    take_and_check(l, 0, 1);
    bst_loader_free(l);
    bst_dataset_close(ds);
}

/* The source gives nothing, for as long as the gate is held: a take that is told to stop ends all
 * the same, and the range is whole when it is taken later. */
static void a_stopped_take_does_not_wait(void **state)
{
    (void)state;
    struct bst_dataset *ds;
    fake.decodes = true;
    ds = open_fake();
    for (int threads = 3; threads <= 4; threads++) {
        struct bst_batch b;
        atomic_int stop = 0;
        struct bst_loader *l = open_loader(ds, BST_TRAIN, 1, threads);
        fake.stop_at_gate = &stop;
        atomic_store(&fake.at_gate, 0);
        pthread_mutex_lock(&fake.gate);
        /* Its threads set the flag once three of them stand at the gate. */
        bst_loader_ask(l, 0, 130);
        assert_int_equal(bst_loader_take(l, 0, 130, &stop, &b), BST_E_CANCELLED);
        /* Another range has to wait for the only slot, which is being filled. */
        assert_int_equal(bst_loader_take(l, 500, 130, &stop, &b), BST_E_CANCELLED);
        pthread_mutex_unlock(&fake.gate);
        atomic_store(&stop, 0);
        assert_int_equal(bst_loader_take(l, 0, 130, &stop, &b), BST_OK);
        check_train(&b, 0, 130);
        bst_loader_give_back(l, &b);
        take_and_check(l, 130, 130);
        bst_loader_free(l);
    }
    bst_dataset_close(ds);
}

/* One that fills its range itself looks up between two parts of it. */
static void a_stopped_taker_does_not_fill_on(void **state)
{
    (void)state;
    struct bst_batch b;
    atomic_int stop = 0;
    struct bst_dataset *ds = open_fake();
    struct bst_loader *l = open_loader(ds, BST_TRAIN, 2, 0);
    fake.stop_at_gate = &stop;
    assert_int_equal(bst_loader_take(l, 0, 130, &stop, &b), BST_E_CANCELLED);
    assert_in_range(atomic_load(&fake.calls), 3, 129);
    atomic_store(&stop, 0);
    take_and_check(l, 0, 130);
    assert_int_equal(atomic_load(&fake.calls), 130);
    bst_loader_free(l);
    bst_dataset_close(ds);
}

/* Where a sample cannot be read nothing of it is left in the buffer. */
static void failed_samples_are_blank(void **state)
{
    (void)state;
    uint8_t out[SAMPLE], zero[SAMPLE] = {0};
    int32_t label = 5;
    struct bst_dataset *ds = open_fake();
    fake.bad[9] = true;
    memset(out, 0xEE, sizeof out);
    assert_int_equal(bst_dataset_get(ds, BST_TRAIN, 9, 0, out, &label), BST_E_CORRUPT);
    assert_memory_equal(out, zero, SAMPLE);
    assert_int_equal(label, 0);
    bst_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(stream_is_exact, reset),
        cmocka_unit_test_setup(nothing_is_loaded_twice, reset),
        cmocka_unit_test_setup(the_taker_decodes_only_alone, reset),
        cmocka_unit_test_setup(evaluation_is_in_order, reset),
        cmocka_unit_test_setup(passed_over_ranges_do_not_block, reset),
        cmocka_unit_test_setup(random_use_stays_exact, reset),
        cmocka_unit_test_setup(several_may_be_held, reset),
        cmocka_unit_test_setup(memory_is_counted, reset),
        cmocka_unit_test_setup(bad_samples_are_substituted, reset),
        cmocka_unit_test_setup(too_many_bad_end_it, reset),
        cmocka_unit_test_setup(other_errors_come_back, reset),
        cmocka_unit_test_setup(a_run_of_bad_is_an_error, reset),
        cmocka_unit_test_setup(a_stopped_take_does_not_wait, reset),
        cmocka_unit_test_setup(a_stopped_taker_does_not_fill_on, reset),
        cmocka_unit_test_setup(failed_samples_are_blank, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
