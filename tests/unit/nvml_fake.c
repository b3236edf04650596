/* An NVML for the test of its reader: three devices, of which the second has MIG on with two
 * instances, and the third is lost once it is told so. What it lacks on purpose: readings of MIG's
 * instances, the newer name for the reasons to throttle, memory's second form on the first device.
 * nvml_fake_set() tells it what to do next. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/unit/nvml_fake.h"

#define API __attribute__((visibility("default")))

struct node {
    const char *uuid, *name;
    int kind; /* 0: a device, 1: with MIG on, 2: an instance */
};

static const struct node nodes[] = {
    {"GPU-11111111-2222-3333-4444-555555555555", "NVIDIA A100-SXM4-80GB", 0},
    {"GPU-66666666-2222-3333-4444-555555555555", "NVIDIA H100 80GB HBM3", 1},
    {"GPU-77777777-2222-3333-4444-555555555555", "NVIDIA H200", 0},
    {"MIG-88888888-2222-3333-4444-555555555555", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 2},
    {"MIG-99999999-2222-3333-4444-555555555555", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 2},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the watch's thread reads */
static struct nvml_fake how;
static atomic_int n_open; /* initialisations less shutdowns */

API void nvml_fake_set(const struct nvml_fake *next)
{
    pthread_mutex_lock(&lock);
    how = *next;
    pthread_mutex_unlock(&lock);
}

static struct nvml_fake now_set(void)
{
    pthread_mutex_lock(&lock);
    struct nvml_fake copy = how;
    pthread_mutex_unlock(&lock);
    return copy;
}

static const struct node *at(void *d)
{
    return d;
}

static int check(void *d)
{
    return at(d) == &nodes[2] && now_set().lost ? 15 : 0;
}

API int nvmlInit_v2(void)
{
    int error = now_set().init_error;
    n_open += !error;
    return error;
}

API int nvmlShutdown(void)
{
    n_open--;
    return 0;
}

API int nvml_fake_open(void)
{
    return n_open;
}

API int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 3;
    return 0;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
{
    *d = (void *)&nodes[i];
    return 0;
}

API int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    snprintf(text, room, "570.86.15");
    return 0;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 12080;
    return 0;
}

API int nvmlDeviceGetUUID(void *d, char *text, unsigned room)
{
    snprintf(text, room, "%s", at(d)->uuid);
    return 0;
}

API int nvmlDeviceGetName(void *d, char *text, unsigned room)
{
    snprintf(text, room, "%s", at(d)->name);
    return 0;
}

API int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *then)
{
    if (at(d) == &nodes[2])
        return 3;
    *now = *then = at(d)->kind == 1;
    return 0;
}

API int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n)
{
    *n = at(d)->kind == 1 ? 7 : 0;
    return 0;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **instance)
{
    if (at(d)->kind != 1 || i >= 2)
        return 6;
    *instance = (void *)&nodes[3 + i];
    return 0;
}

API int nvmlDeviceGetEccMode(void *d, int *now, int *then)
{
    if (at(d)->kind == 2)
        return 3;
    *now = *then = at(d) == &nodes[0];
    return 0;
}

API int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter, unsigned long long *n)
{
    if (at(d)->kind || counter)
        return 3;
    *n = type ? 1 : 42;
    return check(d);
}

API int nvmlDeviceGetMemoryInfo(void *d, unsigned long long m[3])
{
    m[0] = 80ull << 30;
    m[1] = 70ull << 30;
    m[2] = 10ull << 30;
    return check(d);
}

struct memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

API int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory2 *m)
{
    if (at(d) == &nodes[0])
        return 3;
    if (m->version != 0x2000028) /* sizeof 40, second form */
        return 25;
    *m = (struct memory2){m->version, 40ull << 30, 1ull << 30, 30ull << 30, 9ull << 30};
    return check(d);
}

API int nvmlDeviceGetUtilizationRates(void *d, unsigned u[2])
{
    if (at(d)->kind == 2)
        return 3;
    u[0] = now_set().busy;
    u[1] = 40;
    return check(d);
}

API int nvmlDeviceGetClockInfo(void *d, int clock, unsigned *mhz)
{
    if (at(d)->kind == 2)
        return 3;
    *mhz = clock == 1 ? 1410 : clock == 2 ? 1593 : 0;
    return check(d);
}

API int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
    *mw = 312500;
    return at(d)->kind ? 3 : check(d);
}

API int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw)
{
    *mw = 400000;
    return at(d)->kind ? 3 : check(d);
}

API int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
    *celsius = 61;
    return at(d)->kind || sensor ? 3 : check(d);
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits)
{
    *bits = 0x4c;
    return at(d)->kind ? 3 : check(d);
}

struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static int registered;

API int nvmlEventSetCreate(void **set)
{
    *set = &registered;
    return now_set().no_events ? 3 : 0;
}

API int nvmlEventSetFree(void *set)
{
    return set == &registered ? 0 : 2;
}

API int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set)
{
    if (at(d)->kind || set != &registered)
        return 3;
    registered += types == 8;
    return 0;
}

/* Each registered device is in trouble once: Xid 79, then 80, … of the first; then nothing. */
API int nvmlEventSetWait_v2(void *set, struct event *e, unsigned timeout_ms)
{
    static int given;
    if (set != &registered || timeout_ms)
        return 2;
    if (given >= registered)
        return 10;
    *e = (struct event){(void *)&nodes[0], 8, 79ull + (unsigned)given, 0xffffffffu, 0xffffffffu};
    given++;
    return 0;
}
