/* What of a driver's readings reaches a run's status. argv[1] is the fake NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/run/monitor.h"

#define FIRST "GPU-11111111-2222-3333-4444-555555555555"
#define INSTANCE "MIG-88888888-2222-3333-4444-555555555555"

static const char *fake;

static void readings_reach_the_status(void **state)
{
    static const char *const uuids[] = {FIRST, INSTANCE};
    struct bst_status_device d[2];
    double until = bst_clock_now() + 60;
    int device = 9;
    unsigned xid = 0;
    (void)state;
    memset(d, 0, sizeof d);
    struct bst_monitor *m = bst_monitor_open(uuids, 2, fake);
    assert_non_null(m);
    while (bst_monitor_fill(m, 0, &d[0]) && !d[0].temperature.valid && bst_clock_now() < until)
        usleep(1000);
    assert_true(bst_monitor_fill(m, 1, &d[1]));
    assert_false(bst_monitor_fill(m, 2, &d[1]));
    assert_true(d[0].temperature.valid && d[0].temperature.value == 61);
    assert_true(d[0].power.value == 312.5 && d[0].sm_clock.value == 1410);
    assert_true(d[0].memory_clock.value == 1593 && d[0].ecc_uncorrected.value == 1);
    assert_true(d[0].utilisation.valid);
    assert_string_equal(d[0].throttle, "power limit, overheated");
    assert_false(d[1].temperature.valid || d[1].power.valid || d[1].utilisation.valid);
    assert_string_equal(d[1].throttle, "");
    assert_true(bst_monitor_error(m, &device, &xid)); /* of the one that could be registered */
    assert_int_equal(device, 0);
    assert_int_equal(xid, 79);
    assert_false(bst_monitor_error(m, &device, &xid));
    bst_monitor_close(m);
}

static void without_a_driver_there_is_none(void **state)
{
    static const char *const uuids[] = {FIRST}, *const none[] = {"", ""};
    struct bst_status_device d = {.utilisation = {0.5, true}};
    int device;
    unsigned xid;
    (void)state;
    assert_null(bst_monitor_open(uuids, 1, "/nowhere/libnvidia-ml.so.1"));
    assert_null(bst_monitor_open(none, 2, fake));
    assert_false(bst_monitor_fill(NULL, 0, &d));
    assert_true(d.utilisation.value == 0.5);
    assert_false(bst_monitor_error(NULL, &device, &xid));
    bst_monitor_close(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_reach_the_status),
        cmocka_unit_test(without_a_driver_there_is_none),
    };
    fake = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
