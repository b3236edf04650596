/* NVML's reader against a library that answers as drivers do: MIG, functions that are missing,
 * devices that fall off the bus, events. argv[1] is the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <unistd.h>

#include "core/backend/nvml.h"
#include "core/base/clock.h"
#include "tests/unit/nvml_fake.h"

#define FIRST "GPU-11111111-2222-3333-4444-555555555555"
#define THIRD "GPU-77777777-2222-3333-4444-555555555555"
#define INSTANCE "MIG-88888888-2222-3333-4444-555555555555"

static const char *library;
static void (*set)(const struct nvml_fake *);
static int (*n_open)(void);

static struct bst_nvml *opened(void)
{
    struct bst_nvml *n = NULL;
    if (bst_nvml_open(library, &n))
        fail_msg("%s", bst_err_text());
    return n;
}

static int calm(void **state)
{
    const struct nvml_fake plain = {.busy = 97};
    (void)state;
    set(&plain);
    return 0;
}

static int nothing_open(void **state)
{
    (void)state;
    return n_open() != 0;
}

static void devices_go_by_uuid(void **state)
{
    (void)state;
    struct bst_nvml *n = opened();
    assert_string_equal(bst_nvml_driver(n), "570.86.15");
    assert_int_equal(bst_nvml_cuda(n), 12080);
    assert_int_equal(bst_nvml_count(n), 4); /* the one with MIG on is its two instances */
    const struct bst_nvml_identity *id = bst_nvml_at(n, bst_nvml_find(n, INSTANCE));
    assert_true(id->instance);
    assert_int_equal(id->mig, BST_NVML_ON);
    assert_int_equal(id->ecc, BST_NVML_UNKNOWN);
    assert_true(id->memory.value == 40.0 * (1 << 30));
    id = bst_nvml_at(n, bst_nvml_find(n, FIRST));
    assert_string_equal(id->name, "NVIDIA A100-SXM4-80GB");
    assert_false(id->instance);
    assert_int_equal(id->mig, BST_NVML_OFF);
    assert_int_equal(id->ecc, BST_NVML_ON);
    id = bst_nvml_at(n, bst_nvml_find(n, THIRD));
    assert_int_equal(id->mig, BST_NVML_UNKNOWN);
    assert_int_equal(id->ecc, BST_NVML_OFF);
    assert_int_equal(bst_nvml_find(n, "GPU-66666666-2222-3333-4444-555555555555"), -1);
    assert_int_equal(bst_nvml_find(n, ""), -1);
    bst_nvml_close(n);
}

static void a_device_is_read(void **state)
{
    (void)state;
    struct bst_nvml *n = opened();
    struct bst_nvml_reading r;
    char why[96];
    bst_nvml_read(n, bst_nvml_find(n, FIRST), &r);
    assert_true(r.memory_used.valid && r.memory_used.value == 10.0 * (1 << 30));
    assert_true(r.memory_total.value == 80.0 * (1 << 30));
    assert_true(r.utilisation.valid && r.utilisation.value == 0.97);
    assert_true(r.memory_utilisation.value == 0.4);
    assert_true(r.sm_clock.value == 1410 && r.memory_clock.value == 1593);
    assert_true(r.power.value == 312.5 && r.power_limit.value == 400);
    assert_true(r.temperature.value == 61);
    assert_true(r.ecc_corrected.value == 42 && r.ecc_uncorrected.value == 1);
    assert_true(r.throttle_valid && !r.lost);
    bst_nvml_throttle_text(r.throttle, why);
    assert_string_equal(why, "power limit, overheated");
    bst_nvml_close(n);
}

static void what_is_not_supported_is_not_a_zero(void **state)
{
    (void)state;
    struct bst_nvml *n = opened();
    struct bst_nvml_reading r;
    bst_nvml_read(n, bst_nvml_find(n, INSTANCE), &r);
    assert_true(r.memory_used.valid && r.memory_used.value == 9.0 * (1 << 30));
    assert_false(r.utilisation.valid || r.memory_utilisation.valid || r.sm_clock.valid);
    assert_false(r.power.valid || r.power_limit.valid || r.temperature.valid);
    assert_false(r.ecc_corrected.valid || r.ecc_uncorrected.valid || r.throttle_valid || r.lost);
    bst_nvml_close(n);
}

static void a_lost_device_says_so(void **state)
{
    const struct nvml_fake lost = {.lost = 1};
    (void)state;
    struct bst_nvml *n = opened();
    struct bst_nvml_reading r;
    set(&lost);
    bst_nvml_read(n, bst_nvml_find(n, THIRD), &r);
    assert_true(r.lost);
    assert_false(r.memory_used.valid || r.temperature.valid || r.throttle_valid);
    bst_nvml_read(n, bst_nvml_find(n, FIRST), &r);
    assert_true(!r.lost && r.temperature.valid);
    bst_nvml_close(n);
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    struct bst_nvml *n = NULL;
    static const struct {
        int code;
        const char *word;
    } wrong[] = {{9, "not loaded"}, {4, "may not open"}, {18, "restart"}, {999, "error 999"}};
    assert_int_equal(bst_nvml_open("/nowhere/libnvidia-ml.so.1", &n), BST_E_NOTFOUND);
    assert_null(n);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct nvml_fake how = {.init_error = wrong[i].code};
        set(&how);
        assert_int_equal(bst_nvml_open(library, &n), BST_E_LIBRARY);
        assert_non_null(strstr(bst_err_text(), wrong[i].word));
        assert_null(n);
    }
}

/* Until the watch has come round again: its second reading shows what was set before. */
static void wait_for(struct bst_nvml_watch *w, double busy)
{
    struct bst_nvml_reading r;
    double until = bst_clock_now() + 60;
    while (!bst_nvml_watch_read(w, 0, &r) || r.utilisation.value != busy) {
        if (bst_clock_now() > until)
            fail_msg("the watch does not read");
        usleep(1000);
    }
}

static void the_watch_reads_and_tells_xids(void **state)
{
    static const char *const uuids[] = {FIRST, "GPU-nobody", THIRD};
    const struct nvml_fake calmer = {.busy = 3};
    struct bst_nvml_watch *w = NULL;
    struct bst_nvml_reading r;
    struct bst_nvml_xid x;
    (void)state;
    assert_int_equal(bst_nvml_watch_open(opened(), uuids, 3, 0.002, &w), BST_OK);
    wait_for(w, 0.97);
    set(&calmer);
    wait_for(w, 0.03);
    assert_true(bst_nvml_watch_read(w, 1, &r));
    assert_false(r.memory_used.valid || r.lost);
    assert_true(bst_nvml_watch_read(w, 2, &r) && r.temperature.valid);
    for (unsigned i = 0; i < 2; i++) { /* of the two that could be registered */
        assert_true(bst_nvml_watch_xid(w, &x));
        assert_int_equal(x.device, 0);
        assert_int_equal(x.xid, 79 + i);
        assert_true(x.when > 0 && x.when <= bst_clock_now());
    }
    assert_false(bst_nvml_watch_xid(w, &x));
    bst_nvml_watch_close(w);
}

static void no_events_no_matter(void **state)
{
    static const char *const uuids[] = {FIRST};
    const struct nvml_fake how = {.no_events = 1, .busy = 50};
    struct bst_nvml_watch *w = NULL;
    struct bst_nvml_xid x;
    (void)state;
    set(&how);
    assert_int_equal(bst_nvml_watch_open(opened(), uuids, 1, 3600, &w), BST_OK);
    wait_for(w, 0.5);
    assert_false(bst_nvml_watch_xid(w, &x));
    bst_nvml_watch_close(w); /* at once, though the period is an hour */
}

static void reasons_in_words(void **state)
{
    char text[96];
    (void)state;
    bst_nvml_throttle_text(0x103, text); /* idle, asked for, a display */
    assert_string_equal(text, "");
    bst_nvml_throttle_text(0x08, text);
    assert_string_equal(text, "hardware slowdown");
    bst_nvml_throttle_text(UINT64_MAX, text);
    assert_string_equal(text, "power limit, sync boost, temperature, overheated, power brake");
}

static void *symbol(void *from, const char *name)
{
    void *at = dlsym(from, name);
    if (!at)
        fprintf(stderr, "%s: no %s\n", library, name);
    return at;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(devices_go_by_uuid, calm, nothing_open),
        cmocka_unit_test_setup_teardown(a_device_is_read, calm, nothing_open),
        cmocka_unit_test_setup_teardown(what_is_not_supported_is_not_a_zero, calm, nothing_open),
        cmocka_unit_test_setup_teardown(a_lost_device_says_so, calm, nothing_open),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_told, calm, nothing_open),
        cmocka_unit_test_setup_teardown(the_watch_reads_and_tells_xids, calm, nothing_open),
        cmocka_unit_test_setup_teardown(no_events_no_matter, calm, nothing_open),
        cmocka_unit_test(reasons_in_words),
    };
    library = argc > 1 ? argv[1] : "";
    void *fake = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* held, so that it keeps what is set */
    if (!fake) {
        fprintf(stderr, "no fake NVML at %s\n", library);
        return 1;
    }
    void *at[2] = {symbol(fake, "nvml_fake_set"), symbol(fake, "nvml_fake_open")};
    if (!at[0] || !at[1])
        return 1;
    memcpy(&set, &at[0], sizeof set);
    memcpy(&n_open, &at[1], sizeof n_open);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dlclose(fake);
    return failed;
}
