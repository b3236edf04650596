/* NVML's fake: the virtual devices as a monitor sees them. */
#include <pthread.h>

#include "tests/fakes/nvml.h"
#include "tests/fakes/support.h"

static void *handle_of(int device)
{
    struct cudaDeviceProp p;
    ok(cudaGetDeviceProperties(&p, device));
    char uuid[48] = "GPU-";
    const unsigned char *u = (const unsigned char *)p.uuid.bytes;
    for (int i = 0, at = 4; i < 16; i++)
        at += snprintf(uuid + at, sizeof uuid - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    void *h = NULL;
    ok(nvmlDeviceGetHandleByUUID(uuid, &h));
    return h;
}

static void machine(int devices, const char *fail)
{
    struct fake_settings s = test_settings(devices);
    snprintf(s.fail, sizeof s.fail, "%s", fail);
    for (int i = 0; i < devices; i++)
        s.mem_bytes[i] = (size_t)(i + 1) << 20;
    fake_reset(&s);
    ok(cudaSetDevice(0));
    ok(nvmlInit_v2());
}

/* NVML's order is not CUDA's; uuid and bus id lead from one to the other. */
static void devices_are_matched_by_uuid(void **state)
{
    (void)state;
    machine(4, "");
    unsigned n, index;
    ok(nvmlDeviceGetCount_v2(&n));
    assert_int_equal(n, 4);
    for (int d = 0; d < 4; d++) {
        void *h = handle_of(d), *by_bus, *by_index;
        struct nvml_memory m;
        struct nvml_pci pci;
        char id[32];
        ok(nvmlDeviceGetMemoryInfo(h, &m));
        assert_int_equal(m.total, (d + 1) << 20);
        ok(cudaDeviceGetPCIBusId(id, sizeof id, d));
        ok(nvmlDeviceGetHandleByPciBusId_v2(id, &by_bus));
        assert_ptr_equal(by_bus, h);
        ok(nvmlDeviceGetPciInfo_v3(h, &pci));
        assert_int_equal(pci.bus, d + 1);
        ok(nvmlDeviceGetIndex(h, &index));
        assert_int_equal(index, 3 - d);
        ok(nvmlDeviceGetHandleByIndex_v2(index, &by_index));
        assert_ptr_equal(by_index, h);
    }
    void *h;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(4, &h), NVML_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-0", &h), NVML_NOT_FOUND);
    ok(nvmlShutdown());
    assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_UNINITIALIZED);
}

static void memory_is_what_is_held(void **state)
{
    (void)state;
    machine(2, "");
    void *p, *h = handle_of(1);
    struct nvml_memory m;
    ok(cudaSetDevice(1));
    ok(cudaMalloc(&p, 1 << 19));
    ok(nvmlDeviceGetMemoryInfo(h, &m));
    assert_int_equal(m.used, 1 << 19);
    assert_int_equal(m.free, (2 << 20) - (1 << 19));
    ok(cudaFree(p));
    ok(nvmlDeviceGetMemoryInfo(h, &m));
    assert_int_equal(m.used, 0);
    ok(nvmlShutdown());
    test_all_gone();
}

static void values(void **state)
{
    (void)state;
    machine(2, "nvmlDeviceGetTemperature@1:1+:3");
    void *h[2] = {handle_of(0), handle_of(1)};
    for (int d = 0; d < 2; d++) {
        struct nvml_utilization u;
        unsigned v, fan = 7;
        unsigned long long w;
        int on, pending;
        char name[64];
        ok(nvmlDeviceGetName(h[d], name, sizeof name));
        assert_string_equal(name, "Fake H100");
        assert_int_equal(nvmlDeviceGetName(h[d], name, 4), NVML_INSUFFICIENT_SIZE);
        ok(nvmlDeviceGetUtilizationRates(h[d], &u));
        assert_int_equal(u.gpu, 97 - d);
        ok(nvmlDeviceGetPowerUsage(h[d], &v));
        assert_int_equal(v, 423000 + 1000 * d);
        ok(nvmlDeviceGetClockInfo(h[d], NVML_CLOCK_SM, &v));
        assert_int_equal(v, 1755);
        ok(nvmlDeviceGetCurrentClocksEventReasons(h[d], &w));
        assert_int_equal(w, d ? 0 : 4);
        ok(nvmlDeviceGetEccMode(h[d], &on, &pending));
        assert_int_equal(on, 1);
        assert_int_equal(nvmlDeviceGetFanSpeed(h[d], &fan), NVML_NOT_SUPPORTED);
        assert_int_equal(fan, 7);
        assert_int_equal(nvmlDeviceGetTemperature(h[d], 0, &v), d ? NVML_NOT_SUPPORTED : NVML_OK);
    }
    ok(nvmlShutdown());
}

static void run_nothing(void *args)
{
    (void)args;
}

static void errors_come_as_xids(void **state)
{
    (void)state;
    machine(2, "kernel@1:1:late=700,kernel@0:2:lost,kernel@0:1:xid=94");
    void *set;
    unsigned long long types;
    struct nvml_event e;
    unsigned power;
    ok(nvmlEventSetCreate(&set));
    for (int d = 0; d < 2; d++) {
        ok(nvmlDeviceGetSupportedEventTypes(handle_of(d), &types));
        ok(nvmlDeviceRegisterEvents(handle_of(d), types, set));
    }
    void *h0 = handle_of(0), *h1 = handle_of(1);
    assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_TIMEOUT);
    ok(cudaSetDevice(1));
    assert_int_equal(fake_launch(NULL, "kernel", run_nothing, NULL, 0), cudaErrorIllegalAddress);
    ok(nvmlEventSetWait_v2(set, &e, 0));
    assert_ptr_equal(e.device, h1);
    assert_int_equal(e.type, NVML_EVENT_XID);
    assert_int_equal(e.data, 31);
    ok(nvmlDeviceGetPowerUsage(h1, &power)); /* alive to NVML */
    ok(cudaSetDevice(0));
    ok(fake_launch(NULL, "kernel", run_nothing, NULL, 0));
    ok(nvmlEventSetWait_v2(set, &e, 0));
    assert_ptr_equal(e.device, h0);
    assert_int_equal(e.data, 94);
    assert_int_equal(fake_launch(NULL, "kernel", run_nothing, NULL, 0), cudaErrorUnknown);
    ok(nvmlEventSetWait_v2(set, &e, 0));
    assert_int_equal(e.data, 79);
    assert_int_equal(nvmlDeviceGetPowerUsage(h0, &power), NVML_GPU_IS_LOST);
    fake_xid(1, 63);
    ok(nvmlEventSetWait_v2(set, &e, 0));
    assert_int_equal(e.data, 63);
    assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_TIMEOUT);
    ok(nvmlEventSetFree(set));
    ok(nvmlShutdown());
}

static void *waits_for_an_event(void *set)
{
    static struct nvml_event e;
    return nvmlEventSetWait_v2(set, &e, 60000) == NVML_OK ? &e : NULL;
}

static void a_waiting_thread_is_woken(void **state)
{
    (void)state;
    machine(1, "");
    void *set, *got;
    ok(nvmlEventSetCreate(&set));
    ok(nvmlDeviceRegisterEvents(handle_of(0), NVML_EVENT_XID, set));
    pthread_t t;
    pthread_create(&t, NULL, waits_for_an_event, set);
    fake_xid(0, 13);
    pthread_join(t, &got);
    assert_non_null(got);
    assert_int_equal(((struct nvml_event *)got)->data, 13);
    ok(nvmlEventSetFree(set));
    ok(nvmlShutdown());
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_matched_by_uuid),
        cmocka_unit_test(memory_is_what_is_held),
        cmocka_unit_test(values),
        cmocka_unit_test(errors_come_as_xids),
        cmocka_unit_test(a_waiting_thread_is_woken),
    };
    return cmocka_run_group_tests_name("fakes.nvml", tests, NULL, NULL);
}
