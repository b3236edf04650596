/* The small parts of core/base: allocation, string buffer, RNG, checksums, clock, log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/base/sb.h"
#include "core/base/thread.h"

static void blocks_are_counted_to_the_byte(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        1, 3, 17, 4095, 4096, 4097, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, (5u << 20) + 12345};
    size_t before = bst_alloc_held(), sum = 0;
    void *p[10];
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bst_alloc(sizes[i], &p[i]), BST_OK);
        sum += sizes[i];
        assert_int_equal(bst_alloc_held() - before, sum);
        assert_int_equal((uintptr_t)p[i] % (size_t)sysconf(_SC_PAGESIZE), 0);
        if (sizes[i] >= 2u << 20)
            assert_int_equal((uintptr_t)p[i] % (2u << 20), 0); /* huge pages need this */
        for (size_t k = 0; k < sizes[i]; k += 97)
            assert_int_equal(((char *)p[i])[k], 0);
        memset(p[i], 0xFF, sizes[i]); /* all of it can be written */
    }
    size_t peak = bst_alloc_peak();
    assert_true(peak >= before + sum);
    for (int i = 0; i < 10; i++)
        bst_alloc_free(p[i], sizes[i]);
    assert_int_equal(bst_alloc_held(), before);
    assert_int_equal(bst_alloc_peak(), peak);
}

static void nothing_is_a_block_too(void **state)
{
    (void)state;
    void *p = &p;
    assert_int_equal(bst_alloc(0, &p), BST_OK);
    assert_null(p);
    bst_alloc_free(NULL, 123);
}

static void too_much_is_an_error_that_names_the_size(void **state)
{
    (void)state;
    size_t before = bst_alloc_held();
    void *p = &p;
    assert_int_equal(bst_alloc((size_t)1 << 60, &p), BST_E_NOMEM);
    assert_null(p);
    assert_non_null(strstr(bst_err_text(), "1.00 EiB (1152921504606846976 bytes)"));
    assert_int_equal(bst_alloc(SIZE_MAX, &p), BST_E_NOMEM);
    assert_int_equal(bst_alloc(SIZE_MAX - 4096, &p), BST_E_NOMEM);
    assert_int_equal(bst_alloc_held(), before);
}

static void *take_and_give(void *arg)
{
    (void)arg;
    for (int i = 1; i < 300; i++) {
        void *p;
        if (bst_alloc((size_t)i * 1000, &p))
            return (void *)1;
        bst_alloc_free(p, (size_t)i * 1000);
    }
    return NULL;
}

static void the_count_holds_across_threads(void **state)
{
    (void)state;
    size_t before = bst_alloc_held();
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_and_give, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(bst_alloc_held(), before);
}

static void small_objects_are_zeroed(void **state)
{
    (void)state;
    char *p = bst_xcalloc(7, 13);
    for (int i = 0; i < 91; i++)
        assert_int_equal(p[i], 0);
    p = bst_xrealloc(p, 1000, 3);
    p[2999] = 1;
    bst_free(p);
    char *s = bst_xasprintf("%s-%d", "resnet", 50), *d = bst_xstrdup(s);
    assert_string_equal(d, "resnet-50");
    bst_free(s);
    bst_free(d);
    bst_free(bst_xalloc(0));
    bst_free(NULL);
    size_t product;
    assert_true(bst_mul_size(3, 5, &product) && product == 15);
    assert_false(bst_mul_size(SIZE_MAX, 2, &product));
    assert_false(bst_add_size(SIZE_MAX, 1, &product));
    assert_true(bst_add_size(SIZE_MAX - 1, 1, &product) && product == SIZE_MAX);
}

static void a_buffer_grows_and_stops_at_its_cap(void **state)
{
    (void)state;
    struct bst_sb sb;
    bst_sb_init(&sb, 10);
    assert_string_equal(sb.data, "");
    bst_sb_add(&sb, "12345");
    bst_sb_addf(&sb, "%d", 678);
    bst_sb_addc(&sb, '9');
    assert_string_equal(sb.data, "123456789");
    assert_false(sb.full);
    bst_sb_addc(&sb, '0');
    assert_false(sb.full);
    bst_sb_addc(&sb, 'x');
    assert_true(sb.full);
    assert_string_equal(sb.data, "1234567890");
    bst_sb_clear(&sb);
    assert_string_equal(sb.data, "");
    bst_sb_add(&sb, "abcdefghijklmn");
    assert_true(sb.full);
    bst_sb_add(&sb, "z"); /* nothing more, or the line would have a hole */
    assert_string_equal(sb.data, "abcdefghij");
    char *taken = bst_sb_take(&sb);
    assert_string_equal(taken, "abcdefghij");
    assert_string_equal(sb.data, "");
    assert_int_equal(sb.len, 0);
    bst_free(taken);
    taken = bst_sb_take(&sb);
    assert_string_equal(taken, "");
    bst_free(taken);
    bst_sb_fini(&sb);
    bst_sb_fini(&sb);
}

static void a_cut_leaves_no_half_character(void **state)
{
    (void)state;
    for (size_t cap = 0; cap <= 9; cap++) {
        struct bst_sb sb;
        bst_sb_init(&sb, cap);
        bst_sb_add(&sb, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"); /* 1 + 2 + 3 + 4 bytes */
        static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6};
        assert_int_equal(sb.len, whole[cap]);
        assert_true(sb.full);
        bst_sb_fini(&sb);
    }
}

static void long_formats_arrive_whole(void **state)
{
    (void)state;
    struct bst_sb sb;
    bst_sb_init(&sb, 100000);
    bst_sb_addf(&sb, "%5000s|", "x");
    assert_int_equal(sb.len, 5001);
    for (int i = 0; i < 1000; i++)
        bst_sb_addc(&sb, 'y');
    assert_int_equal(sb.len, 6001);
    assert_int_equal(strlen(sb.data), 6001);
    bst_sb_fini(&sb);
}

/* kat_vectors of Random123 1.14. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         UINT64_C(0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        bst_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void streams_differ_and_repeat(void **state)
{
    (void)state;
    struct bst_rng a, b, c, d;
    bst_rng_init(&a, 42, BST_RNG_INIT, 7);
    bst_rng_init(&b, 42, BST_RNG_INIT, 7);
    bst_rng_init(&c, 42, BST_RNG_ORDER, 7);
    bst_rng_init(&d, 42, BST_RNG_INIT, 8);
    int same_c = 0, same_d = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t x = bst_rng_u32(&a);
        assert_int_equal(x, bst_rng_u32(&b));
        same_c += x == bst_rng_u32(&c);
        same_d += x == bst_rng_u32(&d);
    }
    assert_true(same_c < 3 && same_d < 3);
}

static void numbers_are_evenly_spread(void **state)
{
    (void)state;
    enum { N = 70000 };
    struct bst_rng r;
    bst_rng_init(&r, 1, BST_RNG_TEST, 0);
    int seen[7] = {0};
    for (int i = 0; i < N; i++)
        seen[bst_rng_below(&r, 7)]++;
    double chi = 0;
    for (int i = 0; i < 7; i++)
        chi += (seen[i] - 10000.0) * (seen[i] - 10000.0) / 10000.0;
    assert_true(chi < 22.5); /* 6 degrees of freedom, p 0.001 */
    assert_int_equal(bst_rng_below(&r, 1), 0);
    double sum = 0, sum2 = 0, sum4 = 0;
    for (int i = 0; i < N; i++) {
        double u = bst_rng_uniform(&r);
        assert_true(u >= 0 && u < 1);
        double z = bst_rng_normal(&r);
        assert_true(isfinite(z));
        sum += z;
        sum2 += z * z;
        sum4 += z * z * z * z;
    }
    assert_true(fabs(sum / N) < 0.015);
    assert_true(fabs(sum2 / N - 1) < 0.02);
    assert_true(fabs(sum4 / N - 3) < 0.15);
}

/* Vectors of RFC 3720, B.4; both implementations. */
static void crc32c_known_answers(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(bst_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(bst_crc32c(0, zeros, 32), 0x8A9136AA);
    assert_int_equal(bst_crc32c(0, ones, 32), 0x62A8AB43);
    assert_int_equal(bst_crc32c(0, up, 32), 0x46DD794E);
    assert_int_equal(bst_crc32c(0, down, 32), 0x113FDB5C);
    assert_int_equal(bst_crc32c(0, "", 0), 0);
    assert_int_equal(bst_crc32c_portable(0, down, 32), 0x113FDB5C);
}

static void crc32c_chains_at_any_cut(void **state)
{
    (void)state;
    unsigned char data[301];
    struct bst_rng r;
    bst_rng_init(&r, 9, BST_RNG_TEST, 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)bst_rng_u32(&r);
    uint32_t whole = bst_crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        uint32_t head = bst_crc32c(0, data, cut);
        assert_int_equal(bst_crc32c(head, data + cut, sizeof data - cut), whole);
        assert_int_equal(bst_crc32c_portable(0, data, cut), head);
        assert_int_equal(bst_crc32c_portable(head, data + cut, sizeof data - cut), whole);
    }
    data[150] ^= 1;
    assert_true(bst_crc32c(0, data, sizeof data) != whole);
}

static void clock_moves_and_can_be_faked(void **state)
{
    (void)state;
    double a = bst_clock_now();
    assert_true(bst_clock_now() >= a);
    assert_true(bst_clock_wall() > 1.7e9);
    bst_clock_fake(true, 12.5);
    assert_true(bst_clock_now() == 12.5 && bst_clock_wall() == 12.5);
    bst_clock_fake(false, 0);
    assert_true(bst_clock_now() >= a);
}

static void times_are_shown(void **state)
{
    (void)state;
    char text[32];
    bst_clock_iso(1796029625.9, text);
    assert_string_equal(text, "2026-11-30T09:07:05Z");
    bst_clock_iso(NAN, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    static const struct {
        double seconds;
        const char *text;
    } spans[] = {{0, "0s"},         {12.4, "12s"},      {59.6, "1m00s"},   {185, "3m05s"},
                 {3720, "1h02m"},   {359999, "99h59m"}, {360000, "4d04h"}, {-1, "n/a"},
                 {INFINITY, "n/a"}, {NAN, "n/a"}};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        bst_clock_span(spans[i].seconds, text, sizeof text);
        assert_string_equal(text, spans[i].text);
    }
    static const struct {
        double seconds;
        const char *text;
    } fine[] = {{0, "0.00s"},  {0.424, "0.42s"}, {0.996, "1.0s"}, {9.94, "9.9s"},
                {9.96, "10s"}, {185, "3m05s"},   {-1, "n/a"},     {NAN, "n/a"}};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        bst_clock_span_fine(fine[i].seconds, text, sizeof text);
        assert_string_equal(text, fine[i].text);
    }
}

struct kept {
    enum bst_log_level level;
    char line[256];
    int n;
};

static void keep(void *arg, enum bst_log_level level, const char *line)
{
    struct kept *k = arg;
    k->level = level;
    strncpy(k->line, line, sizeof k->line - 1);
    k->n++;
}

static void log_lines_are_one_line_and_clean(void **state)
{
    (void)state;
    struct kept k = {0};
    bst_log_to(keep, &k);
    bst_log(BST_LOG_WARN, "file %s\nline 2\x1b]52;c;x\x07", "a");
    assert_int_equal(k.n, 1);
    assert_int_equal(k.level, BST_LOG_WARN);
    assert_string_equal(k.line, "file a\\nline 2\\x1b]52;c;x\\x07");
    bst_log(BST_LOG_DEBUG, "hidden");
    assert_int_equal(k.n, 1);
    bst_log_threshold(BST_LOG_DEBUG);
    bst_log(BST_LOG_DEBUG, "seen");
    assert_int_equal(k.n, 2);
    bst_log_threshold(BST_LOG_INFO);
    bst_log_to(NULL, NULL);
}

static void *take_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void a_thread_has_no_signals_but_its_own_faults(void **state)
{
    (void)state;
    sigset_t before, after, theirs;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(bst_thread_start(&thread, take_mask, &theirs), BST_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < NSIG; sig++) /* the starter's are as they were */
        assert_int_equal(sigismember(&after, sig), sigismember(&before, sig));
    assert_int_equal(sigismember(&theirs, SIGTERM), 1);
    assert_int_equal(sigismember(&theirs, SIGINT), 1);
    assert_int_equal(sigismember(&theirs, SIGUSR1), 1);
    assert_int_equal(sigismember(&theirs, SIGSEGV), 0);
}

struct late {
    pthread_mutex_t lock;
    atomic_bool over;
};

static void *wait_for_lock(void *arg)
{
    struct late *l = arg;
    pthread_mutex_lock(&l->lock);
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->over, true);
    return NULL;
}

static void an_end_is_waited_for_no_longer_than_asked(void **state)
{
    (void)state;
    static struct late l = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    pthread_mutex_lock(&l.lock);
    assert_int_equal(bst_thread_start(&thread, wait_for_lock, &l), BST_OK);
    assert_false(bst_thread_join_within(thread, 0.003));
    pthread_mutex_unlock(&l.lock); /* left behind, it goes on */
    while (!atomic_load(&l.over))
        sched_yield();
    assert_int_equal(bst_thread_start(&thread, wait_for_lock, &l), BST_OK);
    assert_true(bst_thread_join_within(thread, 60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted_to_the_byte),
        cmocka_unit_test(nothing_is_a_block_too),
        cmocka_unit_test(too_much_is_an_error_that_names_the_size),
        cmocka_unit_test(the_count_holds_across_threads),
        cmocka_unit_test(small_objects_are_zeroed),
        cmocka_unit_test(a_buffer_grows_and_stops_at_its_cap),
        cmocka_unit_test(a_cut_leaves_no_half_character),
        cmocka_unit_test(long_formats_arrive_whole),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(streams_differ_and_repeat),
        cmocka_unit_test(numbers_are_evenly_spread),
        cmocka_unit_test(crc32c_known_answers),
        cmocka_unit_test(crc32c_chains_at_any_cut),
        cmocka_unit_test(clock_moves_and_can_be_faked),
        cmocka_unit_test(times_are_shown),
        cmocka_unit_test(log_lines_are_one_line_and_clean),
        cmocka_unit_test(a_thread_has_no_signals_but_its_own_faults),
        cmocka_unit_test(an_end_is_waited_for_no_longer_than_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
