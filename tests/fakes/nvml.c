/* NVML over the virtual devices. Its order is the reverse of CUDA's: who takes one index for the
 * other is found out. Memory is what the devices really hold; the rest are fixed, plausible values.
 * What a device does not support is injected: nvmlDeviceGetPowerUsage:1+:3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/core.h"
#include "tests/fakes/nvml.h"

struct event_set {
    uint64_t seen;
    unsigned devices; /* a bit a CUDA device */
};

static int n_inits;
static char handles[FAKE_DEVICES_MAX];

static int cuda_device(const void *device)
{
    const char *h = device;
    if (!n_inits)
        return -NVML_UNINITIALIZED;
    if (h < handles || h >= handles + fake_set.devices)
        return -NVML_INVALID_ARGUMENT;
    return (int)(h - handles);
}

/* The CUDA device behind a handle, or what to return, negative. */
static int begin(const char *call, const void *device)
{
    fake_lock();
    int d = cuda_device(device);
    if (d >= 0) {
        struct fake_verdict v = fake_judge(call, d);
        d = fake_is_lost(d) ? -NVML_GPU_IS_LOST : v.what == FAKE_RETURN ? -v.code : d;
    }
    fake_unlock();
    return d;
}

/* Of a device: the statement runs with `d`, its CUDA number. */
#define OF_DEVICE(statement)                                                                       \
    do {                                                                                           \
        int d = begin(__func__, device);                                                           \
        if (d < 0)                                                                                 \
            return -d;                                                                             \
        statement;                                                                                 \
        return NVML_OK;                                                                            \
    } while (0)

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    int refused = fake_refuse("nvmlInit", -1);
    if (refused)
        return refused;
    fake_lock();
    n_inits++;
    fake_unlock();
    return NVML_OK;
}

int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
    fake_lock();
    int e = n_inits ? NVML_OK : NVML_UNINITIALIZED;
    n_inits -= n_inits > 0;
    fake_unlock();
    return e;
}

const char *nvmlErrorString(int result)
{
    switch (result) {
    case NVML_OK:
        return "The operation was successful";
    case NVML_UNINITIALIZED:
        return "NVML was not first initialized with nvmlInit()";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_TIMEOUT:
        return "Timeout";
    case NVML_GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

static int put_text(char *out, unsigned room, const char *text)
{
    if (strlen(text) + 1 > room)
        return NVML_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *out, unsigned room)
{
    return n_inits ? put_text(out, room, "580.00.fake") : NVML_UNINITIALIZED;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned room)
{
    return n_inits ? put_text(out, room, "13.580.00") : NVML_UNINITIALIZED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = CUDART_VERSION;
    return n_inits ? NVML_OK : NVML_UNINITIALIZED;
}

/* --- which device --- */

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = (unsigned)fake_set.devices;
    return n_inits ? NVML_OK : NVML_UNINITIALIZED;
}

static int give_handle(int device, void **out)
{
    if (!n_inits)
        return NVML_UNINITIALIZED;
    if (device < 0 || device >= fake_set.devices)
        return NVML_NOT_FOUND;
    *out = &handles[device];
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    return give_handle(fake_set.devices - 1 - (int)index, device);
}

static void uuid_text(int device, char out[48])
{
    unsigned char u[16];
    fake_uuid(device, u);
    int at = sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(out + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    char text[48];
    for (int d = 0; d < fake_set.devices; d++) {
        uuid_text(d, text);
        if (!strcmp(text, uuid))
            return give_handle(d, device);
    }
    return n_inits ? NVML_NOT_FOUND : NVML_UNINITIALIZED;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    unsigned domain, bus;
    return sscanf(id, "%x:%x", &domain, &bus) == 2 ? give_handle((int)bus - 1, device)
                                                   : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
    OF_DEVICE(*index = (unsigned)(fake_set.devices - 1 - d));
}

int nvmlDeviceGetName(void *device, char *out, unsigned room)
{
    OF_DEVICE(return put_text(out, room, fake_set.name));
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned room)
{
    char text[48];
    OF_DEVICE(uuid_text(d, text); return put_text(out, room, text));
}

int nvmlDeviceGetPciInfo_v3(void *device, struct nvml_pci *out)
{
    OF_DEVICE(
        memset(out, 0, sizeof *out); out->bus = (unsigned)d + 1;
        snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", d + 1);
        snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", out->bus & 0xff));
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    OF_DEVICE(*major = fake_set.sm_major; *minor = fake_set.sm_minor);
}

/* --- what it measures --- */

static size_t used_bytes(int d)
{
    fake_lock();
    size_t used = fake_used_bytes(d);
    fake_unlock();
    return used;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out)
{
    OF_DEVICE(size_t used = used_bytes(d); out->total = fake_set.mem_bytes[d]; out->used = used;
              out->free = out->total - used);
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *out)
{
    OF_DEVICE(size_t used = used_bytes(d); out->total = fake_set.mem_bytes[d]; out->reserved = 0;
              out->used = used; out->free = out->total - used);
}

int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out)
{
    OF_DEVICE(out->gpu = 97 - (unsigned)d; out->memory = 40 + (unsigned)d);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)sensor;
    OF_DEVICE(*celsius = 61 + (unsigned)d);
}

int nvmlDeviceGetTemperatureThreshold(void *device, int which, unsigned *celsius)
{
    OF_DEVICE(*celsius = which == 0 ? 92 : 87);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    OF_DEVICE(*milliwatt = 423000 + 1000 * (unsigned)d);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatt)
{
    OF_DEVICE(*milliwatt = 700000);
}

int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatt)
{
    OF_DEVICE(*milliwatt = 700000);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule)
{
    OF_DEVICE(*millijoule = 1000000);
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
    OF_DEVICE(*mhz = clock == NVML_CLOCK_MEM ? 2619 : 1755);
}

int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz)
{
    OF_DEVICE(*mhz = clock == NVML_CLOCK_MEM ? 2619 : 1980);
}

/* 4: the power cap slows it down. */
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    OF_DEVICE(*reasons = d ? 0 : 4);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    OF_DEVICE(*reasons = d ? 0 : 4);
}

int nvmlDeviceGetPerformanceState(void *device, int *state)
{
    OF_DEVICE(*state = 0);
}

/* Passively cooled, as every data-centre card is. */
int nvmlDeviceGetFanSpeed(void *device, unsigned *percent)
{
    (void)percent;
    OF_DEVICE((void)d; return NVML_NOT_SUPPORTED);
}

int nvmlDeviceGetEccMode(void *device, int *current, int *pending)
{
    OF_DEVICE(*current = *pending = 1);
}

int nvmlDeviceGetTotalEccErrors(void *device, int error, int counter, unsigned long long *n)
{
    (void)counter;
    OF_DEVICE(*n = error == 0 ? (unsigned)d : 0);
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    OF_DEVICE(*current = *pending = 0);
}

/* --- events --- */

int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types)
{
    OF_DEVICE(*types = NVML_EVENT_XID);
}

int nvmlEventSetCreate(void **set)
{
    if (!n_inits)
        return NVML_UNINITIALIZED;
    struct event_set *s = calloc(1, sizeof *s);
    s->seen = fake_xid_count();
    fake_count(FAKE_NVML_SET, 1);
    *set = s;
    return NVML_OK;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    if (types & ~(unsigned long long)NVML_EVENT_XID)
        return NVML_NOT_SUPPORTED;
    OF_DEVICE(((struct event_set *)set)->devices |= 1u << d);
}

int nvmlEventSetWait_v2(void *set, struct nvml_event *event, unsigned timeout_ms)
{
    struct event_set *s = set;
    struct fake_xid x;
    while (fake_xid_wait(&s->seen, timeout_ms, &x)) {
        if (!(s->devices >> x.device & 1))
            continue;
        *event = (struct nvml_event){.device = &handles[x.device],
                                     .type = NVML_EVENT_XID,
                                     .data = x.code,
                                     .gpu_instance = ~0u,
                                     .compute_instance = ~0u};
        return NVML_OK;
    }
    return NVML_TIMEOUT;
}

int nvmlEventSetFree(void *set)
{
    if (set)
        fake_count(FAKE_NVML_SET, -1);
    free(set);
    return NVML_OK;
}
